#!/bin/sh
# postgres_faults.sh - what a PostgreSQL server that crashes, stops or is cut off does to a term.
# shellcheck source=tests/harness/lib.sh
. "${TENURE_ROOT:-$(dirname "$0")/../..}/tests/harness/lib.sh"
# shellcheck source=tests/live/postgres.inc
. "$TENURE_ROOT/tests/live/postgres.inc"
# shellcheck source=tests/live/faults.lib
. "$TENURE_ROOT/tests/live/faults.lib"
pg_begin

t_case "a server starts"
pg_init
t_check "it runs" pg_start

pg_faults
faults_replay "$pg_port" 30
# They would look every 4 s by themselves.
t_case "a resign wakes who waits, a crash is noticed after the TTL"
here=$(url "$pg_port")
queues() { [ "$(pg_sql postgres "SELECT count(*) FROM tenure.waiter" 2>/dev/null)" = 1 ]; }
candidate ada job "$here" 60s
ada=$!
until_acted job 0
candidate bob job "$here" 60s
bob=$!
t_check "bob is in the queue" until_true 20 queues
asked=$(now_ms)
end $ada
until_acted job "$token"
took=$(($(now_ms) - asked))
t_check "handed over in $took ms" [ $took -lt 2500 ]
end $bob
candidate bob job "$here" 4s
bob=$!
until_acted job "$token"
candidate eve job "$here" 4s
t_check "eve is in the queue" until_true 20 queues
kill -KILL $bob
asked=$(now_ms)
until_acted job "$token"
took=$(($(now_ms) - asked))
t_check "taken over in $took ms: after the TTL, not much later" [ $took -gt 2500 ]
t_check "taken over in $took ms" [ $took -lt 12000 ]
t_promise "no two acted at one time" apart job
end_all
t_case "a backup that is put back: who knows better refuses to lead, and says why"
here=$(url "$pg_port")
"$tenure" run --store "$here" --ttl 3s first -- true # It makes the tables.
pg_sql postgres "UPDATE tenure.state SET token = 1000"
candidate ada gone "$here" 3s
until_acted gone 1000
pg_sql postgres "TRUNCATE tenure.lease, tenure.waiter, tenure.session CASCADE;
    UPDATE tenure.state SET token = 7"
t_check "ada refuses: $(cat "$t_dir/gone.err")" \
    until_line "$t_dir/gone.err" "refused to lead with token [0-9]*: token-regressed" 30
remedy=$(sed -n "s/.*psql -c '\(UPDATE tenure.state SET token = [0-9]*\)'.*/\1/p" "$t_dir/gone.err")
t_check "and names the remedy: $(cat "$t_dir/gone.err")" [ -n "$remedy" ]
t_promise "and nobody has led with a lower one" apart gone
pg_sql postgres "$remedy"
until_acted gone "$token"
end_all
t_promise "until the counter is put right" apart gone

faults_one "$pg_port"
t_done
