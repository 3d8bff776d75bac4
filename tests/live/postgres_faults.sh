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
faults_one "$pg_port"
t_done
