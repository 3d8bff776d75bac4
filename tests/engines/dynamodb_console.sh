#!/bin/sh
# dynamodb_console.sh - `tenure console` on dynoxide, in a real browser.
# shellcheck source=tests/harness/lib.sh
. "${TENURE_ROOT:-$(dirname "$0")/../..}/tests/harness/lib.sh"
# shellcheck source=tests/web/web.lib
. "$TENURE_ROOT/tests/web/web.lib"
# shellcheck source=tests/engines/dynamodb.lib
. "$TENURE_ROOT/tests/engines/dynamodb.lib"

dynamodb_need
t_case "dynamodb:"
t_check "starts" dynamodb_start
console_on "dynamodb=$(url "$port")"
t_done
