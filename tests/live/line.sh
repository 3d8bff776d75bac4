#!/bin/sh
# line.sh - candidates in line that die, on the stores of one machine: a file and a socket. The
# suites of the engines ask the same of theirs.
# shellcheck source=tests/harness/lib.sh
. "${TENURE_ROOT:-$(dirname "$0")/../..}/tests/harness/lib.sh"
# shellcheck source=tests/live/tenured.lib
. "$TENURE_ROOT/tests/live/tenured.lib"
# shellcheck source=tests/live/faults.lib
. "$TENURE_ROOT/tests/live/faults.lib"

# A process that is stopped inside a transaction keeps the file to itself: docs/stores/sqlite.md.
line_hows=KILL
faults_line "sqlite:$t_dir/line.db"
line_hows=
tenured_start
rm -f "$t_dir"/line*.acts*
faults_line "unix:$socket"
t_done
