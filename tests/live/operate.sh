#!/bin/bash
# operate.sh - every command of docs/operate-tenured.md, in its order, with other paths and ports;
# and the log's two formats.
# shellcheck source=tests/harness/lib.sh
. "$(dirname "$0")/../harness/lib.sh"
# shellcheck source=tests/live/live.lib
. "$(dirname "$0")/live.lib"
# shellcheck source=tests/live/certificates.lib
. "$(dirname "$0")/certificates.lib"

if ! command -v redis-cli >/dev/null; then
    t_case "operate"
    t_skip "redis-cli is not installed; install redis-tools"
    t_done
fi
page=$TENURE_ROOT/docs/operate-tenured.md
read -r -d '' port http < <(t_ports 2 | tr '\n' ' ')
mkdir -p "$t_dir"/{etc,var,backup,bin}
mkdir -m 0700 "$t_dir/run"
for name in server client ca; do
    cp "$t_dir/$name.pem" "$t_dir/$name.key" "$t_dir/etc/"
done
ln -s "$TENURE_BUILD/tenure" "$t_dir/bin/tenure"
# The daemon's process is noted, and the next command finds it serving.
cat >"$t_dir/bin/tenured" <<END
#!/bin/sh
case " \$* " in
*" --check-config "* | *" --new-secret "*) exec "$TENURE_BUILD/tenured" "\$@" ;;
esac
echo \$\$ >"$t_dir/run/pid"
exec "$TENURE_BUILD/tenured" "\$@" >>"$t_dir/out" 2>>"$t_dir/log"
END
chmod +x "$t_dir/bin/tenured"
export PATH="$t_dir/bin:$PATH" TENURE_FENCE=none

# Of the page, with the test's paths.
translate() {
    sed -e "s|/etc/tenured|$t_dir/etc|g" -e "s|/var/lib/tenured|$t_dir/var|g" \
        -e "s|/run/tenured|$t_dir/run|g" -e "s|/backup|$t_dir/backup|g" \
        -e "s|:7420|:$port|g" -e "s|:7421|:$http|g"
}
daemon_end() {
    [ -s "$t_dir/run/pid" ] || return 0
    { # bash tells of a job that was killed when it is waited for.
        kill -KILL "$(cat "$t_dir/run/pid")"
        wait "$(cat "$t_dir/run/pid")"
    } 2>/dev/null
    return 0
}
in_finish daemon_end
is_gone() { [ ! -e "/proc/$1" ] || grep -q '^State:.*Z' "/proc/$1/status"; }
serves() { [ "$(grep -c '^tenured ready' "$t_dir/out")" -eq "$1" ]; }

starts=0
# step COMMAND: one line of the page, in this shell.
step() {
    local pid=
    [[ $1 != "kill -TERM"* ]] || pid=$(cat "$t_dir/run/pid")
    eval "$1" >"$t_dir/said" 2>&1
    t_check "$1: $(tail -n 1 "$t_dir/said")" [ $? -eq 0 ]
    [ -z "$pid" ] || t_check "it has ended" until_true 20 is_gone "$pid"
    if [[ $1 == *"&" ]]; then
        starts=$((starts + 1))
        t_check "$1: serves: $(tail -n 1 "$t_dir/log")" until_true 20 serves $starts
    fi
    case $1 in
    *--check-config*) t_check "is good" grep -qx 'the configuration is good' "$t_dir/said" ;;
    # It ends with 0 after an error, too.
    *"TOKEN RAISE"*) t_check "raised: $(cat "$t_dir/said")" grep -qx "${1##* }" "$t_dir/said" ;;
    esac
}

translate <"$page" | sed -n '/^```conf$/,/^```$/{/^```/d;p}' >"$t_dir/etc/tenured.conf"
t_case "the configuration of the page"
t_check "it is there" grep -q "^data $t_dir/var/data$" "$t_dir/etc/tenured.conf"

section= blocks=0
while IFS= read -r line; do
    case $line in
    "## "*) section=${line#\#\# } ;;
    '```sh')
        inside=yes blocks=$((blocks + 1))
        t_case "$section: block $blocks"
        ;;
    '```') inside= ;;
    *) [ -z "${inside:-}" ] || step "$line" ;;
    esac
done < <(translate <"$page")
cp "$t_dir/said" "$t_dir/metrics"
t_case "all of the page was done"
t_check "blocks: $blocks" [ $blocks -ge 12 ]
t_check "starts: $starts" [ $starts -ge 6 ]

t_case "the log: JSON, a time and a level each, and a line for the reload"
t_check "every line" [ "$(grep -vcE \
    '^\{"time":"20[0-9-]+T[0-9:]+\.[0-9]{3}Z","level":"(info|warning|error)","message":".*"\}$' \
    "$t_dir/log")" -eq 0 ]
t_check "the reload" grep -q "\"info\",\"message\":\"$t_dir/etc/acl: read again\"" "$t_dir/log"

t_case "the metrics that the page names"
for name in tenured_uptime_seconds tenured_disk_full tenured_journal_flush_seconds_count \
    process_open_fds process_max_fds process_resident_memory_bytes process_cpu_seconds_total \
    tenured_names_left_out; do
    t_check "$name" grep -q "^$name [0-9.]*\$" "$t_dir/metrics"
done
t_check "a name's" grep -qx 'tenured_lease_held{name="jobs/report"} 0' "$t_dir/metrics"
t_check "the version and the data" grep -qE \
    "^tenured_info\{version=\"[0-9.]+\",data=\"$t_dir/var/data\"\} 1$" "$t_dir/metrics"

t_case "INFO"
python3 - "$t_dir/run/tenured.sock" >"$t_dir/info" <<'END'
import socket, sys
daemon = socket.socket(socket.AF_UNIX)
daemon.connect(sys.argv[1])
stream = daemon.makefile("rwb")
stream.write(b"INFO\r\n")
stream.flush()
print(stream.read(int(stream.readline()[1:])).decode().replace("\r", ""))
END
for name in tenured_version uptime_in_seconds data_directory used_memory_rss open_fds; do
    t_check "$name" grep -q "^$name:." "$t_dir/info"
done

t_case "what --check-config refuses: one line, 64, nothing made"
daemon_end
check() { "$TENURE_BUILD/tenured" --check-config --data "$t_dir/none" "$@"; }
t_bad "'0.0.0.0:1' can be reached from other hosts" check --http 0.0.0.0:1
t_bad "'tcp:here' has no address and port" check --listen tcp:here
t_bad "--tls-cert, --tls-key and --tls-ca go together" check --tls-cert "$t_dir/etc/server.pem"
t_bad "$t_dir/nowhere" check --acl "$t_dir/nowhere"
t_bad "s a directory" check --acl "$t_dir/etc"
t_bad "at most 107 characters" check --listen "unix:/$(printf %0107d 1)"
t_bad "--log-format: 'xml' is neither text nor json" check --log-format xml
t_bad "--metrics-names: 'jobs*' is not a pattern" check --metrics-names 'jobs*'
t_bad "there is no group 'nosuchgroup'" check --socket-group nosuchgroup
echo "nosuch 1" >"$t_dir/etc/bad.conf"
t_bad "bad.conf:1: there is no option" check --config "$t_dir/etc/bad.conf"
for words in "--listen tcp:here" "--listen unix:/$(printf %0107d 1)" "--http here"; do
    # shellcheck disable=SC2086 # Words.
    t_bad "" "$TENURE_BUILD/tenured" --data "$t_dir/none" $words
done
t_refute "nothing is made, nor by a start" [ -e "$t_dir/none" ]

t_case "as text: the time, the level, the line"
"$TENURE_BUILD/tenured" --data "$t_dir/text" --listen "unix:$t_dir/run/text.sock" \
    >"$t_dir/out" 2>"$t_dir/log" &
echo $! >"$t_dir/run/pid"
t_check "serves" until_line "$t_dir/out" '^tenured ready'
kill -HUP "$(cat "$t_dir/run/pid")"
t_check "the line" until_line "$t_dir/log" \
    '^20[0-9-]*T[0-9:.]*Z info tenured: SIGHUP: there is nothing to read again'
t_done
