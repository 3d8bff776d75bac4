#!/bin/sh
# etcd.sh - three of tenure run on one etcd, hurt at random: their commands never overlap.
#
# Each command writes its token and the time every 20 ms; what one wrote last must be before what
# the next one wrote first. ETCD_CHAOS_RUNS (50) is how many runs; the seed of each is printed when
# it fails, and ETCD_CHAOS_SEED rolls the same dice again.
. "$(dirname "$0")/../../harness/lib.sh"
. "$(dirname "$0")/../etcd.lib"
etcd_need

runs=${ETCD_CHAOS_RUNS:-50}
seed=${ETCD_CHAOS_SEED:-$(date +%s)}
# dice SIDES: sets $rolled, from 0.
dice() {
    seed=$(((seed * 1103515245 + 12345) % 2147483648))
    rolled=$((seed / 65536 % $1))
}

etcd_start one || t_done
# shellcheck disable=SC2154 # etcd_start sets it.
url=etcd://127.0.0.1:$port_one/chaos

# shellcheck disable=SC2016 # Expanded by the command's own shell.
work='while :; do echo "$TENURE_TOKEN $(($(date +%s%N) / 1000000))" >>"$0"; sleep 0.02; done'

is_over() { [ "$(date +%s%N)" -ge "$over_at" ]; }

hurt() {
    dice 3
    eval "pid=\$pid_of_$((rolled + 1))"
    dice 5
    # shellcheck disable=SC2154 # Set by the eval, and by etcd_spawn.
    case $rolled in
    0) kill -KILL "$pid" ;;
    1) kill -STOP "$pid" ;;
    2) kill -TERM "$pid" ;;
    3) etcd_stop one && etcd_again one ;;
    4) kill -STOP "$pid_one" ;;
    esac 2>/dev/null
    dice 3000
    over_at=$(($(date +%s%N) + (500 + rolled) * 1000000))
    until_true 10 is_over
    kill -CONT "$pid_one" 2>/dev/null
    kill -CONT "$pid" 2>/dev/null
}

# apart FILE: no two tokens share an instant, and a later one is a higher one.
apart() {
    awk '
        !($1 in first) || $2 < first[$1] { first[$1] = $2 }
        !($1 in last) || $2 > last[$1] { last[$1] = $2 }
        END { for (a in first) for (b in first)
                  if (0 + a < 0 + b && last[a] >= first[b]) exit 1 }' "$1"
}

t_case "the check can fail"
printf '5 100\n5 140\n7 130\n' >"$t_dir/bad"
t_refute "overlap" apart "$t_dir/bad"
printf '5 100\n5 120\n7 130\n' >"$t_dir/good"
t_check "apart" apart "$t_dir/good"

run=0 terms=0
while [ $run -lt "$runs" ]; do
    run=$((run + 1))
    t_case "run $run, seed $seed"
    for who in 1 2 3; do
        "$tenure" run --store "$url" --id "c$who" --ttl 2s "job$run" -- \
            sh -c "$work" "$t_dir/$run" >/dev/null 2>&1 &
        eval "pid_of_$who=$!"
        etcd_pids="$etcd_pids $!"
    done
    t_check "somebody leads" until_true 15 test -s "$t_dir/$run"
    hurt
    hurt
    for who in 1 2 3; do
        eval "kill -TERM \$pid_of_$who" 2>/dev/null
        eval "wait \$pid_of_$who" 2>/dev/null
    done
    t_check "apart" apart "$t_dir/$run"
    terms=$((terms + $(cut -d ' ' -f 1 "$t_dir/$run" | sort -u | wc -l)))
done
echo "$terms terms in $runs runs"
etcd_stop one
t_done
