#!/bin/sh
# etcd.sh - the etcd store on a real server: conformance, layout, and their client beside ours.
. "$(dirname "$0")/../harness/lib.sh"
. "$(dirname "$0")/etcd.lib"
etcd_need

etcd_start one || t_done
# shellcheck disable=SC2154 # etcd_start sets it.
endpoints=127.0.0.1:$port_one
url=etcd://$endpoints/t

version=$(etcd --version | sed -n 's/^etcd Version: //p')

t_case "the conformance suite"
if [ -x "$TENURE_BUILD/tests/conformance" ]; then
    TENURE_CONFORMANCE_URL=etcd://$endpoints/conform timeout 300 \
        "$TENURE_BUILD/tests/conformance" >"$t_dir/conform" 2>&1
    t_check "passes: $(grep FAIL "$t_dir/conform" | head -n 3)" \
        has "$t_dir/conform" ' passed, 0 failed'
    t_check "knows the version" has "$t_dir/conform" "etcd: version $version; warning: "
    case $version in
    3.[0-3].* | 3.4.[0-9] | 3.4.[12][0-9] | 3.4.30 | 3.5.[0-9] | 3.5.1[0-2])
        t_check "and its faults" has "$t_dir/conform" "etcd $version has known lease faults"
        ;;
    *) t_check "and no faults" has "$t_dir/conform" "version $version; warning: $" ;;
    esac
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
case $version in
3.[0-3].* | 3.4.[0-9] | 3.4.[12][0-9] | 3.4.30 | 3.5.[0-9] | 3.5.1[0-2])
    for who in a b c; do
        times=$(grep -c "^tenure elect: warning: etcd $version has known" "$t_dir/$who.err")
        t_check "$who was warned once" [ "$times" -eq 1 ]
    done
    ;;
*) t_refute "nobody was warned" has "$t_dir/a.err" warning ;;
esac

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

t_case "whose own key has gone does not win, although its turn has come"
count_is() { [ "$(ctl get --prefix --keys-only t/own/ | grep -c .)" -eq "$1" ]; }
etcdctl --endpoints "$endpoints" elect t/own boss >"$t_dir/boss" 2>&1 &
boss=$!
t_check "their leader" until_true 10 has "$t_dir/boss" boss
elect "$t_dir/o" --store "$url" --id oda --ttl 20s own
oda=$elect_pid
t_check "waits" until_true 10 count_is 2
kill -STOP "$oda"
etcdctl --endpoints "$endpoints" elect t/own next >"$t_dir/next" 2>&1 &
next=$!
t_check "a third" until_true 10 count_is 3
ctl del "$(ctl get --prefix --keys-only --sort-by CREATE t/own/ | grep . | sed -n 2p)" >/dev/null
kill -TERM "$boss"
t_check "the third leads" until_true 10 has "$t_dir/next" next
kill -CONT "$oda"
t_check "in line again" until_true 20 count_is 2
t_refute "did not win" has "$t_dir/o" '"won"'
kill -TERM "$next"
t_check "wins in its turn" until_true 20 has "$t_dir/o" '"won"'
kill -TERM "$oda"
wait "$oda" "$boss" "$next"

t_case "a thousand elections cost one keepalive, and waiting costs nothing else"
free_of_first() { [ "$(ctl get --prefix --keys-only many/many/ | grep -c .)" -le 1000 ]; }
# metric PATTERN: the sum of the server's counters.
metric() {
    curl -s "http://$endpoints/metrics" | grep "^$1" | awk '{ sum += $NF } END { print sum + 0 }'
}
keepalives() { metric 'grpc_server_msg_received_total.*"LeaseKeepAlive"'; }
others() { metric 'grpc_server_msg_received_total{grpc_method="\(Txn\|Range\|Watch\|LeaseG\)'; }
if command -v curl >/dev/null 2>&1; then
    for who in leads waits; do
        mkfifo "$t_dir/$who.in"
        "$TENURE_BUILD/tests/fixtures/many" "etcd://$endpoints/many" 1000 12000 \
            <"$t_dir/$who.in" >"$t_dir/$who" 2>"$t_dir/$who.err" 8>&- &
        if [ $who = leads ]; then
            exec 8>"$t_dir/$who.in"
        else
            exec 9>"$t_dir/$who.in"
        fi
        t_check "$who a thousand" until_true 60 has "$t_dir/$who" "^$who 1000"
    done
    settled() {
        before=$(others)
        sleep 0.5
        [ "$(others)" -eq "$before" ]
    }
    is_over() { [ "$(date +%s)" -gt $counted ]; }
    # A machine that stands still for a while makes everybody come back and look: once more, then.
    for _ in 1 2 3; do
        t_check "settles" until_true 60 settled
        kept=$(keepalives) rest=$(others) counted=$(($(date +%s) + 9))
        t_check "waits" until_true 20 is_over
        kept=$(($(keepalives) - kept)) rest=$(($(others) - rest))
        [ $rest -gt 0 ] || break
    done
    echo "2 processes, 1000 names, TTL 12 s, 9 s: $kept keepalives, $rest other requests"
    # Two processes, one keepalive per 4 s with jitter each.
    t_refute "nothing was lost" grep -q '^lost' "$t_dir/leads"
    t_check "renews" [ $kept -ge 4 ]
    t_check "once per process and interval" [ $kept -le 8 ]
    t_check "nothing else" [ $rest -eq 0 ]
    exec 8>&-
    t_check "the others follow" until_true 60 free_of_first
    exec 9>&-
else
    t_skip "no curl: install curl"
fi

t_case "etcdctl and ours in one election, leader by turns"
TENURE_CONFORMANCE_URL=etcd://$endpoints/both TENURE_ETCDCTL_ENDPOINT=$endpoints timeout 300 \
    "$TENURE_BUILD/tests/fixtures/etcd_elect" >"$t_dir/both" 2>&1
t_check "passes: $(head -n 3 "$t_dir/both")" has "$t_dir/both" ' passed, 0 failed'
grep 'hand-over' "$t_dir/both"

t_done
