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

port=$(t_ports 1)
at=unix:$t_dir/socket

# daemon: sets $daemon.
daemon() {
    : >"$t_dir/said"
    "$TENURE_BUILD/tenured" --data "$t_dir/data" --listen "$at" --listen tcp:127.0.0.1:$port \
        --http 127.0.0.1:$((port + 1)) >"$t_dir/said" 2>"$t_dir/warned" &
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

# asks STATUS [CURL OPTION]...: what the page for proxies says.
asks() {
    wanted=$1
    shift
    code=$(curl -s -m 20 -o "$t_dir/body" -w '%{http_code}' "$@" \
        "http://127.0.0.1:$((port + 1))/v1/auth/web")
    t_check "$* gives $wanted, not $code: $(cat "$t_dir/body")" [ "$code" = "$wanted" ]
}

t_case "over HTTP a field is checked: 412 stale, 428 missing, 400 malformed or twice"
if ! command -v curl >/dev/null; then
    t_skip "curl is not installed; tools/deps servers installs it"
else
    asks 428
    asks 200 -H 'Fence-Token: 34'
    asks 412 -H 'Fence-Token: 33'
    asks 200 -H 'Fence-Token: 34'
    for bad in 0 -1 x 3.5 18446744073709551616 '34, 34'; do
        asks 400 -H "Fence-Token: $bad"
    done
    asks 400 -H 'Fence-Token;'
    asks 400 -H 'Fence-Token: 34' -H 'fence-token: 34'
    t_check "the fence is as it was" [ "$(highest "$at" web)" = 34 ]
fi

t_case "killed, it remembers"
t_run "$tenure" fence raise --at "$at" crash 41
t_ends 0
kill -KILL "$daemon"
wait "$daemon" 2>/dev/null
t_run "$tenure" fence raise --at "$at" crash 42
failed 69 "connection refused"
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
failed 64 "write tenured://"
t_run "$tenure" fence show --at "tenured://127.0.0.1:1" x
failed 69 "tenured 127.0.0.1:1: connection refused"

t_done
