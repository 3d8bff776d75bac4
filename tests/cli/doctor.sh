#!/bin/sh
# doctor.sh - what doctor says of a store, and that it leaves nothing behind.
# shellcheck source=tests/harness/lib.sh
. "${TENURE_ROOT:-$(dirname "$0")/../..}/tests/harness/lib.sh"

tenure=$TENURE_BUILD/tenure
store=sqlite:$t_dir/t.db
unset TENURE_STORE

# failed STATUS WORDS: that exit status, and one line on stderr with the words.
failed() {
    t_check "exit status is $1, not $t_status" [ "$t_status" -eq "$1" ]
    t_check "one line on stderr: $(cat "$t_err")" [ "$(wc -l <"$t_err")" -eq 1 ]
    t_check "says '$2': $(cat "$t_err")" grep -qF "$2" "$t_err"
    t_refute "stdout is empty" [ -s "$t_out" ]
}

t_case "looking makes nothing"
t_run "$tenure" doctor "$store"
failed 69 "there is no store yet; the first candidate makes it, or --install"
t_refute "no file" [ -e "$t_dir/t.db" ]

t_case "--install makes the store, and measures it"
t_run "$tenure" doctor --install --for 200ms "$store"
t_ends 0
for words in "reachable   yes" "class       strict: a file on this host" "may write   yes" \
    "reads       p50 " "renewals    p50 " "clock rate  not measured: all who use the file" \
    "TTL         1s to 24h" "waiters     first come, first served, and are told" \
    "scripts     acquire, renew and release work" "failover    "; do
    t_check "says '$words'" grep -qF "  $words" "$t_out"
done
t_check "safe" grep -q "^safe: 'tenure plan --ttl 15s --rtt [0-9]*ms' shows the arithmetic" "$t_out"
t_check "no progress where nobody looks" [ ! -s "$t_err" ]
t_run "$tenure" list --store "$store"
t_refute "no name is left" [ -s "$t_out" ]

t_case "--json"
TENURE_STORE=$store t_run "$tenure" doctor --json --for 100ms --ttl 30s
t_ends 0
t_check "one object" [ "$(wc -l <"$t_out")" -eq 1 ]
for field in '"reachable":true' '"scheme":"sqlite"' '"class":"strict"' '"may_write":true' \
    '"clock":null' '"scripts":true' '"ttl_ns":30000000000' '"warning":null'; do
    t_check "$field" grep -qF "$field" "$t_out"
done
if command -v python3 >/dev/null; then
    t_check "valid" python3 -c 'import json, sys; json.load(open(sys.argv[1]))' "$t_out"
fi

t_case "a plan that the measurement does not carry is a finding"
t_run "$tenure" doctor --for 50ms --rho 0.45 --ttl 1s "$store"
t_check "1, not $t_status" [ "$t_status" -eq 1 ]
t_check "says so" grep -q "^unsafe: 'tenure plan --ttl 1s" "$t_out"

t_case "bad usage, and stores that are none"
t_run "$tenure" doctor "$store" --store "$store"
failed 64 "one store at a time"
t_run "$tenure" doctor memory:
failed 64 "lives in one process"
t_run "$tenure" doctor frob:x
failed 64 "names no store"
t_run "$tenure" doctor "$t_dir/t.db"
failed 64 "write sqlite:PATH"
echo "no database" >"$t_dir/plain"
t_run "$tenure" doctor "sqlite:$t_dir/plain"
failed 69 "$t_dir/plain"

t_case "on a slow disk, who leads goes on leading beside it"
busy=sqlite:$t_dir/busy.db
"$tenure" run --store "$busy" --ttl 2s --fence none job -- sleep 60 2>"$t_dir/run.err" &
leader=$!
leads() { "$tenure" status --store "$busy" job 2>&1 | grep -q "token 1,"; }
t_check "job is led" until_true 10 leads
disk=$TENURE_BUILD/tests/fixtures/libfailing_disk.so
TENURE_TEST_FLUSHES=100000 TENURE_TEST_FLUSH_MS=10 LD_PRELOAD=$disk \
    t_run "$tenure" doctor --for 5s "$busy"
t_ends 0
t_check "the same term: $(cat "$t_dir/run.err")" leads
kill "$leader"
wait "$leader"

t_case "--conformance runs the suite and clears its names away"
t_run "$tenure" doctor --conformance "$store"
t_check "passes: $(grep FAIL "$t_out" | head -n 3)" grep -q "^[1-9][0-9]* passed, 0 failed" "$t_out"
t_check "0, not $t_status" [ "$t_status" -eq 0 ]
t_run "$tenure" list --store "$store"
t_check "no name is left: $(head -n 3 "$t_out")" [ ! -s "$t_out" ]
TENURE_CONFORMANCE_PLANT=grants-twice t_run "$tenure" doctor --conformance "$store"
t_check "a store with a fault fails: 1, not $t_status" [ "$t_status" -eq 1 ]
t_run "$tenure" list --store "$store"
t_check "no name is left: $(head -n 3 "$t_out")" [ ! -s "$t_out" ]
t_done
