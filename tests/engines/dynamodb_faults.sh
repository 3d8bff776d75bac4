#!/bin/sh
# dynamodb_faults.sh - the DynamoDB store through a server that is killed, stopped and cut off.
# shellcheck source=tests/harness/lib.sh
. "${TENURE_ROOT:-$(dirname "$0")/../..}/tests/harness/lib.sh"
# shellcheck source=tests/engines/dynamodb.lib
. "$TENURE_ROOT/tests/engines/dynamodb.lib"
# shellcheck source=tests/live/faults.lib
. "$TENURE_ROOT/tests/live/faults.lib"
dynamodb_need

# shellcheck disable=SC2034 # For dynamodb_start: what was written outlives the server.
dynamodb_data="--db-path $t_dir/dynamo.db"
dynamodb_start || t_done
# shellcheck disable=SC2154 # dynamodb_start sets it.
faults_replay "$port" 30
faults_one "$port"
t_done
