#!/bin/sh
# kubernetes_console.sh - `tenure console` on a kube-apiserver, in a real browser.
# shellcheck source=tests/harness/lib.sh
. "${TENURE_ROOT:-$(dirname "$0")/../..}/tests/harness/lib.sh"
# shellcheck source=tests/web/web.lib
. "$TENURE_ROOT/tests/web/web.lib"
# shellcheck source=tests/engines/kubernetes.lib
. "$TENURE_ROOT/tests/engines/kubernetes.lib"

kube_need
t_case "kubernetes:"
t_check "starts" kube_start
console_on "kubernetes=$url"
t_done
