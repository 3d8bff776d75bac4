#!/bin/sh
# s3_console.sh - `tenure console` on MinIO, in a real browser.
# shellcheck source=tests/harness/lib.sh
. "${TENURE_ROOT:-$(dirname "$0")/../..}/tests/harness/lib.sh"
# shellcheck source=tests/web/web.lib
. "$TENURE_ROOT/tests/web/web.lib"
# shellcheck source=tests/engines/s3.lib
. "$TENURE_ROOT/tests/engines/s3.lib"

s3_need
t_case "s3:"
t_check "starts" s3_start
console_on "s3=$(url "$port")"
t_done
