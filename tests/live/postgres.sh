#!/bin/sh
# postgres.sh - the store postgres: on a real server: what every store promises, its faults, its
# cost, and what is said when it cannot be used.
# shellcheck source=tests/harness/lib.sh
. "${TENURE_ROOT:-$(dirname "$0")/../..}/tests/harness/lib.sh"
# shellcheck source=tests/live/postgres.inc
. "$TENURE_ROOT/tests/live/postgres.inc"

tenure=$TENURE_BUILD/tenure
fixtures=$TENURE_BUILD/tests/fixtures

if ! pg_find; then
    t_case "a server"
    t_skip "PostgreSQL is not installed; install postgresql and pgbouncer"
    t_done
fi
if "$tenure" run --store "postgres://x?listen=maybe" x -- true 2>&1 |
    grep -q "not in this build"; then
    t_case "the store"
    t_skip "this build has no postgres:; install libpq-dev and build again"
    t_done
fi

bouncer= proxy=
finish() {
    for pid in $bouncer $proxy; do
        kill "$pid" 2>/dev/null
    done
    pg_clean
    rm -rf "$t_dir"
}
trap finish EXIT

# url DATABASE [OPTIONS]: as the superuser.
url() { echo "postgres://tester@127.0.0.1:$pg_port/$1?sslmode=disable${2:+&$2}"; }

# end PID: SIGTERM, and its exit status.
end() {
    kill -TERM "$1"
    status=0
    wait "$1" || status=$?
}

# conform URL: the suite, against a database where its names are free.
conform() {
    t_run env TENURE_CONFORMANCE_URL="$1" "$TENURE_BUILD/tests/conformance"
    t_check "the suite passes" grep -q "^[1-9][0-9]* passed, 0 failed, 0 skipped$" "$t_out"
    grep "^FAIL" "$t_out"
}

t_case "a server starts"
pg_init && pg_start
t_check "it runs" pg_sql postgres "CREATE EXTENSION pg_stat_statements"

t_case "what every store promises"
pg_sql postgres "CREATE DATABASE plain"
conform "$(url plain)"

t_case "and where commits are not waited for by default"
pg_sql postgres "CREATE DATABASE careless"
pg_sql postgres "ALTER DATABASE careless SET synchronous_commit = off"
pg_sql postgres "ALTER DATABASE careless SET default_transaction_isolation = 'serializable'"
conform "$(url careless)"

t_case "and behind PgBouncer in transaction mode"
if command -v pgbouncer >/dev/null; then
    pg_sql postgres "CREATE DATABASE pooled"
    pg_sql postgres "CREATE DATABASE pooled2"
    pool_port=$(pg_free_port 5000)
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
    pg_as pgbouncer -q "$t_dir/bouncer.ini" &
    bouncer=$!
    t_check "it runs" until_line "$t_dir/bouncer.log" "process up"
    pool=postgres://tester@127.0.0.1:$pool_port
    conform "$pool/pooled?sslmode=disable&listen=127.0.0.1:$pg_port"
    t_case "and there without anywhere to listen"
    conform "$pool/pooled2?sslmode=disable"
else
    t_skip "PgBouncer is not installed; install pgbouncer"
fi

# --- Faults -----------------------------------------------------------------------------------

# Children write down when they act; two tokens must never mix.
acts=$t_dir/acts
cat >"$t_dir/act" <<'END'
#!/bin/sh
while :; do
    echo "$TENURE_TOKEN $(date +%s%N)" >>"$1"
    sleep 0.05
done
END
chmod +x "$t_dir/act"

# apart: in the order of their acts, tokens only rise.
apart() { sort -k 2n "$acts" | awk '$1 < last { bad = 1 } { last = $1 } END { exit bad }'; }

# candidate ID URL TTL: starts one in the background; its number is $!.
candidate() {
    "$tenure" run --store "$2" --id "$1" --ttl "$3" --grace 200ms job -- "$t_dir/act" "$acts" \
        >"$t_dir/$1.out" 2>"$t_dir/$1.err" &
}

# token_after LEAST: the newest token, once it is above LEAST.
token_after() {
    left=1500
    until [ "$(tail -n 1 "$acts" 2>/dev/null | cut -d ' ' -f 1 | grep . || echo 0)" -gt "$1" ]; do
        left=$((left - 1))
        [ $left -gt 0 ] || return 1
        sleep 0.02
    done
    tail -n 1 "$acts" | cut -d ' ' -f 1
}

t_case "a resign hands over at once, a crash after the TTL"
pg_sql postgres "CREATE DATABASE faults"
at=$(url faults)
candidate ada "$at" 4s
ada=$!
first=$(token_after 0)
candidate bob "$at" 4s
bob=$!
left=500
until [ "$(pg_sql faults "SELECT count(*) FROM tenure.waiter")" = 1 ]; do
    left=$((left - 1))
    [ $left -gt 0 ] || break
done
t_check "bob is in the queue" [ $left -gt 0 ]
asked=$(now_ms)
end $ada
second=$(token_after "$first")
took=$(($(now_ms) - asked))
t_check "handed over in $took ms, not after a TTL" [ $took -lt 2500 ]
candidate eve "$at" 4s
eve=$!
left=500
until [ "$(pg_sql faults "SELECT count(*) FROM tenure.waiter")" = 1 ]; do
    left=$((left - 1))
    [ $left -gt 0 ] || break
done
kill -KILL $bob
asked=$(now_ms)
third=$(token_after "$second")
took=$(($(now_ms) - asked))
t_check "taken over in $took ms: after the TTL, not much later" [ $took -gt 2500 ]
t_check "taken over in $took ms" [ $took -lt 12000 ]
t_check "no two acted at one time" apart

t_case "a server that crashes and is back within the TTL costs no term"
end $eve
candidate zoe "$at" 15s
zoe=$!
third=$(token_after "$third")
pg_stop immediate
pg_start
# Longer than the term would last without a renewal.
asked=$(now_ms)
until [ $(($(now_ms) - asked)) -gt 14000 ]; do
    sleep 0.2
done
t_check "zoe leads on" [ "$(tail -n 1 "$acts" | cut -d ' ' -f 1)" = "$third" ]
last=$(tail -n 1 "$acts" | cut -d ' ' -f 2)
t_check "and acts" [ $(($(date +%s%N) - last)) -lt 2000000000 ]
end $zoe
candidate eve "$at" 4s
eve=$!
third=$(token_after "$third")

t_case "one that is gone for longer does, and leadership comes back with it"
pg_stop immediate
asked=$(now_ms)
until [ $(($(now_ms) - asked)) -gt 5000 ]; do
    sleep 0.1
done
last=$(tail -n 1 "$acts" | cut -d ' ' -f 2)
t_check "nobody acts beyond the TTL" [ $(($(date +%s%N) - last)) -gt 500000000 ]
pg_start
fourth=$(token_after "$third")
t_check "a later token" [ "${fourth:-0}" -gt "$third" ]
t_check "no two acted at one time" apart

t_case "a server that is stopped is no different"
candidate kim "$at" 4s
kim=$!
pg_kill STOP
asked=$(now_ms)
until [ $(($(now_ms) - asked)) -gt 6000 ]; do
    sleep 0.1
done
last=$(tail -n 1 "$acts" | cut -d ' ' -f 2)
t_check "nobody acts beyond the TTL" [ $(($(date +%s%N) - last)) -gt 500000000 ]
pg_kill CONT
fifth=$(token_after "$fourth")
t_check "a later token" [ "${fifth:-0}" -gt "$fourth" ]
t_check "no two acted at one time" apart
end $eve
end $kim

t_case "connections that are cut, half-open, one-way or trickling"
mkfifo "$t_dir/words"
"$fixtures/proxy" "$pg_port" <"$t_dir/words" >"$t_dir/proxy.out" &
proxy=$!
exec 7>"$t_dir/words"
t_check "the proxy runs" until_line "$t_dir/proxy.out" "^[0-9]"
proxy_port=$(head -n 1 "$t_dir/proxy.out")
: >"$acts"
through="postgres://tester@127.0.0.1:$proxy_port/faults?sslmode=disable"
candidate ada "$through" 4s
ada=$!
token=$(token_after 0)
echo cut >&7
asked=$(now_ms)
until [ $(($(now_ms) - asked)) -gt 5000 ]; do
    sleep 0.2
done
t_check "a cut costs no term" [ "$(tail -n 1 "$acts" | cut -d ' ' -f 1)" = "$token" ]
candidate bob "$at" 4s
bob=$!
for word in stall up down; do
    echo $word >&7
    next=$(token_after "$token")
    t_check "$word: another leads" [ "${next:-0}" -gt "$token" ]
    token=${next:-$token}
    echo pass >&7
    echo cut >&7
    if [ $word != down ]; then # And back to the one behind the proxy.
        end $bob
        next=$(token_after "$token")
        t_check "$word: it heals" [ "${next:-0}" -gt "$token" ]
        token=${next:-$token}
        candidate bob "$at" 4s
        bob=$!
    fi
done
t_check "no two acted at one time" apart
end $ada
end $bob
echo trickle >&7
: >"$acts"
candidate ada "$through" 20s
ada=$!
t_check "trickling is enough for a long TTL" token_after 0 >/dev/null
end $ada
exec 7>&-
wait $proxy
proxy=

# --- Cost -------------------------------------------------------------------------------------

t_case "a thousand elections cost one statement per interval, and waiting for them costs no more"
pg_sql postgres "CREATE DATABASE cost"
pg_sql cost "CREATE EXTENSION pg_stat_statements"
mkfifo "$t_dir/in1" "$t_dir/in2"
"$fixtures/crowd" "$(url cost)" 6000 1000 cost <"$t_dir/in1" >"$t_dir/many1" 2>&1 &
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
"$fixtures/crowd" "$(url cost)" 6000 1000 cost <"$t_dir/in2" >"$t_dir/many2" 2>&1 8>&- &
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

# refuses STATUS WORDS URL: in one line, in time, without the password.
refuses() {
    asked=$(now_ms)
    t_run timeout 30 "$tenure" run --store "$3" --ttl 3s --wait 5s x -- true
    took=$(($(now_ms) - asked))
    t_check "$2: exit status is $1, not $t_status" [ "$t_status" -eq "$1" ]
    t_check "$2: one line" [ "$(wc -l <"$t_err")" -eq 1 ]
    t_check "$2: says so: $(cat "$t_err")" grep -qF -e "$2" "$t_err"
    t_refute "$2: no password" grep -q geheim "$t_err"
    t_check "$2: in time, not in $took ms" [ $took -lt 15000 ]
}

# leads URL: a term there.
leads() {
    t_run timeout 30 "$tenure" run --store "$1" --ttl 3s --wait 20s x -- true
    t_check "leads: $(cat "$t_err")" [ "$t_status" -eq 0 ]
}

t_case "users, passwords, databases and permissions"
pg_sql postgres "CREATE ROLE app LOGIN PASSWORD 'geheim'"
pg_sql postgres "CREATE DATABASE bare"
pg_sql postgres "REVOKE CREATE ON DATABASE bare FROM public"
refuses 77 "password authentication failed" \
    "postgres://app:geheimer@127.0.0.1:$pg_port/bare?sslmode=disable"
refuses 77 "no password supplied" "postgres://app@127.0.0.1:$pg_port/bare?sslmode=disable"
refuses 69 'database "nosuch" does not exist' "$(url nosuch)"
app="postgres://app:geheim@127.0.0.1:$pg_port/bare?sslmode=disable"
refuses 77 "there is no schema tenure and this user may not create it" "$app"
pg_sql bare "CREATE SCHEMA tenure"
refuses 77 "this user may not use the schema tenure; GRANT USAGE" "$app"
pg_sql bare "GRANT USAGE ON SCHEMA tenure TO app"
refuses 77 "the schema tenure is empty and this user may not fill it" "$app"
leads "$(url bare)"
leads "$app"
t_run "$pg_bin/psql" -XAtqc "SELECT * FROM tenure.session" "$app"
t_check "and reads no table" grep -q "permission denied" "$t_err"
pg_sql bare "COMMENT ON FUNCTION tenure.step(text, uuid, uuid, text, bigint, boolean)
    IS 'tenure schema 9'"
refuses 69 "of another version" "$app"

t_case "hosts and names"
refuses 69 "Connection refused" "postgres://x:geheim@127.0.0.1:1/x?sslmode=disable"
mkfifo "$t_dir/silent"
"$fixtures/proxy" "$pg_port" <"$t_dir/silent" >"$t_dir/silent.out" &
proxy=$!
exec 7>"$t_dir/silent"
echo stall >&7
t_check "a silent server" until_line "$t_dir/silent.out" "stall"
refuses 69 "no answer" \
    "postgres://x:geheim@127.0.0.1:$(head -n 1 "$t_dir/silent.out")/x?sslmode=disable"
exec 7>&-
wait $proxy
proxy=
refuses 69 "cannot be resolved" "postgres://x:geheim@no-such-host.invalid/x?sslmode=disable"
refuses 64 'no option "sslmde"' "postgres://x:geheim@127.0.0.1/x?sslmde=disable"
refuses 64 "malformed" "postgres://x:geheim%zz@127.0.0.1/x"
refuses 64 "listen is off or HOST:PORT" "postgres://x:geheim@127.0.0.1/x?listen=maybe"

t_case "a name service that hangs"
if [ "$(id -u)" -eq 0 ] && unshare -m true 2>/dev/null; then
    echo "nameserver 192.0.2.1" >"$t_dir/resolv.conf"
    asked=$(now_ms)
    t_run unshare -m sh -c "mount --bind $t_dir/resolv.conf /etc/resolv.conf && exec timeout 40 \
        $tenure run --store postgres://x:geheim@db.example.com/x --ttl 3s --wait 2s x -- true"
    took=$(($(now_ms) - asked))
    t_check "exit status is 69, not $t_status" [ "$t_status" -eq 69 ]
    t_check "says so: $(cat "$t_err")" \
        grep -q "no answer from the name service\|cannot be resolved" "$t_err"
    t_check "in time, not in $took ms" [ $took -lt 30000 ]
else
    t_skip "needs root, to mount a resolv.conf"
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
pg_as "$pg_bin/pg_basebackup" -h "$pg_data" -p "$pg_port" -U tester -D "$pg_data/replica" -R
replica_port=$(pg_free_port 3000)
pg_as "$pg_bin/pg_ctl" -D "$pg_data/replica" -o "-p $replica_port -k $pg_data" \
    -l "$pg_data/replica.log" -w start >/dev/null
refuses 69 "read-only replica" "postgres://tester@127.0.0.1:$replica_port/plain?sslmode=disable"
leads "postgres://tester@127.0.0.1:$replica_port,127.0.0.1:$pg_port/plain?sslmode=disable"
pg_as "$pg_bin/pg_ctl" -D "$pg_data/replica" -m immediate stop >/dev/null

t_case "a server that may forget is refused, unless the URL accepts it"
pg_stop
echo "fsync = off" | pg_as tee -a "$pg_data/postgresql.conf" >/dev/null
pg_start
refuses 69 "fsync off" "$(url plain)"
leads "$(url plain durability=relaxed)"
t_done
