#!/bin/sh
# s3.sh - random runs on MinIO: candidates are stopped and killed, the server is, and the network.
# shellcheck source=tests/harness/lib.sh
. "${TENURE_ROOT:-$(dirname "$0")/../../..}/tests/harness/lib.sh"
# shellcheck source=tests/engines/s3.lib
. "$TENURE_ROOT/tests/engines/s3.lib"
# shellcheck source=tests/live/faults.lib
. "$TENURE_ROOT/tests/live/faults.lib"
s3_need

t_case "a server starts"
t_check "it runs" s3_start
# shellcheck disable=SC2034 # For faults.lib.
chaos_ttl=5
chaos_runs "$port"
t_done
