#!/bin/sh
# tenured.sh - candidates on one tenured, hurt at random: their commands never overlap, see
# faults.lib. Those that are not cut off use the Unix socket, where the dead are followed at once.
TENURE_ROOT=${TENURE_ROOT:-$(cd "$(dirname "$0")/../../.." && pwd)}
# shellcheck source=tests/harness/lib.sh
. "$TENURE_ROOT/tests/harness/lib.sh"
# shellcheck source=tests/live/tenured.lib
. "$TENURE_ROOT/tests/live/tenured.lib"
# shellcheck source=tests/live/faults.lib
. "$TENURE_ROOT/tests/live/faults.lib"

url() {
    if [ "$1" = "$port" ]; then
        echo "unix:$socket"
    else
        echo "tenured://127.0.0.1:$1"
    fi
}
tenured_start
chaos_runs "$port"
t_done
