#!/bin/sh
# shifts.sh - a few hand-overs at random; tests/live/chaos/handover.sh has many, on all engines.
# shellcheck source=tests/harness/lib.sh
. "${TENURE_ROOT:-$(dirname "$0")/../..}/tests/harness/lib.sh"
# shellcheck source=tests/live/tenured.lib
. "$TENURE_ROOT/tests/live/tenured.lib"
# shellcheck source=tests/live/shifts.lib
. "$TENURE_ROOT/tests/live/shifts.lib"

echo "# TENURE_CHAOS_SEED=$shifts_seed"
tenured_start
# shellcheck disable=SC2154 # tenured.lib sets it.
for url in "sqlite:$t_dir/store.db" "unix:$socket"; do
    t_case "hand-overs at random: ${url%%:*}"
    shifts_begin "$url"
    for run in 1 2 3; do shifts_run $run; done
    holder=$(shifts_holder)
    other=$(echo "$shifts_ids" | tr ' ' '\n' | grep -vx "$holder" | head -n 1)
    t_check "somebody is there to drain" [ -n "$holder" ]
    shifts_drain 4
    shifts_rank 5
    shifts_end
done

t_case "a second leader is found"
printf 'won 1 100\nacts 1 300\n' >"$shifts_dir/ada"
printf 'won 2 200\nacts 2 400\n' >"$shifts_dir/bob"
: >"$shifts_dir/eve"
t_refute "two at once" shifts_in_turn
printf 'won 2 300\nacts 2 400\n' >"$shifts_dir/bob"
t_check "one after the other" shifts_in_turn

t_case "a gap that was not printed is found"
shifts_pressed=0
printf 'won 1 100\nend 1 1000000000\n' >"$shifts_dir/ada"
printf 'won 2 1090000000\n' >"$shifts_dir/bob"
t_check "90 ms" shifts_gap_fits 85 1 2
t_refute "not 10 ms" shifts_gap_fits 10 1 2
printf 'late 1050000000 70000000\n' >"$shifts_dir/eve"
t_check "the machine was busy for 70 ms" shifts_gap_fits 10 1 2

t_done
