#!/bin/sh
# demo.sh - what `make demo` shows happens: a kill, a freeze, a refused write and a request.
# shellcheck source=tests/harness/lib.sh
. "${TENURE_ROOT:-$(dirname "$0")/../..}/tests/harness/lib.sh"

t_case "three candidates, four terms, a refused write"
t_run "$TENURE_ROOT/examples/demo.sh" "$TENURE_BUILD/tenure"
t_ends 0
t_prints 'is killed with SIGKILL'
t_prints 'is frozen with SIGSTOP'
t_prints 'refused: the fence stands at'
t_prints 'is asked to leave with SIGTERM'
t_prints '4 terms, tokens strictly rising, 1 refused write, nothing overwritten.'
t_done
