#!/bin/sh
# patroni.sh - a real Patroni cluster of two, in etcd: tenure sees its leader, through a switchover
# and a failover, and takes no part.
# shellcheck source=tests/harness/lib.sh
. "${TENURE_ROOT:-$(dirname "$0")/../..}/tests/harness/lib.sh"
# shellcheck source=tests/live/etcd.lib
. "$TENURE_ROOT/tests/live/etcd.lib"
# shellcheck source=tests/live/postgres.inc
. "$TENURE_ROOT/tests/live/postgres.inc"
etcd_need

servers=${TENURE_SERVERS:-${XDG_CACHE_HOME:-$HOME/.cache}/tenure-servers}
if ! [ -e "$servers/patroni/python/patroni" ] || ! pg_find; then
    t_case "patroni"
    t_skip "no Patroni, or no PostgreSQL: run tools/servers patroni, install postgresql"
    t_done
fi

etcd_start one || t_done
# shellcheck disable=SC2154 # etcd_start sets it.
endpoints=127.0.0.1:$port_one
url=etcd://$endpoints//service

# PostgreSQL's user can read neither the cache of whoever installed it nor our directory.
chmod 755 "$t_dir"
cp -r "$servers/patroni/python" "$t_dir/python"
chmod -R go+rX "$t_dir/python"

# member NAME: starts one; pid in $member_NAME, its REST port in $rest_NAME.
member() {
    set -- "$1" $(t_ports 2)
    mkdir -p "$t_dir/$1"
    cat >"$t_dir/$1.yml" <<END
scope: demo
name: $1
restapi: { listen: "127.0.0.1:$2", connect_address: "127.0.0.1:$2" }
etcd3: { host: "$endpoints" }
bootstrap:
  dcs: { ttl: 20, loop_wait: 2, retry_timeout: 6, postgresql: { use_pg_rewind: false } }
  initdb: [ { encoding: UTF8 }, { locale: C }, { auth: trust } ]
postgresql:
  listen: 127.0.0.1:$3
  connect_address: 127.0.0.1:$3
  data_dir: $t_dir/$1/data
  bin_dir: $pg_bin
  pgpass: $t_dir/$1/pgpass
  pg_hba:
    - local all all trust
    - host all all 127.0.0.1/32 trust
    - host replication all 127.0.0.1/32 trust
  authentication:
    superuser: { username: postgres, password: x }
    replication: { username: standby, password: x }
  parameters:
    unix_socket_directories: $t_dir/$1
    fsync: "off"
    shared_buffers: 16MB
    max_connections: 30
END
    chmod 644 "$t_dir/$1.yml"
    [ "$(id -u)" -ne 0 ] || chown postgres "$t_dir/$1"
    pg_be env PYTHONPATH="$t_dir/python" HOME="$t_dir/$1" \
        /usr/bin/python3 -m patroni "$t_dir/$1.yml" >"$t_dir/$1.log" 2>&1 &
    eval "member_$1=$! rest_$1=$2"
}
members_end() {
    for pid in ${member_pg1:-} ${member_pg2:-}; do
        kill -TERM "$pid" 2>/dev/null
        wait "$pid" 2>/dev/null
    done
    for name in pg1 pg2; do # Of one that was killed.
        read -r pid 2>/dev/null <"$t_dir/$name/data/postmaster.pid" && kill -QUIT "$pid" 2>/dev/null
    done
}
in_finish members_end

rest() { eval "curl -s -m 20 http://127.0.0.1:\$rest_$1/$2"; }
is_replica() { rest "$1" patroni | grep -q '"role": "replica".*"replication_state": "streaming"'; }
leader_key() { ctl get /service/demo/leader --print-value-only; }
created() { ctl get /service/demo/leader -w fields | sed -n 's/^"CreateRevision" : //p'; }
shows() { # HOLDER
    t_check "$1 leads, by the watch: $(tail -n 2 "$t_dir/watch")" \
        until_line_last "$t_dir/watch" "\"leader\".*\"holder\":\"$1\"" 90
    t_check "and by Patroni" [ "$(leader_key)" = "$1" ]
    t_run "$tenure" status --json --store "$url" demo/leader
    t_check "and by status: $(cat "$t_out" "$t_err")" \
        grep -q "\"held\",\"holder\":\"$1\",\"token\":$(created),\"ttl_ms\":20000" "$t_out"
}
last_is() { tail -n 1 "$1" | grep -q "$2"; }
until_line_last() { until_true "$3" last_is "$1" "$2"; }

"$tenure" watch --json --store "$url" demo/leader >"$t_dir/watch" 2>"$t_dir/watch.err" &
watcher=$!

t_case "the first member leads"
member pg1
until_line_last "$t_dir/watch" '"holder":"pg1"' 120 || {
    t_fail "pg1 does not start: $(tail -n 3 "$t_dir/pg1.log")"
    t_done
}
shows pg1
first=$(created)

t_case "a second one follows; the listing has the leader and nothing else"
member pg2
t_check "it streams: $(tail -n 2 "$t_dir/pg2.log")" until_true 120 is_replica pg2
t_run "$tenure" list --json --store "$url"
t_check "list: $(cat "$t_out" "$t_err")" [ "$(grep -c '"name"' "$t_out")" -eq 1 ]
t_check "with its holder" grep -q '"name":"demo/leader","state":"held","holder":"pg1"' "$t_out"

t_case "nobody of ours can campaign there"
t_run "$tenure" run --store "$url" --ttl 5s --wait 2s demo/leader -- true
t_check "refused: $t_status $(cat "$t_err")" [ "$t_status" -eq 77 ]
t_check "says why" grep -q "led by another program" "$t_err"

t_case "a switchover"
t_run eval "curl -s -m 60 -d '{\"leader\":\"pg1\",\"candidate\":\"pg2\"}' \
    http://127.0.0.1:$rest_pg1/switchover"
shows pg2
second=$(created)
t_check "the token rises: $first, $second" [ "$second" -gt "$first" ]

t_case "the leader is killed: the other one takes over"
t_check "the former leader streams" until_true 120 is_replica pg1
kill -KILL "$member_pg2"
wait "$member_pg2" 2>/dev/null
shows pg1
t_check "the token rises: $(created)" [ "$(created)" -gt "$second" ]

t_check "the watcher lives: $(cat "$t_dir/watch.err")" kill -TERM "$watcher"
wait "$watcher"
t_promise "its tokens never fell" sh -c "sed -n 's/.*\"token\":\([0-9]*\).*/\1/p' '$t_dir/watch' |
    sort -n -c"
t_done
