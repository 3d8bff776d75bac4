#!/bin/sh
# move.sh - elections that move among sqlite, tenured and etcd, with the move killed at every step:
# one leader at a time, and tokens that rise over both stores. TENURE_CHAOS_RUNS, 100.
TENURE_ROOT=${TENURE_ROOT:-$(cd "$(dirname "$0")/../../.." && pwd)}
# shellcheck source=tests/harness/lib.sh
. "$TENURE_ROOT/tests/harness/lib.sh"
# shellcheck source=tests/live/tenured.lib
. "$TENURE_ROOT/tests/live/tenured.lib"
# shellcheck source=tests/live/etcd.lib
. "$TENURE_ROOT/tests/live/etcd.lib"
# shellcheck source=tests/live/move.lib
. "$TENURE_ROOT/tests/live/move.lib"

move_begin
move_load
for run in $(seq "${TENURE_CHAOS_RUNS:-100}"); do
    t_case "run $run"
    move_run "$run"
done

t_case "a kill has met every step"
sort "$t_dir/states" | uniq -c | sed 's/^/# killed at: /'
# "led free" is before and behind the raise of the counter, which no name shows.
for state in "led free" "led reserved" "moved begun" "moved reserved" "moved led"; do
    t_check "$state" grep -qx "$state" "$t_dir/states"
done
t_done
