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

t_done
