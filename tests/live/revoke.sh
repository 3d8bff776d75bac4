#!/bin/sh
# revoke.sh - `tenure revoke`: the holder is told and stops, the next one waits for it, and what
# cannot be revoked is one line.
. "$(dirname "$0")/../harness/lib.sh"
. "$(dirname "$0")/tenured.lib"

# lead ID: `run` in the background, its pid in $leader. The command writes when it starts and ends.
acts=$t_dir/acts
cat >"$t_dir/work" <<'END_OF_WORK'
#!/bin/sh
trap 'echo "ends $TENURE_ID" >>"$ACTS"; exit 0' TERM
echo "begins $TENURE_ID" >>"$ACTS"
while :; do sleep 0.05; done
END_OF_WORK
chmod +x "$t_dir/work"
export ACTS="$acts"
lead() { # ID [--once]
    # shellcheck disable=SC2086 # A word or none.
    "$tenure" run --id "$1" --ttl 20s ${2-} job -- "$t_dir/work" 2>"$t_dir/$1.err" &
    leader=$!
    candidates="$candidates $!"
}
token() { "$tenure" status --json job | sed 's/.*"token":\([0-9]*\).*/\1/'; }

story() {
    TENURE_STORE=$2
    export TENURE_STORE
    : >"$acts"

    t_case "$1: the holder stops, then the next one leads, long before the TTL"
    lead ada --once
    ada=$leader
    t_check "ada leads" until_line "$acts" '^begins ada'
    lead bob
    bob=$leader
    old=$(token)
    started=$(now_ms)
    t_run "$tenure" revoke job
    t_check "says whose it was: $(cat "$t_out" "$t_err")" grep -qx \
        "job: revoked from ada, token $old; free when it has stopped, at the latest in 20s" "$t_out"
    wait "$ada"
    t_check "ada lost it: 79" [ $? -eq 79 ]
    t_check "ada says why: $(cat "$t_dir/ada.err")" has "$t_dir/ada.err" \
        "job: leadership lost: revoked (token $old)"
    t_check "bob leads" until_line "$acts" '^begins bob'
    t_check "long before the TTL" [ $(($(now_ms) - started)) -lt 15000 ]
    t_check "in turn: $(tr '\n' ',' <"$acts")" \
        [ "$(tr '\n' ',' <"$acts")" = "begins ada,ends ada,begins bob," ]

    t_case "$1: a token that is over, and a name that nobody holds: 80, nothing changed"
    told 80 "job: token $old is not current, $(token) is" revoke job --token "$old"
    told 80 "other: nobody ever held it" revoke other
    t_run "$tenure" status --json job
    t_check "bob still leads, not revoked: $(cat "$t_out")" has "$t_out" '"holder":"bob".*[0-9]}$'
    old=$(token)
    kill -TERM "$bob"
    wait "$bob"
    told 80 "job: nobody holds it, last token $old" revoke job

    t_case "$1: the revoked process does not win again at once, though it campaigns on"
    lead eve
    t_check "eve leads" until_line "$acts" '^begins eve'
    t_run "$tenure" revoke job
    t_check "eve stops" until_line "$acts" '^ends eve'
    t_run "$tenure" acquire job --id cyd --wait 1s --json
    t_check "one that comes now gets it: $(cat "$t_out" "$t_err")" has "$t_out" '"granted":true'
    secret=$(sed 's/.*"secret":"\([^"]*\)".*/\1/' "$t_out")
    t_check "eve did not lead in between" [ "$(grep -c 'begins eve' "$acts")" -eq 1 ]
    t_run "$tenure" release job --token "$(token)" --secret "$secret"
    t_check "then eve leads again" until_true 20 begun_twice eve
    kill -TERM "$leader"
    wait "$leader"
}
begun_twice() { [ "$(grep -c "^begins $1" "$acts")" -eq 2 ]; }

story sqlite "sqlite:$t_dir/store.db"
tenured_start
story tenured "unix:$socket"
story "tenured over TCP" "$(url "$port")"

t_case "a store that is not there, and one that no other process sees"
told 69 "connection refused" revoke job --store "tenured://127.0.0.1:$(t_ports 1)"
told 64 "memory: lives in one process" revoke job --store memory:
told 64 "is not a name" revoke a//b
told 64 "the name of the lease is missing" revoke
told 64 "one word too many" revoke a b
told 64 "--token" revoke job --token -1
told 80 "nobody ever held it" revoke job --store "sqlite:$t_dir/absent.db"
t_refute "no file was made" [ -e "$t_dir/absent.db" ]

t_case "a server that cannot revoke"
# Between: what this daemon is asked to revoke, it has never heard of.
other=$(t_ports 1)
cat >"$t_dir/between.py" <<'END_OF_PROXY'
import socket, sys, threading
def carry(source, sink, change):
    while data := source.recv(65536):
        sink.sendall(change(data))
server = socket.create_server(("127.0.0.1", int(sys.argv[1])))
print("ready", flush=True)
while True:
    client, _ = server.accept()
    daemon = socket.create_connection(("127.0.0.1", int(sys.argv[2])))
    old = lambda data: data.replace(b"REVOKE", b"RETAKE")
    for words in (client, daemon, old), (daemon, client, bytes):
        threading.Thread(target=carry, args=words, daemon=True).start()
END_OF_PROXY
python3 "$t_dir/between.py" "$other" "$port" >"$t_dir/between" 2>/dev/null &
candidates="$candidates $!"
t_check "a proxy" until_line "$t_dir/between" ready
t_run "$tenure" acquire job --ttl 20s
told 69 "unknown command" revoke job --store "$(url "$other")"
t_run "$tenure" status job --json
t_refute "still held" has "$t_out" revoked

t_case "not permitted: 77"
tenured_end
"$TENURE_BUILD/tenured" --new-secret ada >"$t_dir/ada"
secret=$(sed -n 's/.*shown once: //p' "$t_dir/ada")
{
    sed -n 's/^for the ACL file: //p' "$t_dir/ada"
    echo "allow ada acquire job"
} >"$t_dir/acl"
chmod 0600 "$t_dir/acl"
tenured_start --acl "$t_dir/acl"
told 77 "no right" revoke job --store "tenured://ada:$secret@127.0.0.1:$port"

t_done
