#!/bin/sh
# dynamodb.sh - random runs on a DynamoDB: candidates are stopped and killed, the server is, and the
# network.
# shellcheck source=tests/harness/lib.sh
. "${TENURE_ROOT:-$(dirname "$0")/../../..}/tests/harness/lib.sh"
# shellcheck source=tests/engines/dynamodb.lib
. "$TENURE_ROOT/tests/engines/dynamodb.lib"
# shellcheck source=tests/live/faults.lib
. "$TENURE_ROOT/tests/live/faults.lib"
dynamodb_need

t_case "a server starts"
# shellcheck disable=SC2034 # For dynamodb_start: what was written outlives the server.
dynamodb_data="--db-path $t_dir/dynamo.db"
t_check "it runs" dynamodb_start
# shellcheck disable=SC2034 # For faults.lib.
chaos_ttl=3
# shellcheck disable=SC2154 # dynamodb_start sets it.
chaos_runs "$port"
t_done
