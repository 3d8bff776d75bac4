#!/bin/sh
# amalgamation.sh - the fence as two files: it compiles alone, calls nothing, and works.
. "$(dirname "$0")/../harness/lib.sh"

compiler=$(sed -n 's/^CMAKE_C_COMPILER:[A-Z]*=//p' "$TENURE_BUILD/CMakeCache.txt")

t_case "two files, and nothing else, are a fence"
t_run "$TENURE_ROOT/tools/amalgamate" "$t_dir/out"
t_ends 0
t_check "two files" [ "$(ls "$t_dir/out")" = "$(printf 'tenure_fence.c\ntenure_fence.h')" ]
cat >"$t_dir/out/main.c" <<'END'
#include "tenure_fence.h"
int main(void)
{
    struct tenure_fence fence = { 0 };
    return tenure_fence_admit(&fence, 34) != 0 ||
           tenure_fence_admit(&fence, 33) != TENURE_E_STALE ||
           tenure_fence_raise(&fence, 35) != 0 || tenure_fence_highest(&fence) != 35;
}
END
t_run "$compiler" -std=c11 -pedantic -Wall -Wextra -Werror -o "$t_dir/out/main" \
    "$t_dir/out/main.c" "$t_dir/out/tenure_fence.c"
t_check "compiles" [ "$t_status" -eq 0 ]
cat "$t_err"
t_run "$t_dir/out/main"
t_ends 0
"$compiler" -c -fno-stack-protector -o "$t_dir/fence.o" "$t_dir/out/tenure_fence.c"
t_run "$TENURE_ROOT/tools/purity" -n "$t_dir/fence.o"
t_check "calls nothing" [ "$t_status" -eq 0 ]
cat "$t_out"

t_done
