#!/bin/sh
# upstreams.sh - one agent above two etcd servers, by prefix: one of them dies, comes back, and the
# agent is started again in between.
# shellcheck source=tests/harness/lib.sh
. "$TENURE_ROOT/tests/harness/lib.sh"
# shellcheck source=tests/live/etcd.lib
. "$TENURE_ROOT/tests/live/etcd.lib"
upstream=sqlite:$t_dir/none.db
# shellcheck source=tests/live/agent.lib
. "$TENURE_ROOT/tests/live/agent.lib"

t_case "configurations that make no sense are one line, and nothing is made"
good=sqlite:$t_dir/good.db
# refused WORDS OPTION...
refused() {
    rf_words=$1
    shift
    for rf_check in '' --check-config; do
        # shellcheck disable=SC2086 # Nothing, or an option.
        t_run timeout 20 "$tenured" --listen "unix:$t_dir/no.sock" --data "$t_dir/no" "$@" $rf_check
        t_check "$* $rf_check: 64, not $t_status" [ "$t_status" -eq 64 ]
        t_check "$* $rf_check: one line" [ "$(wc -l <"$t_err")" -eq 1 ]
        t_check "$* $rf_check: says why: $(cat "$t_err")" grep -q -e "$rf_words" "$t_err"
    done
}
refused 'eu/ has one already' --upstream "eu/=$good" --upstream "eu/=$good.2"
refused 'all other names have one already' --upstream "$good" --upstream "$good.2"
refused 'no prefix of names' --upstream "eu=$good"
refused 'no prefix of names' --upstream "=$good"
refused 'no prefix of names' --upstream "eu//=$good"
refused 'no prefix of names' --upstream "../=$good"
refused 'no prefix of names' --upstream "~tenure/=$good"
refused 'the same URL' --upstream "eu/=$good" --upstream "eu/west/=$good"
refused 'the same URL' --upstream "eu/=$good" --upstream "$good"
refused 'nonsense' --upstream "eu/=$good" --upstream us/=nonsense:x
refused 'outlives the agent' --upstream "eu/=$good" --upstream us/=memory:x
set --
for number in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17; do
    set -- "$@" --upstream "p$number/=$good.$number"
done
refused 'too many' "$@"
printf 'upstream eu/=%s\nupstream us/=%s\n' "$good" "$good.2" >"$t_dir/good.conf"
t_run "$tenured" --config "$t_dir/good.conf" --check-config
t_check "a file may have them, too: $(cat "$t_err")" [ "$t_status" -eq 0 ]
printf 'upstream eu/=%s\nupstream eu/=%s\n' "$good" "$good.2" >"$t_dir/bad.conf"
t_run "$tenured" --config "$t_dir/bad.conf" --check-config
t_check "its line is named: $(cat "$t_err")" grep -q 'bad.conf:2: ' "$t_err"
t_refute "nothing was made" ls "$t_dir/no" "$t_dir/no.sock" "$t_dir"/good.db* 2>/dev/null

t_case "the longest prefix has the name; with none it is refused, and no store is asked"
http=$(t_ports 1)
upstream=eu/=$good.eu
agent r 60s --upstream "eu/west/=$good.west" --http "127.0.0.1:$http" --data "$t_dir/r"
r=$agent
leads_in() {
    t_run timeout 60 "$tenure" run --store "$(at r)" --ttl 10s "$1" -- true
    t_check "$1 is led: $(cat "$t_err")" [ "$t_status" -eq 0 ]
    for li_store in eu west; do
        li_free=$("$tenure" status --store "$good.$li_store" --json "$1" |
            grep -c '"token":0' || :)
        if [ "$li_store" = "$2" ]; then
            t_check "$1 was in $li_store" [ "$li_free" = 0 ]
        else
            t_check "$1 never was in $li_store" [ "$li_free" = 1 ]
        fi
    done
}
leads_in eu/a eu
leads_in eu/west/a west
leads_in eu/western eu
for verb in status acquire "run --wait 0s" "elect --wait 0s"; do
    set -- us/a
    case $verb in run*) set -- us/a -- true ;; esac
    # shellcheck disable=SC2086 # Words.
    t_run timeout 60 "$tenure" $verb --store "$(at r)" "$@"
    t_check "$verb: 77, not $t_status" [ "$t_status" -eq 77 ]
    t_check "$verb: says why: $(cat "$t_err")" \
        grep -q 'no upstream of this agent has the name' "$t_err"
    t_check "$verb: which there are" grep -q 'eu/, eu/west/' "$t_err"
done
status=$(curl -s -o "$t_dir/body" -w '%{http_code}' "http://127.0.0.1:$http/v1/leases/us/a")
t_check "over HTTP 403, not $status: $(cat "$t_dir/body")" [ "$status" = 403 ]
t_run timeout 60 "$tenure" run --store "$(at r)" eu//a -- true
t_check "a name that is none stays a usage error: $t_status" [ "$t_status" -eq 64 ]
t_check "a file of secrets for each" [ "$(stat -c %a "$t_dir/r/upstream+eu" \
    "$t_dir/r/upstream+eu+west" | sort -u)" = 600 ]
end "$r"

etcd_need
etcd_start one
etcd_start two
# shellcheck disable=SC2154 # Set by etcd_start.
eu=127.0.0.1:$port_one us=127.0.0.1:$port_two two=$pid_two
start_agent() {
    upstream=eu/=etcd://$eu/jobs
    agent u 12s --upstream "us/=etcd://$us/jobs" --http "127.0.0.1:$http" --data "$t_dir/u"
    u=$agent
}
ask() { t_run redis-cli -s "$t_dir/u.sock" "$@"; }
opened() {
    ask SESSION OPEN '*' 6000
    ! grep -q '^UNAVAILABLE' "$t_out"
}
# took NAME: the session gets it.
took() {
    ask LEASE ACQUIRE "$secret" '*' "$1"
    grep -q granted "$t_out"
}
state_of() { redis-cli -s "$t_dir/u.sock" LEASE GET "$1" | sed -n '/^state$/{n;p;}'; }
token_of() { redis-cli -s "$t_dir/u.sock" LEASE GET "$1" | sed -n '/^token$/{n;p;}'; }
metric() {
    curl -s "http://127.0.0.1:$http/metrics" |
        sed -n "s|^tenured_upstream_$1{upstream=\"$2\"} ||p"
}
# Renews the session until it is killed; "ttls" has the answers in ms, "lost" what was recalled.
renew_all() {
    while :; do
        redis-cli -s "$t_dir/u.sock" SESSION RENEW "$1" >"$t_dir/renewed" 2>&1
        sed -n '1p' "$t_dir/renewed" >>"$t_dir/ttls"
        sed -n '5,$p' "$t_dir/renewed" | grep / >>"$t_dir/lost"
        until_ms $(($(now_ms) + 300))
    done
}
mkdir "$t_dir/eu" "$t_dir/us"

t_case "each name in its own store; list, watch of a pattern and history show all"
start_agent
candidate c-1 eu/run "$(at u)" 6s
candidate c-2 us/run "$(at u)" 6s
until_acted eu/run 0
eu_token=$token
until_acted us/run 0
us_token=$token
t_check "a session" until_true 60 opened
secret=$(sed -n '/^session$/{n;p;}' "$t_out")
renew_all "$secret" &
renews=$!
candidates="$candidates $renews"
t_check "takes a name of each: $(cat "$t_out")" until_true 60 took eu/both
t_check "and of the other: $(cat "$t_out")" until_true 60 took us/both
both=$(token_of eu/both)
holds() { timeout 20 "$tenure" status --store "$1" --json "$2" | grep -q '"state":"held"'; }
for name in run both; do
    t_check "eu/$name is in the first" holds "etcd://$eu/jobs" "eu/$name"
    t_check "us/$name is in the second" holds "etcd://$us/jobs" "us/$name"
    t_refute "eu/$name is not in the second" holds "etcd://$us/jobs" "eu/$name"
done
t_run timeout 30 "$tenure" list --store "$(at u)"
t_check "list has all four: $(cat "$t_out")" [ "$(grep -c '^[eu][us]/' "$t_out")" -eq 4 ]
for name in "eu/run $eu_token" "us/run $us_token"; do
    t_run timeout 30 "$tenure" history --store "$(at u)" "${name% *}"
    t_check "history of $name: $(cat "$t_err")" grep -qw "${name#* }" "$t_out"
done
ask INFO
for prefix in eu/ us/; do
    t_check "INFO: $prefix: $(grep ^upstream "$t_out")" \
        grep -q "^upstream[01]:prefix=$prefix,up=1,left_ms=[1-9]" "$t_out"
    t_check "metrics: $prefix" [ "$(metric up $prefix)" = 1 ]
done

t_case "one server is stopped: its names end in time, those of the other go on"
hurt kill -STOP "$two"
gone_by=$((hurt_at + 12000))
is_recalled() { grep -qx us/both "$t_dir/lost"; }
t_check "the session is told" until_true 30 is_recalled
t_promise "in time" [ "$(now_ms)" -lt $((gone_by + 1000)) ]
until_ms $((gone_by + 1000))
t_promise "nobody acts for the dead one's name" [ "$(acted_at us/run)" -le "$gone_by" ]
until_ms $((gone_by + 12000))
t_promise "the process of the other acts still" [ $(($(now_ms) - $(acted_at eu/run))) -lt 3000 ]
t_promise "in the same term" [ "$(acted eu/run)" = "$eu_token" ]
t_check "the session of both has the other: $(state_of eu/both)" [ "$(state_of eu/both)" = held ]
t_promise "in the same term" [ "$(token_of eu/both)" = "$both" ]
t_refute "of which it never heard" grep -q eu/ "$t_dir/lost"
least=$(grep -x '[0-9]*' "$t_dir/ttls" | sort -n | head -n 1)
t_check "its TTL never was below a third of 6 s: $least" [ "$least" -ge 1700 ]
t_refute "nor was it left without an answer: $(grep -m 1 -v '^[0-9]*$' "$t_dir/ttls")" \
    grep -q UNAVAILABLE "$t_dir/ttls"
t_check "metrics: one is down" [ "$(metric up us/)" = 0 ]
t_check "the other is not" [ "$(metric up eu/)" = 1 ]
t_check "what was counted out: $(metric counted_out_total us/)" \
    [ "$(metric counted_out_total us/)" -ge 1 ]
t_check "of the other nothing" [ "$(metric counted_out_total eu/)" = 0 ]
t_run timeout 30 "$tenure" run --store "$(at u)" --ttl 6s eu/new -- true
t_check "new names of the other: $(cat "$t_err")" [ "$t_status" -eq 0 ]

t_case "the agent is started again while one server does not answer"
kill -KILL "$u"
wait "$u" 2>/dev/null
start_agent
until_ms $(($(now_ms) + 9000))
t_promise "the other's process leads on" [ "$(acted eu/run)" = "$eu_token" ]
t_promise "and acts" [ $(($(now_ms) - $(acted_at eu/run))) -lt 3000 ]
t_promise "so does the session of both" [ "$(token_of eu/both)" = "$both" ]

t_case "the server is back: its names are led again"
kill -CONT "$two"
until_acted us/run "$us_token" 60
us_token=$token
t_promise "one after the other" apart us/run
t_check "the session takes it again: $(cat "$t_out")" until_true 60 took us/both

t_case "the agent is started again: it goes on in both"
: >"$t_dir/u.log"
: >"$t_dir/lost"
us_both=$(token_of us/both)
kill -KILL "$u"
wait "$u" 2>/dev/null
start_agent
until_ms $(($(now_ms) + 9000))
for prefix in eu/ us/; do
    t_check "took up its session in $prefix: $(cat "$t_dir/u.log")" \
        grep -q "took up the session upstream $prefix .* with [12] of" "$t_dir/u.log"
done
t_promise "no term is lost in the first" [ "$(acted eu/run)" = "$eu_token" ]
t_promise "nor in the second" [ "$(acted us/run)" = "$us_token" ]
t_promise "nor of the session of both" \
    [ "$(token_of eu/both) $(token_of us/both)" = "$both $us_both" ]
t_refute "which never heard of it" [ -s "$t_dir/lost" ]
end_all
t_promise "one after the other, also in the first" apart eu/run
end "$u"
t_done
