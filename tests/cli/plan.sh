#!/bin/sh
# plan.sh - `tenure plan`: its numbers, its verdicts, its advice, and how it refuses bad input.
# shellcheck source=tests/harness/lib.sh
. "${TENURE_ROOT:-$(dirname "$0")/../..}/tests/harness/lib.sh"

tenure=$TENURE_BUILD/tenure

has() { t_check "prints" grep -qF -e "$1" "$t_out"; }
hasnt() { t_refute "prints" grep -qF -e "$1" "$t_out"; }

plan() { t_run "$tenure" plan "$@"; }

ends_with() {
    t_check "exit status is $1, not $t_status" [ "$t_status" -eq "$1" ]
    t_refute "stderr is empty" [ -s "$t_err" ]
}

# bad WORDS ARG...: exit 64, nothing on stdout, one line with WORDS on stderr.
bad() {
    words=$1
    shift
    plan "$@"
    t_check "$*: exit status is 64, not $t_status" [ "$t_status" -eq 64 ]
    t_refute "$*: stdout is empty" [ -s "$t_out" ]
    t_check "$*: one line on stderr" [ "$(wc -l <"$t_err")" -eq 1 ]
    t_check "$*: at most 500 characters" [ "$(wc -c <"$t_err")" -le 501 ]
    t_check "$*: says why" grep -qF -e "$words" "$t_err"
}

t_case "the defaults are safe, and the arithmetic is shown"
plan
ends_with 0
has 'TTL                     15s '
has 'renewal interval        5s '
has 'clock-rate bound        0.1 '
has 'network bound           100ms '
has 'safety margin           2.727s '
has 'deadline D              12.273s '
has 'P1  (D + slack)/(1 - rho) <= TTL/(1 + rho)    13.636s <= 13.636s   holds'
has 'P8  R + k*(To + b) + pause <= D - K - G  '
has '     5s + 1*(1.25s + 312.5ms) + 100ms = 6.663s <= 8.523s   holds'
has 'tolerated failures      2 '
has 'failover after a crash  23.078s    expiry 16.667s + poll 6.111s + 2 RTT 200ms + fence 100ms'
has 'or a resign  4.567s     stop 4.167s + 3 RTT 300ms + fence 100ms'
has 'one session a process   0.200/s '
has 'safe: both inequalities hold'
hasnt 'shard'

t_case "one TTL is drawn to scale"
plan --ttl 10s --rho 0 --margin 2s --grace 2s --renew 2s
ends_with 0
has '                R             2R            3R            4R'
has '  =======================================T~~~~~~~~~~~~~K!!D..............|'
has 'T   SIGTERM             5.5s '
has 'K   SIGKILL             7.5s '
has 'D   deadline            8s '
has '... margin              2s '

t_case "every option counts"
plan --ttl 20s --renew 4s --rho 0.05 --rtt 50ms --pause 1s --grace 2s --processes 10 --leases 3
ends_with 0
has 'TTL                     20s '
has '4s + 1*(1s + 250ms) + 1s = 6.25s <= 15.095s   holds'
has 'one session a process   2.500/s '
has 'one session a lease     7.500/s '
has '10 processes, 3 leases each'

t_case "a broken P8 names the smallest change first"
plan --ttl 15s --renew 9s
ends_with 1
has '9s + 1*(2.25s + 562.5ms) + 100ms = 11.913s <= 8.523s   breaks'
has 'unsafe: P8 breaks'
has 'smallest change: --renew 6.417s instead of 9s'
has 'or               --ttl 20.888s instead of 15s'

t_case "a broken P1 names the smallest change first"
plan --margin 2.5s
ends_with 1
has 'P1  (D + slack)/(1 - rho) <= TTL/(1 + rho)    13.889s <= 13.636s   breaks'
has 'unsafe: P1 breaks'
has 'smallest change: --ttl 13.75s instead of 15s'
has 'or               --margin 2.728s instead of 2.5s'
has 'or               --rho 0.09 instead of 0.1, if that is true where it runs'

t_case "a break too small to see is shown in full"
plan --margin 2.727272727s
ends_with 1
has '13.636363637s <= 13.636363636s   breaks'

t_case "sides below zero and beyond counting are shown"
plan --ttl 5s --grace 5s
ends_with 1
has 'T   SIGTERM             -1.159s '
has '<= -1.159s   breaks'
plan --ttl 24h --rho 0.999999 --margin 0s
ends_with 1
has '292 years or more <= 43200.022s   breaks'
plan --ttl 1s --rho 0 --grace 0.950000300s --rtt 0s --pause 0s --renew 0.000001ms
ends_with 1
has '0.000000002s <= -0.000000300s   breaks'

t_case "what no single change mends is said"
plan --ttl 1s --rho 0.9 --margin 1ms --grace 20s
ends_with 1
has 'no single change helps: leave --margin out'
plan --ttl 24h --rho 0.9 --grace 24h --pause 24h
ends_with 1
has 'no single change helps: change several'

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
        has "smallest change: $option $value instead of "
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
ends_with 0
has 'one session a process   20000/s '
has 'one session a lease     400000/s '
has 'share one session per process: 20000/s instead of 400000/s'
has '--ttl 30s: 10000/s, failover within 46s'
has '--ttl 5m: 1000/s, failover within 456s'
has 'shard by failure domain (rack, zone, region): 20 stores with 5000 processes each'
has 'bear 1000/s each'

t_case "the advised TTL gives the advised load"
plan --ttl 5m --processes 100000
ends_with 0
has 'one session a process   1000/s '
has 'failover after a crash  455.856s '

t_case "the advice fits the case"
# Sharing is enough.
plan --processes 2000 --leases 3
has 'share one session per process: 400/s instead of 1200/s'
hasnt 'lengthen'
hasnt 'shard'
# Just below, nothing is said.
plan --processes 4999
hasnt 'share one session'
plan --processes 5000
has 'share one session'
# Many processes that renew rarely.
plan --ttl 1h --processes 100000
hasnt 'lengthen'
has 'before it grows further'
plan --ttl 1h --processes 250000
has '3 stores with 83334 processes each'
# An interval that was chosen has to be changed along with the TTL.
plan --renew 1ms
has '--ttl 15s --renew 5s: 0.200/s, failover within 24s after a crash'
plan --ttl 24h --renew 1h --processes 1000000000
ends_with 0
has '--ttl 24h --renew 8h: 34722/s'
has '10000 stores with 100000 processes each'

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
ends_with 0
check_json
has '"safe":true,"breaks":null,"mend":[],'
has '"ttl_ns":15000000000,'
has '"rho_ppm":100000,'
has '"valid_for_ns":12272727272,'
has '"tolerated":2,'
has '"failover_crash_ns":23077777779,'
has '"load_shared_per_s":0.200,"load_unshared_per_s":0.200}'
plan --renew 9s --json
ends_with 1
check_json
has '"safe":false,"breaks":"P8","mend":[{"option":"--renew","value":"6.417s"},'
has ',{"option":"--ttl","value":"20.888s"}],'
plan --json --margin 0s
ends_with 1
check_json
has '"breaks":"P1"'
plan --ttl 24h --rho 0.999999 --renew 0.000001ms --processes 1000000000 --leases 1000000000 --json
ends_with 1
check_json
has '"failover_crash_ns":9223372036854775807,'

t_case "the ends of every range are accepted"
for args in '--ttl 1s' '--ttl 24h' '--rho 0' '--rho 0.000001' '--rtt 0s' '--pause 0ms' \
    '--grace 0m' \
    '--renew 0.000001ms' '--processes 1000000000' '--leases 1000000000' \
    '--processes 1000000000 --leases 1000000000'; do
    # shellcheck disable=SC2086 # Words are meant to be split.
    plan $args
    ends_with 0
done
for args in '--rho 0.999999' '--rtt 24h' '--pause 24h' '--grace 24h' '--margin 24h' '--margin 0s' \
    '--renew 14.999999999s'; do
    # shellcheck disable=SC2086 # Words are meant to be split.
    plan $args
    ends_with 1
done

t_case "bad input is one line and exit 64"
bad "tenure plan: --ttl: '5' has no unit; write 5s, 500ms, 2m or 1h" --ttl 5
bad "--ttl: '-3s' is negative" --ttl -3s
bad "--ttl: '-3s' is negative" --ttl=-3s
bad "--ttl: '99999999999999999999h' is too long; give at most 24h" --ttl 99999999999999999999h
bad "--ttl: '24.1h' is too long" --ttl 24.1h
bad "--ttl: '999ms' is too short; give at least 1s" --ttl 999ms
bad "--ttl: '0s' is too short" --ttl 0s
bad "--ttl: 'soon' is not a duration" --ttl soon
bad "--ttl: the value is empty" --ttl ''
bad "--ttl lacks its value" --ttl
bad "--ttl lacks its value" --ttl --json
bad "--rho: '2' is not a rate" --rho 2
bad "--rho: '1' is not a rate" --rho 1
bad "--rho: '-0.1' is not a rate" --rho -0.1
bad "--rho: '0.0000001' is not a rate" --rho 0.0000001
bad "--rho: 'nan' is not a rate" --rho nan
bad "--renew: '0s' is too short; give more than zero" --renew 0s
bad "--renew: 15s is not below the TTL of 15s" --renew 15s
bad "--renew: 15s is not below the TTL of 10s" --renew 15s --ttl 10s
bad "--rtt: '25h' is too long" --rtt 25h
bad "--pause: '-1ms' is negative" --pause -1ms
bad "--grace: '5' has no unit" --grace 5
bad "--margin: '24.5h' is too long" --margin 24.5h
bad "--processes: '0' is too small" --processes 0
bad "--processes: '1000000001' is too large" --processes 1000000001
bad "--processes: '18446744073709551616' is too large" --processes 18446744073709551616
bad "--processes: '-1' is not a whole number" --processes -1
bad "--leases: '0' is too small" --leases 0
bad "--leases: '1.5' is not a whole number" --leases 1.5
bad "--leases: '1000000001' is too large" --leases 1000000001
bad "--ttl is there twice" --ttl 15s --ttl 15s
bad "--json is there twice" --json --json
bad "--json takes no value" --json=yes
bad "unknown option '--tll'; did you mean --ttl?" --tll 15s
bad "unknown option '-x'" -x
bad "'extra' is one word too many" extra
bad "'--ttl' is one word too many" -- --ttl 5s
bad "--ttl: '\\x1b[31m\\n.' is not a duration" --ttl "$(printf '\033[31m\n.')"
bad "...' is not a duration; write a number and a unit" --ttl "$(printf 'x%01000d' 1)"

t_done
