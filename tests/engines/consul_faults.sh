#!/bin/sh
# consul_faults.sh - what a server of Consul that crashes, stops or is cut off does to a term.
# shellcheck source=tests/harness/lib.sh
. "${TENURE_ROOT:-$(dirname "$0")/../..}/tests/harness/lib.sh"
# shellcheck source=tests/engines/consul.lib
. "$TENURE_ROOT/tests/engines/consul.lib"
# shellcheck source=tests/live/faults.lib
. "$TENURE_ROOT/tests/live/faults.lib"
consul_need
# shellcheck disable=SC2034 # For faults.lib.
long=30 short=4 line_hows=KILL

t_case "a server starts"
t_check "it runs" consul_start
faults_one "$port"
t_done
