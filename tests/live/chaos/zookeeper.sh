#!/bin/sh
# zookeeper.sh - candidates on one ZooKeeper server, hurt at random: their commands never overlap;
# see faults.lib.
TENURE_ROOT=${TENURE_ROOT:-$(cd "$(dirname "$0")/../../.." && pwd)}
# shellcheck source=tests/harness/lib.sh
. "$TENURE_ROOT/tests/harness/lib.sh"
# shellcheck source=tests/harness/zookeeper.sh
. "$TENURE_ROOT/tests/harness/zookeeper.sh"
# shellcheck source=tests/live/faults.lib
. "$TENURE_ROOT/tests/live/faults.lib"

zk_need
port=$(t_ports 1)
zk_make one "$port"
if ! zk_start one; then
    t_case "a server"
    t_fail "it does not start"
    t_done
fi
zk_faults_of_one
chaos_runs "$port"
t_done
