#!/bin/sh
# sim_hosts.sh - `tenure sim --hosts`: what a store sees, with agents and without, beside what
# `tenure plan` says; and that its checks can fail.
# shellcheck source=tests/harness/lib.sh
. "${TENURE_ROOT:-$(dirname "$0")/../..}/tests/harness/lib.sh"

tenure=$TENURE_BUILD/tenure

sim() { t_run "$tenure" sim "$@"; }

# value FILE PATH...: a number of a JSON object, for example: value FILE alone store renewals
value() {
    python3 - "$@" <<'END'
import json, sys

found = json.load(open(sys.argv[1]))
for key in sys.argv[2:]:
    found = found[key]
print(found)
END
}
# between LOW NUMBER HIGH
between() { awk -v a="$1" -v b="$2" -v c="$3" 'BEGIN { exit !(a <= b && b <= c) }'; }
product() { awk -v a="$1" -v b="$2" 'BEGIN { print a * b }'; }

# The interval is up to a tenth shorter than R, so the rate is up to a ninth higher.
for world in "20 30 15s" "100 5 15s" "7 40 4s" "50 4 60s"; do
    # shellcheck disable=SC2086 # Words.
    set -- $world
    t_case "$1 hosts, $2 processes each, TTL $3: renewals as 'tenure plan' says"
    "$tenure" plan --processes $(($1 * $2)) --hosts "$1" --ttl "$3" --json >"$t_dir/plan"
    sim --hosts "$1" --processes "$2" --ttl "$3" --for 120s --crash-every 7s --json
    t_ends 0
    t_check "one line" [ "$(wc -l <"$t_out")" -eq 1 ]
    for way in alone:load_shared_per_s agents:load_agents_per_s; do
        planned=$(value "$t_dir/plan" ${way#*:})
        counted=$(product "$(value "$t_out" ${way%:*} store renewals)" "$(product 1 0.0083333333)")
        t_check "${way%:*}: planned $planned/s, counted $counted/s" \
            between "$(product "$planned" 0.98)" "$counted" "$(product "$planned" 1.12)"
    done
    t_check "a session for each process" [ "$(value "$t_out" alone sessions)" -eq $(($1 * $2)) ]
    t_check "a session for each host" [ "$(value "$t_out" agents sessions)" -eq "$1" ]
    t_check "failovers: $(value "$t_out" alone failovers) and $(value "$t_out" agents failovers)" \
        [ $(($(value "$t_out" alone failovers) * $(value "$t_out" agents failovers))) -gt 0 ]
    t_check "without agents within P7" between 0 "$(value "$t_out" alone failover_most_ns)" \
        "$(value "$t_dir/plan" failover_crash_ns)"
    t_check "with agents in 10 ms" between 0 "$(value "$t_out" agents failover_most_ns)" 10000000
    t_check "nothing else is lost" \
        [ "$(value "$t_out" alone lost)$(value "$t_out" agents lost)" = 00 ]
done

t_case "1,000 processes of one host with a name each: one session, one renewal per interval"
sim --hosts 1 --processes 1000 --for 100s --json
t_ends 0
requests=$(value "$t_out" agents store requests)
t_check "a renewal each 9 to 10 s and nothing else, not $requests in 100 s" \
    between 10 "$requests" 12
t_check "all renewals" [ "$(value "$t_out" agents store renewals)" -eq "$requests" ]
t_check "one session" [ "$(value "$t_out" agents sessions)" -eq 1 ]
t_check "first: one session, one campaign for each name" [ "$(value "$t_out" agents start opens) \
$(value "$t_out" agents start campaigns)" = "1 1000" ]
t_check "no more renewals than a single process sends" \
    between 0 "$(value "$t_out" agents start renewals)" 2
t_check "the processes renew at their agent" \
    between 20000 "$(value "$t_out" agents local renewals)" 23000
t_check "without it at the store" between 20000 "$(value "$t_out" alone store renewals)" 23000

t_case "the same seed gives the same bytes, another one does not"
sim --hosts 30 --crash-every 1s
mv "$t_out" "$t_dir/first"
sim --hosts 30 --crash-every 1s
t_check "the same" cmp -s "$t_out" "$t_dir/first"
sim --hosts 30 --crash-every 1s --seed 2
t_refute "another" cmp -s "$t_out" "$t_dir/first"
t_prints '30 hosts with 10 processes each, 150 names; TTL 15s, of an agent 30s'
t_prints 'no promise was broken'

t_case "its checks can fail"
# breaks PROMISE PLANT OPTION...
breaks() {
    br_promise=$1 br_plant=$2
    shift 2
    sim --hosts 5 --processes 3 --crash-every 500ms --plant "$br_plant" "$@"
    t_check "$br_plant: exit status 1, not $t_status" [ "$t_status" -eq 1 ]
    t_check "$br_plant: $br_promise: $(grep broken "$t_out")" \
        grep -q "^$br_promise is broken, with" "$t_out"
}
breaks P2 agent-grants
breaks P2 token-per-session
breaks P7 never-expires
breaks N1 agent-not-nested --upstream-ttl 15s
breaks N1 short-grant --upstream-ttl 15s

t_case "bad input is one clear line and exit 64"
t_bad "--hosts" "$tenure" sim --hosts 0
t_bad "at most 200000" "$tenure" sim --hosts 2000 --processes 101
t_bad "one on each" "$tenure" sim --hosts 2 --candidates 3
t_bad "--processes goes with --hosts" "$tenure" sim --processes 5
t_bad "--for goes with --hosts" "$tenure" sim --seeds 5 --for 60s
t_bad "give one of" "$tenure" sim --hosts 2 --seeds 5
t_bad "give one of" "$tenure" sim --hosts 2 --scenario crash
t_bad "without --trace" "$tenure" sim --hosts 2 --seed 5 --trace
t_bad "--ttl is too short" "$tenure" sim --hosts 2 --ttl 1s --rtt 1s
t_bad "--upstream-ttl is too short" "$tenure" sim --hosts 2 --upstream-ttl 1s --rtt 1s --ttl 60s
t_bad "--crash-every" "$tenure" sim --hosts 2 --crash-every 0s

t_done
