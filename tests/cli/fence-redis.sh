#!/bin/sh
# fence-redis.sh - fences in a real Redis: functions, the script for older ones, and a cluster.
# shellcheck source=tests/harness/lib.sh
. "${TENURE_ROOT:-$(dirname "$0")/../..}/tests/harness/lib.sh"

tenure=$TENURE_BUILD/tenure
harness=$TENURE_ROOT/tests/harness/redis
lua=$TENURE_ROOT/src/receivers/redis_fence.lua
# shellcheck source=tests/harness/fence.sh
. "$TENURE_ROOT/tests/harness/fence.sh"

at=$("$harness" start "$t_dir/redis") || {
    t_case "Redis"
    t_skip "$at"
    t_done
}
trap 'for node in redis locked one two; do "$harness" stop "$t_dir/$node"; done
    rm -rf "$t_dir"' EXIT

# ask WORD...: the answer in $answer.
ask() { answer=$(redis-cli -s "$t_dir/redis/redis.sock" "$@" 2>&1); }
# says WORDS: the answer begins so.
says() {
    case $answer in
    "$1"*) ;;
    *) t_fail "answers '$answer', not '$1'" ;;
    esac
}

kind=redis resource=orders
check_contract

t_case "the library of functions is loaded, and can be read first"
t_run "$tenure" fence install --at "$at" --print
t_check "as it is" cmp -s "$t_out" "$lua"
t_run "$tenure" fence install --at "$at"
t_ends 0
t_run "$tenure" fence install --at "$at"
t_ends 0
t_run "$tenure" fence install --at "$at" --table a --resource a
failed 64 "has no tables"

# The same through functions and, for older servers, through a script.
sha=$(tail -n +2 "$lua" | redis-cli -s "$t_dir/redis/redis.sock" -x SCRIPT LOAD)
call() { # call FUNCTION COUNT KEY... ARGUMENT...
    function=$1 count=$2
    shift 2
    if [ "$way" = FCALL ]; then
        ask FCALL "$function" "$count" "$@"
        return
    fi
    rest=$count
    for word in "$@"; do
        [ "$rest" -ne 0 ] || set -- "$@" "$function"
        rest=$((rest - 1))
        set -- "$@" "$word"
        shift
    done
    [ "$rest" -ne 0 ] || set -- "$@" "$function"
    ask EVALSHA "$sha" "$count" "$@"
}

for way in FCALL EVALSHA; do
    fence="tenure:fence:{$way}"
    t_case "$way: guarded set, delete, and any command"
    call tenure_set 2 "$fence" "{$way}:k" 34 value
    says OK
    call tenure_set 2 "$fence" "{$way}:k" 33 stale
    says "STALE token 33 is stale, the fence stands at 34"
    call tenure_set 2 "$fence" "{$way}:k" 34 value EX 100
    says OK
    ask TTL "{$way}:k"
    t_check "SET's own options" [ "$answer" -gt 0 ]
    call tenure_call 2 "$fence" "{$way}:l" 34 RPUSH "{$way}:l" a b c
    says 3
    call tenure_call 2 "$fence" "{$way}:l" 33 RPUSH "{$way}:l" d
    says "STALE"
    call tenure_call 2 "$fence" "{$way}:l" 34 GET "{$way}:l"
    says "WRONGTYPE"
    call tenure_del 3 "$fence" "{$way}:k" "{$way}:l" 33
    says "STALE"
    ask EXISTS "{$way}:k" "{$way}:l"
    says 2
    call tenure_del 3 "$fence" "{$way}:k" "{$way}:l" 35
    says 2
    call tenure_show 1 "$fence"
    says 35

    t_case "$way: what is not a token is refused, and nothing is written"
    for bad in '' 0 -1 +35 035 00000000000000000035 ' 35' 35.0 3.5e1 x nil 0x23 \
        18446744073709551616 99999999999999999999 100000000000000000000; do
        call tenure_set 2 "$fence" "{$way}:k" "$bad" value
        says BADTOKEN
        call tenure_admit 1 "$fence" "$bad"
        says BADTOKEN
    done
    call tenure_set 2 "$fence" "{$way}:k"
    says BADTOKEN
    call tenure_set 2 "$fence" "{$way}:k" 36
    says BADTOKEN
    call tenure_admit 1 "$fence" 36 36
    says BADTOKEN
    call tenure_del 1 "$fence" 36
    says BADTOKEN
    ask EXISTS "{$way}:k"
    says 0
    call tenure_show 1 "$fence"
    says 35

    t_case "$way: tokens are exact"
    for token in 9007199254740992 9007199254740993 9223372036854775807 9223372036854775808 \
        18446744073709551614 18446744073709551615; do
        call tenure_admit 1 "$fence" "$token"
        says OK
        call tenure_admit 1 "$fence" 9007199254740991
        says "STALE token 9007199254740991 is stale, the fence stands at $token"
        call tenure_show 1 "$fence"
        says "$token"
    done

    t_case "$way: a key that holds something else admits nothing"
    for bad in 34 x 0000000000000000003x 18446744073709551616 ''; do
        ask SET "$fence" "$bad"
        call tenure_set 2 "$fence" "{$way}:k" 36 value
        says BADFENCE
        call tenure_show 1 "$fence"
        says BADFENCE
    done
    t_run "$tenure" fence raise --at "$at" "$way" 36
    failed 69 "BADFENCE"
    ask DEL "$fence"
    ask LPUSH "$fence" x
    call tenure_set 2 "$fence" "{$way}:k" 36 value
    says WRONGTYPE
    ask EXISTS "{$way}:k"
    says 0
    ask DEL "$fence"
done

t_case "show lists all fences"
ask SET "tenure:fence:{not a name}" x
for resource in b/two a~one; do
    "$tenure" fence raise --at "$at" $resource 7
done
t_run "$tenure" fence show --at "$at" --json
t_check "in order" [ "$(grep -v orders "$t_out")" = \
    "$(printf '{"resource":"a~one","token":7}\n{"resource":"b/two","token":7}')" ]

t_case "after a crash of the server the token is there"
t_run "$tenure" fence raise --at "$at" crash 1000
t_ends 0
t_run "$harness" crash "$t_dir/redis"
t_check "started again" [ "$t_status" -eq 0 ]
t_check "the token" [ "$(highest "$at" crash)" = 1000 ]
ask FCALL tenure_show 1 "tenure:fence:{crash}"
says 1000

t_case "the library is removed, the fences stay"
t_run "$tenure" fence remove --at "$at"
t_ends 0
t_run "$tenure" fence remove --at "$at"
t_ends 0
ask FCALL tenure_show 1 "tenure:fence:{crash}"
says "ERR Function not found"
t_check "the token" [ "$(highest "$at" crash)" = 1000 ]

# A port that nobody has.
t_case "a password, a user, a database"
port=$(t_ports 1)
"$harness" start "$t_dir/locked" --requirepass 's3:cr@t' --port "$port" --bind 127.0.0.1 >/dev/null
t_run "$tenure" fence raise --at "redis+unix:$t_dir/locked/redis.sock" a 1
failed 77 "NOAUTH"
t_run "$tenure" fence raise --at "redis://:wrong@127.0.0.1:$port" a 1
failed 77 "WRONGPASS"
t_refute "no password is told" grep -q wrong "$t_err"
t_run timeout 60 "$tenure" run --fence "redis://:wrong@127.0.0.1:$port#a" locked-out -- true
failed 77 "--fence: redis 127.0.0.1:$port: WRONGPASS"
t_run timeout 60 "$tenure" run --fence "redis://:s3%3acr%40t@127.0.0.1:$port/99#a" nowhere -- true
failed 64 "DB index is out of range"
t_run "$tenure" fence raise --at "redis://:s3%3acr%40t@127.0.0.1:$port/3" a 7
t_ends 0
t_run "$tenure" fence show --at "redis://default:s3%3Acr%40t@localhost:$port/3" a --json
t_prints '"token":7}'
t_check "another database" [ "$(highest "redis://:s3%3acr%40t@127.0.0.1:$port" a)" = 0 ]

t_case "URLs and servers that make no sense"
for bad in redis: redis:// redis://user@host redis://host:x redis://host:99999 redis://h/x \
    redis+unix: redis://%zz/ redis:///1; do
    t_run "$tenure" fence raise --at "$bad" a 1
    failed 64 ""
done
t_run "$tenure" fence raise --at redis://127.0.0.1:1 a 1
failed 69 "redis 127.0.0.1:1: connection refused"
t_run "$tenure" fence raise --at "redis+unix:$t_dir/none" a 1
failed 69 "no such socket"

t_case "a server that is stopped: it may have happened"
kill -STOP "$(cat "$t_dir/redis/pid")"
t_run "$tenure" fence raise --at "$at" crash 1001 --timeout 200ms
failed 69 "it may have happened"
kill -CONT "$(cat "$t_dir/redis/pid")"
t_run "$tenure" fence raise --at "$at" crash 1001
t_ends 0

# Two nodes with half of the slots each.
t_case "a cluster: one slot per resource, and redirections are followed"
# shellcheck disable=SC2046 # Words.
set -- $(t_ports 4)
one=$1 two=$2 two_bus=$4
"$harness" start "$t_dir/one" --cluster-enabled yes --port "$one" --cluster-port "$3" \
    --bind 127.0.0.1 >/dev/null || t_skip "no cluster can be had"
"$harness" start "$t_dir/two" --cluster-enabled yes --port "$two" --cluster-port "$two_bus" \
    --bind 127.0.0.1 >/dev/null || t_skip "no cluster can be had"
redis-cli -p "$one" CLUSTER ADDSLOTSRANGE 0 8191 >/dev/null
redis-cli -p "$two" CLUSTER ADDSLOTSRANGE 8192 16383 >/dev/null
redis-cli -p "$one" CLUSTER MEET 127.0.0.1 "$two" "$two_bus" >/dev/null
is_ready() {
    redis-cli -p "$1" CLUSTER INFO | grep -q 'cluster_state:ok' &&
        redis-cli -p "$1" CLUSTER INFO | grep -q 'cluster_slots_assigned:16384'
}
t_check "ready" until_true 20 is_ready "$one"
t_check "ready" until_true 20 is_ready "$two"
for resource in a b c d; do
    t_run "$tenure" fence raise --at "redis://127.0.0.1:$one" $resource 7
    t_ends 0
    t_run "$tenure" fence admit --at "redis://127.0.0.1:$two" $resource 6
    failed 80 "the fence stands at 7"
done
for port in $one $two; do
    t_run "$tenure" fence install --at "redis://127.0.0.1:$port"
    t_ends 0
done
answer=$(redis-cli -c -p "$one" FCALL tenure_set 2 'tenure:fence:{a}' '{a}:k' 7 v 2>&1)
says OK
answer=$(redis-cli -c -p "$one" FCALL tenure_set 2 'tenure:fence:{a}' '{b}:k' 7 v 2>&1)
says CROSSSLOT

t_done
