#!/bin/sh
# peers.sh - make bench still runs: a moment of everything, on every server that is installed.
. "$(dirname "$0")/../harness/lib.sh"

for command in redis-server redis-benchmark etcd java; do
    if ! command -v $command >/dev/null 2>&1; then
        t_case "the servers of make bench"
        t_skip "no $command: tools/deps servers bench"
        t_done
    fi
done

t_case "a moment of everything"
BENCH_RUNS=1 BENCH_SECONDS=0.1 BENCH_LEASES=500 BENCH_MANY=2000 BENCH_OUT="$t_dir/out" \
    timeout 300 "$TENURE_ROOT/bench/peers" "$TENURE_BUILD" >"$t_out" 2>"$t_err" || t_status=$?
t_check "exit status is 0: $(cat "$t_err")" [ "$t_status" -eq 0 ]
t_check "all servers take part" grep -q \
    'starting: floor tenured redis-aof redis-memory etcd zookeeper postgres$' "$t_err"
for server in tenured redis-aof redis-memory etcd zookeeper postgres; do
    for work in start idle lease acquire-1 acquire-64 acquire-256 renew handover failover; do
        t_check "$work on $server" grep -Eq "^$work $server -?[0-9.]+\$" "$t_dir/out/values"
    done
done
for server in tenured redis-memory; do
    t_check "many leases on $server" grep -Eq "^many-lease $server [0-9.]+\$" "$t_dir/out/values"
    t_check "pipelined on $server" grep -Eq "^pipelined $server [0-9.]+\$" "$t_dir/out/values"
done
for work in many-acquire many-acquire-empty many-restart; do
    t_check "$work" grep -Eq "^$work tenured [0-9.]+\$" "$t_dir/out/values"
done

t_case "the table and the picture"
t_check "has the floor" grep -q '256 connections .* floor .* >= 0.8' "$t_dir/out/peers.md"
t_check "is what was printed" cmp -s "$t_out" "$t_dir/out/peers.md"
t_check "the picture is XML" python3 -c \
    'import sys, xml.dom.minidom as x; x.parse(sys.argv[1])' "$t_dir/out/peers.svg"

t_case "a ratio that is not reached is said"
printf '%s\n' 'acquire-256 tenured 100' 'acquire-256 floor 200' 'renew tenured 300' \
    'renew redis-memory 100' >"$t_dir/made-up"
t_run awk -v runs=1 -v svg="$t_dir/svg" -f "$TENURE_ROOT/bench/report.awk" "$t_dir/made-up"
t_prints '0.50 (0.50 to 0.50) | >= 0.8 | no |'
t_prints '3.00 (3.00 to 3.00) | >= 1.2 | yes |'

t_case "what load does not know"
t_run "$TENURE_BUILD/bench/load" nothing acquire tcp:1
t_check "status" [ "$t_status" -ne 0 ]
t_check "says why" grep -q 'no such server: nothing' "$t_err"
t_bad 'usage: load' "$TENURE_BUILD/bench/load" tenured acquire
t_done
