#!/bin/sh
# elect.sh - `tenure elect` and `tenure watch`: events as lines, in turn, in time.
# shellcheck source=tests/harness/lib.sh
. "${TENURE_ROOT:-$(dirname "$0")/../..}/tests/harness/lib.sh"

tenure=$TENURE_BUILD/tenure
TENURE_STORE=sqlite:$t_dir/tenure.db
export TENURE_STORE

# until_line FILE PATTERN: within ten seconds.
until_line() {
    left=1000
    until grep -q "$2" "$1" 2>/dev/null; do
        left=$((left - 1))
        [ $left -gt 0 ] || return 1
        sleep 0.01
    done
}

# end PID: SIGTERM, and its exit status.
end() {
    kill -TERM "$1"
    status=0
    wait "$1" || status=$?
}

t_case "one leads, the other waits and hears who does"
"$tenure" elect --ttl 3s --id ada job >"$t_dir/ada" &
ada=$!
t_check "won" until_line "$t_dir/ada" \
    '^{"event":"won","name":"job","holder":"ada","token":1,"reason":null}$'
"$tenure" elect --ttl 3s --id bob job >"$t_dir/bob" &
bob=$!
t_check "leader" until_line "$t_dir/bob" \
    '^{"event":"leader","name":"job","holder":"ada","token":1,"reason":null}$'
t_refute "bob has not won" grep -q '"won"' "$t_dir/bob"

t_case "watch tells who leads, as text and as JSON"
"$tenure" watch job >"$t_dir/text" &
text=$!
"$tenure" watch --json >"$t_dir/json" &
json=$!
t_check "text" until_line "$t_dir/text" ' job: led by ada, token 1$'
t_check "json" until_line "$t_dir/json" '"event":"leader","name":"job","holder":"ada","token":1'

t_case "SIGTERM gives the lease back, exit 0, and the next one leads"
end $ada
t_check "status" [ "$status" -eq 0 ]
t_check "lost" until_line "$t_dir/ada" \
    '^{"event":"lost","name":"job","holder":"ada","token":1,"reason":"released"}$'
t_check "won" until_line "$t_dir/bob" '"event":"won","name":"job","holder":"bob","token":2'
t_check "watched" until_line "$t_dir/text" ' job: led by bob, token 2$'

t_case "watch without a name sees names that are new"
"$tenure" elect --id eve --ttl 3s other >/dev/null &
eve=$!
t_check "new" until_line "$t_dir/json" '"event":"leader","name":"other","holder":"eve"'
end $eve
t_check "vacant" until_line "$t_dir/json" '"event":"vacant","name":"other","holder":null'
end $text
t_check "status" [ "$status" -eq 0 ]
end $json

t_case "--wait gives up: 75"
t_run "$tenure" elect --wait 300ms job
t_check "status" [ "$t_status" -eq 75 ]
t_check "one line" [ "$(wc -l <"$t_err")" -eq 1 ]

t_case "--once ends with the term: 79"
"$tenure" elect --ttl 1s --once --id dan alone >"$t_dir/dan" 2>"$t_dir/dan.err" &
dan=$!
t_check "won" until_line "$t_dir/dan" '"won"'
stopped=$(date +%s%3N)
kill -STOP $dan
left=300
until "$tenure" status --json alone | grep -q '"free"' || [ $left -eq 0 ]; do
    left=$((left - 1))
    sleep 0.02
done
kill -CONT $dan
status=0
wait $dan || status=$?
t_check "status" [ $status -eq 79 ]
t_check "expired" grep -q '"event":"lost".*"reason":"expired"' "$t_dir/dan"
proven=$(sed -n 's/.*"event":"lost".*,"proven_ms":\([0-9]\{13\}\)}$/\1/p' "$t_dir/dan")
t_check "proven up to a renewal before the stop: $proven, stopped at $stopped" \
    [ "${proven:-0}" -gt $((stopped - 5000)) ]
t_check "and not later" [ "$proven" -le $((stopped + 50)) ]

t_case "won and lost alternate"
t_check "bob" awk '
    /"won"/ { if (held) exit 1; held = 1 }
    /"lost"/ { if (!held) exit 1; held = 0 }' "$t_dir/bob"
end $bob

t_case "a reader that is gone ends the term at once: 74"
mkfifo "$t_dir/pipe"
"$tenure" elect --ttl 1m --id fay gone >"$t_dir/pipe" 2>/dev/null &
fay=$!
head -n 1 "$t_dir/pipe" >/dev/null
status=0
wait $fay || status=$?
t_check "status is 74, not $status" [ $status -eq 74 ]
t_run "$tenure" status --json gone
t_check "free" grep -q '"state":"free"' "$t_out"

t_case "and so for watch"
mkfifo "$t_dir/watched"
"$tenure" watch gone >"$t_dir/watched" 2>/dev/null &
ivy=$!
head -n 1 "$t_dir/watched" >/dev/null
status=0
wait $ivy || status=$?
t_check "status is 74, not $status" [ $status -eq 74 ]

t_case "bad input: 64, one line, no file"
TENURE_STORE=sqlite:$t_dir/none.db
t_bad "the name of the lease is missing" "$tenure" elect
t_bad "a//b" "$tenure" elect a//b
t_bad "--ttl" "$tenure" elect --ttl 1ms x
t_bad "b" "$tenure" watch a b
t_refute "no file" [ -e "$t_dir/none.db" ]
t_done
