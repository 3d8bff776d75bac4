#!/bin/sh
# redis_cluster.sh - the store redis: on a real cluster of three: whichever node the URL names, the
# one that has the slot is found, and found again when the slot moves while somebody leads.
# shellcheck source=tests/harness/lib.sh
. "${TENURE_ROOT:-$(dirname "$0")/../..}/tests/harness/lib.sh"
# shellcheck source=tests/live/redis.inc
. "$TENURE_ROOT/tests/live/redis.inc"
rd_begin

# Among themselves they would speak at a port 10000 higher, and the system may have given that one
# to somebody who connects.
t_case "a cluster of three"
addresses=
for n in 1 2 3; do
    bus=$(t_ports 1)
    t_check "node $n runs" rd_start "$n" --cluster-enabled yes --cluster-port "$bus"
    addresses="$addresses 127.0.0.1:$(rd_port "$n")@$bus"
done
# shellcheck disable=SC2086 # Words.
redis-cli --cluster create $addresses --cluster-yes >"$t_dir/made" 2>&1
is_up() { rd "$1" CLUSTER INFO | grep -q '^cluster_state:ok'; }
for n in 1 2 3; do
    t_check "it is up: $(tail -n 3 "$t_dir/made")" until_true 30 is_up "$n"
done

slot=$(rd 1 CLUSTER KEYSLOT "{tenure}")
id_of() { rd "$1" CLUSTER MYID; }
# owner: the node that has the slot; others: the two that have not.
has_slot() { rd "$1" SET "{tenure}:probe" 1 2>&1 | grep -qx OK; }
owner=
others=
for n in 1 2 3; do
    if has_slot "$n"; then
        owner=$n
    else
        others="$others $n"
    fi
done
t_check "somebody has the slot" [ -n "$owner" ]
first=${others# }
first=${first%% *}
next=${others##* }

t_case "every node leads to the one that has the slot"
for n in 1 2 3; do
    leads "$(rd_url "$n")"
done
conform "$(rd_url "$first")"

t_case "the slot moves to another node while somebody leads, and the term goes on"
candidate ada job "$(rd_url "$first")" 10s
until_acted job 0
kept=$token
rd "$next" CLUSTER SETSLOT "$slot" IMPORTING "$(id_of "$owner")" >/dev/null
rd "$owner" CLUSTER SETSLOT "$slot" MIGRATING "$(id_of "$next")" >/dev/null
is_empty() {
    # shellcheck disable=SC2046 # Words.
    rd "$owner" MIGRATE 127.0.0.1 "$(rd_port "$next")" "" 0 5000 REPLACE KEYS \
        $(rd "$owner" CLUSTER GETKEYSINSLOT "$slot" 1000) >/dev/null
    [ "$(rd "$owner" CLUSTER COUNTKEYSINSLOT "$slot")" -eq 0 ]
}
t_check "all keys move" until_true 20 is_empty
for n in "$next" "$owner" "$first"; do
    rd "$n" CLUSTER SETSLOT "$slot" NODE "$(id_of "$next")" >/dev/null
done
moved_at=$(now_ms)
t_check "it is there" has_slot "$next"
at_first=$(rd_beats "$next")
renews() { [ "$(rd_beats "$next")" -gt "$at_first" ]; }
t_check "renews there" until_true 20 renews
until_ms $((moved_at + 11000))
t_check "the same term: $(cat "$t_dir/job.err")" [ "$(acted job)" = "$kept" ]
t_check "acts" [ "$(acted_at job)" -ge $((moved_at + 10000)) ]
end_all
t_promise "one at a time" apart job
t_run timeout 30 "$tenure" run --store "$(rd_url "$owner")" --ttl 3s --wait 20s job -- \
    sh -c 'echo $TENURE_TOKEN'
t_check "and the next token is larger: $(cat "$t_out")" [ "$(cat "$t_out")" -gt "$kept" ]

t_case "a slot that nobody has is told"
for n in 1 2 3; do
    rd "$n" CLUSTER DELSLOTS "$slot" >/dev/null
    rd "$n" CONFIG SET cluster-require-full-coverage no >/dev/null
done
refuses 69 "CLUSTERDOWN" "$(rd_url "$first")"
t_done
