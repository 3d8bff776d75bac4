#!/bin/sh
# etcd.sh - the etcd store on a real server: conformance, layout, and their client beside ours.
. "$(dirname "$0")/../harness/lib.sh"
. "$(dirname "$0")/etcd_lib.sh"
etcd_need

etcd_start one || t_done
# shellcheck disable=SC2154 # etcd_start sets it.
endpoints=127.0.0.1:$port_one
url=etcd://$endpoints/t

t_case "the conformance suite"
if [ -x "$TENURE_BUILD/tests/conformance" ]; then
    TENURE_CONFORMANCE_URL=etcd://$endpoints/conform timeout 300 \
        "$TENURE_BUILD/tests/conformance" >"$t_dir/conform" 2>&1
    t_check "passes: $(grep FAIL "$t_dir/conform" | head -n 3)" \
        has "$t_dir/conform" ' passed, 0 failed'
fi

t_case "a holder that is killed makes way after its TTL, one that resigns at once"
elect "$t_dir/a" --store "$url" --id ada --ttl 3s job
ada=$elect_pid
t_check "won" until_true 10 has "$t_dir/a" '"won"'
elect "$t_dir/b" --store "$url" --id bob --ttl 3s job
bob=$elect_pid
t_check "sees the leader" until_true 10 has "$t_dir/b" '"leader".*"holder":"ada"'
kill -KILL "$ada"
killed=$(($(date +%s%N) / 1000000))
t_check "takes over" until_true 15 has "$t_dir/b" '"won"'
t_check "not at once" [ $(($(when "$t_dir/b" '"won"') - killed)) -ge 1500 ]
t_check "the token rises" [ "$(token_of "$t_dir/b")" -gt "$(token_of "$t_dir/a")" ]
elect "$t_dir/c" --store "$url" --id cyd --ttl 3s job
cyd=$elect_pid
t_check "sees the leader" until_true 10 has "$t_dir/c" '"leader".*"holder":"bob"'
kill -TERM "$bob"
t_check "takes over" until_true 10 has "$t_dir/c" '"won"'
t_check "says so" until_true 10 has "$t_dir/b" '"lost".*"released"'
t_check "in time" \
    [ $(($(when "$t_dir/c" '"won"') - $(when "$t_dir/b" '"lost"'))) -lt 1000 ]
kill -TERM "$cyd"
wait "$cyd"

t_case "the layout is that of Go's concurrency.Election"
elect "$t_dir/l" --store "$url" --id lea --ttl 3s layout
lea=$elect_pid
t_check "won" until_true 10 has "$t_dir/l" '"won"'
ctl get --prefix t/layout/ >"$t_dir/keys"
t_check "key" grep -Eq '^t/layout/[1-9a-f][0-9a-f]*$' "$t_dir/keys"
t_check "value" grep -Eq '^lea tenure:[0-9a-f]{32}$' "$t_dir/keys"
ctl get --prefix t/layout/ -w fields >"$t_dir/fields"
t_check "token" grep -q "\"CreateRevision\" : $(token_of "$t_dir/l")\$" "$t_dir/fields"
ctl elect -l t/layout >"$t_dir/listen" 2>&1 &
listener=$!
t_check "etcdctl sees the leader" until_true 10 has "$t_dir/listen" '^lea tenure:'
kill "$listener"
t_case "a key that an operator deletes costs the term"
ctl del --prefix t/layout/ >/dev/null
t_check "lost" until_true 10 has "$t_dir/l" '"lost".*"revoked"'
kill -TERM "$lea"
wait "$lea"

t_case "etcdctl and ours in one election, leader by turns"
TENURE_CONFORMANCE_URL=etcd://$endpoints/both TENURE_ETCDCTL_ENDPOINT=$endpoints timeout 300 \
    "$TENURE_BUILD/tests/fixtures/etcd_elect" >"$t_dir/both" 2>&1
t_check "passes: $(head -n 3 "$t_dir/both")" has "$t_dir/both" ' passed, 0 failed'
grep 'hand-over' "$t_dir/both"

t_done
