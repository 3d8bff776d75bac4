#!/bin/sh
# s3_faults.sh - what a server of S3 that crashes, stops or is cut off does to a term.
# shellcheck source=tests/harness/lib.sh
. "${TENURE_ROOT:-$(dirname "$0")/../..}/tests/harness/lib.sh"
# shellcheck source=tests/engines/s3.lib
. "$TENURE_ROOT/tests/engines/s3.lib"
# shellcheck source=tests/live/faults.lib
. "$TENURE_ROOT/tests/live/faults.lib"
s3_need
# shellcheck disable=SC2034 # For faults.lib.
long=30 short=6 line_hows=KILL

t_case "a server starts"
t_check "it runs" s3_start
faults_replay "$port" 30
faults_one "$port"
t_done
