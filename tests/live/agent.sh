#!/bin/sh
# agent.sh - tenured --upstream: two agents, as on two hosts, above one etcd.
# shellcheck source=tests/harness/lib.sh
. "$TENURE_ROOT/tests/harness/lib.sh"
# shellcheck source=tests/live/etcd.lib
. "$TENURE_ROOT/tests/live/etcd.lib"
etcd_need
etcd_start one
# shellcheck disable=SC2154 # Set by etcd_start.
endpoints=127.0.0.1:$port_one
upstream=etcd://$endpoints/up
# shellcheck source=tests/live/agent.lib
. "$TENURE_ROOT/tests/live/agent.lib"

t_case "what makes no sense is one line, and nothing is made"
refused() {
    t_run timeout 20 "$tenured" "$@"
    t_check "$*: exit status 64, not $t_status" [ "$t_status" -eq 64 ]
    t_check "$*: one line" [ "$(wc -l <"$t_err")" -eq 1 ]
}
refused --upstream nonsense:x --listen "unix:$t_dir/no.sock"
refused --upstream "etcd://$endpoints/up" --data "$t_dir/no" --witness "$t_dir/no.witness"
refused --upstream memory:x --listen "unix:$t_dir/no.sock"
refused --upstream-ttl 30s
refused --upstream "etcd://$endpoints/up" --upstream-ttl 1s
refused --upstream "etcd://$endpoints/up" --upstream-ttl soon
t_refute "no data" [ -e "$t_dir/no" ]

agent a 30s
a=$agent
agent b 30s
b=$agent

t_case "a lease taken through one agent is held for the other, under the store's token"
t_run timeout 30 "$tenure" acquire --store "$(at a)" --ttl 10s --json job
t_check "granted: $(cat "$t_err")" grep -q '"granted":true' "$t_out"
token=$(sed 's/.*"token":\([0-9]*\).*/\1/' "$t_out")
export TENURE_SECRET
TENURE_SECRET=$(sed 's/.*"secret":"\([0-9a-f]*\)".*/\1/' "$t_out")
shows() {
    timeout 30 "$tenure" status --store "$1" --json job | grep -q "\"state\":\"$2\".*\"token\":$3,"
}
t_check "the store has that token" until_true 20 shows "etcd://$endpoints/up" held "$token"
t_check "so says its agent" until_true 20 shows "$(at a)" held "$token"
t_check "and the other one" until_true 20 shows "$(at b)" held "$token"
t_run timeout 30 "$tenure" acquire --store "$(at b)" --ttl 10s --json job
t_check "held for others: $t_status" [ "$t_status" -eq 75 ]
t_run timeout 30 "$tenure" renew --store "$(at a)" --token "$token" job
t_check "renewed: $(cat "$t_err")" [ "$t_status" -eq 0 ]
t_run timeout 30 "$tenure" release --store "$(at a)" --token "$token" job
t_check "released: $(cat "$t_err")" [ "$t_status" -eq 0 ]
unset TENURE_SECRET
t_check "free in the store" until_true 20 shows "etcd://$endpoints/up" free "$token"

t_case "what an agent does not do is said in one line"
for words in "REVOKE job" "HANDOVER job" "FENCE SHOW x" "LEASE MGET job"; do
    # shellcheck disable=SC2086 # Words.
    t_run redis-cli -s "$t_dir/a.sock" $words
    t_check "$words: $(cat "$t_out")" grep -q '^ERR not at an agent' "$t_out"
done

t_case "redis-cli, HTTP, run with a fence, list, history and the console's page"
http=$(t_ports 1)
agent k 30s --http "127.0.0.1:$http"
k=$agent
page=http://127.0.0.1:$http
# The agent is ready before its upstream has answered, and says UNAVAILABLE until then.
opens() {
    t_run redis-cli -s "$t_dir/k.sock" SESSION OPEN '*' 10000
    ! grep -q '^UNAVAILABLE' "$t_out"
}
until_true 20 opens
t_check "redis-cli opens a session: $(cat "$t_out")" grep -q '^ttl_ms' "$t_out"
secret=$(sed -n '/^session$/{n;p;}' "$t_out")
t_run redis-cli -s "$t_dir/k.sock" LEASE ACQUIRE "$secret" '*' by-redis
t_check "and acquires: $(cat "$t_out")" grep -q granted "$t_out"
t_run curl -s "$page/v1/leases"
t_check "HTTP lists it: $(cat "$t_out")" grep -q '"by-redis"' "$t_out"
t_run curl -s "$page/v1/leases/by-redis"
t_check "and shows it: $(cat "$t_out")" grep -q '"state": *"held"' "$t_out"
t_run curl -s --compressed "$page/"
t_check "the console's page" grep -qi '<title>' "$t_out"
t_run timeout 30 "$tenure" fence install --at "file:$t_dir/fenced"
t_run timeout 30 "$tenure" run --store "$(at k)" --ttl 10s --fence "file:$t_dir/fenced" fenced -- \
    sh -c 'echo "$TENURE_TOKEN"'
t_check "run with a fence: $(cat "$t_err")" [ "$t_status" -eq 0 ]
fenced=$(cat "$t_out")
t_run timeout 30 "$tenure" fence show --at "file:$t_dir/fenced"
t_check "it stands at upstream's token $fenced: $(cat "$t_out")" grep -qw "$fenced" "$t_out"
t_run timeout 30 "$tenure" list --store "$(at k)"
t_check "list: $(cat "$t_err")" grep -q '^by-redis .*' "$t_out"
t_run timeout 30 "$tenure" history --store "$(at k)" fenced
t_check "history: $(cat "$t_err")" grep -qw "$fenced" "$t_out"
end "$k"

t_case "watch tells what happens upstream"
"$tenure" watch --store "$(at b)" job >"$t_dir/watched" 2>&1 &
watcher=$!
candidates="$candidates $watcher"
t_check "first how it is" until_line "$t_dir/watched" 'job: nobody leads'
timeout 30 "$tenure" run --store "$(at a)" --ttl 10s --id boss job -- sleep 1
t_check "then who leads" until_line "$t_dir/watched" 'job: led by'
end "$watcher"

t_case "the leading process is killed: the other host's leads long before the TTL"
t_run timeout 120 python3 "$TENURE_ROOT/tests/live/agent_failover.py" "${AGENT_KILLS:-8}" 12s \
    dying "$t_dir/a.sock" "$t_dir/b.sock"
t_promise "tokens rise: $(cat "$t_err")" [ "$t_status" -eq 0 ]
head -n 1 "$t_out"
t_check "in at most 3 s" [ "$(tail -n 1 "$t_out")" -lt 3000 ]

t_case "the conformance suite, where an agent is like any tenured"
end_all
agent g 10m
g=$agent
# Not: raising and revoking (a_raised_counter, a_revoked_lease, two_stores), which are for the
# upstream, and many_requests, because a connection waits for upstream with one acquire at a time.
conforms() {
    for part in "$@"; do
        t_run timeout 120 "$TENURE_BUILD/tests/conformance" "$part"
        t_promise "$part: $(grep FAIL "$t_out" | head -n 1)" \
            grep -q "^[1-9][0-9]* passed, 0 failed, 0 skipped$" "$t_out"
    done
}
TENURE_CONFORMANCE_URL=$(at g)
export TENURE_CONFORMANCE_URL
conforms one_holder tokens_rise a_release_is_exact lasts_its_ttl an_old_attempt how_many_leases \
    said_again keeps_all_leases who_knows_the_secret to_their_limits closing_answers outside_the \
    who_watches begins_to_watch refused_leaves no_two_hold says_what_it_is found_by_looking \
    taken_up a_list_is
# An agent answers QUEUED for a free name, too, and pushes the grant: these are told to expect it.
TENURE_CONFORMANCE_AGENT=1
export TENURE_CONFORMANCE_AGENT
conforms the_same_term waiters_are_served a_dead_holder dead_waiters a_withdrawn two_processes
unset TENURE_CONFORMANCE_URL TENURE_CONFORMANCE_AGENT
end "$g"

t_case "two hundred names, one renewal per interval"
metric() {
    curl -s "http://$endpoints/metrics" | grep "^$1" | awk '{ sum += $NF } END { print sum + 0 }'
}
keepalives() { metric 'grpc_server_msg_received_total.*"LeaseKeepAlive"'; }
others() { metric 'grpc_server_msg_received_total{grpc_method="\(Txn\|Range\|Watch\|LeaseG\)'; }
settled() {
    before=$(others)
    sleep 0.5
    [ "$(others)" -eq "$before" ]
}
is_over() { [ "$(date +%s)" -gt "$counted" ]; }
end_all
kill -TERM "$b"
wait "$b"
agent c 12s
c=$agent
kill -TERM "$a"
wait "$a"
mkfifo "$t_dir/many.in"
"$fixtures/many" "$(at c)" 200 10000 <"$t_dir/many.in" >"$t_dir/many" 2>"$t_dir/many.err" &
exec 8>"$t_dir/many.in"
t_check "leads two hundred" until_true 60 has "$t_dir/many" "^leads 200"
for _ in 1 2 3; do
    t_check "settles" until_true 60 settled
    kept=$(keepalives) rest=$(others) counted=$(($(date +%s) + 9))
    t_check "waits" until_true 20 is_over
    kept=$(($(keepalives) - kept)) rest=$(($(others) - rest))
    [ $rest -gt 0 ] || break
done
echo "1 agent, 200 names, TTL 12 s, 9 s: $kept keepalives, $rest other requests"
t_check "renews" [ $kept -ge 2 ]
t_check "once per interval" [ $kept -le 4 ]
t_check "nothing else" [ $rest -eq 0 ]
t_refute "nothing was lost" grep -q '^lost' "$t_dir/many"
exec 8>&-
end "$c"

t_case "process, agent and store are stopped and killed: never two, tokens rise, the next one leads"
agent d 4s
d=$agent
agent e 4s
e=$agent
for host in d e; do
    candidate "$host-1" work "$(at $host)" 2s
    candidate "$host-2" work "$(at $host)" 2s
done
until_acted work 0
# shellcheck disable=SC2086 # A list of numbers.
set -- $candidates
t_ms=$(now_ms)
kill -STOP "$d"
until_ms $((t_ms + 6000)) # Behind its deadline upstream.
kill -CONT "$d"
until_acted work 0 60
kill -KILL "$e"
wait "$e" 2>/dev/null
agent e 4s
e=$agent
until_acted work "$(($(acted work) - 1))" 60
kill -KILL "$1" "$3"
until_acted work "$(($(acted work) - 1))" 60
t_ms=$(now_ms)
etcd_stop one
until_ms $((t_ms + 5000))
etcd_again one
last=$(acted work)
until_acted work "$last" 60
end_all
t_promise "no two at one time" apart work
kill -TERM "$d" "$e"
wait "$d" "$e"

t_case "an agent that is killed does not take its session upstream with it: its processes act on"
"$tenured" --data "$t_dir/top" --witness none --listen "unix:$t_dir/top.sock" \
    >"$t_dir/top.out" 2>&1 &
agent_pids="$agent_pids $!"
t_check "a tenured above" until_line "$t_dir/top.out" '^tenured ready'
upstream=unix:$t_dir/top.sock
agent h 4s
h=$agent
agent i 4s
i=$agent
candidate h-1 chain "$(at h)" 2s
until_acted chain 0
candidate i-1 chain "$(at i)" 2s
# The other agent campaigns, too, before this one is killed.
in_line() { "$tenure" status --store "$(at i)" --json chain | grep -q '"state":"held"'; }
t_check "the other one waits" until_true 20 in_line
t_ms=$(now_ms)
until_ms $((t_ms + 500))
kill -KILL "$h"
until_acted chain "$(acted chain)" 60
t_ms=$(now_ms)
until_ms $((t_ms + 2000)) # Longer than a local term may last.
end_all
t_promise "no two at one time" apart chain
upstream=etcd://$endpoints/up
end "$i"

t_case "an agent that is started again within the TTL goes on: no term is lost"
goes_on "etcd://$endpoints/up"
goes_on "unix:$t_dir/top.sock"
goes_on "sqlite:$t_dir/top.db"

t_case "an agent's metrics"
http=$(t_ports 1)
agent f 30s --http "127.0.0.1:$http"
f=$agent
up() { curl -s "http://127.0.0.1:$http/metrics" | grep -q '^tenured_upstream_up 1'; }
t_check "upstream is up" until_true 20 up
end "$f"
t_check "ends well" [ "$status" -eq 0 ]

t_done
