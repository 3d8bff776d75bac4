#!/bin/sh
# dynamodb_agent.sh - agents above DynamoDB: when a leading process is killed, another host's leads.
# shellcheck source=tests/harness/lib.sh
. "${TENURE_ROOT:-$(dirname "$0")/../..}/tests/harness/lib.sh"
# shellcheck source=tests/engines/dynamodb.lib
. "$TENURE_ROOT/tests/engines/dynamodb.lib"
# shellcheck source=tests/live/agent.lib
. "$TENURE_ROOT/tests/live/agent.lib"

dynamodb_need
t_case "dynamodb: a process is killed"
t_check "starts" dynamodb_start
upstream=$(url "$port")
fails_over
t_done
