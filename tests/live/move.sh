#!/bin/sh
# move.sh - `tenure move`: what docs/move.md shows, what is refused, and a few of the random runs of
# chaos/move.sh.
# shellcheck source=tests/harness/lib.sh
. "${TENURE_ROOT:-$(dirname "$0")/../..}/tests/harness/lib.sh"
# shellcheck source=tests/live/tenured.lib
. "$TENURE_ROOT/tests/live/tenured.lib"
# shellcheck source=tests/live/etcd.lib
. "$TENURE_ROOT/tests/live/etcd.lib"
# shellcheck source=tests/live/move.lib
. "$TENURE_ROOT/tests/live/move.lib"
# shellcheck source=tests/live/postgres.inc
. "$TENURE_ROOT/tests/live/postgres.inc"
# shellcheck source=tests/live/redis.inc
. "$TENURE_ROOT/tests/live/redis.inc"

move_begin
a=sqlite:$t_dir/a.db b=sqlite:$t_dir/b.db

t_case "two owners of one token are found"
printf '5 100\n5 120\n7 130\n' >"$t_dir/twice.acts"
printf '5 10\n7 11\n' >"$t_dir/twice.acts.owners"
t_check "one owner each" apart twice
echo "7 12" >>"$t_dir/twice.acts.owners"
t_refute "7 has two" apart twice

t_case "bad words: 64, and nothing is made"
t_bad "both needed" "$tenure" move --from "$a" job
t_bad "which NAME" "$tenure" move --from "$a" --to "$b"
t_bad "empty segment" "$tenure" move --from "$a" --to "$b" a//b
t_bad "same store" "$tenure" move --from "$a" --to "$a" job
t_bad "cannot be blocked" "$tenure" move --from zookeeper://127.0.0.1:1 --to "$a" job
told 69 "there is no store at $a" move --from "$a" --to "$b" job
t_refute "no file" [ -e "$t_dir/a.db" -o -e "$t_dir/b.db" ]

t_case "two spellings of one store: 64, and the name is free again"
"$tenure" run --store "$a" x -- true
t_bad "are the same store" "$tenure" move --from "$a" --to "sqlite:$t_dir/../${t_dir##*/}/a.db" y
t_run "$tenure" status --store "$a" y
t_check "free: $(cat "$t_out")" grep -q "^y: free" "$t_out"

t_case "led at the new store already: 75, nothing changed"
"$tenure" acquire --store "$b" --ttl 60s --id there two >/dev/null
told 75 "two: 'there' leads at $b already" move --from "$a" --to "$b" two
t_run "$tenure" status --store "$a" two
t_check "not blocked: $(cat "$t_out")" grep -q "^two: free" "$t_out"

t_case "a label is no proof that a move blocks the name"
"$tenure" acquire --store "$b" --ttl 60s --id "moved to $a #0123456789abcdef" forged >/dev/null
told 75 "forged: 'moved to $a #0123456789abcdef' leads at $b already" \
    move --from "$a" --to "$b" forged

t_case "a leader that does not stop in time: 75, and the old election goes on; --abandon"
"$tenure" acquire --store "$a" --ttl 60s --id script slow >/dev/null
told 75 "slow: not moved yet, and reserved at $b" move --from "$a" --to "$b" --wait 1s slow
t_check "reserved there" [ "$(kind "$b" slow)" = reserved ]
t_check "still led" [ "$(kind "$a" slow)" = led ]
told 75 "slow: another move is not finished: held at $b" move --from "unix:$socket" --to "$b" slow
told 75 "slow: another move is not finished: held at $b" move --from "$b" --to "unix:$socket" slow
t_run "$tenure" move --from "$a" --to "$b" --abandon slow
t_ends 0
t_check "says so" grep -qx "slow: not moved" "$t_out"
t_check "free there" [ "$(kind "$b" slow)" = free ]

t_case "moved, run again, given up too late, and back"
"$tenure" acquire --store "$a" --ttl 2s job >/dev/null
t_run "$tenure" move --from "$a" --to "$b" --json job
t_ends 0
old=$(sed 's/.*"token":\([0-9]*\).*/\1/' "$t_out")
t_check "all fields: $(cat "$t_out")" grep -Eqx \
    '\{"moved":true,"name":"job","token":[0-9]+,"blocked_ms":86400000\}' "$t_out"
"$tenure" run --store "$b" job -- sh -c 'echo "$TENURE_TOKEN"' >"$t_dir/token"
t_promise "the token is above $old: $(cat "$t_dir/token")" [ "$(cat "$t_dir/token")" -gt "$old" ]
told 75 "job: is moved already" move --from "$a" --to "$b" --abandon job
t_run "$tenure" move --from "$a" --to "$b" job
t_ends 0
told 75 "job: another move is not finished: held at $a" move --from "$a" --to "unix:$socket" job
t_run "$tenure" move --from "$b" --to "$a" job
t_ends 0
"$tenure" run --store "$a" job -- sh -c 'echo "$TENURE_TOKEN"' >"$t_dir/token2"
t_promise "above again" [ "$(cat "$t_dir/token2")" -gt "$(cat "$t_dir/token")" ]
t_check "blocked there" [ "$(kind "$b" job)" = moved ]

# pass URL URL: a name that was led at the first leads at the second under a higher token.
pass() {
    "$tenure" run --store "$1" --ttl 20s pass -- sh -c 'echo "$TENURE_TOKEN"' >"$t_dir/token"
    t_run "$tenure" move --from "$1" --to "$2" pass
    t_check "$2: moved: $(cat "$t_err")" [ "$t_status" -eq 0 ]
    "$tenure" run --store "$2" --ttl 20s pass -- sh -c 'echo "$TENURE_TOKEN"' >"$t_dir/token2"
    t_promise "$2: above" [ "$(cat "$t_dir/token2")" -gt "$(cat "$t_dir/token")" ]
}

t_case "etcd: tokens that are far above are not reached by writing: 69"
case $stores in
*etcd:*)
    sqlite3 "$t_dir/a.db" 'UPDATE counter SET token = 1000000000'
    "$tenure" run --store "$a" far -- true
    told 69 "have to be above" move --from "$a" --to "${stores##* }" far
    t_check "nothing is blocked" [ "$(kind "$a" far)" = free ]
    t_check "nor reserved" [ "$(kind "${stores##* }" far)" = free ]
    ;;
*) t_skip "no etcd" ;;
esac

t_case "what docs/move.md shows"
case $stores in
*etcd:*)
    mkdir "$t_dir/page" "$t_dir/bin"
    ln -s "$tenure" "$TENURE_BUILD/tenured" "$t_dir/bin"
    awk '$0 == "```sh" { on = 1; next } /^```/ { on = 0 } on' "$TENURE_ROOT/docs/move.md" |
        sed "s,127.0.0.1:2379,127.0.0.1:$port_one," >"$t_dir/page/script"
    t_run sh -c 'cd "$1" && PATH=$2:$PATH timeout 120 bash -e script' sh "$t_dir/page" "$t_dir/bin"
    t_check "status $t_status: $(cat "$t_err")" [ "$t_status" -eq 0 ]
    t_check "three terms, rising tokens: $(cat "$t_out")" \
        awk '/^worker/ { if ($4 <= last) exit 1; last = $4; n++ } END { exit n != 3 }' "$t_out"
    ;;
*) t_skip "no etcd" ;;
esac

for run in $(seq "${TENURE_CHAOS_RUNS:-2}"); do
    t_case "killed again and again: run $run"
    move_run "$run"
done

pg_begin
rd_begin
pg_init && pg_start
rd_start 1
t_case "PostgreSQL and Redis raise their counters"
pass "unix:$socket" "$(at postgres)"
pass "$(at postgres)" "$(rd_url 1)"
pass "$(rd_url 1)" "sqlite:$t_dir/last.db"
t_done
