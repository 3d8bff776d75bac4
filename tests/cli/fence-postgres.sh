#!/bin/sh
# fence-postgres.sh - fences in a real PostgreSQL: at every isolation level, and across a pause.
# shellcheck source=tests/harness/lib.sh
. "${TENURE_ROOT:-$(dirname "$0")/../..}/tests/harness/lib.sh"

tenure=$TENURE_BUILD/tenure
TENURE_STORE=sqlite:$t_dir/store.db
export TENURE_STORE
unset TENURE_SECRET
# shellcheck source=tests/harness/fence.sh
. "$TENURE_ROOT/tests/harness/fence.sh"

skip_all() {
    t_case "PostgreSQL"
    t_skip "$1"
    t_done
}

"$tenure" fence show --at postgres://none 2>&1 | grep -q "built without" &&
    skip_all "tenure was built without PostgreSQL"
command -v psql >/dev/null || skip_all "psql is not installed; tools/deps servers installs it"
command -v pgbench >/dev/null || skip_all "pgbench is not installed; tools/deps servers installs it"
chmod 711 "$t_dir"
at=$("$TENURE_ROOT/tests/harness/postgres" start "$t_dir/pg") || skip_all "$at"
trap '"$TENURE_ROOT/tests/harness/postgres" stop "$t_dir/pg"; rm -rf "$t_dir"' EXIT

# sql TEXT...: each in turn; then $t_status, $t_out, $t_err.
sql() {
    for statement in "$@"; do
        set -- "$@" -c "$statement"
        shift
    done
    t_run psql -XqAt -v ON_ERROR_STOP=1 -v VERBOSITY=verbose "$at" "$@"
}
value() { psql -XqAt "$at" -c "$1"; }

# refused STATE: the last sql failed with this SQLSTATE.
refused() {
    t_check "refused" [ "$t_status" -ne 0 ]
    t_check "with $1: $(head -n 1 "$t_err")" grep -q "ERROR:  $1:" "$t_err"
}

t_case "before it is installed"
t_run "$tenure" fence show --at "$at"
failed 69 "'tenure fence install --at URL' makes them"
t_run "$tenure" fence install --at "$at" --print
t_check "the SQL can be read first" [ "$t_status" -eq 0 ]
t_check "as it is" cmp -s "$t_out" "$TENURE_ROOT/src/receivers/postgres_install.sql"
t_run "$tenure" fence install --at "$at"
t_ends 0

kind=postgres resource=orders
check_contract

t_case "installed again, it remembers"
t_run "$tenure" fence install --at "$at"
t_ends 0
t_check "the token" [ "$(highest "$at" orders)" = 18446744073709551615 ]

t_case "what is not a token is refused, and nothing is written"
sql "CREATE TABLE things (what text)" "INSERT INTO things VALUES ('old')"
for bad in NULL 0 -1 1.5 18446744073709551616 "'NaN'" "'Infinity'" "NULL::bigint"; do
    sql "SELECT tenure_fence.admit('things', $bad)"
    refused TN064
    sql "SELECT tenure_fence.raise('things', $bad)"
    refused TN064
done
sql "SELECT tenure_fence.admit('things', 'x')"
refused 22P02
sql "SELECT tenure_fence.admit(NULL, 5)"
refused TN064
for bad in '' 'a b' a//b /a a/ . a/../b "$(printf '%0256d' 1)"; do
    sql "SELECT tenure_fence.admit('$bad', 5)"
    refused 23514
done
others="SELECT count(*) FROM tenure_fence.fences WHERE resource <> 'orders'"
t_check "no fence" [ "$(value "$others")" = 0 ]

t_case "a protected table refuses every write without a current token"
t_run "$tenure" fence install --at "$at" --table things --resource things
t_ends 0
t_run "$tenure" fence raise --at "$at" things 7
t_ends 0
for write in "INSERT INTO things VALUES ('new')" "UPDATE things SET what = 'new'" \
    "DELETE FROM things" "TRUNCATE things" "COPY things FROM PROGRAM 'echo new'" \
    "WITH w AS (DELETE FROM things RETURNING what) SELECT * FROM w" \
    "MERGE INTO things USING (SELECT 1) s ON true WHEN MATCHED THEN DELETE"; do
    sql "$write"
    refused TN064
    # Presented in another transaction of the same connection: over.
    sql "SELECT tenure_fence.admit('things', 7)" "$write"
    refused TN064
    sql "BEGIN" "SELECT tenure_fence.admit('things', 6)" "$write" "COMMIT"
    refused TN080
    t_check "unchanged" [ "$(value "SELECT string_agg(what, ',') FROM things")" = old ]
    sql "BEGIN" "SELECT tenure_fence.admit('things', 7)" "$write" "ROLLBACK"
    t_check "admitted: $(cat "$t_err")" [ "$t_status" -eq 0 ]
done
write="DELETE FROM things"
sql "BEGIN" "SELECT tenure_fence.admit('other', 7)" "$write" "COMMIT"
refused TN064
# Said by hand instead of by admit.
for told in '{"things": 6} TN080' '{"things": 8} TN080' '{"things": null} TN064' \
    'nonsense 22P02'; do
    sql "BEGIN" "SET LOCAL tenure_fence.presented = '${told% *}'" "$write" "COMMIT"
    refused "${told##* }"
done
sql "BEGIN" "SAVEPOINT s" "SELECT tenure_fence.admit('things', 9)" "ROLLBACK TO s" \
    "DELETE FROM things" "COMMIT"
refused TN064
t_check "the fence is as it was" [ "$(highest "$at" things)" = 7 ]

# writes PARTS WRITE...: one psql runs the PARTS of a script for each, where WRITE stands for it.
# What it says of each is in $t_out, after a line with its text.
writes() {
    parts=$1
    shift
    for write in "$@"; do
        printf '\\echo == %s\n' "$(printf %s "$write" | tr -s '\n ' ' ')"
        printf '%s\n' "$parts" | while IFS= read -r part; do
            [ "$part" != WRITE ] || part="$write;"
            printf '%s\n' "$part"
        done
        echo 'RESET ALL;'
    done >"$t_dir/writes.sql"
    psql -XqAt -v VERBOSITY=verbose -f "$t_dir/writes.sql" "$at" >"$t_out" 2>&1
    t_check "all were tried" [ "$(grep -c '^== ' "$t_out")" -eq $# ]
}
# fenced WRITE...: each is refused without the token of things, and admitted with it.
fenced() {
    writes "WRITE
\\echo -- with
BEGIN;
SELECT tenure_fence.admit('things', 7);
WRITE
ROLLBACK;" "$@"
    awk '/^== / { if (NR > 1 && refused != 1) print last; last = $0; refused = with = 0 }
        /^-- with/ { with = 1 }
        /ERROR: / { if (!with && /ERROR:  TN064:/) refused++; else refused = 9 }
        END { if (refused != 1) print last }' "$t_out" >"$t_dir/bad"
    t_check "refused without a token, admitted with it: $(cat "$t_dir/bad")" [ ! -s "$t_dir/bad" ]
}
# passes WRITE...: each needs no token.
passes() {
    writes "BEGIN;
WRITE
ROLLBACK;" "$@"
    t_refute "passes: $(grep -B 1 ERROR: "$t_out")" grep -q ERROR: "$t_out"
}
protect() {
    t_run "$tenure" fence install --at "$at" --table "$1" --resource "${2:-things}"
    t_ends 0
}

t_case "partitions are protected too, also new ones"
sql "CREATE TABLE parts (n int) PARTITION BY RANGE (n)" \
    "CREATE TABLE part1 PARTITION OF parts FOR VALUES FROM (0) TO (10)"
protect parts
sql "CREATE TABLE part2 PARTITION OF parts FOR VALUES FROM (10) TO (20)" \
    "CREATE TABLE part3 (n int)" \
    "ALTER TABLE parts ATTACH PARTITION part3 FOR VALUES FROM (20) TO (30)"
t_check "attached" [ "$t_status" -eq 0 ]
for write in "INSERT INTO parts VALUES (1)" "INSERT INTO part1 VALUES (1)" \
    "INSERT INTO part2 VALUES (11)" "INSERT INTO part3 VALUES (21)"; do
    sql "$write"
    refused TN064
    sql "BEGIN" "SELECT tenure_fence.admit('things', 7)" "$write" "COMMIT"
    t_check "admitted: $(cat "$t_err")" [ "$t_status" -eq 0 ]
done
t_check "all four" [ "$(value "SELECT count(*) FROM parts")" = 4 ]
fenced "TRUNCATE part1" "TRUNCATE parts" "UPDATE parts SET n = n + 10 WHERE n = 1" \
    "SET session_replication_role = replica; INSERT INTO part2 VALUES (12)"
# The server copies no TRUNCATE trigger to a new partition: install does, when it is run again.
passes "TRUNCATE part2" "TRUNCATE part3"
t_run "$tenure" fence install --at "$at"
t_ends 0
fenced "TRUNCATE part2" "TRUNCATE part3"

t_case "a protected partition is not written through its parent without a token"
sql "CREATE TABLE parent (n int PRIMARY KEY, what text) PARTITION BY RANGE (n)" \
    "CREATE TABLE low PARTITION OF parent FOR VALUES FROM (0) TO (10)" \
    "CREATE TABLE high PARTITION OF parent FOR VALUES FROM (10) TO (20)" \
    "INSERT INTO parent VALUES (1, 'old'), (11, 'old')"
protect low
fenced "INSERT INTO parent VALUES (2)" "INSERT INTO low VALUES (2)" \
    "UPDATE parent SET what = 'new'" "DELETE FROM parent" "TRUNCATE parent" "TRUNCATE low" \
    "COPY parent FROM PROGRAM 'echo 2,new' CSV" \
    "MERGE INTO parent p USING (SELECT 1 AS n) s ON p.n = s.n WHEN MATCHED THEN DELETE" \
    "MERGE INTO parent p USING (SELECT 2 AS n) s ON p.n = s.n
        WHEN NOT MATCHED THEN INSERT VALUES (2, 'new')" \
    "INSERT INTO parent VALUES (1, 'new') ON CONFLICT (n) DO UPDATE SET what = 'new'" \
    "INSERT INTO parent VALUES (2, 'new') ON CONFLICT DO NOTHING" \
    "UPDATE parent SET n = 12 WHERE n = 1" "UPDATE parent SET n = 2 WHERE n = 11"
passes "INSERT INTO parent VALUES (12)" "UPDATE parent SET what = 'new' WHERE n = 11" \
    "TRUNCATE high"

t_case "a protected child is not written through the table that it inherits from"
sql "CREATE TABLE base (n int, what text)" "CREATE TABLE child () INHERITS (base)" \
    "CREATE TABLE grandchild () INHERITS (child)" "INSERT INTO child VALUES (1, 'old')"
protect child
fenced "UPDATE base SET what = 'new'" "DELETE FROM base" "TRUNCATE base" \
    "INSERT INTO child VALUES (2)" "INSERT INTO grandchild VALUES (2)" "TRUNCATE grandchild"
passes "INSERT INTO base VALUES (2)" "UPDATE ONLY base SET what = 'new'" "TRUNCATE ONLY base"
# One that is made later is a table of its own, until install is run again.
sql "CREATE TABLE late () INHERITS (child)"
passes "INSERT INTO late VALUES (3)"
t_run "$tenure" fence install --at "$at"
t_ends 0
fenced "INSERT INTO late VALUES (3)" "TRUNCATE late"

t_case "a protected table that becomes a partition or a child stays protected"
sql "CREATE TABLE joins (n int, what text)" "INSERT INTO joins VALUES (21, 'old')"
protect joins
sql "ALTER TABLE joins ALTER n SET NOT NULL" \
    "ALTER TABLE parent ATTACH PARTITION joins FOR VALUES FROM (20) TO (30)"
t_check "attached: $(cat "$t_err")" [ "$t_status" -eq 0 ]
fenced "INSERT INTO parent VALUES (22)" "UPDATE parent SET what = 'new' WHERE n = 21" \
    "DELETE FROM parent WHERE n = 21"
sql "ALTER TABLE parent DETACH PARTITION joins" "ALTER TABLE joins INHERIT base"
t_check "inherits: $(cat "$t_err")" [ "$t_status" -eq 0 ]
fenced "UPDATE base SET what = 'new' WHERE n = 21" "DELETE FROM base WHERE n = 21" \
    "INSERT INTO joins VALUES (22)"
sql "ALTER TABLE joins NO INHERIT base"

t_case "both fences are asked where a protected table is below another"
sql "CREATE TABLE own (n int, what text)"
protect own other
sql "ALTER TABLE parts ADD what text" \
    "ALTER TABLE parts ATTACH PARTITION own FOR VALUES FROM (30) TO (40)"
t_check "attached: $(cat "$t_err")" [ "$t_status" -eq 0 ]
sql "BEGIN" "SELECT tenure_fence.admit('things', 7)" "INSERT INTO parts VALUES (31)" "ROLLBACK"
refused TN064
sql "BEGIN" "SELECT tenure_fence.admit('other', 7)" "INSERT INTO own VALUES (31)" "ROLLBACK"
refused TN064
sql "BEGIN" "SELECT tenure_fence.admit('other', 7), tenure_fence.admit('things', 7)" \
    "INSERT INTO own VALUES (31)" "ROLLBACK"
t_check "both: $(cat "$t_err")" [ "$t_status" -eq 0 ]

t_case "foreign keys, views, rules and functions reach no further than their caller's token"
sql "CREATE TABLE refs (id int PRIMARY KEY)" "INSERT INTO refs VALUES (1), (2), (3), (4)" \
    "CREATE TABLE deletes (id int REFERENCES refs ON DELETE CASCADE)" \
    "CREATE TABLE sets (id int REFERENCES refs ON DELETE SET NULL)" \
    "CREATE TABLE updates (id int REFERENCES refs ON UPDATE CASCADE)" \
    "INSERT INTO deletes VALUES (1)" "INSERT INTO sets VALUES (2)" \
    "INSERT INTO updates VALUES (3)" \
    "CREATE VIEW shown AS SELECT * FROM things" "CREATE TABLE heard (what text)" \
    "CREATE RULE also AS ON INSERT TO heard DO ALSO INSERT INTO things VALUES (NEW.what)" \
    "CREATE FUNCTION definer() RETURNS void LANGUAGE sql SECURITY DEFINER AS
        \$\$INSERT INTO things VALUES ('new')\$\$"
for table in deletes sets updates; do
    protect $table
done
fenced "DELETE FROM refs WHERE id = 1" "DELETE FROM refs WHERE id = 2" \
    "UPDATE refs SET id = 5 WHERE id = 3" "TRUNCATE refs CASCADE" \
    "INSERT INTO shown VALUES ('new')" "UPDATE shown SET what = 'new'" "DELETE FROM shown" \
    "INSERT INTO heard VALUES ('new')" "SELECT definer()" "DO 'BEGIN PERFORM definer(); END'"
passes "DELETE FROM refs WHERE id = 4"
sql "BEGIN ISOLATION LEVEL SERIALIZABLE" "DELETE FROM refs WHERE id = 1" "COMMIT"
refused TN064

t_case "replication is no way past, and install mends what the owner switched off"
write="INSERT INTO things VALUES ('new')"
fenced "SET session_replication_role = replica; $write"
sql "ALTER TABLE things DISABLE TRIGGER USER"
passes "$write"
t_run "$tenure" fence install --at "$at"
t_ends 0
fenced "$write"
# As pg_restore --disable-triggers leaves it.
sql "ALTER TABLE things DISABLE TRIGGER ALL" "ALTER TABLE things ENABLE TRIGGER ALL"
t_run "$tenure" fence install --at "$at"
t_ends 0
fenced "SET session_replication_role = replica; $write"

t_case "what an older version has installed is replaced"
old="FOR EACH STATEMENT EXECUTE FUNCTION tenure_fence.check_write('things')"
sql "CREATE TABLE ages (n int) PARTITION BY RANGE (n)" \
    "CREATE TABLE age1 PARTITION OF ages FOR VALUES FROM (0) TO (10)" \
    "CREATE TRIGGER tenure_fence BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON ages $old" \
    "CREATE TRIGGER tenure_fence_row BEFORE INSERT OR UPDATE OR DELETE ON ages
        FOR EACH ROW EXECUTE FUNCTION tenure_fence.check_write('things')" \
    "CREATE TABLE era (n int)" "CREATE TABLE epoch (n int)" "ALTER TABLE era INHERIT epoch" \
    "INSERT INTO era VALUES (1)" \
    "CREATE TRIGGER tenure_fence BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON era $old"
applied="SET session_replication_role = replica; INSERT INTO ages VALUES (1)"
passes "UPDATE epoch SET n = 2" "$applied"
t_run "$tenure" fence install --at "$at"
t_ends 0
fenced "UPDATE epoch SET n = 2" "$applied" "TRUNCATE age1" "INSERT INTO age1 VALUES (1)"
t_check "its triggers are gone" [ "$(value "SELECT count(*) FROM pg_trigger
    WHERE tgname IN ('tenure_fence', 'tenure_fence_row')")" = 0 ]

t_case "remove takes away what install put there, and nothing else"
triggers() {
    value "SELECT tgrelid::regclass, tgname, tgenabled FROM pg_trigger
        WHERE NOT tgisinternal ORDER BY 1, 2"
}
sql "CREATE FUNCTION mine() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'" \
    "CREATE TRIGGER mine AFTER INSERT ON grandchild EXECUTE FUNCTION mine()"
protect grandchild
before=$(triggers)
protect base
protect base
t_refute "more than before" [ "$(triggers)" = "$before" ]
fenced "INSERT INTO base VALUES (2)"
t_run "$tenure" fence remove --at "$at" --table base
t_ends 0
t_check "as before: $(triggers)" [ "$(triggers)" = "$before" ]
fenced "INSERT INTO child VALUES (2)" "INSERT INTO grandchild VALUES (2)"
t_run "$tenure" fence remove --at "$at" --table child
t_ends 0
passes "INSERT INTO child VALUES (2)" "INSERT INTO late VALUES (2)"
fenced "INSERT INTO grandchild VALUES (2)"
for table in low joins own deletes sets updates ages era grandchild; do
    t_run "$tenure" fence remove --at "$at" --table $table
    t_ends 0
done
passes "INSERT INTO grandchild VALUES (2)" "TRUNCATE parent" "TRUNCATE ages"
t_check "the trigger of somebody else is left" \
    [ "$(triggers | grep -v '^\(things\|part[s0-9]*\|own\)|tenure_fence_')" = 'grandchild|mine|O' ]

t_case "what cannot be protected"
sql "CREATE VIEW seen AS SELECT 1"
t_run "$tenure" fence install --at "$at" --table seen --resource things
failed 64 "is not a table"
t_run "$tenure" fence install --at "$at" --table nowhere --resource things
failed 64 "does not exist"
t_run "$tenure" fence install --at "$at" --table "x'; DROP TABLE things; --" --resource things
failed 64 ""
t_check "still there" [ "$(value "SELECT count(*) FROM things")" = 1 ]

# A leader in a psql of its own, told what to do through a pipe.
# leader ISOLATION; then say STATEMENT; its output is $t_dir/leader.out.
leader() {
    rm -f "$t_dir/pipe" "$t_dir/leader.out"
    mkfifo "$t_dir/pipe"
    PGOPTIONS="-c default_transaction_isolation=$1 ${2:-}" psql -XqAt -v VERBOSITY=verbose "$at" \
        <"$t_dir/pipe" >"$t_dir/leader.out" 2>&1 &
    leader=$!
    exec 3>"$t_dir/pipe"
}
say() { echo "$1" >&3; }
heard() { until_true 10 grep -q "$1" "$t_dir/leader.out"; }
gone() {
    exec 3>&-
    wait $leader
}

for level in 'read\ committed' 'repeatable\ read' serializable; do
    t_case "$level: who was paused before the check is refused"
    value "DELETE FROM tenure_fence.fences WHERE resource = 'job'; DROP TABLE IF EXISTS job;
        CREATE TABLE job (token numeric)" 2>/dev/null
    t_run "$tenure" fence raise --at "$at" job 33
    leader "$level"
    # Its snapshot is from before the successor.
    say "BEGIN; SELECT 'ready', count(*) FROM job;"
    t_check "ready" heard ready
    kill -STOP $leader
    t_run "$tenure" fence raise --at "$at" job 34
    t_ends 0
    kill -CONT $leader
    say "SELECT tenure_fence.admit('job', 33); INSERT INTO job VALUES (33); COMMIT;"
    say "SELECT 'first', count(*) FROM job;"
    t_check "done" heard 'first|0'
    t_check "why" grep -Eq 'ERROR:  (TN080|40001):' "$t_dir/leader.out"
    # Tried again, it is told the truth.
    say "BEGIN; SELECT tenure_fence.admit('job', 33); INSERT INTO job VALUES (33); COMMIT;"
    say "SELECT 'second', count(*) FROM job;"
    t_check "done" heard 'second|0'
    t_check "stale" grep -q 'ERROR:  TN080: tenure: token 33 is stale' "$t_dir/leader.out"
    gone

    t_case "$level: who is paused between check and COMMIT holds the successor off"
    value "DELETE FROM tenure_fence.fences WHERE resource = 'job'" 2>/dev/null
    leader "$level"
    say "BEGIN; SELECT tenure_fence.admit('job', 33); INSERT INTO job VALUES (33); SELECT 'in';"
    t_check "in" heard in
    kill -STOP $leader
    t_run "$tenure" fence raise --at "$at" job 34 --timeout 1s
    failed 69 "keeps the fence for longer than the timeout"
    t_check "nobody else came in" [ "$(highest "$at" job)" = 0 ]
    kill -CONT $leader
    say "COMMIT; SELECT 'out', count(*) FROM job;"
    t_check "out" heard 'out|1'
    t_run "$tenure" fence raise --at "$at" job 34
    t_ends 0
    say "BEGIN; SELECT tenure_fence.admit('job', 33); INSERT INTO job VALUES (33); COMMIT;"
    say "SELECT 'end', count(*) FROM job;"
    t_check "refused" heard 'end|1'
    gone
done

for level in 'READ COMMITTED' 'REPEATABLE READ' SERIALIZABLE; do
    t_case "$level: a raise is done although the old holder never stops writing"
    value "DELETE FROM tenure_fence.fences WHERE resource = 'busy'; DROP TABLE IF EXISTS busy;
        CREATE TABLE busy (token numeric)" 2>/dev/null
    t_run "$tenure" fence raise --at "$at" busy 33
    # There is always a transaction that was admitted: they never end all at once.
    cat >"$t_dir/busy.sql" <<END
\\set ms random(5, 40)
BEGIN ISOLATION LEVEL $level;
SELECT tenure_fence.admit('busy', 33);
INSERT INTO busy VALUES (33);
\\sleep :ms ms
COMMIT;
END
    pgbench -n -c 12 -j 1 -T 120 -f "$t_dir/busy.sql" "$at" >"$t_dir/busy" 2>&1 &
    busy=$!
    wrote() { [ "$(value "SELECT count(*) FROM busy")" -ge "$1" ]; }
    t_check "it writes" until_true 30 wrote 30
    # Once by the command, whatever the role's default is, and once in SQL.
    value "ALTER ROLE tenure SET default_transaction_isolation = '$level'"
    t_run "$tenure" fence raise --at "$at" busy 34 --timeout 10s
    t_ends 0
    count=$(value "SELECT count(*) FROM busy")
    wait $busy
    t_check "all its clients were refused: $(tail -n 1 "$t_dir/busy")" \
        [ "$(grep -c 'token 33 is stale' "$t_dir/busy")" -eq 12 ]
    t_check "nothing was written afterwards" [ "$(value "SELECT count(*) FROM busy")" = "$count" ]
    sed -i 's/33/34/' "$t_dir/busy.sql"
    pgbench -n -c 12 -j 1 -T 120 -f "$t_dir/busy.sql" "$at" >"$t_dir/busy" 2>&1 &
    busy=$!
    t_check "the next one writes" until_true 30 wrote $((count + 30))
    sql "SET lock_timeout = '10s'" "BEGIN ISOLATION LEVEL $level" \
        "SELECT tenure_fence.raise('busy', 35)" "COMMIT"
    t_check "raised: $(cat "$t_err")" [ "$t_status" -eq 0 ]
    wait $busy
    value "ALTER ROLE tenure RESET default_transaction_isolation"
done

t_case "a writer that is paused for too long is cut off by the server"
leader 'read\ committed' "-c idle_in_transaction_session_timeout=500ms"
say "BEGIN; SELECT tenure_fence.admit('job', 34); INSERT INTO job VALUES (34); SELECT 'in';"
t_check "in" heard in
kill -STOP $leader
t_run "$tenure" fence raise --at "$at" job 35 --timeout 20s
t_ends 0
kill -CONT $leader
say "COMMIT;"
gone
t_check "only the first" [ "$(value "SELECT count(*) FROM job")" = 1 ]

t_case "equal tokens do not wait for each other"
leader 'read\ committed'
say "BEGIN; SELECT tenure_fence.admit('job', 35); SELECT 'in';"
t_check "in" heard in
sql "SET lock_timeout = 1000" "BEGIN" "SELECT tenure_fence.admit('job', 35)" "COMMIT"
t_check "both" [ "$t_status" -eq 0 ]
say "COMMIT;"
gone

t_case "who waits behind a raise is refused by what the raise has done, in one statement, too"
sql "CREATE TABLE counts (n int)" "INSERT INTO counts VALUES (0)"
leader 'read\ committed'
say "BEGIN; SELECT tenure_fence.admit('job', 35); UPDATE counts SET n = n + 1; SELECT 'in';"
t_check "in" heard in
"$tenure" fence raise --at "$at" job 36 --timeout 60s >"$t_dir/raised" 2>&1 &
raising=$!
waiting() { [ "$(value "SELECT count(*) FROM pg_locks WHERE NOT granted")" = "$1" ]; }
t_check "the raise waits" until_true 10 waiting 1
psql -XqAt -v VERBOSITY=verbose "$at" >"$t_dir/late" 2>&1 -c \
    "UPDATE counts SET n = n + 10 WHERE n < 100 AND tenure_fence.admit('job', 35)" &
late=$!
t_check "so does the late one" until_true 10 waiting 2
say "COMMIT;"
wait $raising
t_check "raised" [ $? -eq 0 ]
wait $late
t_check "stale: $(cat "$t_dir/late")" grep -q 'ERROR:  TN080: tenure: token 35 is' "$t_dir/late"
gone
sql "UPDATE counts SET n = n + 100 WHERE (SELECT tenure_fence.admit('job', 36))"
t_check "admitted: $(cat "$t_err")" [ "$t_status" -eq 0 ]
t_check "the two that were admitted" [ "$(value "SELECT n FROM counts")" = 101 ]

t_case "the first two writers of a term do not stop each other for ever"
leader 'read\ committed'
say "BEGIN; SELECT tenure_fence.admit('job', 37); SELECT 'in';"
t_check "in" heard in
psql -XqAt "$at" >"$t_dir/late" 2>&1 -c \
    "UPDATE counts SET n = n + 1000 WHERE tenure_fence.admit('job', 37)" &
late=$!
t_check "the second waits" until_true 10 waiting 1
say "COMMIT;"
wait $late
t_check "and comes in: $(cat "$t_dir/late")" [ "$(value "SELECT n FROM counts")" = 1101 ]
# 37.0 is 37: who is admitted by it holds off 38.
say "BEGIN; SELECT tenure_fence.admit('job', 37.0); SELECT 'again';"
t_check "again" heard again
t_run "$tenure" fence raise --at "$at" job 38 --timeout 1s
failed 69 "keeps the fence for longer than the timeout"
say "COMMIT;"
gone

t_case "the pause, without a fence: the data is damaged"
sql "CREATE TABLE plain (token numeric)"
leader 'read\ committed'
say "SELECT 'ready';"
t_check "ready" heard ready
kill -STOP $leader
sql "INSERT INTO plain VALUES (34)"
kill -CONT $leader
say "INSERT INTO plain VALUES (33); SELECT 'done';"
t_check "done" heard 'done'
gone
t_check "33 came after 34" [ "$(value "SELECT string_agg(token::text, ',') FROM plain")" = 34,33 ]

t_case "a database that is not there, a role that is not"
nowhere=$(echo "$at" | sed 's|^\(postgres[a-z]*://[^/]*\)/[^?]*|\1/nowhere|')
t_run "$tenure" fence raise --at "$nowhere" things 99
failed 64 'database "nowhere" does not exist'
t_run timeout 60 "$tenure" run --fence "$nowhere#things" nowhere -- true
failed 64 '--fence: postgres: '
nobody=$(echo "$at" | sed 's/user=tenure/user=nobody-at-all/')
t_run timeout 60 "$tenure" run --fence "$nobody#things" nobody -- true
failed 77 '--fence: postgres: '

t_case "a role without rights"
value "CREATE ROLE guest LOGIN; GRANT INSERT ON things TO guest" >/dev/null
guest=$(echo "$at" | sed 's/user=tenure/user=guest/')
t_run "$tenure" fence raise --at "$guest" things 99
failed 77 "permission denied"
t_run psql -XqAt -v VERBOSITY=verbose "$guest" -c "INSERT INTO things VALUES ('guest')"
refused TN064
value "GRANT USAGE ON SCHEMA tenure_fence TO guest;
    GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA tenure_fence TO guest"
t_run "$tenure" fence raise --at "$guest" things 9
t_ends 0

t_case "after a crash of the server the token is there"
value "ALTER SYSTEM SET synchronous_commit = off" >/dev/null
value "SELECT pg_reload_conf()" >/dev/null
t_run "$tenure" fence raise --at "$at" things 1000
t_ends 0
t_run "$TENURE_ROOT/tests/harness/postgres" crash "$t_dir/pg"
t_check "started again" [ "$t_status" -eq 0 ]
t_check "the token" [ "$(highest "$at" things)" = 1000 ]

t_case "logical replication applies nothing without a token"
value "ALTER SYSTEM SET wal_level = logical" >/dev/null
t_run "$TENURE_ROOT/tests/harness/postgres" crash "$t_dir/pg"
t_check "started again" [ "$t_status" -eq 0 ]
there=$(echo "$at" | sed 's|///postgres?|///there?|')
sql "CREATE DATABASE there" "CREATE TABLE copied (n int PRIMARY KEY)"
t_run psql -XqAt "$there" -c "CREATE TABLE copied (n int PRIMARY KEY)" \
    -c "CREATE PUBLICATION all_of_it FOR TABLE copied" \
    -c "SELECT pg_create_logical_replication_slot('slot', 'pgoutput')"
protect copied
sql "CREATE SUBSCRIPTION sub CONNECTION 'host=$t_dir/pg dbname=there user=tenure'
    PUBLICATION all_of_it WITH (create_slot = false, slot_name = slot, copy_data = false)"
t_check "subscribed: $(cat "$t_err")" [ "$t_status" -eq 0 ]
psql -XqAt "$there" -c "INSERT INTO copied VALUES (1)"
t_check "refused" until_true 60 grep -q 'ERROR:  tenure: no token was presented' "$t_dir/pg/log"
t_check "nothing came" [ "$(value "SELECT count(*) FROM copied")" = 0 ]
# An owner who wants it replicated says so.
value "ALTER TABLE copied ENABLE TRIGGER USER"
came() { [ "$(value "SELECT count(*) FROM copied")" = "$1" ]; }
t_check "applied" until_true 60 came 1
sql "INSERT INTO copied VALUES (2)"
refused TN064
sql "ALTER SUBSCRIPTION sub DISABLE" "ALTER SUBSCRIPTION sub SET (slot_name = NONE)" \
    "DROP SUBSCRIPTION sub"
t_check "dropped: $(cat "$t_err")" [ "$t_status" -eq 0 ]

t_case "removed"
t_run "$tenure" fence remove --at "$at"
failed 69 "a table is still protected"
for table in things parts copied; do
    t_run "$tenure" fence remove --at "$at" --table $table
    t_ends 0
done
sql "DELETE FROM things"
t_check "free" [ "$t_status" -eq 0 ]
t_run "$tenure" fence remove --at "$at"
t_ends 0
t_run "$tenure" fence show --at "$at"
failed 69 "there are no fences"

t_case "a server that is not there"
t_run "$tenure" fence show --at "postgres:///postgres?host=$t_dir/nowhere"
failed 69 "No such file or directory"
t_run "$tenure" fence show --at "postgres://127.0.0.1:1/x"
failed 69 "Connection refused"

t_done
