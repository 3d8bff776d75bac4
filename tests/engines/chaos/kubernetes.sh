#!/bin/sh
# kubernetes.sh - random runs on Leases: candidates are stopped and killed, the API server is, and
# the network.
# shellcheck source=tests/harness/lib.sh
. "${TENURE_ROOT:-$(dirname "$0")/../../..}/tests/harness/lib.sh"
# shellcheck source=tests/engines/kubernetes.lib
. "$TENURE_ROOT/tests/engines/kubernetes.lib"
# shellcheck source=tests/live/faults.lib
. "$TENURE_ROOT/tests/live/faults.lib"
kube_need
kube_start || t_done
kube_faults_of_one
# shellcheck disable=SC2034 # For faults.lib.
chaos_ttl=5
# shellcheck disable=SC2154 # kube_start sets it.
chaos_runs "$kube_port"
t_done
