#!/bin/sh
# console.sh - the console in a real browser, on real stores: tenured, SQLite and etcd.
# shellcheck source=tests/harness/lib.sh
. "${TENURE_ROOT:-$(dirname "$0")/../..}/tests/harness/lib.sh"
# shellcheck source=tests/web/web.lib
. "$TENURE_ROOT/tests/web/web.lib"
# shellcheck source=tests/live/etcd.lib
. "$TENURE_ROOT/tests/live/etcd.lib"

"$tenure" console --store "sqlite:$t_dir/none.db" 2>&1 | grep -q 'has no console' &&
    missing="${missing:-the console was not built: it needs gzip}"
need_browser

t_case "etcd is there"
etcd=
if [ -n "$missing" ]; then
    t_skip "$missing"
elif ! command -v etcd >/dev/null || ! command -v etcdctl >/dev/null; then
    t_skip "no etcd: install etcd-server and etcd-client"
else
    etcd_start one
    # shellcheck disable=SC2154 # etcd_start sets it.
    etcd=etcd://127.0.0.1:$port_one/console
fi

t_case "the console in a browser"
if [ -n "$missing" ]; then
    t_skip "$missing"
else
    # shellcheck disable=SC2046 # A word each.
    passes "$here/console.mjs" "$TENURE_BUILD" "$modules" "$t_dir" "$etcd" $(t_ports 34)
fi

t_done
