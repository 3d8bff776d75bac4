#!/bin/sh
# sandbox.sh - the sandbox page in a real browser.
# shellcheck source=tests/harness/lib.sh
. "${TENURE_ROOT:-$(dirname "$0")/../..}/tests/harness/lib.sh"
# shellcheck source=tests/web/web.lib
. "$TENURE_ROOT/tests/web/web.lib"

# Outside of the sources, and kept from run to run.
modules=$TENURE_BUILD/npm

t_case "the page in a browser"
[ -n "$missing" ] || command -v chromium >/dev/null || missing="there is no chromium"
if [ -z "$missing" ] && [ ! -d "$modules/node_modules/playwright-core" ]; then
    mkdir -p "$modules" && cp "$here/package.json" "$modules/" &&
        npm install --prefix "$modules" --no-audit --no-fund --no-package-lock >"$t_dir/npm" 2>&1 ||
        missing="npm cannot install playwright-core: $(tail -n 1 "$t_dir/npm")"
fi
if [ -n "$missing" ]; then
    t_skip "$missing"
else
    passes "$here/page.mjs" "$tenure" "$web" "$modules"
fi

t_done
