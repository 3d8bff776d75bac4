#!/bin/sh
# kubernetes_agent.sh - agents above Kubernetes: another host's process leads when one is killed.
# shellcheck source=tests/harness/lib.sh
. "${TENURE_ROOT:-$(dirname "$0")/../..}/tests/harness/lib.sh"
# shellcheck source=tests/engines/kubernetes.lib
. "$TENURE_ROOT/tests/engines/kubernetes.lib"
# shellcheck source=tests/live/agent.lib
. "$TENURE_ROOT/tests/live/agent.lib"

kube_need
t_case "kubernetes: a process is killed"
t_check "starts" kube_start
upstream=$url
fails_over
t_done
