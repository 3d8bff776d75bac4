#!/bin/sh
# plan.sh - `tenure plan`: its numbers, its verdicts, its advice, and how it refuses bad input.
# shellcheck source=tests/harness/lib.sh
. "${TENURE_ROOT:-$(dirname "$0")/../..}/tests/harness/lib.sh"

tenure=$TENURE_BUILD/tenure

hasnt() { t_refute "prints" grep -qF -e "$1" "$t_out"; }

plan() { t_run "$tenure" plan "$@"; }

t_case "the defaults are safe, and the arithmetic is shown"
plan
t_ends 0
t_prints 'TTL                     15s '
t_prints 'renewal interval        5s '
t_prints 'clock-rate bound        0.1 '
t_prints 'network bound           100ms '
t_prints 'safety margin           2.727s '
t_prints 'deadline D              12.273s '
t_prints 'P1  (D + slack)/(1 - rho) <= TTL/(1 + rho)    13.636s <= 13.636s   holds'
t_prints 'P8  R + k*(To + b) + pause <= D - K - G  '
t_prints '     5s + 1*(1.25s + 312.5ms) + 100ms = 6.663s <= 8.523s   holds'
t_prints 'tolerated failures      2 '
t_prints 'failover after a crash  23.078s '
t_prints 'expiry 16.667s + poll 6.111s + 2 RTT 200ms + fence 100ms'
t_prints 'or a resign  4.567s     stop 4.167s + 3 RTT 300ms + fence 100ms'
t_prints 'one session a process   0.200/s '
t_prints 'safe: both inequalities hold'
hasnt 'shard'

t_case "one TTL is drawn to scale"
plan --ttl 10s --rho 0 --margin 2s --grace 2s --renew 2s
t_ends 0
t_prints '                R             2R            3R            4R'
t_prints '  =======================================T~~~~~~~~~~~~~K!!D..............|'
t_prints 'T   SIGTERM             5.5s '
t_prints 'K   SIGKILL             7.5s '
t_prints 'D   deadline            8s '
t_prints '... margin              2s '

t_case "every option counts"
plan --ttl 20s --renew 4s --rho 0.05 --rtt 50ms --pause 1s --grace 2s --processes 10 --leases 3
t_ends 0
t_prints 'TTL                     20s '
t_prints '4s + 1*(1s + 250ms) + 1s = 6.25s <= 15.095s   holds'
t_prints 'one session a process   2.500/s '
t_prints 'one session a lease     7.500/s '
t_prints '10 processes, 3 leases each'

t_case "an engine's own delays count, and what a candidate that waits reads"
plan --store consul://127.0.0.1:1/x
t_ends 0
t_prints 'failover after a crash  56.411s    expiry 50s + poll 6.111s + 2 RTT 200ms + fence 100ms'
t_prints 'consul: the TTL, and 30s in which the store may still wait'
t_prints 'one that waits          0/s '
plan --ttl 60s --store consuls://127.0.0.1:1/x --json
t_ends 0
t_prints '"late_ns":120000000000,'
plan --ttl 120s --store consul://127.0.0.1:1/x
t_ends 1
t_prints 'unsafe: P1 breaks'
t_prints 'smallest change: --ttl 60s instead of 2m'
plan --store s3://bucket/x --leases 3
t_prints 'one that waits          2.000/s    reads: leases / (1s to 2s)'
plan --store etcd://127.0.0.1:1/x
t_prints 'failover after a crash  23.078s '
t_bad "names no store" "$tenure" plan --store nowhere://x

t_case "a broken P8 names the smallest change first"
plan --ttl 15s --renew 9s
t_ends 1
t_prints '9s + 1*(2.25s + 562.5ms) + 100ms = 11.913s <= 8.523s   breaks'
t_prints 'unsafe: P8 breaks'
t_prints 'smallest change: --renew 6.417s instead of 9s'
t_prints 'or               --ttl 20.888s instead of 15s'

t_case "a broken P1 names the smallest change first"
plan --margin 2.5s
t_ends 1
t_prints 'P1  (D + slack)/(1 - rho) <= TTL/(1 + rho)    13.889s <= 13.636s   breaks'
t_prints 'unsafe: P1 breaks'
t_prints 'smallest change: --ttl 13.75s instead of 15s'
t_prints 'or               --margin 2.728s instead of 2.5s'
t_prints 'or               --rho 0.09 instead of 0.1, if that is true where it runs'

t_case "a break too small to see is shown in full"
plan --margin 2.727272727s
t_ends 1
t_prints '13.636363637s <= 13.636363636s   breaks'

t_case "sides below zero and beyond counting are shown"
plan --ttl 5s --grace 5s
t_ends 1
t_prints 'T   SIGTERM             -1.159s '
t_prints '<= -1.159s   breaks'
plan --ttl 24h --rho 0.999999 --margin 0s
t_ends 1
t_prints '292 years or more <= 43200.022s   breaks'
plan --ttl 1s --rho 0 --grace 0.950000300s --rtt 0s --pause 0s --renew 0.000001ms
t_ends 1
t_prints '0.000000002s <= -0.000000300s   breaks'

t_case "what no single change mends is said"
plan --ttl 1s --rho 0.9 --margin 1ms --grace 20s
t_ends 1
t_prints 'no single change helps: leave --margin out'
plan --ttl 24h --rho 0.9 --grace 24h --pause 24h
t_ends 1
t_prints 'no single change helps: change several'

# value_of OPTION ARG...: the value that the arguments give to OPTION.
value_of() {
    wanted=$1
    shift
    while [ $# -gt 0 ]; do
        [ "$1" = "$wanted" ] && echo "$2"
        shift 2
    done
}

# without OPTION ARG...: the arguments without OPTION and its value.
without() {
    unwanted=$1
    shift
    while [ $# -gt 0 ]; do
        [ "$1" = "$unwanted" ] || printf '%s %s ' "$1" "$2"
        shift 2
    done
}

# mends ARG...: the plan is unsafe, and each change that it suggests makes it safe.
mends() {
    plan "$@" --json
    t_check "$*: exit status is 1, not $t_status" [ "$t_status" -eq 1 ]
    sed 's/.*"mend":\[//; s/\].*//; s/},{/\n/g' "$t_out" |
        sed -n 's/.*"option":"\([^"]*\)","value":"\([^"]*\)".*/\1 \2/p' >"$t_dir/mend"
    plan "$@"
    if [ -s "$t_dir/mend" ]; then
        read -r option value <"$t_dir/mend"
        t_prints "smallest change: $option $value instead of "
    fi
    tried=0
    while read -r option value; do
        # shellcheck disable=SC2046 # The words are meant to be split.
        plan $(without "$option" "$@") "$option" "$value"
        t_check "$*: $option $value: exit status is 0, not $t_status" [ "$t_status" -eq 0 ]
        t_refute "$*: $option $value is new" [ "$value" = "$(value_of "$option" "$@")" ]
        tried=$((tried + 1))
    done <"$t_dir/mend"
    mended=$((mended + tried))
}

t_case "a suggestion, when typed, is safe"
mended=0
mends --renew 9s
mends --renew 14.9999s
mends --margin 2s
mends --margin 9s
mends --margin 2.727272727s
mends --ttl 5s --pause 3s
mends --ttl 5s --grace 4s --rho 0.2
mends --ttl 1s --rtt 2s
mends --ttl 1s --grace 1s --rtt 0ms --pause 0ms
mends --ttl 3.0000005s --renew 2.0000005s --grace 900.5ms
mends --ttl 15s --rho 0.3
mends --ttl 24h --rho 0.999999
mends --ttl 24h --margin 0s --rho 0.999999
mends --ttl 10m --renew 9m --margin 1m
t_check "enough was tried" [ "$mended" -ge 25 ]

t_case "many processes get advice"
plan --processes 100000 --leases 20
t_ends 0
t_prints 'one session a process   20000/s '
t_prints 'one session a lease     400000/s '
t_prints 'share one session per process: 20000/s instead of 400000/s'
t_prints '--ttl 30s: 10000/s, failover within 46s'
t_prints '--ttl 5m: 1000/s, failover within 456s'
t_prints 'shard by failure domain (rack, zone, region): 20 stores with 5000 processes each'
t_prints 'bear 1000/s each'

t_case "an agent on each host"
plan --processes 100000 --leases 20 --hosts 2000
t_ends 0
t_prints 'one agent a host        200/s '
t_prints 'run an agent on each host (tenured --upstream): 200/s instead of 20000/s'
plan --processes 100000 --hosts 2000 --json
t_prints '"hosts":2000,"load_agents_per_s":200.000}'
plan --processes 100000
t_prints 'one session a host; --hosts counts it'
t_prints 'with 50 processes on each host: 200/s'

t_case "the advised TTL gives the advised load"
plan --ttl 5m --processes 100000
t_ends 0
t_prints 'one session a process   1000/s '
t_prints 'failover after a crash  455.856s '

t_case "the advice fits the case"
# Sharing is enough.
plan --processes 2000 --leases 3
t_prints 'share one session per process: 400/s instead of 1200/s'
hasnt 'lengthen'
hasnt 'shard'
# Just below, nothing is said.
plan --processes 4999
hasnt 'share one session'
plan --processes 5000
t_prints 'share one session'
# Many processes that renew rarely.
plan --ttl 1h --processes 100000
hasnt 'lengthen'
t_prints 'before it grows further'
plan --ttl 1h --processes 250000
t_prints '3 stores with 83334 processes each'
# An interval that was chosen t_prints to be changed along with the TTL.
plan --renew 1ms
t_prints '--ttl 15s --renew 5s: 0.200/s, failover within 24s after a crash'
plan --ttl 24h --renew 1h --processes 1000000000
t_ends 0
t_prints '--ttl 24h --renew 8h: 34722/s'
t_prints '10000 stores with 100000 processes each'

t_case "JSON is one object on one line, with the same verdict"
number='-?(0|[1-9][0-9]*)(\.[0-9]{3})?'
change='\{"option":"--[a-z]+","value":"[0-9.]+(ms|s|m|h)?"\}'
member="\"[a-z0-9_]+\":($number|true|false|null|\"P[18]\"|\[($change(,$change)*)?\])"
check_json() {
    t_check "one line" [ "$(wc -l <"$t_out")" -eq 1 ]
    t_check "an object" grep -Eqx "\{$member(,$member)*\}" "$t_out"
    if command -v python3 >/dev/null 2>&1; then
        t_check "parses" python3 -c 'import json, sys; json.load(open(sys.argv[1]))' "$t_out"
    fi
}
plan --json
t_ends 0
check_json
t_prints '"safe":true,"breaks":null,"mend":[],'
t_prints '"ttl_ns":15000000000,'
t_prints '"rho_ppm":100000,'
t_prints '"valid_for_ns":12272727272,'
t_prints '"tolerated":2,'
t_prints '"failover_crash_ns":23077777779,'
t_prints '"load_shared_per_s":0.200,"load_unshared_per_s":0.200}'
plan --renew 9s --json
t_ends 1
check_json
t_prints '"safe":false,"breaks":"P8","mend":[{"option":"--renew","value":"6.417s"},'
t_prints ',{"option":"--ttl","value":"20.888s"}],'
plan --json --margin 0s
t_ends 1
check_json
t_prints '"breaks":"P1"'
plan --ttl 24h --rho 0.999999 --renew 0.000001ms --processes 1000000000 --leases 1000000000 --json
t_ends 1
check_json
t_prints '"failover_crash_ns":9223372036854775807,'

t_case "the ends of every range are accepted"
for args in '--ttl 1s' '--ttl 24h' '--rho 0' '--rho 0.000001' '--rtt 0s' '--pause 0ms' \
    '--grace 0m' \
    '--renew 0.000001ms' '--processes 1000000000' '--leases 1000000000' \
    '--processes 1000000000 --leases 1000000000'; do
    # shellcheck disable=SC2086 # Words are meant to be split.
    plan $args
    t_ends 0
done
for args in '--rho 0.999999' '--rtt 24h' '--pause 24h' '--grace 24h' '--margin 24h' '--margin 0s' \
    '--renew 14.999999999s'; do
    # shellcheck disable=SC2086 # Words are meant to be split.
    plan $args
    t_ends 1
done

t_case "bad input is one line and exit 64"
t_bad "tenure plan: --ttl: '5' has no unit; write 5s, 500ms, 2m or 1h" "$tenure" plan --ttl 5
t_bad "--ttl: '-3s' is negative" "$tenure" plan --ttl -3s
t_bad "--ttl: '-3s' is negative" "$tenure" plan --ttl=-3s
t_bad "--ttl: '99999999999999999999h' is too long; give at most 24h" \
    "$tenure" plan --ttl 99999999999999999999h
t_bad "--ttl: '24.1h' is too long" "$tenure" plan --ttl 24.1h
t_bad "--ttl: '999ms' is too short; give at least 1s" "$tenure" plan --ttl 999ms
t_bad "--ttl: '0s' is too short" "$tenure" plan --ttl 0s
t_bad "--ttl: 'soon' is not a duration" "$tenure" plan --ttl soon
t_bad "--ttl: the value is empty" "$tenure" plan --ttl ''
t_bad "--ttl lacks its value" "$tenure" plan --ttl
t_bad "--ttl lacks its value" "$tenure" plan --ttl --json
t_bad "--rho: '2' is not a rate" "$tenure" plan --rho 2
t_bad "--rho: '1' is not a rate" "$tenure" plan --rho 1
t_bad "--rho: '-0.1' is not a rate" "$tenure" plan --rho -0.1
t_bad "--rho: '0.0000001' is not a rate" "$tenure" plan --rho 0.0000001
t_bad "--rho: 'nan' is not a rate" "$tenure" plan --rho nan
t_bad "--renew: '0s' is too short; give more than zero" "$tenure" plan --renew 0s
t_bad "--renew: 15s is not below the TTL of 15s" "$tenure" plan --renew 15s
t_bad "--renew: 15s is not below the TTL of 10s" "$tenure" plan --renew 15s --ttl 10s
t_bad "--rtt: '25h' is too long" "$tenure" plan --rtt 25h
t_bad "--pause: '-1ms' is negative" "$tenure" plan --pause -1ms
t_bad "--grace: '5' has no unit" "$tenure" plan --grace 5
t_bad "--margin: '24.5h' is too long" "$tenure" plan --margin 24.5h
t_bad "--processes: '0' is too small" "$tenure" plan --processes 0
t_bad "--processes: '1000000001' is too large" "$tenure" plan --processes 1000000001
t_bad "--processes: '18446744073709551616' is too large" \
    "$tenure" plan --processes 18446744073709551616
t_bad "--processes: '-1' is not a whole number" "$tenure" plan --processes -1
t_bad "--leases: '0' is too small" "$tenure" plan --leases 0
t_bad "--leases: '1.5' is not a whole number" "$tenure" plan --leases 1.5
t_bad "--leases: '1000000001' is too large" "$tenure" plan --leases 1000000001
t_bad "--ttl is there twice" "$tenure" plan --ttl 15s --ttl 15s
t_bad "--json is there twice" "$tenure" plan --json --json
t_bad "--json takes no value" "$tenure" plan --json=yes
t_bad "unknown option '--tll'; did you mean --ttl?" "$tenure" plan --tll 15s
t_bad "unknown option '-x'" "$tenure" plan -x
t_bad "'extra' is one word too many" "$tenure" plan extra
t_bad "'--ttl' is one word too many" "$tenure" plan -- --ttl 5s
t_bad "--ttl: '\\x1b[31m\\n.' is not a duration" "$tenure" plan --ttl "$(printf '\033[31m\n.')"
t_bad "...' is not a duration; write a number and a unit" \
    "$tenure" plan --ttl "$(printf 'x%01000d' 1)"

t_case "the table of docs/plan.md has the numbers of the plan"
# seconds FIELD: in tenths, rounded.
seconds() { sed "s/.*\"$1\":\([0-9]*\).*/\1/" "$t_out" | awk '{ printf "%.1fs", $1 / 1e9 }'; }
sed -n 's/^| \([0-9]*s\) |.*/\1/p' "$TENURE_ROOT/docs/plan.md" >"$t_dir/ttls"
t_check "it has rows" [ "$(wc -l <"$t_dir/ttls")" -ge 4 ]
while read -r ttl; do
    t_run "$tenure" plan --json --ttl "$ttl"
    every=$(sed 's/.*"renew_every_ns":\([0-9]*\).*/\1/' "$t_out")
    row="| $ttl | $(seconds failover_crash_ns) | $(seconds stop_at_ns) |"
    row="$row $(echo "$every" | awk '{ printf "%.0f", 60e9 / $1 }') |"
    t_check "the row is: $row" grep -qxF -e "$row" "$TENURE_ROOT/docs/plan.md"
done <"$t_dir/ttls"

t_done
