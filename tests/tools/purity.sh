#!/bin/sh
# purity.sh - the core and the fence call nothing they may not; and the check can fail.
. "$(dirname "$0")/../harness/lib.sh"

purity=$TENURE_ROOT/tools/purity
compiler=$(sed -n 's/^CMAKE_C_COMPILER:[A-Z]*=//p' "$TENURE_BUILD/CMakeCache.txt")

# compile NAME: an object file from the C source on stdin.
compile() {
    cat >"$t_dir/$1.c" && "$compiler" -c -o "$t_dir/$1.o" "$t_dir/$1.c"
}

t_case "the core calls only mem* and tn_assert_fail"
if ! ls "$TENURE_ROOT"/src/core/*.c >/dev/null 2>&1; then
    t_skip "src/core has no sources yet"
fi
t_run "$purity" "$TENURE_BUILD/pure/libtn_core.a"
t_check "status" [ "$t_status" -eq 0 ]
cat "$t_out" "$t_err"

t_case "the fence calls nothing"
t_run "$purity" -n "$TENURE_BUILD/pure/libtn_fence.a"
t_check "status" [ "$t_status" -eq 0 ]
cat "$t_out" "$t_err"

t_case "a clock read is found"
compile clock <<'END'
#include <time.h>
long clock_read(void);
long clock_read(void) { return (long)time(0); }
END
t_run "$purity" "$t_dir/clock.o"
t_check "status" [ "$t_status" -eq 1 ]
t_check "names the symbol and the file" grep -q "undefined symbol time, used by .*clock.o" "$t_out"

t_case "a clock read is found inside a library"
ar cr "$t_dir/libclock.a" "$t_dir/clock.o"
t_run "$purity" "$t_dir/libclock.a"
t_check "status" [ "$t_status" -eq 1 ]

t_case "an assertion is allowed to the core, not to the fence"
compile asserts <<'END'
void tn_assert_fail(const char *expr, const char *file, int line);
void asserts(void);
void asserts(void) { tn_assert_fail("", "", 0); }
END
t_run "$purity" "$t_dir/asserts.o"
t_check "core" [ "$t_status" -eq 0 ]
t_run "$purity" -n "$t_dir/asserts.o"
t_check "fence" [ "$t_status" -eq 1 ]

t_case "calls within the set are allowed"
compile caller <<'END'
void asserts(void);
void caller(void);
void caller(void) { asserts(); }
END
t_run "$purity" "$t_dir/caller.o" "$t_dir/asserts.o"
t_check "both" [ "$t_status" -eq 0 ]
t_run "$purity" "$t_dir/caller.o"
t_check "alone" [ "$t_status" -eq 1 ]

t_case "a missing or an empty file is not purity"
t_run "$purity" "$t_dir/no-such-file.a"
t_check "missing" [ "$t_status" -eq 1 ]
compile empty </dev/null
t_run "$purity" "$t_dir/empty.o"
t_check "empty" [ "$t_status" -eq 1 ]

t_done
