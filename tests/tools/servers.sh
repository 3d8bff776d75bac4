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
t_done
