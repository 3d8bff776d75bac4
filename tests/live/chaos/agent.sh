#!/bin/sh
# agent.sh - processes, their agents and the store above them are stopped, killed, started again,
# cut off and slowed down, two of those at a time and at random; see agent_chaos.py.
# TENURE_CHAOS_RUNS: how many (20 by default, 300 before a release); TENURE_CHAOS_SEED repeats them.
TENURE_ROOT=${TENURE_ROOT:-$(cd "$(dirname "$0")/../../.." && pwd)}
# shellcheck source=tests/harness/lib.sh
. "$TENURE_ROOT/tests/harness/lib.sh"
# shellcheck source=tests/live/etcd.lib
. "$TENURE_ROOT/tests/live/etcd.lib"
etcd_need

seed=${TENURE_CHAOS_SEED:-$(($(date +%s) % 1000000))}
t_case "never two leaders, terms end in time, and somebody leads again"
# shellcheck disable=SC2046 # Words.
t_run python3 "$TENURE_ROOT/tests/live/agent_chaos.py" "${TENURE_CHAOS_RUNS:-20}" "$seed" \
    "$t_dir" $(t_ports 6)
cat "$t_out"
t_promise "seed $seed: $(tail -n 2 "$t_err")" [ "$t_status" -eq 0 ]
t_done
