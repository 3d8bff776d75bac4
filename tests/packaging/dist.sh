#!/bin/sh
# dist.sh - the tarball of the sources: the same bytes from the same sources, and enough for the
# demo on a machine without git.
# shellcheck source=tests/harness/lib.sh
. "${TENURE_ROOT:-$(dirname "$0")/../..}/tests/harness/lib.sh"

SOURCE_DATE_EPOCH=1700000000
export SOURCE_DATE_EPOCH
version=$(sed -n 's/^project(tenure VERSION \([0-9.]*\) .*/\1/p' "$TENURE_ROOT/CMakeLists.txt")
name=tenure-$version

# A git that fails, and leaves a mark when it is asked.
mkdir "$t_dir/bin"
printf '#!/bin/sh\ntouch "%s/asked"\nexit 1\n' "$t_dir" >"$t_dir/bin/git"
chmod +x "$t_dir/bin/git"

t_case "two tarballs of the same sources have the same bytes"
t_run "$TENURE_ROOT/tools/dist" "$t_dir/one"
t_ends 0
t_prints "$t_dir/one/$name.tar.gz"
# Packed again from what was unpacked, by somebody with other habits.
(umask 077 && mkdir "$t_dir/unpacked" && tar -xzf "$t_dir/one/$name.tar.gz" -C "$t_dir/unpacked")
t_run env PATH="$t_dir/bin:$PATH" TZ=Asia/Tokyo LC_ALL=C.UTF-8 \
    "$t_dir/unpacked/$name/tools/dist" "$t_dir/two"
t_ends 0
t_check "same bytes" cmp "$t_dir/one/$name.tar.gz" "$t_dir/two/$name.tar.gz"

t_case "another content gives other bytes"
echo >>"$t_dir/unpacked/$name/README.md"
t_run "$t_dir/unpacked/$name/tools/dist" "$t_dir/three"
t_refute "same bytes" cmp -s "$t_dir/one/$name.tar.gz" "$t_dir/three/$name.tar.gz"

t_case "make demo in the tarball, without git: it builds no test, and takes a minute at most"
# Counted in processor time, so that a busy machine does not fail it: one idle core needs no more.
t_run env PATH="$t_dir/bin:$PATH" CCACHE_DISABLE=1 \
    bash -c "cd '$t_dir/unpacked/$name' && TIMEFORMAT='seconds %U %S' && time make demo"
t_check "status $t_status: $(tail -n 5 "$t_err")" [ "$t_status" -eq 0 ]
t_prints "4 terms, tokens strictly rising"
t_prints "REFUSED: the fence stands at 2"
t_check "git was not asked" [ ! -e "$t_dir/asked" ]
built=$(find "$t_dir/unpacked/$name" -name '*.o' -path '*tests*')
t_check "no test was compiled: $built" [ -z "$built" ]
seconds=$(sed -n 's/^seconds \(.*\) \(.*\)/\1 \2/p' "$t_err" | awk '{ print int($1 + $2) }')
t_check "$seconds s of processor time" [ "${seconds:-99}" -lt 60 ]

t_done
