#!/bin/sh
# redis.sh - candidates on one Redis server that keeps its data, hurt at random: their commands
# never overlap; see faults.lib.
TENURE_ROOT=${TENURE_ROOT:-$(cd "$(dirname "$0")/../../.." && pwd)}
# shellcheck source=tests/harness/lib.sh
. "$TENURE_ROOT/tests/harness/lib.sh"
# shellcheck source=tests/live/redis.inc
. "$TENURE_ROOT/tests/live/redis.inc"
# shellcheck source=tests/live/faults.lib
. "$TENURE_ROOT/tests/live/faults.lib"
rd_begin
t_case "a server"
t_check "it runs" rd_start 1
rd_faults 1
chaos_runs "$(rd_port 1)"
t_done
