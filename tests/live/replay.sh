#!/bin/sh
# replay.sh - a network that answers renewals with old answers, without TLS, on the stores whose
# servers no package has (replay.py plays them). The others: faults_replay in faults.lib.
# shellcheck source=tests/harness/lib.sh
. "${TENURE_ROOT:-$(dirname "$0")/../..}/tests/harness/lib.sh"
# shellcheck source=tests/live/live.lib
. "$TENURE_ROOT/tests/live/live.lib"
unset AWS_PROFILE AWS_SESSION_TOKEN AWS_ENDPOINT_URL AWS_ROLE_ARN http_proxy KUBECONFIG
export HOME="$t_dir" AWS_REGION=us-east-1 AWS_EC2_METADATA_DISABLED=true
export AWS_ACCESS_KEY_ID=AKIDENV AWS_SECRET_ACCESS_KEY=geheim

cat >"$t_dir/config" <<'END'
apiVersion: v1
kind: Config
current-context: test
clusters:
- name: here
  cluster:
    server: http://127.0.0.1:PORT
users:
- name: app
  user:
    token: geheim
contexts:
- name: test
  context:
    cluster: here
    user: app
END

# url ENGINE PORT
url() {
    case $1 in
    kubernetes)
        sed "s,PORT,$2," "$t_dir/config" >"$t_dir/config.$2"
        echo "kubernetes://jobs?kubeconfig=$t_dir/config.$2"
        ;;
    s3) echo "s3://leases/test?endpoint=http://127.0.0.1:$2&poll=500ms" ;;
    dynamodb) echo "dynamodb://locks?endpoint=http://127.0.0.1:$2" ;;
    esac
}

# start ENGINE: the server, whose network repeats answers once $t_dir/ENGINE is there.
start() {
    python3 "$TENURE_ROOT/tests/live/replay.py" "$1" "$t_dir/$1" \
        >"$t_dir/port.$1" 2>"$t_dir/server.$1" &
    in_finish "kill $!"
    until_line "$t_dir/port.$1" '^[0-9]' || t_fail "no server"
    candidate ada "$1" "$(url "$1" "$(cat "$t_dir/port.$1")")" ${short}s
}

t_case "a term on each"
short=5 engines=
for engine in kubernetes s3 dynamodb; do
    "$tenure" --version | grep -q "^left out.* $engine[ :]" || engines="$engines $engine"
done
[ -n "$engines" ] || t_skip "this build has none of these stores"
for engine in $engines; do
    start "$engine"
done
for engine in $engines; do
    until_acted "$engine" 0
    eval "${engine}_token=$token"
done
# Several renewals have been answered by then.
until_ms $(($(now_ms) + short * 1500))
for engine in $engines; do
    t_check "$engine: the same term" [ "$(acted "$engine")" = "$(eval "echo \$${engine}_token")" ]
    : >"$t_dir/$engine"
done
hurt_at=$(now_ms)
until_ms $((hurt_at + short * 2500))

for engine in $engines; do
    t_case "$engine: old answers that the network says again extend no term"
    t_promise "nobody acts beyond the TTL: $(($(acted_at "$engine") - hurt_at)) ms" \
        [ "$(acted_at "$engine")" -le $((hurt_at + short * 1000)) ]
    t_check "renewals were answered so" grep -Eq 'PUT|POST' "$t_dir/$engine"
    echo "# $engine: $(wc -l <"$t_dir/$engine") old answers"
done
t_done
