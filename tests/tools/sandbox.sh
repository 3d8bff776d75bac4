#!/bin/sh
# sandbox.sh - the sandbox page is optional: where clang cannot make it, the command builds without
# it, and the configuration, the command and the tests say why. So is the browser of the tests.
# shellcheck source=tests/harness/lib.sh
. "${TENURE_ROOT:-$(dirname "$0")/../..}/tests/harness/lib.sh"

compiler=$(sed -n 's/^CMAKE_C_COMPILER:[A-Z]*=//p' "$TENURE_BUILD/CMakeCache.txt")
bare=$t_dir/bare
# configure OPTION...: all that is left is optional.
configure() {
    t_run cmake -S "$TENURE_ROOT" -B "$bare" -DCMAKE_C_COMPILER="$compiler" \
        -DCMAKE_BUILD_TYPE=Debug -DTENURE_TESTS=OFF -DTENURE_ETCD=OFF -DTENURE_POSTGRES=OFF \
        -DTENURE_ZOOKEEPER=OFF -DTENURE_TLS=OFF -DTENURE_WEB=OFF "$@"
    t_check "configures: $(tail -n 3 "$t_err")" [ "$t_status" -eq 0 ]
}
left_out() { grep -q "Left out: the sandbox page; it $1" "$t_out"; }

t_case "it can be switched off"
configure -DTENURE_SANDBOX=OFF
t_check "that is why it is left out" left_out 'is switched off (TENURE_SANDBOX)'

t_case "without lld it is left out"
configure -DTENURE_SANDBOX=ON -DWASM_CLANG=/bin/true -DWASM_LD=OFF
t_check "and the packages are named" left_out 'needs clang and lld'

t_case "with a clang that has no such target it is left out, and the rest builds"
printf '#!/bin/sh\necho "error: unable to create target: wasm32" >&2\nexit 1\n' >"$t_dir/clang"
chmod +x "$t_dir/clang"
configure -DWASM_CLANG="$t_dir/clang" -DWASM_LD=/bin/true
t_check "that is why: $(grep 'sandbox page' "$t_out")" \
    left_out "needs a clang and lld that make WebAssembly, unlike $t_dir/clang"
t_run cmake --build "$bare" -j2 --target tenure
t_check "builds: $(grep -m 3 error "$t_err" "$t_out")" [ "$t_status" -eq 0 ]
[ -x "$bare/tenure" ] || t_done
t_run "$bare/tenure" sandbox
t_check "the command says the same: $(cat "$t_err")" \
    grep -q "no sandbox page: it needs a clang and lld that make WebAssembly" "$t_err"

t_case "the page's tests pass or say what is missing"
t_run env TENURE_BUILD="$bare" sh "$TENURE_ROOT/tests/cli/sandbox.sh"
t_check "cli/sandbox.sh: $(cat "$t_out")" [ "$t_status" -eq 0 ]
for suite in same sandbox; do
    t_run env TENURE_BUILD="$bare" sh "$TENURE_ROOT/tests/web/$suite.sh"
    t_check "web/$suite.sh skips" grep -Eq '^0 passed, 0 failed, [1-9]' "$t_out"
    t_check "and says why" grep -q 'the page was not built' "$t_out"
done

t_case "without a browser the pages' tests say what is missing"
mkdir "$t_dir/path"
ln -s /usr/bin/* "$t_dir/path/"
rm -f "$t_dir"/path/chromium*
for suite in sandbox console; do
    t_run env PATH="$t_dir/path" sh "$TENURE_ROOT/tests/web/$suite.sh"
    t_check "web/$suite.sh skips: $(tail -n 2 "$t_out")" \
        grep -Eq '^0 passed, 0 failed, [1-9]' "$t_out"
    t_check "and says why" grep -Eq 'there is no (chromium|node)|was not built' "$t_out"
done
t_done
