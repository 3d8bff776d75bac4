#!/bin/sh
# fence-tls.sh - fences by TLS: a real Redis, tenured, and a gate behind a real nginx.
# shellcheck source=tests/harness/lib.sh
. "${TENURE_ROOT:-$(dirname "$0")/../..}/tests/harness/lib.sh"

tenure=$TENURE_BUILD/tenure
TENURE_STORE=sqlite:$t_dir/store.db
export TENURE_STORE
unset TENURE_SECRET
# shellcheck source=tests/harness/fence.sh
. "$TENURE_ROOT/tests/harness/fence.sh"

skip_all() {
    t_case "TLS"
    t_skip "$1"
    t_done
}

"$tenure" fence show --at rediss://localhost:1 2>&1 | grep -q "built without" &&
    skip_all "tenure was built without TLS"
command -v openssl >/dev/null || skip_all "openssl is not installed"
# shellcheck source=tests/live/certificates.lib
. "$TENURE_ROOT/tests/live/certificates.lib"
trusted="ca=$t_dir/ca.pem"
both="$trusted&cert=$t_dir/client.pem&key=$t_dir/client.key"

daemon='' gate=''
trap '"$TENURE_ROOT/tests/harness/redis" stop "$t_dir/redis"
    for pid in $daemon $gate; do kill -KILL $pid 2>/dev/null; done
    [ ! -e "$t_dir/nginx/pid" ] || kill -TERM "$(cat "$t_dir/nginx/pid")"
    rm -rf "$t_dir"' EXIT

# checked HOST-AND-PORT SCHEME TLS-OPTIONS: the server must be who the URL says it is.
checked() {
    t_run "$tenure" fence raise --at "$2://$1?ca=$t_dir/otherca.pem" other 1
    failed 69 "certificate"
    t_run "$tenure" fence raise --at "$2://$1" other 1
    failed 69 "certificate"
    t_run "$tenure" fence raise --at "$2://$1?$3&name=else.example" other 1
    failed 69 "certificate"
    t_run "$tenure" fence raise --at "$2://$1?ca=$t_dir/none.pem" other 1
    failed 64 "none.pem"
    t_run "$tenure" fence raise --at "$2://$1,localhost?$3" other 1
    failed 64 "one server"
    t_check "nothing was raised" [ "$(highest "$2://$1?$3" other)" = 0 ]
}

# tls_daemon DATA OPTION...: sets $pid, and $port.
tls_daemon() {
    data=$1
    shift
    "$TENURE_BUILD/tenured" --data "$data" --listen "unix:$data.socket" \
        --listen tcp:127.0.0.1:0 "$@" >"$data.ready" 2>"$data.err" &
    pid=$!
    t_check "ready: $(cat "$data.err")" until_true 20 grep -q ready "$data.ready"
    port=$(sed -n 's/.*tcp:127.0.0.1:\([0-9]*\).*/\1/p' "$data.ready")
}

t_case "Redis with TLS"
port=$(t_ports 1)
if ! "$TENURE_ROOT/tests/harness/redis" start "$t_dir/redis" --tls-port "$port" \
    --tls-cert-file "$t_dir/server.pem" --tls-key-file "$t_dir/server.key" \
    --tls-ca-cert-file "$t_dir/ca.pem" --requirepass 's3:cr@t' >"$t_dir/said"; then
    t_skip "$(cat "$t_dir/said")"
else
    login=:s3%3acr%40t@localhost:$port
    at="rediss://$login?$both"
    kind=rediss resource=orders
    check_contract
    t_case "Redis with TLS: who it is, and who we are"
    t_run "$tenure" fence raise --at "rediss://:wrong@localhost:$port?$both" other 1
    failed 77 "WRONGPASS"
    t_run "$tenure" fence raise --at "rediss://$login/3?$both" other 5
    t_ends 0
    t_check "a database of its own" [ "$(highest "rediss://$login/3?$both" other)" = 5 ]
    t_run "$tenure" fence raise --at "rediss://$login?$trusted" other 1
    failed 69 "certificate"
    checked "$login" rediss "$both"
    t_run "$tenure" fence raise --at "rediss://localhost:1?$trusted" other 1
    failed 69 "connection refused"
    t_run "$tenure" run job --fence "$at#job" -- sh -c 'echo "$TENURE_TOKEN"'
    t_check "runs: $(cat "$t_err")" [ "$t_status" -eq 0 ]
    t_check "raised" [ "$(highest "$at" job)" = "$(cat "$t_out")" ]
fi

t_case "tenured with TLS"
printf 'allow client acquire *\n' >"$t_dir/acl"
chmod 0600 "$t_dir/acl"
tls_daemon "$t_dir/data" --acl "$t_dir/acl" --tls-ca "$t_dir/ca.pem" \
    --tls-cert "$t_dir/server.pem" --tls-key "$t_dir/server.key"
daemon=$pid
at="tenureds://localhost:$port?$both"
t_run "$tenure" fence raise --at "$at" orders 7
t_ends 0
t_check "raised" [ "$(highest "unix:$t_dir/data.socket" orders)" = 7 ]
t_run "$tenure" fence raise --at "$at" orders 6
failed 80 "the fence stands at 7"
checked "localhost:$port" tenureds "$both"

t_case "a server without TLS"
t_run "$tenure" fence raise --at "rediss://localhost:$port/x?$trusted" other 1
failed 64 "rediss: write"
tls_daemon "$t_dir/plain"
daemon="$daemon $pid"
t_run "$tenure" fence raise --at "tenureds://localhost:$port?$both" other 1 --timeout 2s
t_check "69: $(cat "$t_err")" [ "$t_status" -eq 69 ]
t_check "one line: $(cat "$t_err")" [ "$(wc -l <"$t_err")" -eq 1 ]

t_case "a gate behind a proxy with TLS"
if ! command -v nginx >/dev/null; then
    t_skip "nginx is not installed; tools/deps servers installs it"
else
    "$tenure" gate --fences "$t_dir/gate.db" --listen 127.0.0.1:0 >"$t_dir/gate.said" &
    gate=$!
    t_check "the gate is ready" until_true 20 grep -q "listening on port" "$t_dir/gate.said"
    inside=127.0.0.1:$(sed 's/[^0-9]//g' "$t_dir/gate.said")
    mkdir "$t_dir/nginx"
    cat >"$t_dir/nginx/conf" <<CONF
events {}
http {
    access_log off;
    server {
        listen 127.0.0.1:PORT ssl;
        ssl_certificate $t_dir/server.pem;
        ssl_certificate_key $t_dir/server.key;
        location / { proxy_pass http://$inside; }
    }
}
CONF
    start_nginx "$t_dir/nginx"
    at="https://localhost:$port?$trusted"
    t_run "$tenure" fence raise --at "$at" shop 8
    t_ends 0
    t_run "$tenure" fence raise --at "$at" shop 7
    failed 80 "the fence stands at 8"
    t_check "the gate has it" [ "$(highest "http://$inside" shop)" = 8 ]
    t_run "$tenure" fence show --at "$at" --json
    t_prints '{"resource":"shop","token":8}'
    t_run "$tenure" fence raise --at "https://localhost:$port/path?$trusted" shop 9
    failed 64 "no user and no path"
    checked "localhost:$port" https "$trusted"
fi

t_done
