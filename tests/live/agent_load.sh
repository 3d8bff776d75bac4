#!/bin/sh
# agent_load.sh - what a store hears of the processes of one host behind an agent, each with a name
# of its own: no more than of a single process, and a campaign for each name. The servers count.
#
# Environment: AGENT_PROCESSES (200).
# shellcheck source=tests/harness/lib.sh
. "${TENURE_ROOT:-$(dirname "$0")/../..}/tests/harness/lib.sh"
# shellcheck source=tests/live/etcd.lib
. "$TENURE_ROOT/tests/live/etcd.lib"
# shellcheck source=tests/harness/zookeeper.sh
. "$TENURE_ROOT/tests/harness/zookeeper.sh"
# shellcheck source=tests/live/crowd.lib
. "$TENURE_ROOT/tests/live/crowd.lib"
etcd_need
zk_need
ulimit -n "$(ulimit -H -n)"
processes=${AGENT_PROCESSES:-200}
# A renewal comes at most a tenth before its interval of 10 s is over: three in this time, or two.
ttl=30 watched=20

# The last requests of a beginning: until a second passes without any but our question.
quiet() {
    qu_before=$(heard)
    sleep 1
    [ $(($(heard) - qu_before)) -le 1 ]
}

# idles: how many requests come in that time; in $idle.
idles() {
    until_true 60 quiet
    id_before=$(heard) id_until=$(($(now_ms) + watched * 1000))
    until_ms "$id_until"
    idle=$(($(heard) - id_before))
}

for engine in etcd zookeeper; do
    counting_server "$engine"

    t_case "$engine: a single process, for comparison"
    before=$(heard)
    # shellcheck disable=SC2154 # Set by counting_server.
    crowd 1 "$url" single "$ttl"
    t_check "leads" until_true 60 crowd_leads 1
    until_true 60 quiet
    campaign=$(($(heard) - before))
    idles
    single=$idle
    t_check "its renewals, not $single requests" [ "$single" -ge 2 ]
    crowd_end

    t_case "$engine: $processes processes behind an agent"
    until_true 60 quiet
    before=$(heard) began=$(now_ms)
    crowd_agent "$url" "$ttl"
    crowd "$processes" "$crowd_agent" behind 15
    t_check "all lead: $(cat "$t_dir"/crowd.* | grep -v '^leads' | head -n 1)" \
        until_true 300 crowd_leads "$processes"
    until_true 60 quiet
    first=$(($(heard) - before)) seconds=$((($(now_ms) - began) / 1000 + 1))
    # quiet asks once a second.
    most=$((processes * campaign + seconds / 9 + seconds + 2))
    t_check "$first requests until all lead, at most $processes times the $campaign of one" \
        [ "$first" -le "$most" ]
    idles
    echo "$engine: one process: $campaign requests until it leads, then $single in $watched s;" \
        "$processes behind an agent: $first, then $idle"
    t_check "it renews: $idle" [ "$idle" -ge 2 ]
    t_check "once per interval, and our question: $idle in $watched s" \
        [ "$idle" -le $((watched / 9 + 2)) ]
    t_check "as a single process: $single" [ "$idle" -le $((single + 1)) ]
    t_check "nothing was lost" [ "$(crowd_lost)" -eq 0 ]
    crowd_end
    kill -KILL "$server"
done

t_done
