#!/bin/sh
# s3_agent.sh - agents above S3: when a leading process is killed, another host's leads.
# shellcheck source=tests/harness/lib.sh
. "${TENURE_ROOT:-$(dirname "$0")/../..}/tests/harness/lib.sh"
# shellcheck source=tests/engines/s3.lib
. "$TENURE_ROOT/tests/engines/s3.lib"
# shellcheck source=tests/live/agent.lib
. "$TENURE_ROOT/tests/live/agent.lib"

s3_need
t_case "s3: a process is killed"
t_check "starts" s3_start
upstream=$(url "$port")
fails_over
t_done
