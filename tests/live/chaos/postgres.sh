#!/bin/sh
# postgres.sh - random runs on a PostgreSQL server that is killed, stopped and cut off, with
# candidates that are killed and stopped.
#
# usage: postgres.sh [ROUNDS [SEED]]      a round is ten elections at once; the seed is printed
#
# Every election has three candidates, one of them behind a proxy. Their commands write down when
# they act and with which token. No two terms may act at one time, and when the faults are over
# somebody must lead.
TENURE_ROOT=${TENURE_ROOT:-$(cd "$(dirname "$0")/../../.." && pwd)}
# shellcheck source=tests/harness/lib.sh
. "$TENURE_ROOT/tests/harness/lib.sh"
# shellcheck source=tests/live/postgres.inc
. "$TENURE_ROOT/tests/live/postgres.inc"

rounds=${1:-5}
seed=${2:-$(date +%s)}
elections=10
tenure=$TENURE_BUILD/tenure
echo "seed $seed"

if ! pg_find; then
    t_case "a server"
    t_skip "PostgreSQL is not installed; install postgresql"
    t_done
fi

proxy='' candidates=''
finish() {
    for pid in $candidates $proxy; do
        kill -CONT "$pid" 2>/dev/null
        kill -KILL "$pid" 2>/dev/null
    done
    pg_clean
    rm -rf "$t_dir"
}
trap finish EXIT

# draw N: sets drawn to a number from 0 to N - 1.
draw() {
    seed=$(((seed * 1103515245 + 12345) % 2147483648))
    drawn=$((seed / 65536 % $1))
}

pause_ms() {
    until_ms=$(($(now_ms) + $1))
    until [ "$(now_ms)" -ge $until_ms ]; do
        sleep 0.05
    done
}

cat >"$t_dir/act" <<'END'
#!/bin/sh
while :; do
    echo "$TENURE_TOKEN $(date +%s%N)" >>"$1"
    sleep 0.1
done
END
chmod +x "$t_dir/act"

# start NAME URL: a candidate.
start() {
    "$tenure" run --store "$2" --ttl "$ttl" --grace 200ms "$1" -- "$t_dir/act" \
        "$t_dir/$(basename "$1")" >/dev/null 2>&1 &
    candidates="$candidates $!"
}

# one_of: sets chosen to a candidate.
one_of() {
    # shellcheck disable=SC2086 # A list of numbers.
    set -- $candidates
    draw $#
    shift "$drawn"
    chosen=$1
}

break_something() {
    draw 8
    case $drawn in
    0)
        pg_stop immediate
        draw 5000
        pause_ms "$drawn"
        pg_start
        ;;
    1)
        pg_kill STOP
        draw 5000
        pause_ms "$drawn"
        pg_kill CONT
        ;;
    2) echo cut >&7 ;;
    3 | 4)
        draw 3
        case $drawn in
        0) echo stall >&7 ;;
        1) echo up >&7 ;;
        *) echo down >&7 ;;
        esac
        draw 5000
        pause_ms "$drawn"
        echo pass >&7
        echo cut >&7
        ;;
    5 | 6)
        for _ in 1 2 3; do
            one_of
            kill -KILL "$chosen" 2>/dev/null
        done
        ;;
    *)
        one_of
        kill -STOP "$chosen" 2>/dev/null
        draw 5000
        pause_ms "$drawn"
        kill -CONT "$chosen" 2>/dev/null
        ;;
    esac
}

# apart FILE: in the order of their acts, tokens only rise.
apart() { sort -k 2n "$1" | awk '$1 < last { bad = 1 } { last = $1 } END { exit bad }'; }

# led_since FILE MS: somebody has acted since, within half a minute.
led_since() {
    left=600
    until [ "$(tail -n 1 "$1" 2>/dev/null | cut -d ' ' -f 2 | grep . || echo 0)" \
        -gt "${2}000000" ]; do
        left=$((left - 1))
        [ $left -gt 0 ] || return 1
        sleep 0.05
    done
}

t_case "a server and a proxy start"
pg_init "fsync = off" && pg_start
mkfifo "$t_dir/words"
"$TENURE_BUILD/tests/fixtures/proxy" "$pg_port" <"$t_dir/words" >"$t_dir/proxy.out" &
proxy=$!
exec 7>"$t_dir/words"
t_check "they run" until_line "$t_dir/proxy.out" "^[0-9]"
direct="postgres://tester@127.0.0.1:$pg_port/postgres?sslmode=disable&durability=relaxed"
through="postgres://tester@127.0.0.1:$(head -n 1 "$t_dir/proxy.out")/postgres?sslmode=disable"
through="$through&durability=relaxed"

round=0
while [ $round -lt "$rounds" ]; do
    round=$((round + 1))
    candidates=''
    draw 3
    ttl=$((drawn + 3))s
    i=0
    while [ $i -lt $elections ]; do
        i=$((i + 1))
        start "chaos/$round.$i" "$direct"
        start "chaos/$round.$i" "$through"
        start "chaos/$round.$i" "$direct"
    done
    for _ in 1 2 3 4; do
        draw 3000
        pause_ms "$drawn"
        break_something
    done
    # One fresh candidate each: the faults may have killed all there were.
    calm=$(now_ms)
    i=0
    while [ $i -lt $elections ]; do
        i=$((i + 1))
        start "chaos/$round.$i" "$direct"
    done
    i=0
    while [ $i -lt $elections ]; do
        i=$((i + 1))
        t_case "round $round, election $i, ttl $ttl"
        t_check "somebody leads in the end" led_since "$t_dir/$round.$i" "$calm"
        t_check "no two acted at one time" apart "$t_dir/$round.$i"
    done
    for pid in $candidates; do
        kill -TERM "$pid" 2>/dev/null
    done
    for pid in $candidates; do
        wait "$pid" 2>/dev/null
    done
    i=0
    while [ $i -lt $elections ]; do
        i=$((i + 1))
        apart "$t_dir/$round.$i" || t_fail "two acted at one time in election $i"
    done
done
exec 7>&-
t_done
