#!/bin/sh
# postgres.sh - candidates on one PostgreSQL server, hurt at random: their commands never overlap;
# see faults.lib.
TENURE_ROOT=${TENURE_ROOT:-$(cd "$(dirname "$0")/../../.." && pwd)}
# shellcheck source=tests/harness/lib.sh
. "$TENURE_ROOT/tests/harness/lib.sh"
# shellcheck source=tests/live/postgres.inc
. "$TENURE_ROOT/tests/live/postgres.inc"
# shellcheck source=tests/live/faults.lib
. "$TENURE_ROOT/tests/live/faults.lib"
pg_begin
pg_init
t_case "a server"
t_check "it runs" pg_start
pg_faults
chaos_runs "$pg_port"
t_done
