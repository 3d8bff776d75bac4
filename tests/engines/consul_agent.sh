#!/bin/sh
# consul_agent.sh - agents above Consul: when a leading process is killed, another host's leads.
# shellcheck source=tests/harness/lib.sh
. "${TENURE_ROOT:-$(dirname "$0")/../..}/tests/harness/lib.sh"
# shellcheck source=tests/engines/consul.lib
. "$TENURE_ROOT/tests/engines/consul.lib"
# shellcheck source=tests/live/agent.lib
. "$TENURE_ROOT/tests/live/agent.lib"

consul_need
t_case "consul: a process is killed"
t_check "starts" consul_start
upstream=$(url "$port")
fails_over
t_done
