#!/bin/sh
# http.sh - `tenure run --http`: who leads, and whether all is well, for neighbours.
# shellcheck source=tests/harness/lib.sh
. "${TENURE_ROOT:-$(dirname "$0")/../..}/tests/harness/lib.sh"

tenure=$TENURE_BUILD/tenure
TENURE_STORE=sqlite:$t_dir/tenure.db
export TENURE_STORE

# fetch PORT PATH [METHOD]: the status and the body, in one line each, without a client program.
fetch() {
    bash -c 'exec 3<>"/dev/tcp/127.0.0.1/$1" || exit 1
        printf "%s %s HTTP/1.0\r\n\r\n" "$3" "$2" >&3
        tr -d "\r" <&3 | sed -n "1p;/^\$/,\$p" | grep -v "^\$"' \
        fetch "$1" "$2" "${3:-GET}" 2>/dev/null
}

# until_says PORT PATH PATTERN: within ten seconds.
until_says() {
    left=500
    until fetch "$1" "$2" >"$t_dir/answer" && grep -q "$3" "$t_dir/answer"; do
        left=$((left - 1))
        [ $left -gt 0 ] || return 1
        sleep 0.02
    done
}

if ! "$tenure" run --http x:0 n -- true 2>&1 | grep -q 'port'; then
    t_case "pages for neighbours"
    t_skip "built without libmicrohttpd"
    t_done
fi

port=$(t_ports 1)
other=$(t_ports 1)

t_case "the leader names itself, the follower names the leader, both are well"
"$tenure" run --ttl 3s --id ada --http 127.0.0.1:$port job -- sleep 1000 2>"$t_dir/ada.err" &
ada=$!
t_check "leads" until_says $port / '^{"name":"ada"}$'
t_check "health" until_says $port /healthz '200'
"$tenure" run --ttl 3s --id bob --http :$other job -- sleep 1000 2>"$t_dir/bob.err" &
bob=$!
t_check "follows" until_says $other / '^{"name":"ada"}$'
t_check "health" until_says $other /healthz '200'

t_case "other pages and methods"
t_check "404" until_says $port /nothing '404'
fetch $port / POST >"$t_dir/answer"
t_check "405" grep -q 405 "$t_dir/answer"

t_case "after a hand-over"
kill -TERM $ada
wait $ada
t_check "leads" until_says $other / '^{"name":"bob"}$'

t_case "an address that is taken"
t_run "$tenure" run --http 127.0.0.1:$other x -- true
t_check "status" [ "$t_status" -eq 69 ]
t_check "one line" [ "$(wc -l <"$t_err")" -eq 1 ]

t_case "whose store does not answer is not well once its term is over"
"$TENURE_BUILD/tests/fixtures/hold" "$t_dir/tenure.db" >"$t_dir/held" &
hold=$!
t_check "503" until_says $other /healthz '503'
t_check "nobody" until_says $other / '^{"name":""}$'
kill $hold
t_check "well again" until_says $other /healthz '200'
kill -TERM $bob
wait $bob 2>/dev/null

t_case "bad input: 64, one line, no file"
TENURE_STORE=sqlite:$t_dir/none.db
t_bad "has no port" "$tenure" run --http localhost x -- true
t_bad "has no port" "$tenure" run --http :65536 x -- true
t_refute "no file" [ -e "$t_dir/none.db" ]
t_done
