#!/bin/sh
# deletion.sh - what an operator takes away by hand, with each engine's own tool, while somebody
# holds it and somebody else waits: the holder is told why its term is over, by its next renewal at
# the latest, and the next token is larger. Where the engine lets us, the next one waits until the
# holder has stopped; etcd and ZooKeeper pass the name on at once, and say so in their pages.
# shellcheck source=tests/harness/lib.sh
. "${TENURE_ROOT:-$(dirname "$0")/../..}/tests/harness/lib.sh"
# shellcheck source=tests/live/etcd.lib
. "$TENURE_ROOT/tests/live/etcd.lib"
# shellcheck source=tests/live/postgres.inc
. "$TENURE_ROOT/tests/live/postgres.inc"
# shellcheck source=tests/live/redis.inc
. "$TENURE_ROOT/tests/live/redis.inc"
# shellcheck source=tests/harness/zookeeper.sh
. "$TENURE_ROOT/tests/harness/zookeeper.sh"
in_finish etcd_end # Each has begun the list anew.
in_finish pg_clean
in_finish rd_clean

# deletes NAME URL CMD...: CMD takes it from ada, for whom oda waits.
deletes() {
    de_name=$1 de_url=$2
    shift 2
    candidate ada "$de_name" "$de_url" 6s
    until_acted "$de_name" 0
    de_token=$token
    mkfifo "$t_dir/$de_name.lines"
    while IFS= read -r de_line; do
        echo "$(now_ms) $de_line"
    done <"$t_dir/$de_name.lines" >"$t_dir/$de_name.oda" &
    "$tenure" elect --store "$de_url" --ttl 6s --id oda "$de_name" \
        >"$t_dir/$de_name.lines" 2>/dev/null &
    candidates="$candidates $!"
    t_check "oda waits" until_line "$t_dir/$de_name.oda" '"event":"leader".*"holder":"ada"'
    de_at=$(now_ms)
    "$@" >"$t_dir/$de_name.did" 2>&1 || t_fail "not deleted: $(cat "$t_dir/$de_name.did")"
    t_check "ada is told" until_line "$t_dir/$de_name.err" \
        "leadership lost: revoked (token $de_token)"
    # Renewals come every 2 s, with jitter.
    t_check "by the next renewal, not after $(($(now_ms) - de_at)) ms" \
        [ $(($(now_ms) - de_at)) -le 4000 ]
    t_check "oda leads" until_line "$t_dir/$de_name.oda" '"event":"won"'
    de_won=$(sed -n 's/.*"event":"won".*"token":\([0-9]*\).*/\1/p' "$t_dir/$de_name.oda")
    t_check "with a larger token: $de_won after $de_token" [ "$de_won" -gt "$de_token" ]
    end_all
}

# one_by_one: and when oda won, ada had stopped.
one_by_one() {
    de_won_at=$(sed -n 's/^\([0-9]*\) .*"event":"won".*/\1/p' "$t_dir/$de_name.oda")
    de_last=$(acted_at "$de_name")
    t_promise "never two: $((de_won_at - de_last)) ms apart" [ "$de_last" -le "$de_won_at" ]
}

t_case "sqlite: DELETE FROM leases"
file=$t_dir/t.db
row_gone() {
    /usr/bin/python3 -c 'import sqlite3, sys
db = sqlite3.connect(sys.argv[1], timeout=20)
db.execute("DELETE FROM leases WHERE name = ?", sys.argv[2:])
db.commit()' "$file" "$1"
}
deletes lite "sqlite:$file" row_gone lite
one_by_one

if command -v redis-server >/dev/null && command -v redis-cli >/dev/null; then
    t_case "redis: DEL of the lease"
    for n in 1 2 3 4 5; do
        t_check "it runs" rd_start "$n"
    done
    deletes red "$(rd_url 1)" rd 1 DEL "{tenure}:l:red"
    one_by_one
    t_check "no trace" [ "$(rd 1 EXISTS "{tenure}:held")" -eq 0 ]
    t_case "redlock: DEL of the lease on a majority"
    rd 1 FLUSHALL >/dev/null
    del_majority() {
        for n in 2 3 5; do
            rd "$n" DEL "{tenure}:l:$1" || return 1
        done
    }
    deletes lock "$(rd_lock 1 2 3 4 5)" del_majority lock
    one_by_one
    rd_clean
else
    t_case "redis"
    t_skip "Redis is not installed; install redis-server and redis-tools"
fi

if pg_find && pg_init && pg_start; then
    t_case "postgres: DELETE FROM tenure.lease"
    deletes post "$(at postgres)" pg_sql postgres "DELETE FROM tenure.lease WHERE name = 'post'"
    one_by_one
    t_check "the operator is told: $(cat "$t_dir/post.did")" \
        grep -q "post is held, and is revoked instead" "$t_dir/post.did"
    pg_sql postgres "DELETE FROM tenure.lease" >/dev/null
    left=$(pg_sql postgres "SELECT count(*) FROM tenure.lease")
    t_check "what is free goes: $left left" [ "$left" -eq 0 ]
else
    t_case "postgres"
    t_skip "PostgreSQL is not installed"
fi

if command -v etcd >/dev/null && etcd_start one; then
    # shellcheck disable=SC2154 # etcd_start sets it.
    endpoints=127.0.0.1:$port_one
    first_key() { ctl get --prefix --keys-only --sort-by CREATE --limit 1 "$1" | grep .; }
    t_case "etcd: etcdctl del of the holder's key"
    del_first() { ctl del "$(first_key "$1")"; }
    deletes gone "etcd://$endpoints/t" del_first t/gone/
    t_case "etcd: a change of the holder's key asks it to stop, and the next one waits"
    touch_first() { ctl put --ignore-value --ignore-lease "$(first_key "$1")"; }
    deletes asked "etcd://$endpoints/t" touch_first t/asked/
    one_by_one
    etcd_stop one
else
    t_case "etcd"
    t_skip "no etcd: install etcd-server and etcd-client"
fi

zk_need
port=$(t_ports 1)
zk_make one "$port"
t_case "zookeeper: delete of the holder's node"
t_check "starts" zk_start one
deletes node "zookeeper://127.0.0.1:$port/t" "$zk_py" delete "$port" /t/node
t_done
