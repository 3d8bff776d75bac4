#!/bin/sh
# zookeeper.sh - a connection to ZooKeeper that is cut both ways, one way, or trickles, and then
# fifty random faults; the timestamps of the commands show that no two ever ran at once.
TENURE_ROOT=${TENURE_ROOT:-$(cd "$(dirname "$0")/../../.." && pwd)}
# shellcheck source=tests/harness/lib.sh
. "$TENURE_ROOT/tests/harness/lib.sh"
# shellcheck source=tests/harness/zookeeper.sh
. "$TENURE_ROOT/tests/harness/zookeeper.sh"

tenure=$TENURE_BUILD/tenure

zk_need
# shellcheck disable=SC2046 # Words.
set -- $("$zk_py" ports 2)
port=$1 proxy_port=$2
hosts=zookeeper://127.0.0.1:$port
relayed=zookeeper://127.0.0.1:$proxy_port
zk_make one "$port"
if ! zk_start one; then
    t_case "a server"
    t_fail "it does not start"
    t_done
fi

mkfifo "$t_dir/orders"
"$zk_py" proxy "$proxy_port" "$port" <"$t_dir/orders" >"$t_dir/proxy" &
exec 7>"$t_dir/orders"
t_case "through a relay"
t_check "there is one" until_line "$t_dir/proxy" ready

# cut MODE: who is behind the relay is cut off; the other takes over, and not too early.
cut() {
    t_case "$1: the one behind it loses its term in time, the other takes over"
    campaign "behind-$1" "$relayed/faults" 3s
    behind=$!
    t_check "won" until_won "behind-$1" 1 20
    campaign "beside-$1" "$hosts/faults" 3s
    beside=$!
    t_check "the other waits" until_line "$t_dir/beside-$1" '"event":"leader"'
    echo "$1" >&7
    t_check "lost" until_line "$t_dir/behind-$1" '"event":"lost".*"reason":"expired"' 5
    # When one wins, the other must have said that it lost.
    t_check "taken over" until_won "beside-$1" 1 20
    t_check "larger" [ "$(token_of "beside-$1")" -gt "$(token_of "behind-$1")" ]
    echo heal >&7
    end $behind
    end $beside
}
cut cut
cut cut-up
cut cut-down
cut trickle

t_case "a connection that breaks costs no term"
campaign breaks "$relayed/faults" 6s
breaks=$!
t_check "won" until_won breaks 1 20
for time in 1 2 3; do
    echo drop >&7
    t_check "dropped" until_line "$t_dir/proxy" '^drop'
    sleep 0.3
    echo heal >&7
    sleep 2
done
t_refute "it was not lost" grep -q '"event":"lost"' "$t_dir/breaks"
end $breaks
t_check "ends well" [ "$status" -eq 0 ]

# --- At random --------------------------------------------------------------------------------

runs=${TENURE_CHAOS_RUNS:-50}
seed=${TENURE_CHAOS_SEED:-$(date +%s)}
# below N: the next number of a small generator, so that a seed repeats its run.
below() {
    seed=$(((seed * 1103515245 + 12345) % 2147483648))
    below=$((seed / 65536 % $1))
}

mkdir "$t_dir/beats"
cat >"$t_dir/worker" <<END
#!/bin/sh
while :; do
    echo "\$TENURE_TOKEN \$(date +%s%N)"
    sleep 0.02
done >>"$t_dir/beats/\$TENURE_ID.\$TENURE_TOKEN"
END
chmod +x "$t_dir/worker"

# candidate ID URL: in a session of its own. Where one process of a group is stopped and the group
# loses its parent, the kernel hangs up on all of it, and this script would be part of it.
candidate() {
    setsid "$tenure" run --store "$2" --ttl 2s --grace 100ms --id "$1" random -- "$t_dir/worker" \
        >>"$t_dir/$1.log" 2>&1 7>&- &
    eval "pid_$1=$!"
}

# Somebody works: there is a beat that was not there before.
beats() { cat "$t_dir"/beats/* 2>/dev/null | wc -l; }
working() {
    was=$(beats) left=1500
    until [ "$(beats)" -gt "$was" ]; do
        left=$((left - 1))
        [ $left -gt 0 ] || return 1
        sleep 0.02
    done
}

# pause: up to four seconds.
pause() {
    below 40
    sleep "$((below / 10)).$((below % 10))"
}

# leader: who worked last: its id, its process and its way to the server.
leader() {
    # shellcheck disable=SC2012 # The names are ours.
    id=$(ls -t "$t_dir/beats" | head -n 1)
    id=${id%%.*}
    eval "pid=\$pid_$id"
    url=$relayed/random
    [ "$id" != c ] || url=$hosts/random
}

# relay MODE: for a while.
relay() {
    echo "$1" >&7
    pause
    echo heal >&7
}

fault() {
    below 9
    what=$below
    case $what in
    0) relay cut ;;
    1) relay cut-up ;;
    2) relay cut-down ;;
    3) relay trickle ;;
    4) relay drop ;;
    5)
        kill -STOP "$(zk_pid one)"
        pause
        kill -CONT "$(zk_pid one)"
        ;;
    6)
        zk_kill one
        pause
        zk_start one
        ;;
    7)
        leader
        kill -STOP "$pid"
        pause
        # Its own group has no parent either: it may have been hung up on.
        kill -CONT "$pid" 2>/dev/null || candidate "$id" "$url"
        ;;
    8)
        leader
        kill -KILL "$pid"
        wait "$pid" 2>/dev/null
        candidate "$id" "$url"
        ;;
    esac
}

t_case "$runs random faults from seed $seed: no two commands at once, and somebody works again"
candidate a "$relayed/random"
candidate b "$relayed/random"
candidate c "$hosts/random"
t_check "somebody works" working
for run in $(seq "$runs"); do
    fault
    t_check "run $run, fault $what: somebody works again" working
done
for id in a b c; do
    eval "end \$pid_$id"
done
t_run "$zk_py" beats "$t_dir/beats"
t_check "no two at once, tokens rise: $(cat "$t_err")" [ "$t_status" -eq 0 ]
cat "$t_out"
t_check "several terms" [ "$(sed -n 's/^terms //p' "$t_out")" -ge $((runs / 4)) ]
exec 7>&-

t_done
