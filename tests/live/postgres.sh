#!/bin/sh
# postgres.sh - the store postgres: on a real server: what every store promises, its cost, and what
# is said when it cannot be used. Faults are in postgres_faults.sh.
# shellcheck source=tests/harness/lib.sh
. "${TENURE_ROOT:-$(dirname "$0")/../..}/tests/harness/lib.sh"
# shellcheck source=tests/live/postgres.inc
. "$TENURE_ROOT/tests/live/postgres.inc"
pg_begin

t_case "a server starts"
pg_init && pg_start
t_check "it runs" pg_sql postgres "CREATE EXTENSION pg_stat_statements"

pg_sql postgres "CREATE DATABASE plain"
conform_begin plain "$(at plain)"
pg_sql postgres "CREATE DATABASE careless"
pg_sql postgres "ALTER DATABASE careless SET synchronous_commit = off"
pg_sql postgres "ALTER DATABASE careless SET default_transaction_isolation = 'serializable'"
conform_begin careless "$(at careless)"
if command -v pgbouncer >/dev/null; then
    pg_sql postgres "CREATE DATABASE pooled"
    pg_sql postgres "CREATE DATABASE deaf"
    pool_port=$(t_ports 1)
    {
        echo "[databases]"
        echo "* = host=127.0.0.1 port=$pg_port"
        echo "[pgbouncer]"
        echo "listen_addr = 127.0.0.1"
        echo "listen_port = $pool_port"
        echo "unix_socket_dir ="
        echo "auth_type = trust"
        echo "auth_file = $t_dir/users"
        echo "pool_mode = transaction"
        echo "default_pool_size = 3"
        echo "logfile = $t_dir/bouncer.log"
    } >"$t_dir/bouncer.ini"
    echo '"tester" ""' >"$t_dir/users"
    : >"$t_dir/bouncer.log"
    [ "$(id -u)" -ne 0 ] || chown postgres "$t_dir/bouncer.log"
    pg_be pgbouncer -q "$t_dir/bouncer.ini" &
    in_finish "kill $!"
    t_check "it runs" until_line "$t_dir/bouncer.log" "process up"
    pool=postgres://tester@127.0.0.1:$pool_port
    conform_begin pooled "$pool/pooled?sslmode=disable&listen=127.0.0.1:$pg_port"
    # It takes a minute or two: every grant is found by looking. It is waited for below.
    conform_begin deaf "$pool/deaf?sslmode=disable"
fi

t_case "what every store promises"
conform_end plain
t_check "nothing is wrong" grep -q "version [1-9].*; warning: $" "$t_out"
t_case "and where commits are not waited for by default"
conform_end careless
t_check "what may be lost is said" grep -q "warning: synchronous_commit is off" "$t_out"
t_case "and behind PgBouncer in transaction mode"
if command -v pgbouncer >/dev/null; then
    conform_end pooled
else
    t_skip "PgBouncer is not installed; install pgbouncer"
fi

t_case "fences behind PgBouncer: clients share connections, and neither tokens nor locks"
if command -v pgbouncer >/dev/null; then
    pooled="$pool/pooled?sslmode=disable"
    pg_sql pooled "CREATE TABLE orders (token numeric)"
    t_run "$tenure" fence install --at "$pooled" --table orders --resource orders
    t_ends 0
    t_run "$tenure" fence raise --at "$pooled" orders 33
    t_ends 0
    # More clients than connections; at the level where a raise once starved.
    cat >"$t_dir/busy.sql" <<'END'
\set ms random(5, 40)
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT tenure_fence.admit('orders', 33);
INSERT INTO orders VALUES (33);
\sleep :ms ms
COMMIT;
END
    "$pg_bin/pgbench" -n -c 6 -j 1 -T 120 -f "$t_dir/busy.sql" "$pooled" >"$t_dir/busy" 2>&1 &
    busy=$!
    wrote() { [ "$(pg_sql pooled "SELECT count(*) FROM orders")" -ge 30 ]; }
    t_check "the old holder writes" until_true 30 wrote
    t_run "$pg_bin/psql" -XAtqc "INSERT INTO orders VALUES (0)" "$pooled"
    t_check "without a token, beside it" grep -q "no token was presented" "$t_err"
    t_run "$tenure" fence raise --at "$pooled" orders 34 --timeout 10s
    t_ends 0
    count=$(pg_sql pooled "SELECT count(*) FROM orders")
    wait $busy
    t_check "all its clients were refused: $(tail -n 1 "$t_dir/busy")" \
        [ "$(grep -c 'token 33 is stale' "$t_dir/busy")" -eq 6 ]
    t_check "nothing came later" [ "$(pg_sql pooled "SELECT count(*) FROM orders")" = "$count" ]
else
    t_skip "PgBouncer is not installed; install pgbouncer"
fi

# --- Cost -------------------------------------------------------------------------------------

t_case "a thousand elections cost one statement per interval, and waiting for them costs no more"
pg_sql postgres "CREATE DATABASE cost"
pg_sql cost "CREATE EXTENSION pg_stat_statements"
mkfifo "$t_dir/in1" "$t_dir/in2"
"$fixtures/many" "$(at cost)" 1000 6000 cost <"$t_dir/in1" >"$t_dir/many1" 2>&1 &
one=$!
exec 8>"$t_dir/in1"
t_check "all won" until_line "$t_dir/many1" "leads 1000" 60

# until_sql SQL WORDS: within a minute.
until_sql() {
    asked=$(now_ms)
    until [ "$(pg_sql cost "$1")" = "$2" ]; do
        [ $(($(now_ms) - asked)) -lt 60000 ] || return 1
        sleep 0.1
    done
}

# measure SECONDS: sets statements and beats, that many later. What the start costs is over.
measure() {
    t_check "renewed" until_sql "SELECT min(beat) > 3 FROM tenure.session" t
    pg_sql cost "SELECT pg_stat_statements_reset()" >/dev/null
    before=$(pg_sql cost "SELECT sum(beat) FROM tenure.session")
    asked=$(now_ms)
    until [ $(($(now_ms) - asked)) -gt $(($1 * 1000)) ]; do
        sleep 0.2
    done
    statements=$(pg_sql cost "SELECT coalesce(sum(calls), 0) FROM pg_stat_statements s
        JOIN pg_database d ON d.oid = s.dbid
        WHERE datname = 'cost' AND toplevel AND query !~ 'pg_stat_statements|sum.beat'")
    beats=$(($(pg_sql cost "SELECT sum(beat) FROM tenure.session") - before))
}
measure 7
what="$statements statements for $beats renewals of a leader"
t_check "$what" [ "$beats" -ge 2 ]
t_check "$what" [ "$statements" -le $((beats + 1)) ]
"$fixtures/many" "$(at cost)" 1000 6000 cost <"$t_dir/in2" >"$t_dir/many2" 2>&1 8>&- &
two=$!
exec 9>"$t_dir/in2"
t_check "all wait" until_sql "SELECT count(*) FROM tenure.waiter" 1000
measure 7
what="$statements statements for $beats renewals of both"
t_check "$what" [ "$beats" -ge 4 ]
t_check "$what" [ "$statements" -le $((beats + 2)) ]
exec 8>&-
wait $one
t_check "the other leads all" until_line "$t_dir/many2" "leads 1000" 60
exec 9>&-
wait $two
t_check "nothing is left" until_sql "SELECT count(*) FROM tenure.session" 0

# --- What cannot be used ----------------------------------------------------------------------

t_case "users, passwords, databases and permissions"
pg_sql postgres "CREATE ROLE app LOGIN PASSWORD 'geheim'"
pg_sql postgres "CREATE DATABASE bare"
pg_sql postgres "REVOKE CREATE ON DATABASE bare FROM public"
refuses 77 "password authentication failed" \
    "postgres://app:geheimer@127.0.0.1:$pg_port/bare?sslmode=disable"
refuses 77 "no password supplied" "postgres://app@127.0.0.1:$pg_port/bare?sslmode=disable"
refuses 69 'database "nosuch" does not exist' "$(at nosuch)"
app="postgres://app:geheim@127.0.0.1:$pg_port/bare?sslmode=disable"
refuses 77 "there is no schema tenure and this user may not create it" "$app"
pg_sql bare "CREATE SCHEMA tenure"
refuses 77 "this user may not use the schema tenure; GRANT USAGE" "$app"
pg_sql bare "GRANT USAGE ON SCHEMA tenure TO app"
refuses 77 "the schema tenure is empty and this user may not fill it" "$app"
leads "$(at bare)"
leads "$app"
t_run "$pg_bin/psql" -XAtqc "SELECT * FROM tenure.session" "$app"
t_check "and reads no table" grep -q "permission denied" "$t_err"
of_version() {
    pg_sql bare "COMMENT ON FUNCTION tenure.step(text, uuid, uuid, text, bigint, boolean)
        IS 'tenure schema $1'"
}
of_version 9
refuses 69 "of another version" "$app"

t_case "a schema of the version before is brought up to date, and keeps its tokens"
of_version 3
pg_sql bare "DROP FUNCTION tenure.evict(bigint[], bigint[])"
last=$(pg_sql bare "SELECT token FROM tenure.state")
refuses 69 "of an older version" "$app"
leads "$(at bare)"
t_check "the next token" [ "$(pg_sql bare "SELECT token FROM tenure.state")" = $((last + 1)) ]
t_check "all of it" [ "$(pg_sql bare "SELECT count(*) FROM pg_proc WHERE proname = 'evict'")" = 1 ]
leads "$app"

t_case "hosts and names"
refuses 69 "Connection refused" "postgres://x:geheim@127.0.0.1:1/x?sslmode=disable"
proxy_start silent "$pg_port"
proxy_say silent stall
refuses 69 "no answer" \
    "postgres://x:geheim@127.0.0.1:$proxy_port/x?sslmode=disable"
refuses 69 "cannot be resolved" "postgres://x:geheim@no-such-host.invalid/x?sslmode=disable"
refuses 64 'no option "sslmde"' "postgres://x:geheim@127.0.0.1/x?sslmde=disable"
refuses 64 "malformed" "postgres://x:geheim%zz@127.0.0.1/x"
refuses 64 "listen is off or HOST:PORT" "postgres://x:geheim@127.0.0.1/x?listen=maybe"

t_case "a name service that hangs"
refuses_without_names "postgres://x:geheim@db.example.com/x"

t_case "what every store promises, behind PgBouncer and without anywhere to listen"
if command -v pgbouncer >/dev/null; then
    conform_end deaf
else
    t_skip "PgBouncer is not installed; install pgbouncer"
fi

t_case "TLS is verified unless the URL says otherwise"
openssl req -x509 -newkey rsa:2048 -nodes -days 30 -subj /CN=localhost \
    -addext "subjectAltName=DNS:localhost" -keyout "$t_dir/key" -out "$t_dir/cert" 2>/dev/null
openssl req -x509 -newkey rsa:2048 -nodes -days 30 -subj /CN=other \
    -keyout /dev/null -out "$t_dir/other" 2>/dev/null
refuses 69 "does not support SSL" "postgres://tester@127.0.0.1:$pg_port/plain"
pg_as tee "$pg_data/server.crt" <"$t_dir/cert" >/dev/null
pg_as tee "$pg_data/server.key" <"$t_dir/key" >/dev/null
pg_as chmod 600 "$pg_data/server.key"
echo "ssl = on" | pg_as tee -a "$pg_data/postgresql.conf" >/dev/null
pg_stop
pg_start
tls="postgres://tester@localhost:$pg_port/plain?sslrootcert="
leads "$tls$t_dir/cert"
refuses 69 "certificate verify failed" "$tls$t_dir/other"
refuses 69 "root certificate file" "$tls$t_dir/none"
refuses 69 "does not match host name" \
    "postgres://tester@127.0.0.1:$pg_port/plain?sslrootcert=$t_dir/cert"

t_case "a read-only replica"
pg_as "$pg_bin/pg_basebackup" -h "$pg_home" -p "$pg_port" -U tester -D "$pg_home/replica" -R
replica_port=$(t_ports 1)
pg_as "$pg_bin/pg_ctl" -D "$pg_home/replica" -o "-p $replica_port -k $pg_home" \
    -l "$pg_home/replica.log" -w start >/dev/null
refuses 69 "read-only replica" "postgres://tester@127.0.0.1:$replica_port/plain?sslmode=disable"
leads "postgres://tester@127.0.0.1:$replica_port,127.0.0.1:$pg_port/plain?sslmode=disable"
pg_as "$pg_bin/pg_ctl" -D "$pg_home/replica" -m immediate stop >/dev/null

t_case "a server that may forget is refused, unless the URL accepts it"
pg_stop
echo "fsync = off" | pg_as tee -a "$pg_data/postgresql.conf" >/dev/null
pg_start
refuses 69 "fsync off" "$(at plain)"
leads "$(at plain durability=relaxed)"
t_done
