#!/bin/bash
# output.sh - what becomes of a term, and of a verb, when nobody reads what it prints, when its
# reader is gone, and when the server hangs up.
# shellcheck source=tests/harness/lib.sh
. "${TENURE_ROOT:-$(dirname "$0")/../..}/tests/harness/lib.sh"

tenure=$TENURE_BUILD/tenure
export TENURE_STORE=sqlite:$t_dir/tenure.db

has() { grep -aq -e "$2" "$1" 2>/dev/null; }
lines() { [ -e "$1" ] && [ "$(wc -l <"$1")" -ge "$2" ]; }
ended() { ! kill -0 "$1" 2>/dev/null; }
end() {
    kill -TERM "$1"
    status=0
    wait "$1" || status=$?
}
now_ms() { echo $(($(date +%s%N) / 1000000)); }

t_case "run: a stderr that nobody reads holds up neither the command nor the renewals"
t_full "$t_dir/full" 7
cat >"$t_dir/act" <<'END'
#!/bin/sh
while :; do echo "$TENURE_TOKEN"; sleep 0.1; done >>"$1"
END
chmod +x "$t_dir/act"
TENURE_FENCE='' "$tenure" run --ttl 2s --id ada job -- "$t_dir/act" "$t_dir/acts" 2>&7 &
ada=$!
t_check "the command runs, though a warning is due" until_true 10 lines "$t_dir/acts" 1
until_true 20 lines "$t_dir/acts" 40 # Four seconds: two TTLs.
t_check "one term, beyond its TTL" [ "$(sort -u "$t_dir/acts")" = 1 ]
t_run "$tenure" status --json job
t_prints '"holder":"ada","token":1,'
asked=$(now_ms)
end $ada
t_check "SIGTERM ends it in time, not in $(($(now_ms) - asked)) ms" \
    [ $(($(now_ms) - asked)) -lt 8000 ]
t_check "as the command ended, not $status" [ "$status" -eq 143 ]
t_run "$tenure" status --json job
t_prints '"state":"free"'

t_case "run --wait: nor does it keep a waiter from giving up"
"$tenure" acquire taken --ttl 1m >/dev/null
status=0
timeout 20 "$tenure" run --wait 200ms taken -- true 2>&7 || status=$?
t_check "75, not $status" [ "$status" -eq 75 ]
exec 7>&-

t_case "elect: a stdout that nobody reads costs no term, and all comes once it is read"
t_full "$t_dir/pipe" 8
"$tenure" elect --ttl 2s --id eve read >"$t_dir/pipe" 2>"$t_dir/eve.err" &
eve=$!
holds() { "$tenure" status --json "$1" | grep -q "\"holder\":\"$2\""; }
t_check "leads" until_true 10 holds read eve
began=$(now_ms)
beyond_ttl() { [ $(($(now_ms) - began)) -ge 4500 ]; }
until_true 20 beyond_ttl
t_run "$tenure" status --json read
t_prints '"holder":"eve","token":3,'
cat <&8 >"$t_dir/events" &
reader=$!
t_check "won" until_true 10 has "$t_dir/events" '"event":"won","name":"read",.*"token":3,'
end $eve
t_check "status $status" [ "$status" -eq 0 ]
t_check "lost" until_true 10 has "$t_dir/events" '"event":"lost".*"reason":"released"'
exec 8>&-
kill $reader 2>/dev/null

t_case "elect: a term that ends unread is not given back early, and SIGTERM still ends it"
t_full "$t_dir/unread" 8
"$tenure" elect --ttl 20s --id fay unread >"$t_dir/unread" 2>"$t_err" &
fay=$!
t_check "leads" until_true 10 holds unread fay
asked=$(now_ms)
end $fay
t_check "74, not $status" [ "$status" -eq 74 ]
t_check "in time" [ $(($(now_ms) - asked)) -lt 10000 ]
t_check "says so: $(cat "$t_err")" grep -q "nobody reads" "$t_err"
t_check "one line" [ "$(wc -l <"$t_err")" -eq 1 ]
t_run "$tenure" status --json unread
t_prints '"state":"held"'

t_case "watch: SIGTERM ends it, read or not"
"$tenure" watch >"$t_dir/unread" 2>"$t_err" &
ivy=$!
# hears_term PID: SIGTERM, bit 14, is caught or blocked.
hears_term() {
    ht_masks=$(sed -n 's/^Sig\(Blk\|Cgt\):[[:space:]]*//p' "/proc/$1/status") || return 1
    for ht_mask in $ht_masks; do
        [ $((0x$ht_mask & 0x4000)) -eq 0 ] || return 0
    done
    return 1
}
t_check "it listens" until_true 10 hears_term $ivy
end $ivy
t_check "status $status" [ "$status" -eq 0 ]
exec 8>&-

t_case "run: a reader of stdout and stderr that is gone does not end it before it leads, nor later"
# gone COMMAND...: with stdout and stderr whose reader has left.
gone() {
    rm -f "$t_dir/one_way"
    mkfifo "$t_dir/one_way"
    exec 9<>"$t_dir/one_way" 6>"$t_dir/one_way" 9<&-
    status=0
    "$@" >&6 2>&6 || status=$?
    exec 6>&-
}
TENURE_FENCE='' gone "$tenure" run --ttl 2s pipes -- \
    sh -c "echo \$TENURE_TOKEN >'$t_dir/ran'; sleep 3; exit 5"
t_check "the command ran" [ -s "$t_dir/ran" ]
t_check "5, not $status" [ "$status" -eq 5 ]

t_case "the command has SIGPIPE at its default"
"$tenure" run pipes -- grep SigIgn /proc/self/status >"$t_out"
t_check "not ignored: $(cat "$t_out")" \
    [ $((0x$(sed 's/.*\([0-9a-f]\{16\}\)$/\1/' "$t_out") & 0x1000)) -eq 0 ]

t_case "a verb that prints ends with its reader, and acquire takes its lease back"
for verb in "list" "status pipes" "plan"; do
    # shellcheck disable=SC2086 # Words.
    gone "$tenure" $verb
    t_check "$verb: 141, not $status" [ "$status" -eq 141 ]
done
gone "$tenure" acquire unheard --ttl 1h
t_check "acquire: 74, not $status" [ "$status" -eq 74 ]
t_run "$tenure" status --json unheard
t_prints '"state":"free"'

t_case "a server that hangs up at once: one line and 69"
cat >"$t_dir/hang_up.py" <<'END'
import os, socket, struct, sys
at = socket.socket(socket.AF_UNIX)
at.bind(sys.argv[1])
at.listen(16)
os.chmod(sys.argv[1], 0o666)
while True:
    peer, _ = at.accept()
    peer.close()
END
/usr/bin/python3 "$t_dir/hang_up.py" "$t_dir/sock" &
server=$!
t_check "it listens" until_true 10 [ -S "$t_dir/sock" ]
# Whether the write meets a closed socket is a race: it is run often enough to lose it.
asks() {
    local status=0
    timeout 60 "$tenure" "$1" --store "unix:$t_dir/sock" x >/dev/null 2>"$t_dir/err.$1.$2" ||
        status=$?
    echo $status >"$t_dir/status.$1.$2"
}
askers=
for i in 1 2 3 4 5; do
    for verb in status acquire; do
        asks $verb $i &
        askers="$askers $!"
    done
done
# shellcheck disable=SC2086 # Words.
wait $askers
for i in 1 2 3 4 5; do
    for verb in status acquire; do
        t_check "$verb: 69, not $(cat "$t_dir/status.$verb.$i")" \
            [ "$(cat "$t_dir/status.$verb.$i")" -eq 69 ]
        t_check "$verb: one line: $(cat "$t_dir/err.$verb.$i")" \
            [ "$(wc -l <"$t_dir/err.$verb.$i")" -eq 1 ]
    done
done

t_case "a server that refuses another user: one line and 77"
if [ "$(id -u)" -ne 0 ] || [ ! -x "$TENURE_BUILD/tenured" ]; then
    t_skip "needs root, to be another user, and tenured"
else
    chmod 755 "$t_dir"
    mkdir -m 700 "$t_dir/data"
    "$TENURE_BUILD/tenured" --data "$t_dir/data" --listen "unix:$t_dir/daemon" >/dev/null &
    daemon=$!
    t_check "it listens" until_true 20 [ -S "$t_dir/daemon" ]
    chmod 666 "$t_dir/daemon"
    for verb in status acquire status acquire; do
        t_run setpriv --reuid 65534 --clear-groups "$tenure" $verb --store "unix:$t_dir/daemon" x
        t_check "$verb: 77, not $t_status" [ "$t_status" -eq 77 ]
        t_check "$verb: one line: $(cat "$t_err")" [ "$(wc -l <"$t_err")" -eq 1 ]
    done
    end $daemon
fi

t_case "the library leaves SIGPIPE alone, and lives through it"
cat >"$t_dir/embeds.py" <<'END'
import ctypes, signal, sys, time
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
library = ctypes.CDLL(sys.argv[1])
tenure, election = ctypes.c_void_p(), ctypes.c_void_p()
assert library.tenure_open(sys.argv[2].encode(), None, ctypes.byref(tenure), None) == 0
assert library.tenure_campaign(tenure, b"x", None, ctypes.byref(election)) == 0
until = time.monotonic() + 3
while time.monotonic() < until:
    time.sleep(0.05)
library.tenure_close(tenure)
assert signal.getsignal(signal.SIGPIPE) == signal.SIG_DFL
print("alive")
END
library=$(find "$TENURE_BUILD" -maxdepth 1 -name 'libtenure.so' | head -n 1)
# The interpreter is not instrumented, so it cannot load a library that is.
if ! grep -q '^TENURE_SANITIZE:[^=]*=.' "$TENURE_BUILD/CMakeCache.txt"; then
    t_run /usr/bin/python3 "$t_dir/embeds.py" "$library" "unix:$t_dir/sock"
    t_prints alive
fi
kill $server
t_done
