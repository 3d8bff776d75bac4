#!/bin/sh
# redis_faults.sh - what a Redis server that crashes, stops, is cut off or loses its data does to a
# term; and what Sentinel does about it.
# shellcheck source=tests/harness/lib.sh
. "${TENURE_ROOT:-$(dirname "$0")/../..}/tests/harness/lib.sh"
# shellcheck source=tests/live/redis.inc
. "$TENURE_ROOT/tests/live/redis.inc"
# shellcheck source=tests/live/faults.lib
. "$TENURE_ROOT/tests/live/faults.lib"
rd_begin

t_case "a server starts"
t_check "it runs" rd_start 1
rd_faults 1
faults_replay "$(rd_port 1)" 30

t_case "a resign hands over at once, a crash after the TTL"
here=$(rd_url 1)
queues() { rd_says 1 1 ZCARD "{tenure}:q:job"; }
candidate ada job "$here" 4s
ada=$!
until_acted job 0
candidate bob job "$here" 4s
bob=$!
t_check "bob is in the queue" until_true 20 queues
asked=$(now_ms)
end $ada
until_acted job "$token"
took=$(($(now_ms) - asked))
t_check "handed over in $took ms, not after a TTL" [ $took -lt 2500 ]
candidate eve job "$here" 4s
t_check "eve is in the queue" until_true 20 queues
kill -KILL $bob
asked=$(now_ms)
until_acted job "$token"
took=$(($(now_ms) - asked))
t_check "taken over in $took ms: after the TTL, not much later" [ $took -gt 2500 ]
t_check "taken over in $took ms" [ $took -lt 12000 ]
t_promise "no two acted at one time" apart job
end_all

faults_one "$(rd_port 1)"

t_case "a server that has lost its data: nobody who knows leads with a lower token, and says why"
rd 1 SET "{tenure}:token" 00000000000000001000 >/dev/null
candidate ada gone "$here" 3s
until_acted gone 1000
rd_kill 1 KILL
rd_empty 1
t_check "it is back, empty" rd_start 1
t_check "ada refuses: $(cat "$t_dir/gone.err")" \
    until_line "$t_dir/gone.err" "refused to lead with token [0-9]*: token-regressed" 30
t_check "and names the remedy: $(cat "$t_dir/gone.err")" \
    grep -q "redis-cli SET {tenure}:token 0000000000000000100[0-9]$" "$t_dir/gone.err"
t_promise "and nobody has led with a lower one" apart gone
rd 1 SET "{tenure}:token" 00000000000000002000 >/dev/null
until_acted gone 2000
end_all
t_promise "until the counter is put right" apart gone

t_case "Sentinel: the master is found, and after a failover the next one"
t_check "a replica runs" rd_start 2 --replicaof 127.0.0.1 "$(rd_port 1)"
for n in 3 4 5; do
    port=$(rd_port $n)
    {
        echo "port $port"
        echo "bind 127.0.0.1"
        echo "dir $t_dir/rd$n"
        echo "sentinel monitor main 127.0.0.1 $(rd_port 1) 2"
        echo "sentinel down-after-milliseconds main 1000"
        echo "sentinel failover-timeout main 5000"
    } >"$t_dir/rd$n/sentinel.conf"
    redis-server "$t_dir/rd$n/sentinel.conf" --sentinel >"$t_dir/rd$n/log" 2>&1 &
    echo $! >"$t_dir/rd$n/pid"
done
knows() { rd 3 SENTINEL master main 2>/dev/null | tr '\n' ' ' | grep -q "$1"; }
t_check "they know the replica and each other" \
    until_true 60 knows "num-slaves 1 num-other-sentinels 2"
sentinels=127.0.0.1:$(rd_port 3),127.0.0.1:$(rd_port 4),127.0.0.1:$(rd_port 5)
refuses 69 "this Sentinel knows no such master" "redis+sentinel://$sentinels/nobody"
candidate ada sent "redis+sentinel://$sentinels/main" 20s
until_acted sent 0
kept=$token
# The older form of the same.
candidate bob sent "redis://$sentinels?sentinel=main" 20s
t_check "bob is in the queue, at the replica, too" until_true 20 rd_says 2 1 ZCARD "{tenure}:q:sent"
hurt_at=$(now_ms)
rd_kill 1 KILL
is_master() { rd "$1" ROLE | head -n 1 | grep -qx master; }
t_check "the replica is made master" until_true 60 is_master 2
until_ms $((hurt_at + 21000))
t_check "the same term: what was replicated counts" [ "$(acted sent)" = "$kept" ]
t_check "acts: $(cat "$t_dir/sent.err")" [ "$(acted_at sent)" -ge $((hurt_at + 19000)) ]
t_check "the old one comes back as a replica, and is left alone" rd_start 1
end_all
t_promise "one after the other" apart sent

t_case "Sentinel: a new term after the failover has a higher token; doctor says what it is"
t_run timeout 60 "$tenure" run --store "redis+sentinel://$sentinels/main" --ttl 3s --wait 50s sent \
    -- sh -c 'echo $TENURE_TOKEN'
t_check "leads: $(cat "$t_err")" [ "$t_status" -eq 0 ]
t_check "$(cat "$t_out") is above $kept" [ "$(cat "$t_out")" -gt "$kept" ]
t_run "$tenure" doctor --for 50ms "redis+sentinel://$sentinels/main"
t_check "advisory: $(cat "$t_out" "$t_err")" grep -q advisory "$t_out"

t_case "Sentinel: a majority of the Sentinels is gone: who the master is, the last one still knows"
rd_kill 3 KILL
rd_kill 4 KILL
leads "redis+sentinel://$sentinels/main"
t_done
