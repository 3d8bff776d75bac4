#!/bin/sh
# console.sh - `tenure console`: what it serves, to whom, what it records, how it ends.
# shellcheck source=tests/harness/lib.sh
. "${TENURE_ROOT:-$(dirname "$0")/../..}/tests/harness/lib.sh"
tenure=$TENURE_BUILD/tenure
unset TENURE_STORE
export XDG_STATE_HOME="$t_dir/state"
store=sqlite:$t_dir/one.db

if ! "$tenure" console --store "$store" --listen x 2>&1 | grep -q 'HOST:PORT\|no such store'; then
    t_case "a build without the page says so"
    t_run "$tenure" console --store "$store"
    t_check "exit status is 69" [ "$t_status" -eq 69 ]
    t_done
    exit
fi

serves() { [ -s "$t_dir/said" ]; }
within() {
    w_end=$(($(date +%s) + $1))
    shift
    until "$@"; do
        [ "$(date +%s)" -lt $w_end ] || return 1
        sleep 0.05
    done
}
# ask PATH [OPTION]...: the status in $code, the answer in $t_out.
ask() {
    a_path=$1
    shift
    code=$(curl -s --compressed -o "$t_out" -w '%{http_code}' "$@" "$url$a_path")
}
knows() { ask 'v1/leases?names=job' && grep -q "$1" "$t_out"; }

"$tenure" acquire -s "$store" --ttl 60s --id holder --json job >"$t_dir/got"
token=$(sed 's/.*"token":\([0-9]*\).*/\1/' "$t_dir/got")
"$tenure" console -s "$store" >"$t_dir/said" 2>"$t_dir/err" &
pid=$!
trap 'kill $pid 2>/dev/null; rm -rf "$t_dir"' EXIT
within 20 serves
url=$(cat "$t_dir/said")

t_case "the address is of the loopback and has a secret of 128 bits in it"
t_check "the address" sh -c \
    "grep -qxE 'http://127\.0\.0\.1:[0-9]+/[0-9a-f]{32}/' '$t_dir/said'"

t_case "the page and its parts, at most 30 kB together, under a strict policy"
sum=0
for file in '' console.js console.css model.js draw.js act.js; do
    len=$(curl -s -o "$t_out" -w '%{size_download} %{http_code}' "$url$file")
    t_check "$file is there: $len" [ "${len#* }" = 200 ]
    sum=$((sum + ${len% *}))
done
t_check "$sum bytes" [ "$sum" -le 30720 ]
curl -sI "$url" | tr -d '\r' >"$t_out"
t_prints "Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self';"
t_prints "Referrer-Policy: no-referrer"

t_case "what the store has, what it can tell, and its history"
t_check "the lease" within 20 knows '"holder":"holder"'
ask v1/whoami
t_prints '"server":"console"'
t_prints "\"store\":\"$store\""
ask 'v1/history?names=job,never'
t_prints "\"token\":$token,\"holder\":\"holder\""
t_prints '"name":"never"'
timeout 10 curl -sN "${url}v1/events" | head -n 8 >"$t_out"
t_prints 'event: leases'
t_prints 'event: synced'

t_case "nothing without the secret, for a page of another site, or under another name"
base=${url%/*/}
for path in / /v1/whoami /v1/leases?names=job /00000000000000000000000000000000/; do
    got=$(curl -s -o /dev/null -w '%{http_code}' "$base$path")
    t_check "$path: $got" [ "$got" = 404 ]
done
ask v1/whoami -H 'Origin: http://evil.example'
t_check "another origin: $code" [ "$code" = 403 ]
ask v1/whoami -H 'Host: evil.example'
t_check "another host: $code" [ "$code" = 403 ]
for host in localhost.lol 127.loc.as 127.0.0.1.lol; do
    ask v1/whoami -H "Host: $host"
    t_check "$host begins like this machine: $code" [ "$code" = 403 ]
done
ask v1/whoami -H 'Sec-Fetch-Site: cross-site'
t_check "a request of another site: $code" [ "$code" = 403 ]
for path in '' v1/whoami; do
    ask "$path" -H 'Sec-Fetch-Site: cross-site' -H 'Sec-Fetch-Mode: navigate' \
        -H 'Sec-Fetch-Dest: document'
    t_check "a link to '$path': $code" [ "$code" = $([ -z "$path" ] && echo 200 || echo 403) ]
done
ask '' -H 'Sec-Fetch-Site: cross-site' -H 'Sec-Fetch-Mode: navigate' -H 'Sec-Fetch-Dest: iframe'
t_check "a frame: $code" [ "$code" = 403 ]
ask v1/leases/revoke -d "{\"name\":\"job\",\"token\":$token}"
t_check "a form: $code" [ "$code" = 415 ]

t_case "revoke: with the token, once, and not for who leads by then"
json='Content-Type: application/json'
for body in '' '{}' '[]' '{"name":"job"}' '{"name":"a//b","token":1}' '{"name":"job","token":0}' \
    '{"name":"job","token":-1}' "{\"name\":\"job\",\"token\":$token,\"x\":1}"; do
    ask v1/leases/revoke -H "$json" -d "$body"
    t_check "$body: $code" [ "$code" = 400 ]
done
ask v1/leases/handover -H "$json" -d "{\"name\":\"job\",\"token\":$((token + 1))}"
t_check "a hand-over with a token that is not current: $code" [ "$code" = 412 ]
ask v1/leases/handover -H "$json" -d '{"name":"job"}'
t_check "a hand-over without a token: $code" [ "$code" = 400 ]
ask v1/leases/handover -H "$json" -d "{\"name\":\"job\",\"token\":$token}"
t_check "a hand-over: $code" [ "$code" = 200 ]
t_check "the note is there" sh -c \
    "'$tenure' status -s '$store' --json '~tenure/ask/job' | grep -q 'handover token=$token'"
ask v1/leases/handover -H "$json" -d "{\"name\":\"job\",\"token\":$token}"
t_check "another one meanwhile: $code" [ "$code" = 409 ]
ask v1/leases/revoke -H "$json" -d "{\"name\":\"job\",\"token\":$((token + 1))}"
t_check "a token that is not current: $code" [ "$code" = 412 ]
t_check "still held" sh -c "'$tenure' status -s '$store' --json job | grep -qv revoked"
ask v1/leases/revoke -H "$json" -d "{\"name\":\"job\",\"token\":$token}"
t_check "revoked: $code" [ "$code" = 200 ]
t_check "the page hears of it" within 20 knows '"revoked":true'

t_case "connections without a request, of whoever may connect, do not keep the page out for long"
cat >"$t_dir/crowd" <<'END'
import socket, sys, time, urllib.parse
url = urllib.parse.urlparse(sys.argv[1])
crowd = []
for i in range(300):
    crowd.append(socket.create_connection((url.hostname, url.port), 20))
    crowd[-1].sendall(b"GET / HT")
for peer in crowd[::2]:
    peer.close()
peer = socket.create_connection((url.hostname, url.port), 30)
peer.settimeout(30)
peer.sendall(f"GET {url.path}v1/whoami HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
print(peer.recv(12).decode())
END
t_run timeout 50 python3 "$t_dir/crowd" "$url"
t_check "status $t_status: $(tail -n 1 "$t_err")" [ "$t_status" -eq 0 ]
t_prints "HTTP/1.1 200"

t_case "it ends by SIGTERM, with a page that listens"
curl -sN "${url}v1/events?beat=1" >"$t_dir/events" &
reader=$!
within 20 grep -q 'event: beat' "$t_dir/events"
kill -TERM "$pid"
wait "$pid"
t_check "exit status 0, not $?" [ $? -eq 0 ]
wait "$reader"
t_refute "nothing was said" [ -s "$t_dir/err" ]
t_refute "the store keeps its history itself" [ -e "$XDG_STATE_HOME/tenure/console" ]

t_case "--open: the browser is led there by a file, since every user sees the words of a command"
mkdir "$t_dir/bin"
cat >"$t_dir/bin/xdg-open" <<END
#!/bin/sh
stat -c %a "\$1" >"$t_dir/mode"
cp "\$1" "$t_dir/page"
echo "\$*" >"$t_dir/opened"
END
chmod +x "$t_dir/bin/xdg-open"
PATH=$t_dir/bin:$PATH "$tenure" console -s "$store" --open >"$t_dir/said" 2>"$t_dir/err" &
pid=$!
within 20 [ -s "$t_dir/opened" ]
url=$(cat "$t_dir/said")
key=${url%/}
t_refute "no secret in it: $(cat "$t_dir/opened")" grep -q "${key##*/}" "$t_dir/opened"
t_check "for this user alone" [ "$(cat "$t_dir/mode")" = 600 ]
t_check "it leads there" grep -q "content=\"0; url=$url\"" "$t_dir/page"
kill -TERM "$pid"
wait "$pid"
t_check "exit status 0, not $?" [ $? -eq 0 ]
t_refute "it is gone" [ -e "$(cat "$t_dir/opened")" ]
PATH=/nowhere "$tenure" console -s "$store" --open >"$t_dir/said" 2>"$t_dir/err" &
pid=$!
within 20 [ -s "$t_dir/err" ]
t_check "no browser: the address" grep -q "xdg-open: .*; open $(cat "$t_dir/said") by hand" \
    "$t_dir/err"
kill -TERM "$pid"
wait "$pid"

t_case "bad input"
t_bad "loopback" "$tenure" console -s "$store" --listen 0.0.0.0:0
t_bad "port" "$tenure" console -s "$store" --listen 127.0.0.1
t_bad "one process" "$tenure" console -s memory:
t_bad "extra" "$tenure" console extra
t_run "$tenure" console -s "sqlite:$t_dir/none.db"
t_check "no store yet: 69, not $t_status" [ "$t_status" -eq 69 ]
t_refute "none was made" [ -e "$t_dir/none.db" ]
t_done
