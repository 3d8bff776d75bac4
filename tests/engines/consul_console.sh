#!/bin/sh
# consul_console.sh - `tenure console` on Consul, in a real browser.
# shellcheck source=tests/harness/lib.sh
. "${TENURE_ROOT:-$(dirname "$0")/../..}/tests/harness/lib.sh"
# shellcheck source=tests/web/web.lib
. "$TENURE_ROOT/tests/web/web.lib"
# shellcheck source=tests/engines/consul.lib
. "$TENURE_ROOT/tests/engines/consul.lib"

consul_need
t_case "consul:"
t_check "starts" consul_start
console_on "consul=$(url "$port")"
t_done
