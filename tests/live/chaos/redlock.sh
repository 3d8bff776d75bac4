#!/bin/sh
# redlock.sh - candidates on three Redis servers that keep their data, one or two of them hurt at
# random, and their connections: their commands never overlap; see faults.lib.
TENURE_ROOT=${TENURE_ROOT:-$(cd "$(dirname "$0")/../../.." && pwd)}
# shellcheck source=tests/harness/lib.sh
. "$TENURE_ROOT/tests/harness/lib.sh"
# shellcheck source=tests/live/redis.inc
. "$TENURE_ROOT/tests/live/redis.inc"
# shellcheck source=tests/live/faults.lib
. "$TENURE_ROOT/tests/live/faults.lib"
rd_begin
t_case "three servers"
for n in 1 2 3; do
    t_check "it runs" rd_start "$n"
done
# One server is reached through the proxy; another is killed or stopped.
url() { echo "redlock://127.0.0.1:$1,127.0.0.1:$(rd_port 2),127.0.0.1:$(rd_port 3)"; }
server_kill() { rd_kill 2 KILL; }
server_again() { rd_start 2; }
server_stop() { rd_kill 2 STOP; }
server_go_on() { rd_kill 2 CONT; }
# Together they may be a majority: then nobody leads, and never two.
chaos_runs "$(rd_port 1)"
t_done
