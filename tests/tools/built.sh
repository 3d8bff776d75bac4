#!/bin/sh
# built.sh - no C file lies outside the build: a forgotten one would never be compiled or run.
. "$(dirname "$0")/../harness/lib.sh"

t_case "every C file is compiled"
for source in $(cd "$TENURE_ROOT" && find src sim tests -name '*.c' 2>/dev/null); do
    t_check "not built" grep -qF "\"file\": \"$TENURE_ROOT/$source\"" \
        "$TENURE_BUILD/compile_commands.json"
done

t_done
