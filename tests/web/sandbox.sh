#!/bin/sh
# sandbox.sh - the sandbox page: the same bytes as the native simulator, and a real browser.
# shellcheck source=tests/harness/lib.sh
. "${TENURE_ROOT:-$(dirname "$0")/../..}/tests/harness/lib.sh"

here=$TENURE_ROOT/tests/web
tenure=$TENURE_BUILD/tenure
web=$TENURE_BUILD/web
# Outside of the sources, and kept from run to run.
modules=$TENURE_BUILD/npm

# passes PROGRAM...: its own cases count; what failed is shown.
passes() {
    t_run node "$@"
    grep -v '^ok' "$t_out"
    cat "$t_err"
    t_check "every case of $(basename "$1")" [ "$t_status" -eq 0 ]
}

missing=
[ -f "$web/sandbox.wasm" ] || missing="the page was not built: it needs clang and lld"
command -v node >/dev/null || missing="${missing:-there is no node}"

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
