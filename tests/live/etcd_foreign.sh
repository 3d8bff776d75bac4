#!/bin/sh
# etcd_foreign.sh - keys of other programs below our names: they neither end a process nor stand in
# line, whatever they are called and whatever they hold.
. "$(dirname "$0")/../harness/lib.sh"
. "$(dirname "$0")/etcd.lib"
etcd_need

etcd_start one || t_done
# shellcheck disable=SC2154 # etcd_start sets it.
endpoints=127.0.0.1:$port_one
url=etcd://$endpoints/t

# many COUNT CHARACTER
many() { head -c "$1" /dev/zero | tr '\0' "$2"; }
lease=$(ctl lease grant 600 | sed -n 's/^lease \([0-9a-f]*\) .*/\1/p')
many 1000000 v >"$t_dir/megabyte"
printf '\377\376\001 tenure:\300\200' >"$t_dir/bytes"

# strangers NAME: with and without a lease; none of their last parts is the number of a lease.
strangers() {
    for last in "$(many 900 x)" "$(many 1500 a)" "$(many 17 1)" ABCDEF 0x1f '' \
        "$(printf '\001\377')" 'a b' "deep/$(many 300 d)/er" a/ leader members/one; do
        ctl put -- "t/$1/$last" value >/dev/null
    done
    ctl put --lease "$lease" -- "t/$1/config" leased >/dev/null
    ctl put "t/$1/big" <"$t_dir/megabyte" >/dev/null
    ctl put "t/$1/bytes" <"$t_dir/bytes" >/dev/null
}

# alive PID: it has not ended.
alive() { kill -0 "$1" 2>/dev/null; }

for name in wild long; do
    t_case "$name: a name with nothing but strangers below it is free"
    if [ $name = wild ]; then
        strangers wild
    else # Alone, it is the first key below the name and the whole answer.
        ctl put -- "t/long/$(many 900 x)" value >/dev/null
    fi
    "$tenure" watch --json --store "$url" $name >"$t_dir/$name.watch" 2>"$t_dir/$name.watch.err" &
    watcher=$!
    t_check "a watcher sees it vacant" until_line "$t_dir/$name.watch" '"vacant"'
    t_run "$tenure" status --store "$url" --json $name
    t_check "status: $(cat "$t_out" "$t_err")" grep -q '"state":"free"' "$t_out"

    t_case "$name: candidates take turns there"
    elect "$t_dir/$name.a" --store "$url" --id ada --ttl 20s $name
    ada=$elect_pid
    t_check "won" until_line "$t_dir/$name.a" '"won"'
    t_check "the watcher sees her" until_line "$t_dir/$name.watch" '"leader".*"holder":"ada"'
    elect "$t_dir/$name.b" --store "$url" --id bob --ttl 20s $name
    bob=$elect_pid
    t_check "the other waits" until_line "$t_dir/$name.b" '"leader".*"holder":"ada"'
    t_run "$tenure" acquire --store "$url" --json --ttl 5s $name
    t_check "a third is told who leads: $(cat "$t_out" "$t_err")" \
        grep -q '"granted":false,"holder":"ada"' "$t_out"
    # Newer than both, and the watcher's next look sees it.
    strangers $name
    kill -TERM "$ada"
    wait "$ada"
    t_check "the next has it" until_line "$t_dir/$name.b" '"won"'
    t_check "the token rises" \
        [ "$(token_of "$t_dir/$name.b")" -gt "$(token_of "$t_dir/$name.a")" ]
    kill -TERM "$bob"
    wait "$bob"
    t_run "$tenure" acquire --store "$url" --json --ttl 5s $name
    t_check "granted without waiting: $(cat "$t_out" "$t_err")" grep -q '"granted":true' "$t_out"
    t_check "the watcher lives: $(cat "$t_dir/$name.watch.err")" alive "$watcher"
    kill -TERM "$watcher"
    wait "$watcher"
done

t_case "a listing names no stranger"
# What Patroni keeps; its leader's key is etcd_observe.sh's.
for key in config history initialize status sync members/one members/two; do
    ctl put --lease "$lease" -- "t/demo/$key" one >/dev/null
done
t_run "$tenure" list --store "$url" --json
t_check "ends well: $(cat "$t_err")" [ "$t_status" -eq 0 ]
t_refute "not theirs: $(cat "$t_out")" grep -q '"name":"demo' "$t_out"
t_check "ours" grep -q '"name":"wild"' "$t_out"
t_refute "nothing below it" grep -q '"name":"wild/' "$t_out"

t_case "a key whose last part is a lease's number is a candidate, as Go's clients have it"
ctl put --lease "$lease" -- "t/theirs/$lease" eve >/dev/null
t_run "$tenure" status --store "$url" --json theirs
t_check "held: $(cat "$t_out" "$t_err")" grep -q '"state":"held","holder":"eve"' "$t_out"
t_run "$tenure" acquire --store "$url" --json --ttl 5s theirs
t_check "not granted" grep -q '"granted":false' "$t_out"

t_done
