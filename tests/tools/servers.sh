#!/bin/sh
# servers.sh - tools/servers builds anew what has changed, and nothing else.
# shellcheck source=tests/harness/lib.sh
. "${TENURE_ROOT:-$(dirname "$0")/../..}/tests/harness/lib.sh"

t_case "a server is installed once"
mkdir -p "$t_dir/tree/tools" "$t_dir/tree/tests/engines/cat"
cp "$TENURE_ROOT/tools/servers" "$t_dir/tree/tools"
cat >"$t_dir/tree/tests/engines/cat/install" <<'END'
#!/bin/sh
echo run >>"$1/runs"
cp "${0%/*}/cat.go" "$1/built"
END
chmod +x "$t_dir/tree/tests/engines/cat/install"
echo one >"$t_dir/tree/tests/engines/cat/cat.go"
echo one >"$t_dir/tree/tests/engines/cat/fake.py"
export TENURE_SERVERS="$t_dir/servers" GOTOOLCHAIN=local
runs() { [ "$(wc -l <"$t_dir/servers/cat/runs")" -eq "$1" ]; }
servers() {
    t_run "$t_dir/tree/tools/servers"
    t_check "status $t_status: $(cat "$t_err")" [ "$t_status" -eq "${1:-0}" ]
}
servers
servers
t_check "once" runs 1

t_case "and again when a source of it changes, but not for what runs from the tree"
echo two >"$t_dir/tree/tests/engines/cat/cat.go"
servers
t_check "again" runs 2
t_check "from the new source" grep -q two "$t_dir/servers/cat/built"
echo two >"$t_dir/tree/tests/engines/cat/fake.py"
servers
t_check "not for Python" runs 2

t_case "what failed is told, and tried again"
rm "$t_dir/tree/tests/engines/cat/cat.go"
servers 1
servers 1
t_check "each time" runs 4

t_case "one variable each makes the mixed elections and the random runs longer"
# check_engines ARG...: what make check-engines would run.
check_engines() {
    t_run env -u MAKEFLAGS -u MAKELEVEL -u TENURE_HANDOVERS \
        make -n -C "$TENURE_ROOT" check-engines "$@"
    t_check "make: $(cat "$t_err")" [ "$t_status" -eq 0 ]
}
check_engines
t_prints "TENURE_CHAOS_RUNS=3 TENURE_HANDOVERS= "
t_prints ":-1800}"
check_engines ENGINE_HANDOVERS=100 ENGINE_RUNS=50
t_prints "TENURE_CHAOS_RUNS=50 TENURE_HANDOVERS=100 "
t_prints ":-7200}"
for mixed in consul kubernetes dynamodb; do
    t_check "$mixed: TENURE_HANDOVERS counts" \
        grep -q '\${TENURE_HANDOVERS:-' "$TENURE_ROOT/tests/engines/$mixed.sh"
done
for chaos in "$TENURE_ROOT"/tests/engines/chaos/*.sh; do
    t_check "${chaos##*/}: so does TENURE_CHAOS_RUNS" grep -q '^chaos_runs ' "$chaos"
done
t_done
