#!/bin/sh
# go.sh - the Go module: formatted, vetted, and its tests pass under the race detector; the quick
# start of docs/go.md works in a module of its own.
#
# TENURE_GO_ELECTIONS: how many elections one process holds in the tests of that name.
# shellcheck source=tests/harness/lib.sh
. "${TENURE_ROOT:-$(dirname "$0")/../..}/tests/harness/lib.sh"

module=$TENURE_ROOT/bindings/go
unset TENURE_STORE
PATH=$PATH:/usr/local/go/bin
# No module but this one, no other toolchain, and nothing is fetched.
GOPROXY=off GOFLAGS=-mod=mod GOTOOLCHAIN=local GOWORK=off
export PATH GOPROXY GOFLAGS GOTOOLCHAIN GOWORK

# setting NAME: its value in the build's cache.
setting() { sed -n "s/^$1:[^=]*=//p" "$TENURE_BUILD/CMakeCache.txt"; }

# skip_all REASON
skip_all() {
    t_case "the Go module"
    t_skip "$1"
    t_done
}

command -v go >/dev/null || skip_all "no go: tools/deps go"
[ -z "$(setting TENURE_SANITIZE)$(setting TENURE_COVERAGE | grep ON)" ] ||
    skip_all "Go's own sanitizers cannot be mixed with those of the library"

# What `make install` would install, for pkg-config. Go's cache keeps what pkg-config said, and does
# not see when that changes: so the place is the same in each run, and CGO_LDFLAGS, which the cache
# does see, names it.
stage=$TENURE_BUILD/go
libraries=$stage/$(setting CMAKE_INSTALL_LIBDIR)
rm -rf "$stage"
mkdir -p "$libraries/pkgconfig"
cp -P "$TENURE_BUILD"/libtenure.so* "$libraries"
cp "$TENURE_BUILD/tenure.pc" "$libraries/pkgconfig"
cp -R "$TENURE_ROOT/include" "$stage/include"
PKG_CONFIG_PATH=$libraries/pkgconfig
LD_LIBRARY_PATH=$libraries
CGO_LDFLAGS="-O2 -g -L$libraries"
export PKG_CONFIG_PATH LD_LIBRARY_PATH CGO_LDFLAGS

t_case "the sources are formatted, and vet has nothing to say"
t_run gofmt -l "$module"
t_check "gofmt: $(cat "$t_out")" [ ! -s "$t_out" ]
t_run sh -c "cd '$module' && go vet ./..."
t_check "go vet: $(cat "$t_err")" [ "$t_status" -eq 0 ]

t_case "the module needs no other module"
t_refute "go.mod requires one" grep -q '^require' "$module/go.mod"

t_case "the module carries the licence, which goes with each copy"
t_check "the same" cmp "$TENURE_ROOT/LICENSE" "$module/LICENSE"

t_case "the quick start of docs/go.md does what the page says"
mkdir "$t_dir/quick"
awk '/^```go$/ { inside = 1; next } /^```$/ && inside { exit } inside' \
    "$TENURE_ROOT/docs/go.md" >"$t_dir/quick/main.go"
grep -E '^go (mod|get) ' "$TENURE_ROOT/docs/go.md" | sed "s|../tenure/bindings/go|$module|" \
    >"$t_dir/quick/set-up"
t_check "the page sets up a module" [ "$(wc -l <"$t_dir/quick/set-up")" -eq 3 ]
t_run sh -c "cd '$t_dir/quick' && sh -e ./set-up && go run ."
t_check "status $t_status: $(cat "$t_err")" [ "$t_status" -eq 0 ]
t_prints "led with token 1 and gave it back: released"
t_check "the page shows it" grep -qF "\`$(cat "$t_out")\`" "$TENURE_ROOT/docs/go.md"
t_check "it wrote" grep -qx "step 3" "$t_dir/quick/report.txt"

t_case "the example of the README leads"
mkdir "$t_dir/readme"
{
    printf 'package main\n\nimport (\n"context"\n"fmt"\n"log"\n\n"tenure.example/tenure"\n)\n\n'
    printf 'func main() {\nctx, stop := context.WithCancel(context.Background())\ndefer stop()\n'
    printf 'writeSomething := func(token uint64) {\nfmt.Println("wrote with", token)\nstop()\n}\n'
    awk '/^```go$/ { inside = 1; next } /^```$/ && inside { exit } inside' "$TENURE_ROOT/README.md"
    echo '}'
} >"$t_dir/readme/main.go"
t_run sh -c "cd '$t_dir/readme' && sh -e ../quick/set-up && go run ."
t_check "status $t_status: $(cat "$t_err")" [ "$t_status" -eq 0 ]
t_prints "wrote with 1"

# Each test of Go is a case of this suite.
(cd "$module" && go test -race -count 1 -parallel 8 -timeout 300s -v ./...) >"$t_dir/said" 2>&1
status=$?
sed -n 's/^ *--- \([A-Z]*\): \([^ ]*\).*/\1 \2/p' "$t_dir/said" >"$t_dir/results"
while read -r verdict test; do
    t_case "$test"
    case $verdict in
    SKIP) t_skip "$test" ;;
    FAIL) t_fail "see below" ;;
    esac
done <"$t_dir/results"
t_case "go test ends well"
t_check "exit status is 0, not $status" [ $status -eq 0 ]
for store in sqlite tenured etcd; do
    t_check "the list ran on $store" grep -q "TestConformance/$store/lose_by_pause" "$t_dir/results"
done
t_check "the example ran" grep -q ' Example$' "$t_dir/results"
[ $status -eq 0 ] || grep -Ev '^ *(===|--- PASS)' "$t_dir/said"

t_done
