#!/bin/sh
# python.sh - the Python package: its wheel is built, installed in an environment of its own, and
# passes the tests of bindings/python there.
#
# TENURE_PYTHON_ELECTIONS: how many elections one process holds in the test of that name.
# shellcheck source=tests/harness/lib.sh
. "${TENURE_ROOT:-$(dirname "$0")/../..}/tests/harness/lib.sh"

package=$TENURE_ROOT/bindings/python
environment=$TENURE_BUILD/python
# The system's: it is the one that tools/deps installs modules for.
python=/usr/bin/python3
[ -x $python ] || python=python3
unset TENURE_LIBRARY TENURE_STORE PYTHONPATH
PYTHONDONTWRITEBYTECODE=1
PIP_DISABLE_PIP_VERSION_CHECK=1
PIP_ROOT_USER_ACTION=ignore
export PYTHONDONTWRITEBYTECODE PIP_DISABLE_PIP_VERSION_CHECK PIP_ROOT_USER_ACTION

# setting NAME: its value in the build's cache.
setting() { sed -n "s/^$1:[^=]*=//p" "$TENURE_BUILD/CMakeCache.txt"; }

# skip_all REASON
skip_all() {
    t_case "the Python package"
    t_skip "$1"
    t_done
}

for module in venv pip setuptools wheel pytest; do
    $python -c "import $module" 2>/dev/null || skip_all "no Python module $module: tools/deps check"
done
[ -z "$(setting TENURE_SANITIZE)$(setting TENURE_COVERAGE | grep ON)" ] ||
    skip_all "the interpreter cannot load a library that is instrumented"

# wheel FOLDER [VARIABLE=VALUE]...: builds one there, without a network.
wheel() {
    wh_folder=$1
    shift
    t_run env "$@" $python -m pip wheel --quiet --no-build-isolation --no-deps --no-index \
        --wheel-dir "$wh_folder" "$package"
    t_check "pip wheel: $(tail -n 5 "$t_err")" [ "$t_status" -eq 0 ]
}

# make_environment FOLDER WHEELS
make_environment() {
    t_run $python -m venv --clear --without-pip --system-site-packages "$1"
    t_check "venv: $(tail -n 5 "$t_err")" [ "$t_status" -eq 0 ]
    t_run "$1/bin/python" -m pip install --quiet --no-deps --no-index "$2"/tenure-*.whl
    t_check "pip install: $(tail -n 5 "$t_err")" [ "$t_status" -eq 0 ]
}

cat >"$t_dir/lead.py" <<'END'
import sys
import tenure
import tenure._native

with tenure.open("sqlite:" + sys.argv[1], ttl=5) as t, t.lead("report", wait=30) as term:
    print("leads", term.token, tenure.__file__, tenure._native.load().path)
END

# The entries of the package: a build must not add any.
entries() { find "$package" | sort; }

t_case "the wheel has the library in it, and is for this platform"
entries >"$t_dir/before"
wheel "$t_dir/wheels" "TENURE_LIBRARY=$TENURE_BUILD/libtenure.so"
entries >"$t_dir/after"
t_check "the sources stay as they are: $(diff "$t_dir/before" "$t_dir/after")" \
    cmp -s "$t_dir/before" "$t_dir/after"
set -- "$t_dir"/wheels/*.whl
t_check "its name: $1" sh -c "echo '$1' | grep -q 'tenure-[0-9.]*-py3-none-linux_[a-z0-9_]*\.whl$'"
$python -m zipfile --list "$1" >"$t_dir/list"
for file in __init__.py py.typed libtenure.so LICENSE; do
    t_check "$file is in it" grep -q "^tenure/$file " "$t_dir/list"
done
make_environment "$environment" "$t_dir/wheels"
t_run "$environment/bin/python" "$t_dir/lead.py" "$t_dir/one.db"
t_prints "leads 1 $environment/lib"
t_prints "$environment/lib/python3"
t_check "its own library: $(cat "$t_out")" grep -q "$environment/.*/tenure/libtenure.so$" "$t_out"

# run_pytest FILE ARGUMENT...: in the background; what it says goes to FILE.
run_pytest() {
    rp_file=$1
    shift
    (cd "$t_dir" && exec "$environment/bin/python" -m pytest -p no:cacheprovider -q -rpsfE \
        --tb=short -o faulthandler_timeout=120 "$@") >"$rp_file" 2>&1 &
}

# All at once, with the cases below: most of it mostly waits.
list=$package/tests/test_conformance.py
run_pytest "$t_dir/list.said" "$list"
list_pid=$!
run_pytest "$t_dir/others.said" "$package/tests" --ignore "$list"
others_pid=$!

t_case "the quick start of docs/python.md does what the page says"
awk '/^```python$/ { inside = 1; next } /^```$/ && inside { exit } inside' \
    "$TENURE_ROOT/docs/python.md" >"$t_dir/quick.py"
mkdir "$t_dir/quick"
t_run sh -c "cd '$t_dir/quick' && '$environment/bin/python' -W error '$t_dir/quick.py'"
t_ends 0
t_prints "led with token 1 and gave it back: released"
t_check "the page shows it" grep -qF "\`$(cat "$t_out")\`" "$TENURE_ROOT/docs/python.md"

t_case "the types are those that the documents tell: mypy --strict"
if command -v mypy >/dev/null; then
    t_run mypy --strict --cache-dir "$t_dir/mypy" --python-executable "$environment/bin/python" \
        "$package/tests/typed_program.py" "$t_dir/quick.py"
    t_check "mypy: $(cat "$t_out")" [ "$t_status" -eq 0 ]
else
    t_skip "no mypy: tools/deps check"
fi

t_case "the wheel builds the library where none is named"
wheel "$t_dir/built" "TENURE_CMAKE_ARGS=-DCMAKE_BUILD_TYPE=Debug -DTENURE_POSTGRES=OFF \
-DTENURE_ZOOKEEPER=OFF -DTENURE_ETCD=OFF -DTENURE_SANDBOX=OFF \
-DCMAKE_C_COMPILER_LAUNCHER=$(command -v ccache)"
make_environment "$t_dir/other" "$t_dir/built"
t_run "$t_dir/other/bin/python" "$t_dir/lead.py" "$t_dir/two.db"
t_prints "leads 1 $t_dir/other/"

t_case "without a library inside, the system's is used"
t_run env PYTHONPATH="$package" LD_LIBRARY_PATH="$TENURE_BUILD" $python "$t_dir/lead.py" \
    "$t_dir/three.db"
t_prints "leads 1 $package/tenure/__init__.py libtenure.so.0"

# Each test of pytest is a case of this suite.
status=0
wait $list_pid || status=$?
wait $others_pid || status=$?
for said in "$t_dir"/*.said; do
    sed -n '/ short test summary info /,$ p' "$said"
done | grep -E '^(PASSED|FAILED|ERROR|SKIPPED) ' >"$t_dir/results"
while read -r verdict test; do
    t_case "$test"
    case $verdict in
    SKIPPED) t_skip "$test" ;;
    FAILED | ERROR) t_fail "see above" ;;
    esac
done <"$t_dir/results"
t_case "pytest ends well"
t_check "exit status is 0, not $status" [ $status -eq 0 ]
t_check "the conformance list ran" grep -q '::test_lose_by_pause\[sqlite\]' "$t_dir/results"
[ $status -eq 0 ] || grep -hv '^PASSED ' "$t_dir"/*.said

t_done
