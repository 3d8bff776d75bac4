#!/bin/sh
# gate.sh - `tenure gate` in front of a real server, and behind a real nginx.
# shellcheck source=tests/harness/lib.sh
. "${TENURE_ROOT:-$(dirname "$0")/../..}/tests/harness/lib.sh"

tenure=$TENURE_BUILD/tenure
upstream=$TENURE_BUILD/tests/fixtures/upstream
TENURE_STORE=sqlite:$t_dir/store.db
export TENURE_STORE
# shellcheck source=tests/harness/fence.sh
. "$TENURE_ROOT/tests/harness/fence.sh"

pids=
cleanup() {
    for pid in $pids; do kill -KILL "$pid" 2>/dev/null; done
    [ ! -e "$t_dir/nginx/pid" ] || kill -TERM "$(cat "$t_dir/nginx/pid")"
    rm -rf "$t_dir"
}
trap cleanup EXIT

skip_all() {
    t_case "the gate"
    t_skip "$1"
    t_done
}
command -v curl >/dev/null || skip_all "curl is not installed; tools/deps servers installs it"

log=$t_dir/log
: >"$log"
"$upstream" "$log" >"$t_dir/upstream.port" &
pids="$pids $!"
t_case "a gate starts"
t_check "a server" until_true 5 [ -s "$t_dir/upstream.port" ]
server=http://127.0.0.1:$(cat "$t_dir/upstream.port")

# gate OPTION...: sets $gate, its URL, and $gate_pid.
gate() {
    : >"$t_dir/said"
    "$tenure" gate --listen 127.0.0.1:0 "$@" >"$t_dir/said" 2>"$t_dir/gate.err" &
    gate_pid=$!
    pids="$pids $gate_pid"
    t_check "it says so" until_true 5 grep -q "listening on port" "$t_dir/said"
    gate=http://127.0.0.1:$(sed 's/[^0-9]//g' "$t_dir/said")
}
gate --upstream "$server" --fences "$t_dir/gate.db" --timeout 5s
t_check "a new file is told" grep -q "gate.db' is new: no token is known yet" "$t_dir/gate.err"

# send METHOD PATH [CURL OPTION]...: $code, and the answer in $t_dir/body.
send() {
    method=$1 path=$2
    shift 2
    code=$(curl -s -m 20 -o "$t_dir/body" -w '%{http_code}' -D "$t_dir/head" -X "$method" "$@" \
        "$gate$path" 2>/dev/null)
}
# gives STATUS; reached COUNT: so many requests have reached the server.
gives() { t_check "status is $1, not $code: $(cat "$t_dir/body")" [ "$code" = "$1" ]; }
reached() { t_check "$1 reached the server: $(cat "$log")" [ "$(wc -l <"$log")" -eq "$1" ]; }

# stands RESOURCE TOKEN
stands() { [ "$(highest "$gate" "$1")" = "$2" ]; }

kind=http at=$gate resource=contract
check_contract

t_case "34 passes, then 33 does not; equal tokens pass again"
send POST /orders/7 -d hello -H 'Fence-Token: 34'
gives 201
t_check "the answer" [ "$(cat "$t_dir/body")" = "done" ]
t_check "its fields" grep -qi '^X-Server: up' "$t_dir/head"
t_check "the request" grep -qx 'POST /orders/7 34 hello' "$log"
send PUT /orders/8?x=%20y -d again -H 'Fence-Token: 34'
gives 201
t_check "the path as it was" grep -qx 'PUT /orders/8?x=%20y 34 again' "$log"
send DELETE /orders/7 -H 'Fence-Token: 33'
gives 412
t_check "where it stands" grep -q '"token":33,"highest":34' "$t_dir/body"
t_check "as a field, too" grep -qi '^Fence-Highest: 34' "$t_dir/head"
reached 2

t_case "missing 428, malformed or twice 400: nothing goes further"
send POST /orders -d x
gives 428
for bad in 0 -1 034 x 3.5 0x22 18446744073709551616 '34, 34' '34 34'; do
    send POST /orders -d x -H "Fence-Token: $bad"
    gives 400
done
send POST /orders -d x -H "Fence-Token;"
gives 400
send POST /orders -d x -H 'Fence-Token: 34' -H 'Fence-Token: 34'
gives 400
send POST /orders -d x -H 'Fence-Token: 34' -H 'fence-token: 35'
gives 400
for bad in / //x '/a%20b/c' '/../x' '/a%2fb'; do
    send POST "$bad" --path-as-is -d x -H 'Fence-Token: 34'
    gives 400
done
reached 2
t_check "the fence is as it was" [ "$(highest "$gate" orders)" = 34 ]

t_case "reads pass without a token"
send GET /orders/7
gives 201
send HEAD /orders/7 -I
gives 200
reached 4

t_case "answers of every form come back"
for form in chunked close; do
    send POST /orders/$form -d x -H 'Fence-Token: 34'
    gives 200
    t_check "whole" [ "$(cat "$t_dir/body")" = "done" ]
done
send POST /orders/broken -d x -H 'Fence-Token: 34'
gives 504
send POST /orders/garbage -d x -H 'Fence-Token: 34'
gives 504
head -c 500000 /dev/urandom | base64 -w 0 | head -c 500000 >"$t_dir/large"
send POST /orders/large --data-binary "@$t_dir/large" -H 'Fence-Token: 34'
gives 201
send POST /orders/large --data-binary "@$t_dir/large" -H 'Fence-Token: 34' \
    -H 'Transfer-Encoding: chunked'
gives 201
t_check "both whole" [ "$(grep -c "^POST /orders/large 34 $(head -c 2900 "$t_dir/large")" "$log")" \
    -eq 2 ]

# raw TEXT: as it is, until the gate has closed the connection.
raw() {
    timeout 20 bash -c 'exec 5<>"/dev/tcp/127.0.0.1/$1" && printf "$2" >&5 && cat <&5' raw \
        "${gate##*:}" "$1" >"$t_dir/body" 2>/dev/null
    code=$(sed -n '1s/^HTTP.1.1 \([0-9]*\).*/\1/p' "$t_dir/body")
}

t_case "requests in a row are answered in a row"
: >"$log"
one='POST /row HTTP/1.1\r\nHost: g\r\nFence-Token: 5\r\nContent-Length: 1\r\n'
raw "$one\r\na$one\r\nb${one}Connection: close\r\n\r\nc"
t_check "three answers" [ "$(grep -c '^HTTP/1.1 201' "$t_dir/body")" -eq 3 ]
t_check "in order" [ "$(cut -d ' ' -f 4 "$log" | tr '\n' ' ')" = "a b c " ]

t_case "what is not HTTP is refused, and nothing goes further"
: >"$log"
for bad in 'hello\r\n\r\n' 'POST /a HTTP/1.1\nFence-Token: 5\n\n' \
    "${one}Content-Length: 1\r\n\r\na" "${one}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" \
    'POST http://x/a HTTP/1.1\r\nFence-Token: 5\r\nConnection: close\r\n\r\n'; do
    raw "$bad"
    gives 400
done
raw "POST /$(printf '%040000d' 1) HTTP/1.1\r\n\r\n"
gives 431
raw 'POST /a HTTP/1.1\r\nFence-Token: 5\r\nContent-Length: 16777217\r\n\r\n'
gives 413
reached 0

t_case "fields of one connection go no further"
raw "${one}Connection: close, Fence-Token\r\n\r\na"
gives 201
t_check "the server saw no token" grep -qx 'POST /row - a' "$log"

t_case "a successor waits for what is in flight, and shuts out the rest"
: >"$log"
curl -s -m 20 -o "$t_dir/held" -X POST -d old -H 'Fence-Token: 40' "$gate/job/hold" &
held=$!
t_check "in flight" until_true 5 stands job 40
"$tenure" fence raise --at "$gate" job 41 >"$t_dir/raised" 2>&1 &
raising=$!
t_check "raised" until_true 5 stands job 41
t_check "but not answered" kill -0 $raising
send POST /job -d late -H 'Fence-Token: 40'
gives 412
t_check "still not" kill -0 $raising
reached 0
: >"$log.go"
wait $held
wait $raising
t_check "the raise succeeds" [ $? -eq 0 ]
send POST /job -d new -H 'Fence-Token: 41'
gives 201
t_check "in order" [ "$(cut -d ' ' -f 3 "$log" | tr '\n' ' ')" = "40 41 " ]

t_case "who hangs up is in flight until the server has answered"
rm -f "$log.go"
: >"$log"
curl -s -m 20 -X POST -d old -H 'Fence-Token: 50' "$gate/gone/hold" &
held=$!
t_check "in flight" until_true 5 stands gone 50
kill -KILL $held
wait $held 2>/dev/null
t_run "$tenure" fence raise --at "$gate" gone 51 --timeout 300ms
failed 69 "it may have happened"
reached 0
: >"$log.go"
t_run "$tenure" fence raise --at "$gate" gone 51
t_ends 0
t_check "what was in flight" grep -qx 'POST /gone/hold 50 old' "$log"

t_case "stopped and started, it remembers; a server that is too slow is a 504"
rm -f "$log.go"
kill -TERM $gate_pid
wait $gate_pid
t_check "ends with 0" [ $? -eq 0 ]
gate --upstream "$server" --fences "$t_dir/gate.db" --timeout 1s
t_check "the tokens are there" [ "$(highest "$gate" job)" = 41 ]
t_refute "nothing is new" grep -q "is new" "$t_dir/gate.err"
t_check "all of them" [ "$(highest "$gate" orders)" = 34 ]
curl -s -m 20 -o "$t_dir/held" -w '%{http_code}' -X POST -d old -H 'Fence-Token: 41' \
    "$gate/job/hold" >"$t_dir/held.code" &
held=$!
send POST /job -d x -H 'Fence-Token: 41'
gives 201
wait $held
t_check "504 for the slow one" grep -qx 504 "$t_dir/held.code"
: >"$log.go"

t_case "killed, it remembers; a second gate on the same file is refused"
send POST /orders -d x -H 'Fence-Token: 99'
gives 201
t_run "$tenure" gate --fences "$t_dir/gate.db" --listen 127.0.0.1:0
failed 69 "database is locked"
ln "$t_dir/gate.db" "$t_dir/gate2.db"
t_run "$tenure" gate --fences "$t_dir/gate2.db" --listen 127.0.0.1:0
failed 77 "gate2.db: has more than one name"
rm "$t_dir/gate2.db"
kill -KILL $gate_pid
wait $gate_pid 2>/dev/null
gate --upstream "$server" --fences "$t_dir/gate.db" --by header
t_check "the token" [ "$(highest "$gate" orders)" = 99 ]
send POST /any -d x -H 'Fence-Token: 98' -H 'Fence-Resource: orders'
gives 412
send POST /any -d x -H 'Fence-Token: 99' -H 'Fence-Resource: orders'
gives 201
send POST /any -d x -H 'Fence-Token: 99'
gives 428
send POST /any -d x -H 'Fence-Token: 99' -H 'Fence-Resource: a b'
gives 400

t_case "bad usage"
t_bad "--fences is missing" "$tenure" gate
t_bad "--upstream: write http://" "$tenure" gate --fences "$t_dir/x.db" --upstream ftp://x
t_bad "--upstream: write http://" "$tenure" gate --fences "$t_dir/x.db" --upstream http://x/path
t_bad "--listen: write HOST:PORT" "$tenure" gate --fences "$t_dir/x.db" --listen 127.0.0.1:99999
t_bad "--resource: a name" "$tenure" gate --fences "$t_dir/x.db" --resource a//b
t_check "no file" [ ! -e "$t_dir/x.db" ]
t_run "$tenure" gate --fences "$t_dir/nowhere/x.db"
failed 69 "unable to open database file"
t_run "$tenure" help gate
t_ends 0

# nginx in front of the server, the gate beside it.
t_case "nginx asks the gate"
kill -TERM $gate_pid
wait $gate_pid
gate --fences "$t_dir/gate.db"
: >"$log"
if ! command -v nginx >/dev/null; then
    t_skip "nginx is not installed; tools/deps servers installs it"
else
    mkdir "$t_dir/nginx"
    sed "s|listen 127.0.0.1:8080|listen 127.0.0.1:PORT|; s|http://127.0.0.1:8081|$server|
        s|http://127.0.0.1:7423|$gate|; /^pid nginx.pid/d" \
        "$TENURE_ROOT/examples/nginx.conf" >"$t_dir/nginx/conf"
    start_nginx "$t_dir/nginx"
    own=$gate
    gate=http://127.0.0.1:$port
    send POST /shop/1 -d x
    gives 428
    send POST /shop/1 -d x -H 'Fence-Token: abc'
    gives 400
    send POST /shop/1 -d x -H 'Fence-Token: 7'
    gives 201
    "$tenure" fence raise --at "$own" shop 8
    send POST /shop/1 -d x -H 'Fence-Token: 7'
    gives 412
    send POST /shop/1 -d x -H 'Fence-Token: 8'
    gives 201
    reached 2
fi

t_done
