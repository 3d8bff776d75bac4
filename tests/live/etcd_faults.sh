#!/bin/sh
# etcd_faults.sh - the etcd store through crashes, stops, cuts, a lost leader and a restored backup.
. "$(dirname "$0")/../harness/lib.sh"
. "$(dirname "$0")/etcd.lib"
# shellcheck source=tests/live/faults.lib
. "$TENURE_ROOT/tests/live/faults.lib"
etcd_need

etcd_start one || t_done
# shellcheck disable=SC2154 # etcd_start sets it.
endpoints=127.0.0.1:$port_one
etcd_faults_of_one
faults_one "$port_one"
faults_replay "$port_one" 40

t_case "news that was compacted away while a waiter was cut off is not missed"
elect "$t_dir/h" --store "$(url "$port_one")" --id hal --ttl 60s compacted
hal=$elect_pid
t_check "won" until_true 10 has "$t_dir/h" '"won"'
proxy_start relay "$port_one"
elect "$t_dir/w" --store "$(url "$proxy_port")" --id wim --ttl 60s compacted
wim=$elect_pid
stands_behind() { [ "$(ctl get --prefix --keys-only t/compacted/ | grep -c .)" -eq 2 ]; }
t_check "waits" until_true 10 stands_behind
t_check "knows for whom" until_true 10 has "$t_dir/w" '"leader".*"holder":"hal"'
proxy_say relay refuse
kill -TERM "$hal"
wait "$hal"
ctl put filler 0 >/dev/null
revision=$(ctl get filler -w fields | sed -n 's/^"Revision" : //p')
ctl compact --physical "$revision" >"$t_dir/compacted" 2>&1
t_check "compacted" grep -q "compacted revision $revision" "$t_dir/compacted"
proxy_say relay pass
t_check "hears of its turn" until_true 20 has "$t_dir/w" '"won"'
t_check "the token rises" [ "$(token_of "$t_dir/w")" -gt "$(token_of "$t_dir/h")" ]
kill -TERM "$wim"
wait "$wim"

t_case "a backup that is restored: no leading with a lower token"
ctl snapshot save "$t_dir/backup" >/dev/null 2>&1
# So that the revisions after the restore are lower for a while.
for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
    ctl put filler $i >/dev/null
done
elect "$t_dir/r" --store "$(url "$port_one")" --id ray --ttl 3s restored
ray=$elect_pid
t_check "won" until_true 10 has "$t_dir/r" '"won"'
etcd_stop one
rm -rf "$t_dir/one.etcd"
# shellcheck disable=SC2154 # etcd_start sets it.
etcdctl snapshot restore "$t_dir/backup" --name one --data-dir "$t_dir/one.etcd" \
    --initial-cluster "one=http://127.0.0.1:$peer_one" \
    --initial-advertise-peer-urls "http://127.0.0.1:$peer_one" >/dev/null 2>&1
etcd_again one
t_check "refuses, and says why" until_true 20 has "$t_dir/r.err" 'token-regressed.*bump-revision'
# It may lead again once the server's revisions have passed the token it has seen.
first=$(grep -m 1 '"won"' "$t_dir/r" | sed 's/.*"token":\([0-9]*\).*/\1/')
t_check "leads only with a higher token" \
    [ "$(grep -c '"won"' "$t_dir/r")" -eq 1 -o "$(token_of "$t_dir/r")" -gt "$first" ]
kill -TERM "$ray"
wait "$ray"
etcd_stop one

etcd_cluster
# The one that leads first: that is whom we are connected to.
leader=$(leading_member)
eval "first=127.0.0.1:\$port_$leader"
faults_three "etcd://$first,$endpoints/t"

# A follower hands keepalives on to the leader it knows, to one that stands still for seven seconds.
t_case "a follower whose leader stands still: renewals do not wait for that leader"
t_check "there is a leader" until_true 30 has_leader
leader=$(leading_member)
held='' began_at=$(now_ms) count=0
for name in a b c d; do
    for member in $members; do
        [ "$member" != "$leader" ] || continue
        eval "at=127.0.0.1:\$port_$member"
        candidate ada "$member$name" "etcd://$at/t" 12s
        until_acted "$member$name" 0
        held="$held $member$name=$token" count=$((count + 1))
        # All over an interval, so that some of them renew while nobody leads.
        until_ms $((began_at + count * 500))
    done
done
member_stop "$leader"
until_ms $(($(now_ms) + 11000))
for pair in $held; do
    name=${pair%=*}
    t_check "$name: the same term" [ "$(acted "$name")" = "${pair#*=}" ]
    t_check "$name: acts: $(($(now_ms) - $(acted_at "$name"))) ms ago" \
        [ "$(acted_at "$name")" -ge $(($(now_ms) - 1000)) ]
done
member_go_on "$leader"
end_all

t_done
