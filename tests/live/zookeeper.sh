#!/bin/sh
# zookeeper.sh - the ZooKeeper store on a real server: the contract, one election with clients of
# Curator's layout, and what a thousand elections cost. Faults are in zookeeper_faults.sh.
# shellcheck source=tests/harness/lib.sh
. "${TENURE_ROOT:-$(dirname "$0")/../..}/tests/harness/lib.sh"
# shellcheck source=tests/harness/zookeeper.sh
. "$TENURE_ROOT/tests/harness/zookeeper.sh"

latch=$TENURE_BUILD/tests/fixtures/latch
many=$TENURE_BUILD/tests/fixtures/many

zk_need
port=$(t_ports 1)
zk_make one "$port"
if ! zk_start one; then
    t_case "a server"
    t_fail "it does not start"
    t_done
fi
hosts=zookeeper://127.0.0.1:$port

t_case "the conformance suite passes"
TENURE_CONFORMANCE_URL=$hosts/conformance t_run timeout 200 "$TENURE_BUILD/tests/conformance"
t_check "all of it" [ "$t_status" -eq 0 ]
[ "$t_status" -eq 0 ] || cat "$t_out"
t_check "on this store" grep -Eq '^[1-9][0-9]* passed, 0 failed, 0 skipped$' "$t_out"

t_case "one election, their clients and ours: a hundred changes each way, in order, never two"
for who in 1 2; do
    timeout 120 "$latch" "$hosts/mixed" job "ours-$who" 8000 150 2 >"$t_dir/$who.ours" &
    timeout 120 "$zk_py" turns "$port" /mixed/job "theirs-$who" 150 2 >"$t_dir/$who.theirs" &
done
t_run "$zk_py" ask "$port" ruok
left=6000
until [ "$(cat "$t_dir"/?.ours "$t_dir"/?.theirs | grep -c '^end')" -ge 600 ]; do
    left=$((left - 1))
    [ $left -gt 0 ] || break
    sleep 0.02
done
t_run "$zk_py" check "$t_dir"/1.ours "$t_dir"/2.ours "$t_dir"/1.theirs "$t_dir"/2.theirs
t_check "no overlap, tokens rise, nobody skipped: $(cat "$t_err")" [ "$t_status" -eq 0 ]
t_check "all 600 terms" grep -qx 'terms 600' "$t_out"
changes() { sed -n "s/^$1 //p" "$t_out"; }
t_check "from ours to theirs: $(changes ours-theirs)" [ "$(changes ours-theirs)" -ge 100 ]
t_check "from theirs to ours: $(changes theirs-ours)" [ "$(changes theirs-ours)" -ge 100 ]

t_case "the layout is Curator's, the data the label, the token the czxid"
"$tenure" elect --store "$hosts/layout" --ttl 5s --id ada a/job >"$t_dir/ada" &
ada=$!
t_check "won" until_line "$t_dir/ada" '"event":"won"'
token=$(sed -n 's/.*"event":"won".*"token":\([0-9]*\).*/\1/p' "$t_dir/ada")
cat >"$t_dir/look.py" <<END
import re, sys
from kazoo.client import KazooClient
kazoo = KazooClient("127.0.0.1:$port")
kazoo.start(20)
nodes = kazoo.get_children("/layout/a/job")
data, stat = kazoo.get("/layout/a/job/" + nodes[0])
ok = (len(nodes) == 1 and data == b"ada" and stat.czxid == $token and stat.owner_session_id != 0
      and re.fullmatch("_c_[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}-latch-[0-9]{10}", nodes[0]))
sys.exit(0 if ok else "%s %s %s" % (nodes, data, stat))
END
t_run timeout 20 /usr/bin/python3 "$t_dir/look.py"
t_check "node: $(cat "$t_err")" [ "$t_status" -eq 0 ]

t_case "a node that an operator deletes costs the term, and the next token is larger"
t_run "$zk_py" delete "$port" /layout/a/job
t_check "lost" until_line "$t_dir/ada" "\"event\":\"lost\".*\"token\":$token,\"reason\":\"revoked\""
t_check "won again" until_line "$t_dir/ada" '"event":"won".*"token":'
left=500
until [ "$(grep -c '"event":"won"' "$t_dir/ada")" -ge 2 ] || [ $left -eq 0 ]; do
    left=$((left - 1))
    sleep 0.02
done
again=$(sed -n 's/.*"event":"won".*"token":\([0-9]*\).*/\1/p' "$t_dir/ada" | tail -n 1)
t_check "larger: $again after $token" [ "$again" -gt "$token" ]
t_run "$tenure" revoke a/job --token "$token" --store "$hosts/layout"
t_check "revoke: a stale token is refused: $(cat "$t_err")" [ "$t_status" -eq 80 ]
t_run "$tenure" revoke a/job --store "$hosts/layout"
t_check "revoke: $(cat "$t_err")" grep -q "^a/job: revoked from ada, token $again;" "$t_out"
t_check "told" until_line "$t_dir/ada" "\"event\":\"lost\".*\"token\":$again,.*\"revoked\""
end $ada
t_check "ends well" [ "$status" -eq 0 ]

t_case "a node of ours that is another session's does not win"
mkfifo "$t_dir/usurp.in"
"$zk_py" usurp "$port" /layout/usurped <"$t_dir/usurp.in" >"$t_dir/usurp" &
in_finish "kill $! 2>/dev/null"
exec 8>"$t_dir/usurp.in"
t_check "they lead" until_line "$t_dir/usurp" leads
"$tenure" elect --store "$hosts/layout" --ttl 20s --id oda usurped >"$t_dir/oda" 8>&- &
oda=$!
t_check "waits" until_line "$t_dir/usurp" ready
t_check "behind them" until_line "$t_dir/oda" '"event":"leader".*"holder":"boss"'
kill -STOP $oda
echo >&8
t_check "taken" until_line "$t_dir/usurp" 'done True'
kill -CONT $oda
t_check "sees who leads" until_line "$t_dir/oda" '"event":"leader".*"holder":"thief"'
t_check "in line again" until_line "$t_dir/usurp" behind
t_refute "did not win" grep -q '"event":"won"' "$t_dir/oda"
exec 8>&-
t_check "wins in its turn" until_line "$t_dir/oda" '"event":"won"'
end $oda

t_case "an ACL keeps those out who have no password, or a wrong one"
t_run "$zk_py" guard "$port" /guarded ada:geheim
t_check "guarded" [ "$t_status" -eq 0 ]
refuses 77 "its ACL wants a user:password in the URL" "zookeeper://127.0.0.1:$port/guarded"
refuses 77 "its ACL does not admit this user and password" \
    "zookeeper://ada:geheimer@127.0.0.1:$port/guarded"
t_run "$tenure" run --store "zookeeper://ada:geheim@127.0.0.1:$port/guarded" --wait 10s \
    --ttl 3s job -- true
t_check "right: exit status is 0, not $t_status: $(cat "$t_err")" [ "$t_status" -eq 0 ]

t_case "what cannot be reached, resolved or encrypted is said in one line"
refuses 69 "127.0.0.1:1" "zookeeper://127.0.0.1:1/x"
proxy_start silent "$port"
proxy_say silent stall
refuses 69 "127.0.0.1:$proxy_port" "zookeeper://ada:geheim@127.0.0.1:$proxy_port/x"
refuses 69 "no-such-host.invalid" "zookeeper://no-such-host.invalid/x"
refuses_without_names "zookeeper://ada:geheim@db.example.com/x"
refuses 69 "has no TLS; use zookeeper:// through a TLS tunnel" "zookeepers://127.0.0.1/x"

t_case "a thousand elections cost one request per interval, a thousand waiting ones too"
mkfifo "$t_dir/hold" "$t_dir/wait"
"$many" "$hosts/cost" 1000 6000 <"$t_dir/hold" >"$t_dir/holding" &
exec 8>"$t_dir/hold"
t_check "held" until_line "$t_dir/holding" '^leads 1000$' 60
"$many" "$hosts/cost" 1000 6000 <"$t_dir/wait" >"$t_dir/waiting" 8>&- &
waiting=$!
exec 9>"$t_dir/wait"
packets() { "$zk_py" ask "$port" mntr | sed -n 's/^zk_packets_received[[:space:]]*//p'; }
queued() { "$zk_py" ask "$port" mntr | sed -n 's/^zk_ephemerals_count[[:space:]]*//p'; }
left=300
until [ "$(queued)" -ge 2000 ] || [ $left -eq 0 ]; do
    left=$((left - 1))
    sleep 0.1
done
t_check "queued" [ "$(queued)" -ge 2000 ]
# The watches are set a moment later: wait for a quiet second.
left=60 before=$(packets) now=0
until [ $left -eq 0 ]; do
    sleep 1
    now=$(packets)
    [ $((now - before)) -gt 12 ] || break
    before=$now left=$((left - 1))
done
before=$now
sleep 6
after=$(packets)
# Two processes, six seconds, a renewal every two or, by the jitter, a little less; and our own
# questions, which count too.
t_check "at most 2 x 5 renewals and a few words: $((after - before))" [ $((after - before)) -le 14 ]
t_check "and at least 2 x 2" [ $((after - before)) -ge 4 ]
t_refute "none was lost" grep -q '^lost' "$t_dir/holding"
exec 8>&-
t_check "all went to those who waited" until_line "$t_dir/waiting" '^leads 1000$' 60
exec 9>&-
wait $waiting

t_done
