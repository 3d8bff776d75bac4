#!/bin/sh
# sandbox.sh - the sandbox page in a real browser.
# shellcheck source=tests/harness/lib.sh
. "${TENURE_ROOT:-$(dirname "$0")/../..}/tests/harness/lib.sh"
# shellcheck source=tests/web/web.lib
. "$TENURE_ROOT/tests/web/web.lib"

need_sandbox
need_browser

t_case "the page in a browser"
if [ -n "$missing" ]; then
    t_skip "$missing"
else
    passes "$here/page.mjs" "$tenure" "$web" "$modules"
fi

t_done
