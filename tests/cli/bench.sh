#!/bin/sh
# bench.sh - `tenure bench`: it measures, says so in a table and as JSON, and leaves nothing behind.
# shellcheck source=tests/harness/lib.sh
. "${TENURE_ROOT:-$(dirname "$0")/../..}/tests/harness/lib.sh"

tenure=$TENURE_BUILD/tenure
unset TENURE_STORE
url=sqlite:$t_dir/store.db

t_case "a table of four works"
t_run "$tenure" bench --store "$url" --time 100ms --clients 3
t_ends 0
t_prints "sqlite: 3 clients, 100ms of each work"
for work in acquire release renew hand-over; do
    t_check "$work" grep -Eq "^$work +[0-9]+( +[0-9]+\.[0-9]{3}){4}\$" "$t_out"
done

t_case "nothing is left behind"
t_run "$tenure" list --store "$url"
t_ends 0
t_refute "a name" [ -s "$t_out" ]

t_case "one JSON object, whose numbers are in order"
t_run "$tenure" bench --store memory: --time 50ms --json
t_ends 0
t_check "one line" [ "$(wc -l <"$t_out")" -eq 1 ]
cat >"$t_dir/check.py" <<'EOT'
import json, sys
told = json.load(open(sys.argv[1]))
assert told["store"] == "memory" and told["clients"] == 16, told
assert [w["work"] for w in told["works"]] == ["acquire", "release", "renew", "hand-over"], told
for w in told["works"]:
    assert w["count"] > 0 and w["per_second"] > 0, w
    assert 0 <= w["p50_us"] <= w["p90_us"] <= w["p99_us"] <= w["max_us"], w
EOT
t_check "all numbers" python3 "$t_dir/check.py" "$t_out"

t_case "the store is also found in the environment"
TENURE_STORE=memory: t_run "$tenure" bench --time 10ms
t_ends 0
t_prints "memory: 16 clients"

t_case "a signal ends it, and what it held is given back"
"$tenure" bench --store "$url" --time 10s --clients 2 >"$t_out" 2>"$t_err" &
pid=$!
tries=0
until "$tenure" list --store "$url" --json | grep -q '"state":"held"'; do
    tries=$((tries + 1))
    [ $tries -lt 500 ] || break
done
kill -INT $pid || t_fail "it ended by itself"
t_status=0
wait $pid || t_status=$?
t_check "ended by the signal, not $t_status" [ "$t_status" -eq 130 ]
t_refute "no report" [ -s "$t_out" ]
t_run "$tenure" list --store "$url" --json
t_refute "nothing is held" grep -q '"state":"held"' "$t_out"

t_case "bad input"
t_bad "'nothing:' names no store" "$tenure" bench --store nothing:
t_bad "--clients: '1' is too small" "$tenure" bench --clients 1
t_bad "--clients: '257' is too large" "$tenure" bench --clients 257
t_bad "--time: '1h' is too long" "$tenure" bench --time 1h
t_bad "one word too many" "$tenure" bench --store "$url" word

t_case "a store that cannot be had"
t_run "$tenure" bench --store "sqlite:$t_dir/no/such/dir.db"
t_check "exit status is 69, not $t_status" [ "$t_status" -eq 69 ]
t_check "one line on stderr" [ "$(wc -l <"$t_err")" -eq 1 ]
t_refute "stdout is empty" [ -s "$t_out" ]

t_case "a password in the URL is not repeated"
t_run "$tenure" bench --store postgres://user:topsecret@127.0.0.1:1/x --time 10ms
t_check "exit status is 69 or 64, not $t_status" [ "$t_status" -eq 69 -o "$t_status" -eq 64 ]
t_refute "the password" grep -q topsecret "$t_out" "$t_err"
t_done
