#!/bin/sh
# redlock.sh - the store redlock: on five real servers: what every store promises, with all of them
# and with two of them down; servers killed, emptied, stopped and back while a term goes on; tokens
# that rise over every majority.
# shellcheck source=tests/harness/lib.sh
. "${TENURE_ROOT:-$(dirname "$0")/../..}/tests/harness/lib.sh"
# shellcheck source=tests/live/redis.inc
. "$TENURE_ROOT/tests/live/redis.inc"
# shellcheck source=tests/live/faults.lib
. "$TENURE_ROOT/tests/live/faults.lib"
rd_begin
# Five servers on one disk: waiting for it with every grant is not what is tested here. What one
# has answered is written, and survives its end by a signal; with everysec that might be put off.
rd_appendfsync=no

nodes="1 2 3 4 5"
t_case "five servers start"
for n in $nodes; do
    t_check "it runs" rd_start "$n"
done
five=$(rd_lock 1 2 3 4 5)

flush() {
    for n in $nodes; do
        [ ! -e "$t_dir/rd$n/pid" ] || rd "$n" FLUSHALL >/dev/null
    done
}

t_case "what every store promises"
conform "$five"
flush
t_case "and with three servers"
conform "$(rd_lock 1 2 3)"
flush

t_case "whoever uses it is told that it is advisory, and why"
leads "$five"
t_check "run says so: $(cat "$t_err")" grep -q "^tenure run: redlock: is advisory: a server that \
restarts without its data votes twice, and all trust their wall clocks\." "$t_err"

t_case "what is no majority"
refuses 64 "an odd number of independent servers, 3 or more" "$(rd_lock 1 2)"
refuses 64 "an odd number of independent servers, 3 or more" "redlock://:geheim@127.0.0.1"
refuses 64 "one server is named twice" "$(rd_lock 1 2 1)"

t_case "a revocation that a bare majority has is told by status and list"
"$tenure" acquire --store "$five" --ttl 60s --id me taken >/dev/null
t_run "$tenure" status --store "$five" --json taken
t_refute "not yet: $(cat "$t_out")" grep -q revoked "$t_out"
for n in 1 3 5; do
    "$tenure" revoke --store "$(rd_url $n)" taken >/dev/null
done
t_run "$tenure" status --store "$five" --json taken
t_check "status: $(cat "$t_out")" grep -q '"revoked":true' "$t_out"
t_run "$tenure" list --store "$five"
t_check "list: $(cat "$t_out")" grep -q '^taken *revoked' "$t_out"
flush

# The votes for a term are news, their confirmation is none: who reads in between reads once more.
t_case "a wish that comes slowly is heard by who holds the lease"
elects() { # ID
    "$tenure" elect --store "$(rd_lock 1 2 3)" --ttl 10s --id "$1" slow >"$t_dir/slow.$1" 2>&1 &
    pids="$pids $!"
}
pids=
elects first
t_check "first leads" until_line "$t_dir/slow.first" '"won"'
elects next
t_check "next waits" until_line "$t_dir/slow.next" '"leader"'
for n in 1 2 3; do
    proxy_start "slow$n" "$(rd_port $n)"
    eval "port_slow$n=$proxy_port"
    proxy_say "slow$n" "trickle 4000"
done
t_run timeout 30 "$tenure" handover --wait 15s slow --store \
    "redlock://127.0.0.1:$port_slow1,127.0.0.1:$port_slow2,127.0.0.1:$port_slow3"
t_check "handed over: $(cat "$t_err")" grep -q "from first, token .* to next" "$t_out"
# shellcheck disable=SC2086 # A list of numbers.
kill $pids
flush

t_case "a server confirms no token that another term had, nor a lower one"
session=$(printf %032d 1)
term1=$(printf %032d 2)
term2=$(printf %032d 3)
# ask STEP ARGUMENT...: what server 1 says to a step of the script.
ask() {
    step=$1
    shift
    rd 1 --eval "$TENURE_ROOT/src/stores/redis/lease.lua" "{confirm}" , "$step" x 1 "$@" |
        sed -n 2p
}
# confirms TERM TOKEN WORD
confirms() {
    said=$(ask confirm "$session" "$1" job "$(printf %020d "$2")")
    t_check "token $2 of the term $1: $said" [ "$said" = "$3" ]
}
ask open "$session" "$(printf %020d 1)" 60000 ada >/dev/null
t_check "votes" [ "$(ask acquire "$session" "$term1" job 1)" = granted ]
confirms "$term1" 7 ok
confirms "$term1" 7 ok
said=$(ask release "$session" "$term1" job "$(printf %020d 7)")
t_check "gets it back: $said" [ "$said" = released ]
t_check "votes again" [ "$(ask acquire "$session" "$term2" job 1)" = granted ]
confirms "$term2" 6 stale
confirms "$term2" 7 stale
confirms "$term2" 8 ok
rd 1 DEL "{confirm}:l:job" >/dev/null # Put right from its copy, and revoked.
ask read job >/dev/null
said=$(rd 1 HGET "{confirm}:l:job" highest)
t_check "still known: $said" [ "$said" = "$(printf %020d 8)$term2" ]
flush

t_case "a thousand elections cost every server one script call per interval, and waiting no more"
# settled: in the last second there were two calls at most.
look() { se_from=$(now_ms) se_calls=$(rd_scripts 1); }
settled() {
    is_ms $((se_from + 1000)) || return 1
    se_before=$se_calls
    look
    [ "$se_calls" -le $((se_before + 2)) ]
}
# count_calls: over fourteen seconds, more than two intervals; for each server, a line of its calls
# of scripts, its commands and its renewals.
count_calls() {
    before=$(rd_beats 1)
    until [ "$(rd_beats 1)" -gt "$before" ]; do
        sleep 0.1
    done
    for n in $nodes; do
        rd "$n" CONFIG RESETSTAT >/dev/null
        rd_beats "$n" >"$t_dir/before.$n"
    done
    until_ms $(($(now_ms) + 14000))
    for n in $nodes; do
        echo "$(rd_scripts "$n") $(rd_commands "$n")" \
            $(($(rd_beats "$n") - $(cat "$t_dir/before.$n")))
    done
}
# measured SESSIONS: a machine that stands still for a while costs terms, and they are won again;
# then once more.
measured() {
    for _ in 1 2 3; do
        look
        t_check "settles" until_true 60 settled
        count_calls >"$t_dir/calls"
        awk -v most="$1" '$2 > $3 + most { exit 1 }' "$t_dir/calls" && break
    done
    n=0
    while read -r calls sent renewed; do
        n=$((n + 1))
        what="server $n: $calls script calls, $sent commands for $renewed renewals of $1"
        t_check "$what" [ "$renewed" -ge $((2 * $1)) ]
        t_check "$what" [ "$calls" -le $((renewed + $1)) ]
        t_check "$what" [ "$sent" -le $((renewed + $1)) ]
        echo "# $what"
    done <"$t_dir/calls"
}
mkfifo "$t_dir/in1" "$t_dir/in2"
"$fixtures/many" "$five" 1000 15000 cost <"$t_dir/in1" >"$t_dir/many1" 2>&1 &
one=$!
exec 8>"$t_dir/in1"
t_check "all won" until_line "$t_dir/many1" "leads 1000" 120
measured 1
"$fixtures/many" "$five" 1000 15000 cost <"$t_dir/in2" >"$t_dir/many2" 2>&1 8>&- &
two=$!
exec 9>"$t_dir/in2"
t_check "all wait" until_line "$t_dir/many2" "waits 1000" 120
measured 2
exec 8>&-
wait $one
t_check "the other leads all" until_line "$t_dir/many2" "leads 1000" 120
exec 9>&-
wait $two
flush

t_case "five servers, and any two of them are killed or stand still: a term goes on"
candidate ada job "$five" 4s
until_acted job 0
kept=$token
for pair in "1 2" "3 4"; do
    for n in $pair; do
        rd_kill "$n" KILL
    done
    hurt_at=$(now_ms)
    until_ms $((hurt_at + 5000))
    for n in $pair; do
        t_check "$n is back" rd_start "$n"
    done
    # Back with what they had, or asked again: they count before the next two go. That takes a pause
    # of the connection (3 s), a renewal that finds the session gone, and one that opens it.
    until_ms $((hurt_at + 13000))
done
for n in 2 3; do
    rd_kill "$n" STOP
done
hurt_at=$(now_ms)
until_ms $((hurt_at + 5000))
for n in 2 3; do
    rd_kill "$n" CONT
done
t_check "the same term" [ "$(acted job)" = "$kept" ]
t_check "acts: $(cat "$t_dir/job.err")" [ "$(acted_at job)" -ge $((hurt_at + 4000)) ]

t_case "one after the other is emptied, and is told the vote again: a term goes on"
votes() { rd "$1" HGET "{tenure}:l:job" sure | grep -qx 1; }
until_ms $(($(now_ms) + 1500)) # What was left over there is cleared away first.
for n in 2 3; do
    t_check "$n has the vote" until_true 20 votes "$n"
done
until_ms $(($(now_ms) + 3000)) # It counts with the next renewal.
for n in 4 5; do
    rd_kill "$n" KILL
    rd_empty "$n"
    t_check "$n is back, empty" rd_start "$n"
    t_check "$n has the vote" until_true 20 votes "$n"
    t_check "and the token" [ "$(rd "$n" HGET "{tenure}:l:job" token)" = \
        "$(printf %020d "$kept")" ]
    until_ms $(($(now_ms) + 3000))
done
t_check "the same term" [ "$(acted job)" = "$kept" ]
t_check "acts" [ "$(acted_at job)" -ge $(($(now_ms) - 2000)) ]

t_case "three servers away: the term ends by its deadline, and no other begins"
candidate bob job "$five" 4s
for n in 1 2 3; do
    rd_kill "$n" STOP
done
hurt_at=$(now_ms)
until_ms $((hurt_at + 4200))
t_promise "nobody acts beyond the TTL: $(($(acted_at job) - hurt_at)) ms" \
    [ "$(acted_at job)" -le $((hurt_at + 4000)) ]
t_run timeout 40 "$tenure" run --store "$five" --ttl 3s --wait 1s other -- true
t_check "69, not $t_status" [ "$t_status" -eq 69 ]
t_check "says so: $(cat "$t_err")" grep -q "2 of 5 servers answered, and 3 must agree" "$t_err"
for n in 1 2 3; do
    rd_kill "$n" CONT
done
until_acted job "$kept"
end_all
t_promise "one after the other" apart job

t_case "tokens rise, whichever majority it is, and whoever is emptied between two terms"
last=0
for away in "1 2" "3 4" "5 1" "2 3"; do
    for n in $away; do
        rd_kill "$n" KILL
    done
    t_run timeout 40 "$tenure" run --store "$five" --ttl 2s --wait 20s rise -- \
        sh -c 'echo $TENURE_TOKEN'
    t_check "without $away: $(cat "$t_err")" [ "$t_status" -eq 0 ]
    t_check "$(cat "$t_out") after $last" [ "$(cat "$t_out")" -gt "$last" ]
    last=$(cat "$t_out")
    for n in $away; do
        t_check "$n is back" rd_start "$n"
    done
done
# A minority that has lost everything; not of those who confirmed the last term, or a new majority
# might share no other server with theirs: docs/stores/redis.md.
for n in 2 3; do
    rd_kill "$n" KILL
    rd_empty "$n"
    t_check "$n is back, empty" rd_start "$n"
done
t_run timeout 40 "$tenure" run --store "$five" --ttl 2s --wait 20s rise -- \
    sh -c 'echo $TENURE_TOKEN'
t_check "$(cat "$t_out") after $last" [ "$(cat "$t_out")" -gt "$last" ]

faults_line "$five"

t_case "ten candidates at once: one leads after the other, without a TTL between"
for i in 1 2 3 4 5 6 7 8 9 10; do
    "$tenure" run --store "$five" --ttl 20s --wait 60s crowd -- \
        sh -c 'echo "$TENURE_TOKEN $(date +%s%N)" >>"$1"; sleep 0.1
            echo "$TENURE_TOKEN $(date +%s%N)" >>"$1"' x "$t_dir/crowd.acts" 2>/dev/null &
    crowd="${crowd:-} $!"
done
asked=$(now_ms)
for pid in $crowd; do
    t_check "it has led" wait "$pid"
done
took=$(($(now_ms) - asked))
t_check "ten terms" [ "$(cut -d ' ' -f 1 "$t_dir/crowd.acts" | sort -u | wc -l)" -eq 10 ]
t_promise "one after the other" apart crowd
t_check "in $took ms" [ $took -lt 30000 ]
t_done
