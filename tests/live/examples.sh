#!/bin/sh
# examples.sh - a worked example runs: the singleton worker with a fence in PostgreSQL. The systemd
# unit is in service.sh, load balancers in proxies.sh, Kubernetes in
# tests/engines/kubernetes_manifests.sh.
# shellcheck source=tests/harness/lib.sh
. "${TENURE_ROOT:-$(dirname "$0")/../..}/tests/harness/lib.sh"
# shellcheck source=tests/live/postgres.inc
. "$TENURE_ROOT/tests/live/postgres.inc"

pg_begin
pg_init && pg_start
DATABASE=$(at postgres)
export DATABASE
PATH=$pg_bin:$PATH
worker=$TENURE_ROOT/examples/singleton-worker.sh

t_case "a singleton worker on PostgreSQL"
# What the script says of itself, word for word.
sed -n 's/^#     \(psql .*\|tenure fence .*\)/\1/p' "$worker" | sed "s,^tenure,$tenure," \
    >"$t_dir/once"
t_check "three lines" [ "$(wc -l <"$t_dir/once")" -eq 3 ]
t_run sh -e "$t_dir/once"
t_check "status $t_status: $(cat "$t_err")" [ "$t_status" -eq 0 ]
line=$(sed -n 's,^#     tenure \(run .*\) \./.*,\1,p' "$worker" | sed 's/run/run --ttl 2s/')
work() {
    setsid sh -c "exec $tenure $line $worker" >"$t_dir/$1.out" 2>&1 &
    candidates="$candidates $!"
}
add() { pg_sql postgres "INSERT INTO jobs SELECT FROM generate_series(1, $1)"; }
undone() { pg_sql postgres "SELECT (SELECT count(*) FROM jobs) - (SELECT count(*) FROM results)"; }
is_done() { [ "$(undone)" -eq 0 ]; }
is_begun() { [ "$(pg_sql postgres "SELECT count(*) FROM results")" -gt "$1" ]; }
newest() { pg_sql postgres "SELECT max(token) FROM results"; }
add 200
work one
first=$!
t_check "the first one works: $(cat "$t_dir/one.out")" until_true 30 is_begun 3
work two
old=$(newest)
# All of its processes: the session that setsid made.
pkill -STOP -s "$first"
has_changed() { [ "$(newest)" != "$old" ]; }
add 100
t_check "the second one takes over: $(cat "$t_dir/two.out")" until_true 30 has_changed
pkill -CONT -s "$first"
t_check "all jobs are done" until_true 60 is_done
t_run psql -XqAt "$DATABASE" -c "BEGIN; SELECT tenure_fence.admit('results', $old);
    INSERT INTO results VALUES (-1, $old); COMMIT;"
t_check "the old token is refused: $(cat "$t_err")" grep -q "$old" "$t_err"
t_run psql -XqAt "$DATABASE" -c "INSERT INTO results VALUES (-1, $old)"
t_check "and so is none at all" [ "$t_status" -ne 0 ]
t_promise "no write of the old one behind the new one's" [ "$(pg_sql postgres "SELECT count(*) FROM
    (SELECT token < max(token) OVER (ORDER BY xmin::text::bigint) AS late FROM results) x
    WHERE late")" -eq 0 ]
t_refute "nothing slipped in" [ "$(pg_sql postgres "SELECT count(*) FROM results WHERE job < 0")" \
    -ne 0 ]
end_all
t_done
