#!/bin/sh
# etcd_faults.sh - the etcd store through crashes, stops, cuts, a lost leader and a restored backup.
. "$(dirname "$0")/../harness/lib.sh"
. "$(dirname "$0")/etcd.lib"
etcd_need

etcd_start one || t_done
# shellcheck disable=SC2154 # etcd_start sets it.
endpoints=127.0.0.1:$port_one
url=etcd://$endpoints/t

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
t_check "somebody leads again" until_true 25 won_times 2 "$t_dir/k" "$t_dir/k2"
t_check "one after the other" in_turn "$t_dir/k" "$t_dir/k2"
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
# So that the revisions after the restore are lower for a while.
for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
    ctl put filler $i >/dev/null
done
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
t_check "refuses, and says why" until_true 20 has "$t_dir/r.err" 'token-regressed'
# It may lead again once the server's revisions have passed the token it has seen.
first=$(grep -m 1 '"won"' "$t_dir/r" | sed 's/.*"token":\([0-9]*\).*/\1/')
t_check "leads only with a higher token" \
    [ "$(grep -c '"won"' "$t_dir/r")" -eq 1 -o "$(token_of "$t_dir/r")" -gt "$first" ]
kill -TERM "$ray"
wait "$ray"
etcd_stop one

t_case "three servers that lose their leader while we lead"
etcd_cluster
elect "$t_dir/n" --store "etcd://$endpoints/t" --id nat --ttl 6s three
nat=$elect_pid
t_check "won" until_true 10 has "$t_dir/n" '"won"'
leader=$(etcd_leader)
etcd_stop "$leader"
elect "$t_dir/n2" --store "etcd://$endpoints/t" --id ned --ttl 6s three
ned=$elect_pid
t_check "still the leader" until_true 20 has "$t_dir/n2" '"leader".*"holder":"nat"'
renewed=$(($(date +%s) + 7))
whole_ttl() { [ "$(date +%s)" -gt $renewed ]; }
t_check "for longer than its TTL" until_true 10 whole_ttl
t_refute "kept" has "$t_dir/n" '"lost"'
t_case "the leader of three is stopped, and we are connected to it or not"
for name in c1 c2 c3; do
    [ $name = "$leader" ] || other=$name
done
eval "kill -STOP \$pid_$other"
t_check "without a majority the term ends" until_true 12 has "$t_dir/n" '"lost".*"expired"'
eval "kill -CONT \$pid_$other"
t_check "somebody leads again" until_true 25 won_times 2 "$t_dir/n" "$t_dir/n2"
t_check "one after the other" in_turn "$t_dir/n" "$t_dir/n2"
kill -TERM "$nat" "$ned"
wait "$nat" "$ned"

t_done
