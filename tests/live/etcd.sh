#!/bin/sh
# etcd.sh - the etcd store on real servers: who leads through crashes, stops, cuts and restores.
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

t_case "the server is killed and comes back within the TTL: the term goes on"
elect "$t_dir/k" --store "$url" --id kay --ttl 6s crash
kay=$elect_pid
t_check "won" until_true 10 has "$t_dir/k" '"won"'
etcd_stop one
etcd_again one
ctl get --prefix t/crash/ >"$t_dir/keys"
t_check "its key is there" grep -q '^kay' "$t_dir/keys"
elect "$t_dir/k2" --store "$url" --id kim --ttl 6s crash
kim=$elect_pid
t_check "seen by others" until_true 10 has "$t_dir/k2" '"leader".*"holder":"kay"'
t_refute "kept" has "$t_dir/k" '"lost"'

t_case "the server is away for longer than the TTL: the term ends by its own deadline"
etcd_stop one
down=$(($(date +%s%N) / 1000000))
t_check "lost" until_true 10 has "$t_dir/k" '"lost".*"expired"'
t_check "in jeopardy first" has "$t_dir/k" '"jeopardy"'
t_check "by the deadline of 0.82 TTL" \
    [ $(($(when "$t_dir/k" '"lost"') - down)) -le 5400 ]
etcd_again one
t_check "somebody leads again" until_true 25 has "$t_dir/k2" '"won"'
t_check "later" [ "$(when "$t_dir/k2" '"won"')" -ge "$(when "$t_dir/k" '"lost"')" ]
t_check "with a higher token" [ "$(token_of "$t_dir/k2")" -gt "$(token_of "$t_dir/k")" ]
kill -TERM "$kay" "$kim"
wait "$kay" "$kim"

t_case "a server that is stopped raises no error, but the deadline holds"
elect "$t_dir/s" --store "$url" --id sue --ttl 4s stop
sue=$elect_pid
t_check "won" until_true 10 has "$t_dir/s" '"won"'
# shellcheck disable=SC2154 # etcd_spawn sets it.
kill -STOP "$pid_one"
stopped=$(($(date +%s%N) / 1000000))
t_check "lost" until_true 10 has "$t_dir/s" '"lost".*"expired"'
t_check "in time" [ $(($(when "$t_dir/s" '"lost"') - stopped)) -le 3700 ]
kill -CONT "$pid_one"
won_twice() { [ "$(grep -c '"won"' "$t_dir/s")" -eq 2 ]; }
t_check "leads again" until_true 15 won_twice
kill -TERM "$sue"
wait "$sue"

t_case "a connection that is cut, held, or deaf on either side"
cut_port=$(random_port)
mkfifo "$t_dir/cut.fifo"
"$TENURE_BUILD/tests/fixtures/cut" "$cut_port" "$port_one" <"$t_dir/cut.fifo" >"$t_dir/cut" &
exec 9>"$t_dir/cut.fifo"
t_check "proxy" until_true 5 has "$t_dir/cut" ready
elect "$t_dir/p" --store "etcd://127.0.0.1:$cut_port/t" --id pat --ttl 4s proxy
pat=$elect_pid
t_check "won" until_true 10 has "$t_dir/p" '"won"'
echo c >&9
t_check "in jeopardy" until_true 5 has "$t_dir/p" '"jeopardy"'
echo p >&9
t_check "safe again" until_true 5 has "$t_dir/p" '"safe"'
t_refute "kept" has "$t_dir/p" '"lost"'
for mode in h m d; do
    before=$(grep -c '"won"' "$t_dir/p")
    losses=$(grep -c '"lost"' "$t_dir/p")
    more() { [ "$(grep -c "$1" "$t_dir/p")" -gt "$2" ]; }
    echo $mode >&9
    t_check "$mode: lost" until_true 10 more '"lost"' "$losses"
    echo p >&9
    t_check "$mode: won again" until_true 15 more '"won"' "$before"
done
echo t >&9
t_check "trickling: in jeopardy or kept" kill -0 "$pat"
echo p >&9
kill -TERM "$pat"
wait "$pat"
exec 9>&-

t_case "a backup that is restored: no leading with a lower token"
ctl snapshot save "$t_dir/backup" >/dev/null 2>&1
elect "$t_dir/r" --store "$url" --id ray --ttl 3s restored
ray=$elect_pid
t_check "won" until_true 10 has "$t_dir/r" '"won"'
etcd_stop one
rm -rf "$t_dir/one.etcd"
# shellcheck disable=SC2154 # etcd_start sets it.
etcdctl snapshot restore "$t_dir/backup" --name one --data-dir "$t_dir/one.etcd" \
    --initial-cluster "one=http://127.0.0.1:$peer_one" \
    --initial-advertise-peer-urls "http://127.0.0.1:$peer_one" >/dev/null 2>&1
etcd_again one
t_check "refuses, and says why" \
    until_true 20 has "$t_dir/r" '"reason":"token-regressed"\|token-regressed'
t_refute "did not lead again" [ "$(grep -c '"won"' "$t_dir/r")" -gt 1 ]
kill -TERM "$ray"
wait "$ray"
etcd_stop one

t_done
