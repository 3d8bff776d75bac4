#!/bin/sh
# consul.sh - random runs on Consul: candidates are stopped and killed, the server is, and the
# network.
# shellcheck source=tests/harness/lib.sh
. "${TENURE_ROOT:-$(dirname "$0")/../../..}/tests/harness/lib.sh"
# shellcheck source=tests/engines/consul.lib
. "$TENURE_ROOT/tests/engines/consul.lib"
# shellcheck source=tests/live/faults.lib
. "$TENURE_ROOT/tests/live/faults.lib"
consul_need

t_case "a server starts"
t_check "it runs" consul_start
chaos_runs "$port"
t_done
