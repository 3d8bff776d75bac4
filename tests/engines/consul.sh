#!/bin/sh
# consul.sh - the store consul: on a real server: conformance, layout, cost, `consul lock`.
# shellcheck source=tests/harness/lib.sh
. "${TENURE_ROOT:-$(dirname "$0")/../..}/tests/harness/lib.sh"
# shellcheck source=tests/engines/consul.lib
. "$TENURE_ROOT/tests/engines/consul.lib"
# shellcheck source=tests/engines/scripts.lib
. "$TENURE_ROOT/tests/engines/scripts.lib"
# shellcheck source=tests/live/hold_off.lib
. "$TENURE_ROOT/tests/live/hold_off.lib"
consul_need

t_case "a server starts"
t_check "it runs" consul_start
store=$(url "$port")

conform "consul://127.0.0.1:$port/conform"

t_case "the key is that of consul lock, and its index the token"
elect "$t_dir/a" --store "$store" --id ada --ttl 10s job
ada=$elect_pid
t_check "won" until_true 20 has "$t_dir/a" '"won"'
token_a=$(token_of "$t_dir/a")
t_check "the ModifyIndex is the token" [ "$(index_of job)" -eq "$token_a" ]
kv GET kv/t/job/.lock >"$t_dir/key"
t_check "with its Flags" has "$t_dir/key" '"Flags":3304740253564472344'
t_check "locked" has "$t_dir/key" '"Session":"'
t_check "the label is in the value" sh -c \
    "sed 's/.*\"Value\":\"//; s/\".*//' '$t_dir/key' | base64 -d | grep -q '\"holder\":\"ada\"'"
t_run "$tenure" status --store "$store" job
t_prints 'ada'
kv GET session/list >"$t_dir/sessions"
t_check "with a lock-delay of a TTL" has "$t_dir/sessions" '"LockDelay":10000000000'
kill -TERM "$ada"
wait "$ada"
t_check "the release keeps the Flags" sh -c \
    "curl -s http://127.0.0.1:$port/v1/kv/t/job/.lock | grep -q '\"Flags\":3304740253564472344'"

t_run "$tenure" status --store "$store" job
t_prints 'a lock-delay of up to 60s may keep it back'

t_case "a key that was deleted does not restart the token"
kv DELETE kv/t/job/.lock >/dev/null
elect "$t_dir/b" --store "$store" --id bob --ttl 10s job
bob=$elect_pid
t_check "won" until_true 20 has "$t_dir/b" '"won"'
t_check "the token rises" [ "$(token_of "$t_dir/b")" -gt "$token_a" ]

t_case "a key that is deleted under its holder ends the term"
kv DELETE kv/t/job/.lock >/dev/null
t_check "lost" until_true 20 has "$t_dir/b" '"lost"'
kill -TERM "$bob"
wait "$bob"

t_case "a session that is destroyed ends its terms, and the lock-delay is waited for"
elect "$t_dir/c" --store "$store" --id cyd --ttl 5s delayed
cyd=$elect_pid
t_check "won" until_true 20 has "$t_dir/c" '"won"'
elect "$t_dir/d" --store "$store" --id dan --ttl 5s delayed
dan=$elect_pid
t_check "sees the leader" until_true 20 has "$t_dir/d" '"leader".*"holder":"cyd"'
id=$(kv GET kv/t/delayed/.lock | sed 's/.*"Session":"//; s/".*//')
destroyed_at=$(now_ms)
kv PUT "session/destroy/$id" >/dev/null
t_check "lost" until_true 20 has "$t_dir/c" '"lost"'
won_again() { [ "$(cat "$t_dir/c" "$t_dir/d" | grep -c '"won"')" -ge 2 ]; }
t_check "somebody wins again" until_true 40 won_again
t_check "not before the lock-delay is over" [ $(($(now_ms) - destroyed_at)) -ge 5000 ]
kill -TERM "$cyd" "$dan"
wait "$cyd" "$dan"

t_case "consul lock, api.Lock and tenure take turns, and never act at once"
# TENURE_HANDOVERS: how many changes between one of ours and one of theirs.
hand_overs=${TENURE_HANDOVERS:-12}
cat >"$t_dir/turn" <<'END'
#!/bin/sh
echo "$(date +%s%N) begin $1" >>"$2"
sleep 0.05
echo "$(date +%s%N) end $1" >>"$2"
END
chmod +x "$t_dir/turn"
theirs() {
    while ! [ -e "$t_dir/turns.end" ]; do
        CONSUL_HTTP_ADDR=127.0.0.1:$port "$consul" lock t/mixed "$t_dir/turn theirs $t_dir/turns" \
            >>"$t_dir/theirs" 2>&1
    done
}
ours() {
    while ! [ -e "$t_dir/turns.end" ]; do
        timeout 120 "$tenure" run --once --store "$store" --ttl 10s mixed -- \
            "$t_dir/turn" ours "$t_dir/turns" >>"$t_dir/ours" 2>&1
    done
}
: >"$t_dir/turns"
theirs &
their_pid=$!
ours &
our_pid=$!
"$locker" -address "127.0.0.1:$port" -key t/mixed/.lock -id lock -acts "$t_dir/turns" \
    -pause 100ms -terms 1000000 2>"$t_dir/locker" &
lock_pid=$!
electors="$electors $lock_pid"
crossings() {
    sort -n "$t_dir/turns" | awk '$2 == "begin" { ours = $3 == "ours"
        n += seen++ && ours != last; last = ours } END { print n + 0 }'
}
all_crossed() {
    for kind in ours theirs lock; do
        grep -q "begin $kind" "$t_dir/turns" || return 1
    done
    [ "$(crossings)" -ge "$hand_overs" ]
}
if ! until_true $((60 + 4 * hand_overs)) all_crossed; then
    t_fail "$(crossings) hand-overs, not $hand_overs: $(tail -n 2 "$t_dir/locker" "$t_dir/ours")"
fi
touch "$t_dir/turns.end"
wait "$their_pid" "$our_pid"
kill -KILL "$lock_pid"
overlaps() {
    sort -n "$1" | awk '$2 == "begin" { if (open) bad++; open = 1 } $2 == "end" { open = 0 }
        END { print "# " bad + 0 " overlaps"; exit bad > 0 }'
}
echo "# $(crossings) hand-overs between ours and theirs, $(grep -c begin "$t_dir/turns") terms"
t_promise "no two at once" overlaps "$t_dir/turns"

t_case "a client of theirs that stops past its TTL acts beside ours: the fence refuses it"
"$locker" -address "127.0.0.1:$port" -key t/stopped/.lock -id lock -acts "$t_dir/stopped" \
    -ttl 10s -stuck 2>"$t_dir/locker" &
stuck=$!
electors="$electors $stuck"
until_line "$t_dir/stopped" act 20 || t_fail "theirs does not lead: $(cat "$t_dir/locker")"
theirs_token=$(index_of stopped)
kill -STOP "$stuck"
: >"$t_dir/stopped.data"
t_run "$tenure" fence install --at "file:$t_dir/stopped.data"
t_check "a fence: $(cat "$t_err")" [ "$t_status" -eq 0 ]
"$tenure" run --store "$store" --id hal --ttl 5s --fence "file:$t_dir/stopped.data" stopped -- \
    sh -c 'echo "$TENURE_TOKEN"; exec sleep 600' >"$t_dir/h" 2>"$t_dir/h.err" &
hal=$!
electors="$electors $hal"
t_check "ours leads after its session: $(cat "$t_dir/h.err")" until_line "$t_dir/h" '^[0-9]' 90
before=$(wc -l <"$t_dir/stopped")
kill -CONT "$stuck"
acts_on() { [ "$(wc -l <"$t_dir/stopped")" -gt $((before + 5)) ]; }
t_check "it acts on, beside ours" until_true 20 acts_on
echo "# a stopped api.Lock client acted $(($(wc -l <"$t_dir/stopped") - before)) times beside ours"
t_run "$tenure" fence admit --at "file:$t_dir/stopped.data" "$theirs_token"
t_check "the fence refuses its token: $t_status $(cat "$t_err")" [ "$t_status" -eq 80 ]
t_run "$tenure" fence admit --at "file:$t_dir/stopped.data" "$(cat "$t_dir/h")"
t_check "and takes ours: $(cat "$t_err")" [ "$t_status" -eq 0 ]
kill -KILL "$stuck"
kill -TERM "$hal"
wait "$hal"

t_case "a leader renews once per interval, an idle candidate only blocks"
elect "$t_dir/e" --store "$store" --id eve --ttl 9s cost
eve=$elect_pid
t_check "won" until_true 20 has "$t_dir/e" '"won"'
elect "$t_dir/f" --store "$store" --id fay --ttl 9s cost
fay=$elect_pid
t_check "sees the leader" until_true 20 has "$t_dir/f" '"leader".*"holder":"eve"'
writes=$(requests 'method=PUT url=/v1/txn') reads=$(requests 'url=/v1/kv/t/cost/.lock?consistent')
renewals=$(requests 'url=/v1/session/renew') blocked=$(requests '/v1/kv/t/cost/.lock?index=')
began_at=$(now_ms)
until_ms $((began_at + 18000))
t_check "no writes" [ "$(requests 'method=PUT url=/v1/txn')" -eq "$writes" ]
more=$(($(requests 'url=/v1/session/renew') - renewals))
t_check "renewals of two sessions in two TTLs: $more" [ "$more" -ge 6 -a "$more" -le 20 ]
more=$(($(requests 'url=/v1/kv/t/cost/.lock?consistent') - reads))
t_check "hardly a read: $more" [ "$more" -le 4 ]
blocked=$(($(requests '/v1/kv/t/cost/.lock?index=') - blocked))
# Each of the two asks anew every 15 s; the server logs a query when it ends.
t_check "blocking queries: $blocked" [ "$blocked" -le 6 ]
echo "# in 18 s, TTL 9 s: $(($(requests 'url=/v1/session/renew') - renewals)) renewals of two" \
    "sessions, $blocked blocking queries, $more reads"
kill -TERM "$eve" "$fay"
wait "$eve" "$fay"

t_case "one process has one session for all its names, counted by the server"
made=$(requests 'url=/v1/session/create')
mkfifo "$t_dir/many.in"
"$fixtures/many" "$store" 20 10000 <>"$t_dir/many.in" >"$t_dir/many" 2>&1 &
many=$!
electors="$electors $many"
t_check "it leads all: $(cat "$t_dir/many" 2>&1)" until_line "$t_dir/many" '^leads 20' 30
made=$(($(requests 'url=/v1/session/create') - made))
t_check "one session, not $made" [ "$made" -eq 1 ]
kv GET 'kv/t/many?recurse' | grep -o '"Session":"[^"]*"' >"$t_dir/sessions"
t_check "which has all keys: $(sort "$t_dir/sessions" | uniq -c)" \
    [ "$(wc -l <"$t_dir/sessions")" -eq 20 -a "$(sort -u "$t_dir/sessions" | wc -l)" -eq 1 ]
kill -TERM "$many"
wait "$many"

script_verbs "$store" 12s
hold_off_on consul "$store" 10s 35
hold_off_of_scripts consul "$store" 10s 35

t_case "tenure doctor tells the version and the lock-delay"
t_run "$tenure" doctor --store "$store"
t_prints '1.22.7'
t_prints 'lock-delay'
t_check "the failover is that of three TTLs: $(grep failover "$t_out")" \
    grep -Eq 'failover +5[0-9]\.[0-9]*s at most after a crash' "$t_out"

t_case "a cluster made anew from an old snapshot is refused, with the remedy"
CONSUL_HTTP_ADDR=127.0.0.1:$port
export CONSUL_HTTP_ADDR
t_check "saved" "$consul" snapshot save "$t_dir/old.snap" >/dev/null
for i in 1 2 3 4 5 6 7 8 9 10; do
    kv PUT "kv/filler" "$i" >/dev/null
done
elect "$t_dir/g" --store "$store" --id gus --ttl 10s restored
gus=$elect_pid
t_check "won" until_true 20 has "$t_dir/g" '"won"'
server_kill
rm -rf "$t_dir/data"
t_check "an empty server" server_again
t_check "restored" "$consul" snapshot restore "$t_dir/old.snap" >/dev/null
unset CONSUL_HTTP_ADDR
t_check "token-regressed: $(cat "$t_dir/g" "$t_dir/g.err")" \
    until_line "$t_dir/g.err" "token-regressed" 60
t_check "with the remedy: $(cat "$t_dir/g.err")" has "$t_dir/g.err" "write to any key"
# What it says helps: the index passes the token, and it leads again.
token_g=$(token_of "$t_dir/g")
filler_index() { kv GET kv/filler | sed 's/.*"ModifyIndex":\([0-9]*\).*/\1/'; }
filled=0
kv PUT kv/filler 0 >/dev/null
# The same value again would not count as a write.
while [ "$(filler_index)" -le "$token_g" ] && [ "$filled" -lt 5000 ]; do
    filled=$((filled + 1))
    kv PUT kv/filler "$filled" >/dev/null
done
won_twice() { [ "$(grep -c '"won"' "$t_dir/g")" -ge 2 ]; }
t_check "leads again: $(cat "$t_dir/g.err")" until_true 60 won_twice
t_check "above: $(token_of "$t_dir/g") after $token_g" [ "$(token_of "$t_dir/g")" -gt "$token_g" ]
kill -TERM "$gus"
wait "$gus"

t_case "what cannot be: one line each"
refuses 64 'does not belong into the URL' "consul://geheim@127.0.0.1:$port/t"
refuses 64 'cannot read the ACL token' "consul://127.0.0.1:$port/t?token_file=/nonexistent"
refuses 69 'refused' "consul://127.0.0.1:1/t"
t_done
