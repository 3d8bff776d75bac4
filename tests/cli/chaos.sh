#!/bin/sh
# chaos.sh - a few of the random runs of `make check-chaos`, and proof that they can fail.
# shellcheck source=tests/harness/lib.sh
. "${TENURE_ROOT:-$(dirname "$0")/../..}/tests/harness/lib.sh"

chaos=$TENURE_BUILD/chaos/run

t_case "ten random runs: candidates are stopped, killed and asked to go, and no two act at one time"
t_run "$chaos" --at-once 10 10
t_ends 0
t_prints "no two at one time"
[ "$t_status" -eq 0 ] || cat "$t_out"

t_case "a process that no guardian knows is found"
t_run "$chaos" --plant 1
t_ends 0
t_prints "acts although a higher token has acted"

t_case "bad usage"
t_run "$chaos" --at-once 0
t_check "64" [ "$t_status" -eq 64 ]
t_check "says how" grep -q "^usage: " "$t_err"
t_done
