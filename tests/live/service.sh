#!/bin/bash
# service.sh - `tenure run` as a service: what it tells systemd, and --linger. The command line is
# the one of examples/systemd/leader-only.service.
# shellcheck source=tests/harness/lib.sh
. "$(dirname "$0")/../harness/lib.sh"
# shellcheck source=tests/live/tenured.lib
. "$(dirname "$0")/tenured.lib"

unit=$TENURE_ROOT/examples/systemd/leader-only.service
tenured_start
TENURE_STORE=$(url "$port")
export TENURE_STORE
cat >"$t_dir/billing-server" <<END
#!/bin/sh
env >"$t_dir/environment.\$TENURE_ID"
exec sleep 600
END
chmod +x "$t_dir/billing-server"

words=$(sed -n 's/^ExecStart=//p' "$unit")
words=${words/\/usr\/bin\/tenure/$tenure}
words=${words/\/usr\/bin\/billing-server/$t_dir\/billing-server}

# host NAME: the unit there; what it tells is in $t_dir/NAME, its process is $host.
host() {
    "$TENURE_ROOT/tests/live/notified.py" "$t_dir/$1.sock" "$t_dir/$1" &
    candidates="$candidates $!"
    until_true 20 [ -S "$t_dir/$1.sock" ]
    # shellcheck disable=SC2086 # Words.
    env NOTIFY_SOCKET="$t_dir/$1.sock" WATCHDOG_USEC=1000000 ${words/\%H/$1} 2>"$t_dir/$1.err" &
    host=$!
    candidates="$candidates $host"
}

t_case "the leader is ready, says so, and tells the watchdog"
host web1
web1=$host
t_check "ready" until_line "$t_dir/web1" '^READY=1$' 60
t_check "leading" until_line "$t_dir/web1" '^STATUS=leading billing, token [0-9]*$'
beats() { [ "$(grep -c '^WATCHDOG=1$' "$t_dir/web1")" -ge "$1" ]; }
t_check "beats" until_true 20 beats 4

t_case "one that waits is ready, too"
host web2
web2=$host
t_check "ready" until_line "$t_dir/web2" '^READY=1$'
t_check "waits" until_line "$t_dir/web2" '^STATUS=waiting for billing, led by web1$'
t_check "ready once" [ "$(grep -c READY "$t_dir/web2")" -eq 1 ]

t_case "the command does not inherit what is systemd's"
t_check "it runs" until_line "$t_dir/environment.web1" '^TENURE_TOKEN='
t_refute "no socket, no watchdog" grep -q '^NOTIFY_SOCKET=\|^WATCHDOG_' "$t_dir/environment.web1"

t_case "stop: it says so, and stays until the other leads"
kill -TERM "$web1"
t_check "stopping" until_line "$t_dir/web1" '^STOPPING=1$'
wait "$web1"
status=$?
t_check "as the command ended: $status" [ $status -eq 143 ]
t_check "the other leads already" grep -q '"holder":"web2"' <<<"$("$tenure" status --json billing)"
t_check "and says so" until_line "$t_dir/web2" '^STATUS=leading billing, token [0-9]*$'

t_case "nobody follows: it stays for the whole time, and a signal ends that"
started=$(now_ms)
kill -TERM "$web2"
wait "$web2"
took=$(($(now_ms) - started))
t_check "5 s: $took ms" [ $took -ge 5000 ]
is_free() { grep -q '"state":"free"' <<<"$("$tenure" status --json "$1")"; }
"$tenure" run --linger 10m alone -- sh -c 'exit 3' &
alone=$!
candidates="$candidates $alone"
has_run() { grep -q '"state":"free".*"token":[1-9]' <<<"$("$tenure" status --json alone)"; }
t_check "released" until_true 20 has_run
t_check "stays" kill -0 $alone
kill -TERM $alone
wait $alone
t_check "the command's status" [ $? -eq 3 ]

t_case "without --notify nothing is told, and without systemd --notify is nothing"
t_run env NOTIFY_SOCKET="$t_dir/web1.sock" "$tenure" run plain -- \
    sh -c "printf %s \"\$NOTIFY_SOCKET\""
t_ends 0
t_prints "$t_dir/web1.sock"
t_refute "nothing" grep -q plain "$t_dir/web1"
t_run "$tenure" run --notify plain -- true
t_ends 0
t_bad "--linger: '0s' is too short" "$tenure" run --linger 0s x -- true

t_case "another's id is no word to systemd"
"$tenure" acquire --ttl 60s --id "$(printf 'evil\nSTOPPING=1\nMAINPID=1')" forged >/dev/null
"$TENURE_ROOT/tests/live/notified.py" "$t_dir/web3.sock" "$t_dir/web3" &
candidates="$candidates $!"
until_true 20 [ -S "$t_dir/web3.sock" ]
NOTIFY_SOCKET=$t_dir/web3.sock "$tenure" run --notify forged -- true 2>"$t_dir/web3.err" &
web3=$!
candidates="$candidates $web3"
t_check "waits" until_line "$t_dir/web3" \
    '^STATUS=waiting for forged, led by evil?STOPPING=1?MAINPID=1$'
t_refute "a line of its own" grep -q '^STOPPING\|^MAINPID' "$t_dir/web3"
kill -TERM $web3
wait $web3

t_case "a systemd that does not read holds nothing up"
cat >"$t_dir/deaf.py" <<'END'
import os, socket, subprocess, sys
path, program = sys.argv[1:]
deaf = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
deaf.bind(path)
sender = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
sender.setblocking(False)
try:
    while True:
        sender.sendto(b"X", path)
except BlockingIOError:
    pass
process = subprocess.run([program, "run", "--notify", "deaf", "--", "true"], timeout=60,
                         env={**os.environ, "NOTIFY_SOCKET": path, "WATCHDOG_USEC": "1000000"})
sys.exit(process.returncode)
END
t_run python3 "$t_dir/deaf.py" "$t_dir/deaf.sock" "$tenure"
t_check "status 0, not $t_status: $(tail -n 1 "$t_err")" [ "$t_status" -eq 0 ]

t_case "the unit is one for systemd"
if command -v systemd-analyze >/dev/null; then
    mkdir "$t_dir/units"
    sed -e "s|/usr/bin/tenure|$tenure|" -e "s|/usr/bin/billing-server|$t_dir/billing-server|" \
        "$unit" >"$t_dir/units/billing.service"
    t_run systemd-analyze verify --man=no "$t_dir/units/billing.service"
    t_check "verify: $(cat "$t_err")" [ "$t_status" -eq 0 ]
    t_refute "no complaint about it: $(cat "$t_err")" grep -q 'billing.service' "$t_err"
else
    t_skip "systemd-analyze is not installed; install systemd"
fi
t_done
