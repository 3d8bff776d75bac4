#!/bin/sh
# handover.sh - hand-overs at random on every engine of `make check`, with candidates and operators
# that are killed and stopped in between. TENURE_CHAOS_RUNS, 200 in all.
TENURE_ROOT=${TENURE_ROOT:-$(cd "$(dirname "$0")/../../.." && pwd)}
# shellcheck source=tests/harness/lib.sh
. "$TENURE_ROOT/tests/harness/lib.sh"
# shellcheck source=tests/live/tenured.lib
. "$TENURE_ROOT/tests/live/tenured.lib"
# shellcheck source=tests/live/etcd.lib
. "$TENURE_ROOT/tests/live/etcd.lib"
# shellcheck source=tests/live/postgres.inc
. "$TENURE_ROOT/tests/live/postgres.inc"
# shellcheck source=tests/live/redis.inc
. "$TENURE_ROOT/tests/live/redis.inc"
# shellcheck source=tests/harness/zookeeper.sh
. "$TENURE_ROOT/tests/harness/zookeeper.sh"
# shellcheck source=tests/live/shifts.lib
. "$TENURE_ROOT/tests/live/shifts.lib"
in_finish tenured_end # Each has begun the list anew.
in_finish etcd_end
in_finish pg_clean
in_finish rd_clean

echo "# TENURE_CHAOS_SEED=$shifts_seed"
each=$(((${TENURE_CHAOS_RUNS:-200} + 5) / 6))

shifts_on() { # ENGINE URL
    t_case "$1: $each hand-overs at random"
    shifts_begin "$2"
    for run in $(seq $each); do shifts_run "$run"; done
    shifts_end
}

shifts_on sqlite "sqlite:$t_dir/store.db"
tenured_start
# shellcheck disable=SC2154 # tenured.lib sets it.
shifts_on tenured "unix:$socket"

if command -v redis-server >/dev/null && command -v redis-cli >/dev/null && rd_start 1; then
    shifts_on redis "$(rd_url 1)"
    rd_clean
else
    t_case "redis"
    t_skip "Redis is not installed; install redis-server and redis-tools"
fi

if pg_find && pg_init && pg_start; then
    shifts_on postgres "$(at postgres)"
else
    t_case "postgres"
    t_skip "PostgreSQL is not installed"
fi

if command -v etcd >/dev/null && etcd_start one; then
    # shellcheck disable=SC2154 # etcd_start sets it.
    shifts_on etcd "etcd://127.0.0.1:$port_one/t"
    etcd_stop one
else
    t_case "etcd"
    t_skip "no etcd: install etcd-server and etcd-client"
fi

zk_need
port=$(t_ports 1)
zk_make one "$port"
t_case "zookeeper: a server"
t_check "starts" zk_start one
shifts_on zookeeper "zookeeper://127.0.0.1:$port/t"

t_done
