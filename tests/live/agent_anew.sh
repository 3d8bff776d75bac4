#!/bin/sh
# agent_anew.sh - an agent that is started again and has another session upstream than the one
# before it: what was held through that one is recalled, and its holders are the first to know.
# shellcheck source=tests/harness/lib.sh
. "${TENURE_ROOT:-$(dirname "$0")/../..}/tests/harness/lib.sh"
# shellcheck source=tests/live/live.lib
. "$TENURE_ROOT/tests/live/live.lib"
upstream=sqlite:$t_dir/x.db
# shellcheck source=tests/live/agent.lib
. "$TENURE_ROOT/tests/live/agent.lib"

if ! command -v redis-cli >/dev/null; then
    t_case "an agent"
    t_skip "redis-cli is not installed; install redis-tools"
    t_done
fi

t_case "the same store by another URL"
begins_anew "sqlite:$t_dir/x.db" "sqlite:$t_dir/./x.db"

t_case "who only looks does not have an agent observe any number of names"
agent m 30s --max-leases 5
looked() { redis-cli -s "$t_dir/m.sock" LEASE GET "$1" 2>&1 | head -n 1; }
for number in 1 2 3 4 5; do
    t_check "name $number" [ "$(looked "seen-$number")" = name ]
done
t_check "one more: $(looked seen-6)" [ "$(looked seen-6 | cut -d ' ' -f 1)" = FULL ]
t_check "one that is observed" [ "$(looked seen-1)" = name ]
t_check "what nobody asks for any more makes way" until_true 60 \
    eval '[ "$(looked seen-7)" = name ]'
kill -KILL "$agent"

t_case "an agent does not ask itself"
for place in "unix:$t_dir/self.sock" "tcp:127.0.0.1:$(t_ports 1)"; do
    case $place in
    tcp:*) upstream=tenured://${place#tcp:} ;;
    *) upstream=$place ;;
    esac
    t_run timeout 20 "$tenured" --upstream "$upstream" --listen "$place"
    t_check "$place: 64, not $t_status" [ "$t_status" -eq 64 ]
    t_check "$place: says why: $(cat "$t_err")" grep -q 'listens itself' "$t_err"
done
mkdir "$t_dir/home"
XDG_RUNTIME_DIR=$t_dir/home t_run timeout 20 "$tenured" --upstream unix:
t_check "the default socket: 64, not $t_status" [ "$t_status" -eq 64 ]
upstream=unix:
XDG_RUNTIME_DIR=$t_dir/home agent o 30s
t_check "another socket is another daemon" [ -S "$t_dir/o.sock" ]
kill -KILL "$agent"

t_done
