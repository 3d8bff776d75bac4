#!/bin/sh
# redis_foreign.sh - what others have put where our keys are: of another type, malformed, huge. It
# ends no process; what cannot be read is said in one line, and other names are not disturbed.
# shellcheck source=tests/harness/lib.sh
. "${TENURE_ROOT:-$(dirname "$0")/../..}/tests/harness/lib.sh"
# shellcheck source=tests/live/redis.inc
. "$TENURE_ROOT/tests/live/redis.inc"
rd_begin

t_case "a server starts"
t_check "it runs" rd_start 1
here=$(rd_url 1)
"$tenure" elect --store "$here" --ttl 20s --id ada kept >"$t_dir/kept" 2>"$t_dir/kept.err" &
ada=$!
t_check "won" until_line "$t_dir/kept" '"won"'
"$tenure" watch --json --store "$here" kept >"$t_dir/watch" 2>"$t_dir/watch.err" &
watcher=$!
t_check "watched" until_line "$t_dir/watch" '"leader"'

t_case "a lease of another type or with another token is refused in a line"
rd 1 SET '{tenure}:l:text' foreign >/dev/null
rd 1 RPUSH '{tenure}:q:list' foreign >/dev/null
rd 1 HSET '{tenure}:l:odd' token abc term x >/dev/null
for name in text odd; do
    t_run "$tenure" acquire --store "$here" --ttl 5s $name
    t_check "$name: exit status is 69, not $t_status" [ "$t_status" -eq 69 ]
    t_check "$name: one line: $(cat "$t_err")" [ "$(grep -vc 'is advisory:' "$t_err")" -eq 1 ]
done
t_run "$tenure" acquire --store "$here" --ttl 5s other
t_check "another name: $(cat "$t_err")" [ "$t_status" -eq 0 ]

t_case "times and labels beyond any bound are bounded"
session=$(rd 1 HGET '{tenure}:l:kept' session)
rd 1 HSET "{tenure}:s:$session" label "$(head -c 1000000 /dev/zero | tr '\0' x | head -c 100000)" \
    beat 99999999999999999999 >/dev/null
t_run "$tenure" status --store "$here" --json kept
t_check "status: $(cut -c 1-200 "$t_out" "$t_err")" grep -q '"state":"held"' "$t_out"
rd 1 ZADD '{tenure}:names' 0 "$(head -c 5000 /dev/zero | tr '\0' n)" 0 '' >/dev/null
rd 1 ZADD '{tenure}:due' 0 foreign 0 '' 0 s >/dev/null
t_run "$tenure" list --store "$here" --json
t_check "list: $(cat "$t_err")" [ "$t_status" -eq 0 ]
t_check "ours is there" grep -q '"name":"kept"' "$t_out"
rd 1 HSET "{tenure}:s:$session" ttl 9999999999999999999 >/dev/null
t_run "$tenure" status --store "$here" --json kept
t_check "status: $(cut -c 1-200 "$t_out" "$t_err")" grep -q '"ttl_ms":[0-9]' "$t_out"

t_case "those who held and watched live on"
t_check "holder" kill -0 $ada
t_check "watcher" kill -0 $watcher
end $ada
t_check "ends well, not with $status: $(cat "$t_dir/kept.err")" [ "$status" -eq 0 ]
end $watcher

t_done
