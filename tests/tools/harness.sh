#!/bin/sh
# harness.sh - the harness can fail: what it must not let pass, it does not.
. "$(dirname "$0")/../harness/lib.sh"

fixtures=$TENURE_BUILD/tests/fixtures
run=$TENURE_ROOT/tests/run

last_line_is() { [ "$(tail -n 1 "$t_out")" = "$1" ]; }
says() { grep -qF -- "$1" "$t_out"; }

# suite NAME: a shell suite from stdin, ready to run.
suite() {
    { echo '#!/bin/sh' && cat; } >"$t_dir/$1.sh"
    chmod +x "$t_dir/$1.sh"
}

t_case "a failed check ends its test only, and fails the program"
t_run "$fixtures/failing"
t_check "status" [ "$t_status" -eq 1 ]
t_check "summary" last_line_is "2 passed, 8 failed, 0 skipped"
t_check "place and text" says "FAIL failing/check: tests/harness/fixtures/failing.c:13: 1 + 1 == 3"
t_check "both numbers" says "UINT64_MAX == 7: 18446744073709551615 and 7"
t_check "both signed numbers" says "-5 == 5: -5 and 5"
t_check "both strings" says '"left" and "right"'
t_check "the null string" says "left and NULL"
t_check "the first differing byte" says "byte 2 is 0x63 and 0x64"
t_check "a missing assertion" says "no assertion tripped"
t_check "a stray assertion" says "assertion failed: 1 == 2"

t_case "tests can be listed and chosen"
t_run "$fixtures/failing" --list
t_check "status" [ "$t_status" -eq 0 ]
t_check "all are listed" [ "$(wc -l <"$t_out")" -eq 10 ]
t_run "$fixtures/failing" passes_
t_check "only the chosen ran" last_line_is "2 passed, 0 failed, 0 skipped"
t_run "$fixtures/failing" no_such_test
t_check "choosing nothing fails" [ "$t_status" -eq 1 ]

t_case "a program without tests fails"
t_run "$fixtures/empty"
t_check "status" [ "$t_status" -eq 1 ]
t_check "summary" last_line_is "0 passed, 1 failed, 0 skipped"

t_case "run: a failing program fails the run"
t_run "$run" -b "$TENURE_BUILD" "$fixtures/failing" "$fixtures/failing"
t_check "status" [ "$t_status" -eq 1 ]
t_check "summary" last_line_is "4 passed, 16 failed, 0 skipped"

t_case "run: a program that dies before its summary fails the run"
t_run "$run" -b "$TENURE_BUILD" "$fixtures/crashing"
t_check "status" [ "$t_status" -eq 1 ]
t_check "summary" last_line_is "0 passed, 1 failed, 0 skipped"

t_case "run: a suite that hangs is ended and fails"
suite hangs <<'END'
sleep 60
END
t_run env TENURE_TEST_TIMEOUT=1 "$run" -b "$TENURE_BUILD" "$t_dir/hangs.sh"
t_check "status" [ "$t_status" -eq 1 ]

t_case "run: a suite whose status contradicts its summary fails"
suite liar <<'END'
echo "3 passed, 0 failed, 0 skipped"
exit 9
END
t_run "$run" -b "$TENURE_BUILD" "$t_dir/liar.sh"
t_check "status" [ "$t_status" -eq 1 ]

t_case "run: no test at all fails, also one suite among others"
suite nothing <<'END'
echo "0 passed, 0 failed, 0 skipped"
END
suite good <<'END'
echo "1 passed, 0 failed, 0 skipped"
END
t_run "$run" -b "$TENURE_BUILD" "$t_dir/good.sh" "$t_dir/nothing.sh"
t_check "status" [ "$t_status" -eq 1 ]
t_check "summary" last_line_is "1 passed, 1 failed, 0 skipped"

t_case "run: a suite that cannot be started fails"
t_run "$run" -b "$TENURE_BUILD" "$t_dir/no-such-suite"
t_check "status" [ "$t_status" -eq 1 ]

t_case "run: with -j suites run at once, and are told apart"
for name in left right; do
    suite $name <<END
touch "$t_dir/$name.here"
until [ -e "$t_dir/left.here" ] && [ -e "$t_dir/right.here" ]; do sleep 0.05; done
echo "this is $name"
echo "1 passed, 0 failed, 0 skipped"
END
done
t_run env TENURE_TEST_TIMEOUT=20 "$run" -b "$TENURE_BUILD" -j 2 "$t_dir/left.sh" \
    "$t_dir/good.sh" "$t_dir/right.sh" "$fixtures/failing"
t_check "status" [ "$t_status" -eq 1 ]
told_apart() { grep -A 1 'this is left' "$t_out" | grep -q '^left '; }
t_check "each is told with its name" told_apart
t_check "summary" last_line_is "5 passed, 8 failed, 0 skipped"
t_run "$run" -b "$TENURE_BUILD" -j 0 "$t_dir/good.sh"
t_check "no jobs at all is bad usage" [ "$t_status" -eq 64 ]

t_case "run: with -j, a script that failed has a second try by itself, and that counts"
suite late <<END
. "\$TENURE_ROOT/tests/harness/lib.sh"
t_case "in time, the second time"
t_check "it has been here before" [ -e "$t_dir/late.here" ]
touch "$t_dir/late.here"
t_done
END
t_run "$run" -b "$TENURE_BUILD" -j 2 "$t_dir/late.sh" "$t_dir/good.sh"
t_check "status" [ "$t_status" -eq 0 ]
t_check "it is told" says "once more, by itself: late.sh"
t_check "summary" last_line_is "2 passed, 0 failed, 0 skipped"
rm "$t_dir/late.here"
t_run "$run" -b "$TENURE_BUILD" "$t_dir/late.sh"
t_check "by itself from the start: no" [ "$t_status" -eq 1 ]

t_case "run: what fails twice has failed, and a broken promise at once"
suite never <<'END'
. "$TENURE_ROOT/tests/harness/lib.sh"
t_case "never"
t_check "false" false
t_done
END
suite broken <<END
. "\$TENURE_ROOT/tests/harness/lib.sh"
t_case "kept, the second time"
t_promise "it has been here before" [ -e "$t_dir/broken.here" ]
touch "$t_dir/broken.here"
t_done
END
t_run "$run" -b "$TENURE_BUILD" -j 2 "$t_dir/never.sh" "$t_dir/broken.sh"
t_check "status" [ "$t_status" -eq 1 ]
t_refute "no second try" says "once more, by itself: broken.sh"
t_check "summary" last_line_is "0 passed, 2 failed, 0 skipped"

t_case "run: no second try for a program of the build, or behind a sanitizer's report"
t_run sh -c 'cd "$1" && shift && "$@"' - "$TENURE_BUILD" \
    "$run" -b . -j 2 tests/fixtures/failing "$t_dir/good.sh"
t_refute "a program, also by a relative path" says "once more, by itself: failing"
suite memory <<END
. "\$TENURE_ROOT/tests/harness/lib.sh"
t_case "clean, the second time"
[ -e "$t_dir/memory.here" ] ||
    echo "==1==ERROR: AddressSanitizer: heap-use-after-free on address 0x1"
t_check "it has been here before" [ -e "$t_dir/memory.here" ]
touch "$t_dir/memory.here"
t_done
END
t_run "$run" -b "$TENURE_BUILD" -j 2 "$t_dir/memory.sh" "$t_dir/good.sh"
t_check "status" [ "$t_status" -eq 1 ]
t_refute "a report of AddressSanitizer" says "once more, by itself: memory.sh"

t_case "run: a skip is loud, and fails when CI=true"
t_run env CI= "$run" -b "$TENURE_BUILD" "$fixtures/skipping"
t_check "status on a desk" [ "$t_status" -eq 0 ]
t_check "reason" says "SKIP skipping/skips: nothing to test it with"
t_check "summary" last_line_is "1 passed, 0 failed, 1 skipped"
t_run env CI=true "$run" -b "$TENURE_BUILD" "$fixtures/skipping"
t_check "status in CI" [ "$t_status" -eq 1 ]
t_check "summary in CI" last_line_is "1 passed, 0 failed, 1 skipped"

t_case "shell: failed, refuted, skipped and passed cases are counted"
suite shell <<'END'
. "$TENURE_ROOT/tests/harness/lib.sh"
t_check "fails before any case" false
t_case "passes"
t_check "true" true
t_refute "false" false
t_case "fails, once"
t_check "false" false
t_check "false again" false
t_case "refutes"
t_refute "true" true
t_case "skips"
t_skip "no reason"
t_check "not run any more" false
t_case "fails in a pipe"
echo text | t_check "false" false
t_case "runs"
t_run sh -c 'echo out; echo err >&2; exit 7'
t_check "status" [ "$t_status" -eq 7 ]
t_check "out" grep -qx out "$t_out"
t_check "err" grep -qx err "$t_err"
t_done
END
t_run "$t_dir/shell.sh"
t_check "status" [ "$t_status" -eq 1 ]
t_check "summary" last_line_is "2 passed, 4 failed, 1 skipped"
t_check "reason" says "SKIP shell/skips: no reason"

t_case "shell: a script without a case, or without t_done, fails"
suite caseless <<'END'
. "$TENURE_ROOT/tests/harness/lib.sh"
t_done
END
t_run "$t_dir/caseless.sh"
t_check "status" [ "$t_status" -eq 1 ]
suite unfinished <<'END'
. "$TENURE_ROOT/tests/harness/lib.sh"
t_case "passes"
t_check "true" true
END
t_run "$run" -b "$TENURE_BUILD" "$t_dir/unfinished.sh"
t_check "status of the run" [ "$t_status" -eq 1 ]

t_case "shell: a port that another test chose is not given, though nobody listens there yet"
suite ports <<'END'
. "$TENURE_ROOT/tests/harness/lib.sh"
shuf() { seq 31990 31999; }
t_ports 2
[ -z "${NEXT:-}" ] || NEXT= "$NEXT"
END
TMPDIR=$t_dir NEXT="$t_dir/ports.sh" t_run "$t_dir/ports.sh"
t_check "four" [ "$(wc -l <"$t_out")" -eq 4 ]
t_check "different ones: $(cat "$t_out")" [ "$(sort -u "$t_out" | wc -l)" -eq 4 ]
TMPDIR=$t_dir t_run "$t_dir/ports.sh"
t_check "two" [ "$(wc -l <"$t_out")" -eq 2 ]
t_check "no trace stays: $(cat "$t_out")" [ -z "$(find "$t_dir" -name '.port-*')" ]

t_done
