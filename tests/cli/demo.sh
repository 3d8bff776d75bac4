#!/bin/sh
# demo.sh - what `make demo` shows happens: a kill, a stop and a request, each with a successor.
# shellcheck source=tests/harness/lib.sh
. "${TENURE_ROOT:-$(dirname "$0")/../..}/tests/harness/lib.sh"

t_case "three candidates, four terms"
t_run "$TENURE_ROOT/examples/demo.sh" "$TENURE_BUILD/tenure"
t_ends 0
t_prints 'is killed: SIGKILL'
t_prints 'is stopped: SIGSTOP'
t_prints 'is asked to leave: SIGTERM'
t_prints '4 terms; the tokens rose strictly.'
t_done
