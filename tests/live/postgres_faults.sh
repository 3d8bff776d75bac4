#!/bin/sh
# postgres_faults.sh - what a PostgreSQL server that crashes, stops or is cut off does to a term.
# shellcheck source=tests/harness/lib.sh
. "${TENURE_ROOT:-$(dirname "$0")/../..}/tests/harness/lib.sh"
# shellcheck source=tests/live/postgres.inc
. "$TENURE_ROOT/tests/live/postgres.inc"
pg_begin

t_case "a server starts"
pg_init
t_check "it runs" pg_start

# Children write down when they act; two tokens must never mix.
acts=$t_dir/acts
cat >"$t_dir/act" <<'END'
#!/bin/sh
while :; do
    echo "$TENURE_TOKEN $(date +%s%N)" >>"$1"
    sleep 0.05
done
END
chmod +x "$t_dir/act"

# apart: in the order of their acts, tokens only rise.
apart() { sort -k 2n "$acts" | awk '$1 < last { bad = 1 } { last = $1 } END { exit bad }'; }

# candidate ID URL TTL: starts one in the background; its number is $!.
candidate() {
    "$tenure" run --store "$2" --id "$1" --ttl "$3" --grace 200ms job -- "$t_dir/act" "$acts" \
        >"$t_dir/$1.out" 2>"$t_dir/$1.err" &
}

# token_after LEAST: the newest token, once it is above LEAST.
token_after() {
    left=1500
    until [ "$(tail -n 1 "$acts" 2>/dev/null | cut -d ' ' -f 1 | grep . || echo 0)" -gt "$1" ]; do
        left=$((left - 1))
        [ $left -gt 0 ] || return 1
        sleep 0.02
    done
    tail -n 1 "$acts" | cut -d ' ' -f 1
}

t_case "a resign hands over at once, a crash after the TTL"
pg_sql postgres "CREATE DATABASE faults"
at=$(url faults)
candidate ada "$at" 4s
ada=$!
first=$(token_after 0)
candidate bob "$at" 4s
bob=$!
left=500
until [ "$(pg_sql faults "SELECT count(*) FROM tenure.waiter")" = 1 ]; do
    left=$((left - 1))
    [ $left -gt 0 ] || break
done
t_check "bob is in the queue" [ $left -gt 0 ]
asked=$(now_ms)
end $ada
second=$(token_after "$first")
took=$(($(now_ms) - asked))
t_check "handed over in $took ms, not after a TTL" [ $took -lt 2500 ]
candidate eve "$at" 4s
eve=$!
left=500
until [ "$(pg_sql faults "SELECT count(*) FROM tenure.waiter")" = 1 ]; do
    left=$((left - 1))
    [ $left -gt 0 ] || break
done
kill -KILL $bob
asked=$(now_ms)
third=$(token_after "$second")
took=$(($(now_ms) - asked))
t_check "taken over in $took ms: after the TTL, not much later" [ $took -gt 2500 ]
t_check "taken over in $took ms" [ $took -lt 12000 ]
t_check "no two acted at one time" apart

t_case "a server that crashes and is back within the TTL costs no term"
end $eve
candidate zoe "$at" 15s
zoe=$!
third=$(token_after "$third")
pg_stop immediate
pg_start
# Longer than the term would last without a renewal.
asked=$(now_ms)
until [ $(($(now_ms) - asked)) -gt 14000 ]; do
    sleep 0.2
done
t_check "zoe leads on" [ "$(tail -n 1 "$acts" | cut -d ' ' -f 1)" = "$third" ]
last=$(tail -n 1 "$acts" | cut -d ' ' -f 2)
t_check "and acts" [ $(($(date +%s%N) - last)) -lt 2000000000 ]
end $zoe
candidate eve "$at" 4s
eve=$!
third=$(token_after "$third")

t_case "one that is gone for longer does, and leadership comes back with it"
pg_stop immediate
asked=$(now_ms)
until [ $(($(now_ms) - asked)) -gt 5000 ]; do
    sleep 0.1
done
last=$(tail -n 1 "$acts" | cut -d ' ' -f 2)
t_check "nobody acts beyond the TTL" [ $(($(date +%s%N) - last)) -gt 500000000 ]
pg_start
fourth=$(token_after "$third")
t_check "a later token" [ "${fourth:-0}" -gt "$third" ]
t_check "no two acted at one time" apart

t_case "a server that is stopped is no different"
candidate kim "$at" 4s
kim=$!
pg_kill STOP
asked=$(now_ms)
until [ $(($(now_ms) - asked)) -gt 6000 ]; do
    sleep 0.1
done
last=$(tail -n 1 "$acts" | cut -d ' ' -f 2)
t_check "nobody acts beyond the TTL" [ $(($(date +%s%N) - last)) -gt 500000000 ]
pg_kill CONT
fifth=$(token_after "$fourth")
t_check "a later token" [ "${fifth:-0}" -gt "$fourth" ]
t_check "no two acted at one time" apart
end $eve
end $kim

t_case "connections that are cut, half-open, one-way or trickling"
mkfifo "$t_dir/words"
"$fixtures/proxy" "$pg_port" <"$t_dir/words" >"$t_dir/proxy.out" &
proxy=$!
exec 7>"$t_dir/words"
t_check "the proxy runs" until_line "$t_dir/proxy.out" "^[0-9]"
proxy_port=$(head -n 1 "$t_dir/proxy.out")
: >"$acts"
through="postgres://tester@127.0.0.1:$proxy_port/faults?sslmode=disable"
candidate ada "$through" 4s
ada=$!
token=$(token_after 0)
echo cut >&7
asked=$(now_ms)
until [ $(($(now_ms) - asked)) -gt 5000 ]; do
    sleep 0.2
done
t_check "a cut costs no term" [ "$(tail -n 1 "$acts" | cut -d ' ' -f 1)" = "$token" ]
candidate bob "$at" 4s
bob=$!
for word in stall up down; do
    echo $word >&7
    next=$(token_after "$token")
    t_check "$word: another leads" [ "${next:-0}" -gt "$token" ]
    token=${next:-$token}
    echo pass >&7
    echo cut >&7
    if [ $word != down ]; then # And back to the one behind the proxy.
        end $bob
        next=$(token_after "$token")
        t_check "$word: it heals" [ "${next:-0}" -gt "$token" ]
        token=${next:-$token}
        candidate bob "$at" 4s
        bob=$!
    fi
done
t_check "no two acted at one time" apart
end $ada
end $bob
echo trickle >&7
: >"$acts"
candidate ada "$through" 20s
ada=$!
token=$(token_after 0)
t_check "trickling is enough for a long TTL" [ "${token:-0}" -gt 0 ]
end $ada
exec 7>&-
wait $proxy
proxy=
t_done
