#!/bin/sh
# same.sh - the sandbox page runs what the native simulator runs.
# shellcheck source=tests/harness/lib.sh
. "${TENURE_ROOT:-$(dirname "$0")/../..}/tests/harness/lib.sh"
# shellcheck source=tests/web/web.lib
. "$TENURE_ROOT/tests/web/web.lib"
need_sandbox

t_case "the page runs what tenure sim runs, byte by byte"
if [ -n "$missing" ]; then t_skip "$missing"; else passes "$here/same.mjs" "$tenure" "$web"; fi

t_case "a difference would be noticed"
if [ -n "$missing" ]; then
    t_skip "$missing"
else
    # The third story is told with another word.
    printf '#!/bin/sh\n"%s" "$@" | sed "s/wakes and finishes/wakes and ends/"\n' "$tenure" \
        >"$t_dir/tenure"
    chmod +x "$t_dir/tenure"
    t_run env TENURE_SAME=stories node "$here/same.mjs" "$t_dir/tenure" "$web"
    t_check "it is" grep -q 'native.*wakes and ends' "$t_out"
fi

t_done
