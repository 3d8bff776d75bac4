#!/bin/sh
# proxies.sh - the load balancers of tests/live/proxies.sh, through 50 changes of the leader.
TENURE_ROOT=${TENURE_ROOT:-$(cd "$(dirname "$0")/../../.." && pwd)}
TENURE_HANDOVERS=${TENURE_HANDOVERS:-50}
# shellcheck source=tests/live/proxies.sh
. "$TENURE_ROOT/tests/live/proxies.sh"
