#!/bin/bash
# stores.sh - `tenure console` in a real browser, on each store whose server Debian has: the same
# expectations everywhere. tests/engines/*_console.sh has the others.
# shellcheck source=tests/harness/lib.sh
. "${TENURE_ROOT:-$(dirname "$0")/../..}/tests/harness/lib.sh"
# shellcheck source=tests/web/web.lib
. "$TENURE_ROOT/tests/web/web.lib"
# shellcheck source=tests/live/tenured.lib
. "$TENURE_ROOT/tests/live/tenured.lib"
# shellcheck source=tests/live/postgres.inc
. "$TENURE_ROOT/tests/live/postgres.inc"
# shellcheck source=tests/live/redis.inc
. "$TENURE_ROOT/tests/live/redis.inc"
# shellcheck source=tests/live/etcd.lib
. "$TENURE_ROOT/tests/live/etcd.lib"
# shellcheck source=tests/harness/zookeeper.sh
. "$TENURE_ROOT/tests/harness/zookeeper.sh"
in_finish tenured_end # Each has begun the list anew.
in_finish rd_clean
in_finish etcd_end
in_finish pg_clean

# has_store SCHEME
has_store() { ! "$tenure" --version | grep -q "^left out.* $1 "; }

t_case "sqlite:"
"$tenure" doctor --install --for 50ms "sqlite:$t_dir/store.db" >/dev/null
console_on "sqlite=sqlite:$t_dir/store.db"

t_case "tenured, by tenure console"
tenured_start
console_on "tenured=unix:$socket"
tenured_end

t_case "redis:, and redlock: on three servers"
if ! command -v redis-server >/dev/null; then
    t_skip "no redis-server: install redis-server"
else
    for n in 1 2 3 4; do
        t_check "starts" rd_start $n
    done
    console_on "redis=$(rd_url 4)"
    console_on "redlock=$(rd_lock 1 2 3)"
    for n in 1 2 3 4; do
        rd_kill $n KILL
    done
fi

t_case "postgres:"
if ! pg_find; then
    t_skip "PostgreSQL is not installed; install postgresql"
elif ! has_store postgres; then
    t_skip "this build has no postgres:; install libpq-dev and build again"
else
    pg_init "shared_preload_libraries = ''"
    t_check "starts" pg_start
    console_on "postgres=$(at postgres)"
    pg_stop
fi

t_case "etcd:"
if ! command -v etcd >/dev/null || ! command -v etcdctl >/dev/null || ! has_store etcd; then
    t_skip "no etcd: install etcd-server and etcd-client"
else
    t_check "starts" etcd_start one
    # shellcheck disable=SC2154 # etcd_start sets it.
    console_on "etcd=etcd://127.0.0.1:$port_one/t"
    etcd_stop one
fi

zk_need
t_case "zookeeper:"
port=$(t_ports 1)
zk_make one "$port"
t_check "starts" zk_start one
console_on "zookeeper=zookeeper://127.0.0.1:$port/t"
t_done
