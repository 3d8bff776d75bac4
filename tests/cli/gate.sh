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

t_case "a path that servers read in several ways is refused, and moves no fence"
: >"$log"
send POST /orders/7 -d x -H 'Fence-Token: 34'
gives 201
paths='/free/../orders/7 /free/%2e%2e/orders/7 /free/%2E./orders/7 /free/..%2forders/7
    /free/..%5corders/7 /free/.. /free/. /free/./orders //orders/7 /free//orders/7 /free/%2Forders
    /free/\..\orders/7 /free\..\orders/7 /free/%00/orders /free/%0d%0aorders /free/..;/orders/7
    /free;x/orders /free/x;y=1 /free/%3b/orders /free/%252e%252e/orders /free/%c0%ae%c0%ae/orders
    /free/%c0%af/orders /free/%e0%80%af /free/%f5%80%80%80 /free/%ff /free/%ed%a0%80 /free/%c3
    /free/%zz /free/%2 /free/% /free/..%20/orders /free/... /free/%20/x /free/x#y /free#/../orders
    /%6frders/7 /orders%2f7 /free/%6frders /../orders/7 /free/<x> /free/"x" /free/x|y /free/^
    http://orders/free/x https://free/orders //free/orders *'
set -f
for bad in $paths; do
    set +f
    raw "POST $(echo "$bad" | sed 's/\\/\\\\/g; s/%/%%/g') HTTP/1.1\r\nHost: g\r\n$(
    )Fence-Token: 33\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    t_check "$bad is 400, not $code" [ "$code" = 400 ]
    t_check "$bad: one line says why" grep -q '^{"error":"..*"}$' "$t_dir/body"
done
set +f
reached 1
t_check "no fence was made: $("$tenure" fence show --at "$gate")" \
    [ "$(highest "$gate" free)" = 0 ]

t_case "a path in its usual form passes as it is"
: >"$log"
for good in /orders /orders/ /orders/7 '/orders/a%20b/%c3%a4/x=1,2&(3)' \
    '/orders/7?x=/../y;z&%2e%2e' \
    /orders/.hidden/..x/x.. "/orders/~a_b-c:d@e!f\$g*h+i"; do
    send POST "$good" --path-as-is -H 'Fence-Token: 34'
    gives 201
    t_check "$good" grep -qxF "POST $good 34 " "$log"
done
reached 7

t_case "spellings that some servers take for the same are not two resources"
: >"$log"
for bad in /Orders/7 /ORDERS /orders./7 /orders../7 /OrderS.; do
    send POST "$bad" --path-as-is -d x -H 'Fence-Token: 33'
    gives 400
    t_check "why" grep -q "differs from another resource only in" "$t_dir/body"
done
"$tenure" fence raise --at "$gate" pair 7
t_run "$tenure" fence raise --at "$gate" Pair 7
t_check "one that is misspelt locks nothing out: $(cat "$t_err")" [ "$t_status" -ne 0 ]
for each in Pair PAIR; do
    send POST /$each -d x -H 'Fence-Token: 7'
    gives 400
done
for field in X-Original-URL X-Original-URI X-Rewrite-URL X-Forwarded-Prefix X-Script-Name \
    SCRIPT_NAME Path-Info; do
    send POST /pair/7 -d x -H 'Fence-Token: 7' -H "$field: /orders"
    gives 400
    t_check "$field: why" grep -q "names another path" "$t_dir/body"
done
reached 0

t_case "a read has no body: what another reads as a second request goes nowhere"
: >"$log"
inner='POST /orders/7 HTTP/1.1\r\nHost: g\r\nFence-Token: 1\r\nContent-Length: 3\r\n\r\nold'
for method in GET HEAD OPTIONS DELETE TRACE; do
    for token in '' 'Fence-Token: 34\r\n'; do
        raw "$method /orders HTTP/1.1\r\nHost: g\r\n${token}Content-Length: 74\r\n\r\n$inner"
        t_check "$method with a body is 400, not $code" [ "$code" = 400 ]
        raw "$method /orders HTTP/1.1\r\nHost: g\r\n${token}Transfer-Encoding: chunked\r\n\r\n$(
        )4a\r\n$inner\r\n0\r\n\r\n"
        t_check "$method in chunks is 400, not $code" [ "$code" = 400 ]
    done
done
reached 0
raw 'GET /orders HTTP/1.1\r\nHost: g\r\nContent-Length: 0\r\nConnection: close\r\n\r\n'
gives 201
reached 1

t_case "framing that two servers read in two ways is refused"
: >"$log"
post='POST /row HTTP/1.1\r\nHost: g\r\nFence-Token: 5\r\nConnection: close\r\n'
for bad in 'Content-Length: 1\r\nContent-Length: 2\r\n\r\nab' \
    'Content-Length: 1, 1\r\n\r\na' 'Content-Length: +1\r\n\r\na' 'Content-Length: 0x1\r\n\r\na' \
    'Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n' \
    'Transfer-Encoding: identity\r\n\r\n' 'Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n' \
    'Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n' \
    'Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n' 'Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n' \
    'Transfer-Encoding:\x0bchunked\r\n\r\n0\r\n\r\n' 'X: a\r\n b\r\n\r\n' 'X: a\n\r\n' \
    'X: a\rContent-Length: 1\r\n\r\na' ' X: a\r\n\r\n' 'X\r\n\r\n' ': a\r\n\r\n' \
    'Transfer-Encoding: chunked\r\n\r\n0x1\r\na\r\n0\r\n\r\n' \
    'Transfer-Encoding: chunked\r\n\r\n-1\r\na\r\n0\r\n\r\n' \
    'Transfer-Encoding: chunked\r\n\r\n1\na\r\n0\r\n\r\n' \
    'Transfer-Encoding: chunked\r\n\r\n1\r\nab\r\n0\r\n\r\n' \
    'Content_Length: 1\r\n\r\n' 'Transfer_Encoding: chunked\r\n\r\n' 'Fence_Token: 1\r\n\r\n' \
    'Host: h\r\n\r\n'; do
    raw "$post$bad"
    t_check "$bad is 400, not $code" [ "$code" = 400 ]
done
old='POST /row HTTP/1.0\r\nHost: g\r\nFence-Token: 5\r\n'
for bad in 'POST /row HTTP/1.1\r\nFence-Token: 5\r\n\r\n' \
    "${old}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"; do
    raw "$bad"
    t_check "$bad is 400, not $code" [ "$code" = 400 ]
done
raw 'CONNECT /row HTTP/1.1\r\nHost: g\r\nFence-Token: 5\r\nConnection: close\r\n\r\n'
gives 405
raw 'CONNECT g:80 HTTP/1.1\r\nHost: g\r\nFence-Token: 5\r\nConnection: close\r\n\r\n'
gives 400
reached 0

t_case "what the gate reads goes on in the gate's own words"
raw "${post}Transfer-Encoding: chunked\r\nUpgrade: h2c\r\nExpect: 100-continue\r\n\r\n$(
)1;ext=x\r\na\r\n0\r\nFence-Token: 1\r\nContent-Length: 7\r\n\r\n"
t_check "done, perhaps behind a 100: $(cat "$t_dir/body")" grep -q '^HTTP/1.1 201' "$t_dir/body"
t_check "one request: $(cat "$log")" [ "$(cat "$log")" = "POST /row 5 a" ]
send POST /row/switch -d x -H 'Fence-Token: 5'
gives 504

t_case "only GET, HEAD and OPTIONS are reads, and only as they are"
: >"$log"
for method in get Get head options POST PUT PATCH DELETE TRACE PROPFIND MKCOL LINK; do
    raw "$method /orders HTTP/1.1\r\nHost: g\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    t_check "$method without a token is 428, not $code" [ "$code" = 428 ]
done
for field in X-HTTP-Method-Override X-HTTP-Method X-Method-Override x_http_method_override; do
    raw "GET /orders HTTP/1.1\r\nHost: g\r\n$field: DELETE\r\nConnection: close\r\n\r\n"
    t_check "$field without a token is 428, not $code" [ "$code" = 428 ]
    raw "GET /orders HTTP/1.1\r\nHost: g\r\n$field: DELETE\r\nFence-Token: 33\r\n$(
    )Connection: close\r\n\r\n"
    t_check "$field with a stale one is 412, not $code" [ "$code" = 412 ]
done
reached 0
for method in GET HEAD OPTIONS; do
    raw "$method /orders HTTP/1.1\r\nHost: g\r\nConnection: close\r\n\r\n"
    t_check "$method is let through: $code" [ "${code%?}" = 20 ]
done
reached 3

t_case "fields of one connection go no further"
: >"$log"
raw "${one}Connection: close, Host\r\n\r\na"
gives 201
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
t_bad "write HOST:PORT" "$tenure" gate --fences "$t_dir/x.db" --listen 127.0.0.1:99999
t_bad "--resource: a name" "$tenure" gate --fences "$t_dir/x.db" --resource a//b
t_check "no file" [ ! -e "$t_dir/x.db" ]
t_run "$tenure" gate --fences "$t_dir/nowhere/x.db"
failed 69 "unable to open database file"
t_run "$tenure" help gate
t_ends 0

# The example of the document, at addresses of ours.
t_case "the example of docs/fencing.md"
kill -TERM $gate_pid
wait $gate_pid
port=$(t_ports 1)
awk '$0 == "## HTTP" { on = 1 } on && /^```/ { if (seen) exit; seen = 1; next } seen' \
    "$TENURE_ROOT/docs/fencing.md" | sed "s|http://127.0.0.1:8081|$server|; s|:7423|:$port|
    s|/var/lib/tenure|$t_dir/example.d|; s|^tenure gate |&--listen 127.0.0.1:$port |" \
    >"$t_dir/example"
t_check "three lines" [ "$(wc -l <"$t_dir/example")" -eq 3 ]
printf '#!/bin/sh\necho "$TENURE_TOKEN"\n' >"$t_dir/leader"
chmod +x "$t_dir/leader"
ln -s "$tenure" "$t_dir/tenure"
mkdir "$t_dir/example.d"
: >"$log"
(cd "$t_dir" && PATH=$t_dir:$PATH && eval "exec $(sed -n 1p example)") >"$t_dir/said" 2>&1 &
gate_pid=$!
pids="$pids $gate_pid"
t_check "a gate" until_true 10 grep -q "listening on port" "$t_dir/said"
(cd "$t_dir" && PATH=$t_dir:$PATH && eval "$(sed -n 2p example)") >"$t_dir/token" 2>"$t_dir/err"
t_check "leads: $(cat "$t_dir/err")" [ -s "$t_dir/token" ]
TENURE_TOKEN=$(cat "$t_dir/token")
t_check "done" [ "$(eval "$(sed -n 3p "$t_dir/example")" 2>/dev/null)" = "done" ]
t_check "with the token: $(cat "$log")" grep -qx "POST /orders/7 $TENURE_TOKEN \.\.\." "$log"

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
    : >"$log"
    for bad in /loose/../shop/1 /loose/%2e%2e/shop/1 /loose/..%2fshop/1 /loose//shop/1 /loose/./x \
        '/loose/..;/shop/1' '/loose/\..\shop/1' /loose/%252e%252e/shop/1 /Shop/1; do
        send POST "$bad" --path-as-is -d x -H 'Fence-Token: 7'
        gives 400
    done
    t_check "a client cannot name the path" [ "$(curl -s -o /dev/null -w '%{http_code}' -m 20 \
        -X POST -d x -H 'Fence-Token: 7' -H 'X-Original-URI: /other/1' "$gate/shop/1")" = 412 ]
    raw 'POST http://loose/shop/1 HTTP/1.1\r\nHost: free\r\nFence-Token: 7\r\n'"$(
    )"'Content-Length: 1\r\nConnection: close\r\n\r\nx'
    gives 412
    raw 'POST /loose#/../shop/1 HTTP/1.1\r\nHost: g\r\nFence-Token: 7\r\n'"$(
    )"'Content-Length: 1\r\nConnection: close\r\n\r\nx'
    gives 400
    raw "GET /shop HTTP/1.1\r\nHost: g\r\nContent-Length: 74\r\nConnection: close\r\n\r\n$inner"
    gives 428
    reached 0
    send POST '/shop/a%20b?x=%2e' -d x -H 'Fence-Token: 8'
    gives 201
    t_check "sent on as it was judged" grep -qx 'POST /shop/a%20b?x=%2e 8 x' "$log"
fi

t_done
