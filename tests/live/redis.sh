#!/bin/sh
# redis.sh - the store redis: on real servers: what every store promises, its cost, TLS, and what is
# said when it cannot be used. Faults are in redis_faults.sh.
# shellcheck source=tests/harness/lib.sh
. "${TENURE_ROOT:-$(dirname "$0")/../..}/tests/harness/lib.sh"
# shellcheck source=tests/live/redis.inc
. "$TENURE_ROOT/tests/live/redis.inc"
rd_begin

t_case "a server starts"
t_check "it runs" rd_start 1 --unixsocket "$t_dir/rd.sock"

t_case "what every store promises"
conform "$(rd_url 1)"
t_case "and on its Unix socket"
rd 1 FLUSHALL >/dev/null
conform "redis+unix:$t_dir/rd.sock"
rd 1 FLUSHALL >/dev/null

t_case "whoever uses it is told that it is advisory, and why"
leads "$(rd_url 1 5)"
t_check "run says so: $(cat "$t_err")" [ "$(cat "$t_err")" = "tenure run: redis: is advisory: \
Redis answers before its disk or its replicas have it, and trusts its wall clock. Two may lead; \
let a fence check the token" ]
t_run timeout 20 sh -c "$tenure elect -s $(rd_url 1 5) x | grep -m 1 won"
t_check "elect says so: $(cat "$t_err")" grep -q "^tenure elect: redis: is advisory: " "$t_err"
t_check "elect wins" grep -q '"event":"won"' "$t_out"

t_case "databases and prefixes are apart"
"$tenure" elect -s "$(rd_url 1 6)" x >"$t_dir/one" 2>&1 &
one=$!
"$tenure" elect -s "$(rd_url 1 7)" x >"$t_dir/two" 2>&1 &
two=$!
"$tenure" elect -s "$(rd_url 1 7)?prefix=app:x" x >"$t_dir/three" 2>&1 &
three=$!
for each in one two three; do
    t_check "$each leads" until_line "$t_dir/$each" '"event":"won"'
done
end $one
end $two
end $three

t_case "tokens are exact beyond what doubles can tell"
rd 1 -n 8 SET "{tenure}:token" 09007199254740992000 >/dev/null
t_run "$tenure" run -s "$(rd_url 1 8)" big -- sh -c 'echo $TENURE_TOKEN'
t_check "one more" [ "$(cat "$t_out")" = 9007199254740992001 ]
rd 1 -n 8 SET "{tenure}:token" 18446744073709551614 >/dev/null
t_run "$tenure" run -s "$(rd_url 1 8)" big -- sh -c 'echo $TENURE_TOKEN'
t_check "the last one" [ "$(cat "$t_out")" = 18446744073709551615 ]
t_run timeout 30 "$tenure" run -s "$(rd_url 1 8)" --ttl 3s --wait 3s big -- true
t_check "and none after it: $t_status" [ "$t_status" -eq 75 ]

t_case "a server that forgets the script gets it again"
"$tenure" elect -s "$(rd_url 1 9)" --ttl 6s x >"$t_dir/forget" 2>&1 &
one=$!
t_check "it leads" until_line "$t_dir/forget" '"event":"won"'
rd 1 SCRIPT FLUSH >/dev/null
until_ms $(($(now_ms) + 7000))
t_refute "and goes on: $(cat "$t_dir/forget")" grep -q "lost\|jeopardy" "$t_dir/forget"
end $one

# --- Cost -------------------------------------------------------------------------------------

# measure: sets calls, sent and renewed over seven seconds in which everything is settled.
is_quiet() {
    iq_before=$(rd_scripts 1)
    until_ms $(($(now_ms) + 500))
    [ $(($(rd_scripts 1) - iq_before)) -le 2 ]
}
measure() {
    # On a slow machine a thousand watches take a while after the last place in a queue.
    until_true 60 is_quiet
    before=$(rd_beats 1)
    until [ "$(rd_beats 1)" -gt "$before" ]; do
        sleep 0.1
    done
    rd 1 CONFIG RESETSTAT >/dev/null
    before=$(rd_beats 1)
    until_ms $(($(now_ms) + 7000))
    calls=$(rd_scripts 1) sent=$(rd_commands 1)
    renewed=$(($(rd_beats 1) - before))
}

t_case "a thousand elections cost one script call per interval, and waiting for them costs no more"
rd 1 FLUSHALL >/dev/null
mkfifo "$t_dir/in1" "$t_dir/in2"
"$fixtures/many" "$(rd_url 1)" 1000 6000 cost <"$t_dir/in1" >"$t_dir/many1" 2>&1 &
one=$!
exec 8>"$t_dir/in1"
t_check "all won" until_line "$t_dir/many1" "leads 1000" 60
measure
what="$calls script calls, $sent commands for $renewed renewals of a leader"
t_check "$what" [ "$renewed" -ge 2 ]
t_check "$what" [ "$calls" -le $((renewed + 1)) ]
t_check "$what" [ "$sent" -le $((renewed + 1)) ]
echo "# $what"
"$fixtures/many" "$(rd_url 1)" 1000 6000 cost <"$t_dir/in2" >"$t_dir/many2" 2>&1 8>&- &
two=$!
exec 9>"$t_dir/in2"
t_check "all wait" until_line "$t_dir/many2" "waits 1000" 60
measure
what="$calls script calls, $sent commands for $renewed renewals of both"
t_check "$what" [ "$renewed" -ge 4 ]
t_check "$what" [ "$calls" -le $((renewed + 2)) ]
t_check "$what" [ "$sent" -le $((renewed + 2)) ]
echo "# $what"
exec 8>&-
wait $one
t_check "the other leads all" until_line "$t_dir/many2" "leads 1000" 60
exec 9>&-
wait $two
t_check "no session is left" until_true 20 rd_says 1 0 ZCOUNT "{tenure}:due" 1 +inf

# --- What cannot be used ----------------------------------------------------------------------

t_case "users, passwords, permissions"
port=$(rd_port 1)
rd 1 ACL SETUSER app on '>geheim:@/%' '~{tenure}*' '&{tenure}*' +@all -@dangerous +info >/dev/null
rd 1 ACL SETUSER mute on '>geheim' '~{tenure}*' resetchannels +@all >/dev/null
rd 1 ACL SETUSER weak on '>geheim' '~{tenure}*' '&*' +@all -@scripting >/dev/null
rd 1 ACL SETUSER other on '>geheim' '~other*' '&*' +@all >/dev/null
refuses 77 "WRONGPASS" "redis://app:geheimer@127.0.0.1:$port"
refuses 77 "may not publish" "redis://mute:geheim@127.0.0.1:$port"
refuses 77 "NOPERM" "redis://weak:geheim@127.0.0.1:$port"
refuses 77 "NOPERM" "redis://other:geheim@127.0.0.1:$port"
leads "redis://app:geheim%3a%40%2F%25@127.0.0.1:$port"
rd 1 CONFIG SET requirepass geheim >/dev/null
refuses 77 "NOAUTH" "redis://127.0.0.1:$port"
leads "redis://:geheim@127.0.0.1:$port"
rd 1 -a geheim --no-auth-warning CONFIG SET requirepass '' >/dev/null

t_case "databases, servers and names"
refuses 69 "there is no such database" "redis://127.0.0.1:$port/99"
refuses 64 "number of a database" "redis://127.0.0.1:$port/x"
refuses 64 "several servers are not one" "redis://:geheim@127.0.0.1:$port,127.0.0.1:1"
refuses 64 "prefix is 1 to 64" "redis://127.0.0.1:$port?prefix=a%7Db"
refuses 64 "redis+unix:/PATH" "redis+unix:socket"
refuses 69 "connection refused" "redis://x:geheim@127.0.0.1:1"
refuses 69 "unknown node or service" "redis://x:geheim@no-such-host.invalid"
proxy_start silent "$port"
proxy_say silent stall
refuses 69 "no answer" "redis://x:geheim@127.0.0.1:$proxy_port"

t_case "a name service that hangs"
refuses_without_names redis://x:geheim@db.example.com/0

t_case "a server that is full, may throw leases away, or is of another version"
rd 1 CONFIG SET maxmemory 1 >/dev/null
refuses 69 "its memory is full" "$(rd_url 1 4)"
rd 1 CONFIG SET maxmemory 1gb maxmemory-policy allkeys-lru >/dev/null
refuses 69 "maxmemory-policy is allkeys-lru, which may throw leases away" "$(rd_url 1 4)"
rd 1 CONFIG SET maxmemory-policy volatile-lru >/dev/null
leads "$(rd_url 1 4)"
rd 1 CONFIG SET maxmemory 0 >/dev/null
rd 1 -n 4 SET "{tenure}:version" 9 >/dev/null
refuses 69 "of another version" "$(rd_url 1 4)"

t_case "a read-only replica"
t_check "it runs" rd_start 2 --replicaof 127.0.0.1 "$port"
refuses 69 "read-only replica" "$(rd_url 2)"
rd_kill 2 KILL

t_case "TLS is verified"
openssl req -x509 -newkey rsa:2048 -nodes -days 30 -subj /CN=localhost \
    -addext "subjectAltName=DNS:localhost" -keyout "$t_dir/key" -out "$t_dir/cert" 2>/dev/null
openssl req -x509 -newkey rsa:2048 -nodes -days 30 -subj /CN=other \
    -keyout /dev/null -out "$t_dir/other" 2>/dev/null
tls_port=$(t_ports 1)
if rd_start 3 --tls-port "$tls_port" --tls-cert-file "$t_dir/cert" --tls-key-file "$t_dir/key" \
    --tls-auth-clients no; then
    leads "rediss://localhost:$tls_port?ca=$t_dir/cert"
    conform "rediss://localhost:$tls_port?ca=$t_dir/cert"
    refuses 69 "certificate" "rediss://localhost:$tls_port?ca=$t_dir/other"
    refuses 69 "certificate" "rediss://localhost:$tls_port"
    refuses 69 "127.0.0.1" "rediss://127.0.0.1:$tls_port?ca=$t_dir/cert"
    leads "rediss://127.0.0.1:$tls_port?ca=$t_dir/cert&name=localhost"
    refuses 64 "none.pem" "rediss://localhost:$tls_port?ca=$t_dir/none.pem"
    refuses 69 "no connection within" "rediss://localhost:$(rd_port 1)"
else
    t_skip "this redis-server has no TLS"
fi
t_done
