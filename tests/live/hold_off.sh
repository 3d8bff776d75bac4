#!/bin/sh
# hold_off.sh - `--hold-off` on each store whose server Debian has, also where the store sees a
# leader die. tests/engines has the others.
# shellcheck source=tests/harness/lib.sh
. "${TENURE_ROOT:-$(dirname "$0")/../..}/tests/harness/lib.sh"
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
# shellcheck source=tests/live/hold_off.lib
. "$TENURE_ROOT/tests/live/hold_off.lib"
in_finish tenured_end # Each has begun the list anew.
in_finish etcd_end
in_finish pg_clean
in_finish rd_clean

both() { # WHAT URL
    hold_off_on "$1" "$2" 2s 4
    hold_off_of_scripts "$1" "$2" 2s 4
}

both sqlite "sqlite:$t_dir/store.db"
tenured_start
# shellcheck disable=SC2154 # tenured.lib sets it.
both tenured "unix:$socket"

if command -v redis-server >/dev/null && command -v redis-cli >/dev/null && rd_start 4; then
    both redis "$(rd_url 4)"
    for n in 1 2 3; do t_check "starts" rd_start $n; done
    hold_off_on redlock "$(rd_lock 1 2 3)" 2s 4
    rd_clean
else
    t_case "redis"
    t_skip "Redis is not installed; install redis-server and redis-tools"
fi

if pg_find && pg_init && pg_start; then
    both postgres "$(at postgres)"
else
    t_case "postgres"
    t_skip "PostgreSQL is not installed"
fi

if command -v etcd >/dev/null && etcd_start one; then
    # shellcheck disable=SC2154 # etcd_start sets it.
    both etcd "etcd://127.0.0.1:$port_one/t"
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
hold_off_on zookeeper "zookeeper://127.0.0.1:$port/t" 4s 8 # A lease ends with its process there.
t_done
