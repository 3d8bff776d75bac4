#!/bin/sh
# fence-tenured.sh - tenured as the keeper of fences: over its Unix socket and over TCP.
# shellcheck source=tests/harness/lib.sh
. "${TENURE_ROOT:-$(dirname "$0")/../..}/tests/harness/lib.sh"

tenure=$TENURE_BUILD/tenure
TENURE_STORE=sqlite:$t_dir/store.db
export TENURE_STORE
unset TENURE_SECRET
# shellcheck source=tests/harness/fence.sh
. "$TENURE_ROOT/tests/harness/fence.sh"

daemon=
trap '[ -z "$daemon" ] || kill -KILL "$daemon" 2>/dev/null; rm -rf "$t_dir"' EXIT

port=$((20000 + $$ % 20000))
at=unix:$t_dir/socket

# daemon: sets $daemon.
daemon() {
    : >"$t_dir/said"
    "$TENURE_BUILD/tenured" --data "$t_dir/data" --listen "$at" \
        --listen tcp:127.0.0.1:$port >"$t_dir/said" 2>"$t_dir/warned" &
    daemon=$!
    t_check "ready" until_true 10 grep -q ready "$t_dir/said"
}

t_case "a daemon starts"
daemon

kind=tenured resource=contract
check_contract

t_case "over TCP it is the same fence"
tcp=tenured://127.0.0.1:$port
t_check "the token" [ "$(highest "$tcp" contract)" = 18446744073709551615 ]
t_run "$tenure" fence raise --at "$tcp" contract 7
failed 80 "the fence stands at 18446744073709551615"

t_case "run raises it before the command starts"
t_run "$tenure" run job --fence "$at#job" -- sh -c 'echo "$TENURE_TOKEN"'
t_check "status" [ "$t_status" -eq 0 ]
t_check "raised" [ "$(highest "$at" job)" = "$(cat "$t_out")" ]

t_case "killed, it remembers"
t_run "$tenure" fence raise --at "$at" crash 41
t_ends 0
kill -KILL "$daemon"
wait "$daemon" 2>/dev/null
t_run "$tenure" fence raise --at "$at" crash 42
failed 69 "tenured: "
daemon
t_check "the token" [ "$(highest "$at" crash)" = 41 ]
t_run "$tenure" fence admit --at "$at" crash 40
failed 80 "the fence stands at 41"

t_case "what it cannot do is said"
t_run "$tenure" fence show --at "$at"
failed 64 "name a resource"
t_run "$tenure" fence install --at "$at"
failed 64 "has nothing to install"
t_run "$tenure" fence show --at tenured: x
failed 64 "tenured: write tenured://"
t_run "$tenure" fence show --at "tenured://127.0.0.1:1" x
failed 69 "tenured: "

t_done
