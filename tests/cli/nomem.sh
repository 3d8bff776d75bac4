#!/bin/bash
# nomem.sh - every verb when an allocation fails: no crash, one line, and nothing half done.
#
# The program runs again and again, each time with another allocation failing, its own, SQLite's or
# the C library's. TENURE_STRIDE=1 takes every one in turn, make check-chaos every second, and
# otherwise it is every 17th; all begin anywhere.
# shellcheck source=tests/harness/lib.sh
. "${TENURE_ROOT:-$(dirname "$0")/../..}/tests/harness/lib.sh"

tenure=$TENURE_BUILD/tenure
shim=$TENURE_BUILD/tests/fixtures/failmalloc.so
stride=${TENURE_STRIDE:-17}
told=$t_dir/told
export TENURE_STORE=sqlite:$t_dir/t.db

t_case "allocations can be made to fail, unless the build is instrumented"
if [ ! -e "$shim" ]; then
    t_check "instrumented" grep -q '^TENURE_SANITIZE:[A-Z]*=..*' "$TENURE_BUILD/CMakeCache.txt"
    t_done
fi
TN_FAIL_AT=1 TN_FAIL_ON=1 TN_FAIL_TOLD=$told LD_PRELOAD=$shim t_run "$tenure" acquire job
t_check "told" [ -e "$told" ]
t_check "69, not $t_status" [ "$t_status" -eq 69 ]

# failing N WORD...: the verb, with the Nth allocation failing. False when there were fewer.
failing() {
    local at=$1
    shift
    rm -f "$told"
    TN_FAIL_AT=$at TN_FAIL_TOLD=$told LD_PRELOAD=$shim timeout 30 "$tenure" "$@" \
        >"$t_out" 2>"$t_err"
    t_status=$?
    [ -e "$told" ]
}

# as_documented AT STATUS...: one of these; 0, or one line that tells of the memory.
as_documented() {
    local at=$1 lines
    shift
    lines=$(wc -l <"$t_err")
    case " $* " in
    *" $t_status "*) ;;
    *) t_fail "allocation $at: exit status $t_status: $(head -c 300 "$t_err")" ;;
    esac
    if [ "$t_status" -eq 69 ]; then
        [ "$lines" -eq 1 ] || t_fail "allocation $at: $lines lines: $(cat "$t_err")"
        grep -qi "memory" "$t_err" || t_fail "allocation $at: $(cat "$t_err")"
    elif [ "$t_status" -eq 0 ] && [ "$lines" -ne 0 ]; then
        t_fail "allocation $at: $(cat "$t_err")"
    fi
}

count=0
first() { echo $((1 + RANDOM % stride)); }

take() { # take NAME: $token, TENURE_SECRET
    local answer
    answer=$("$tenure" acquire "$1" --ttl 1h --json) || t_fail "$1 was not granted"
    token=${answer#*\"token\":} token=${token%%,*}
    TENURE_SECRET=${answer#*\"secret\":\"} TENURE_SECRET=${TENURE_SECRET%%\"*}
    export TENURE_SECRET
}

t_case "status and list"
for n in $(seq 60); do # A file of more pages than SQLite has memory for from the start.
    "$tenure" acquire "filler/$(printf '%080d' "$n")" --ttl 1h >/dev/null || t_fail "no filler"
done
take kept
for words in "status kept --json" "list"; do
    at=$(first)
    # shellcheck disable=SC2086 # Words are meant to be split.
    while failing "$at" $words; do
        as_documented "$words $at" 0 69
        [ "$t_status" -ne 0 ] || grep -q kept "$t_out" || t_fail "$words $at: $(cat "$t_out")"
        at=$((at + stride)) count=$((count + 1))
    done
done

t_case "acquire: what was not granted is not held"
at=$(first)
while failing "$at" acquire "a$at" --ttl 1h; do
    as_documented "acquire $at" 0 69
    [ "$t_status" -ne 0 ] || echo "a$at" >>"$t_dir/names"
    at=$((at + stride)) count=$((count + 1))
done
echo "a$at" >>"$t_dir/names" # The last one, to which nothing happened.
sort "$t_dir/names" >"$t_dir/granted"
"$tenure" list a --json | grep '"state":"held"' | sed 's/.*"name":"\([^"]*\)".*/\1/' |
    sort >"$t_dir/held"
t_check "held are $(tr '\n' ' ' <"$t_dir/held"), granted were $(tr '\n' ' ' <"$t_dir/granted")" \
    cmp -s "$t_dir/held" "$t_dir/granted"

t_case "renew and release: the lease is held until a release says so"
at=$(first)
while failing "$at" renew kept --token "$token"; do
    as_documented "renew $at" 0 69
    at=$((at + stride)) count=$((count + 1))
done
t_run "$tenure" renew kept --token "$token"
t_ends 0
at=$(first)
while failing "$at" release kept --token "$token"; do
    as_documented "release $at" 0 69
    "$tenure" release kept --token "$token" || t_fail "release $at: cannot be said again"
    take kept
    at=$((at + stride)) count=$((count + 1))
done

t_case "run: the command ran while it was led, or not at all, and the lease is free"
at=$(first)
while rm -f "$t_dir/ran" && failing "$at" run --ttl 2s "r$at" -- touch "$t_dir/ran"; do
    case $t_status in
    0) [ -e "$t_dir/ran" ] || t_fail "run $at: 0, but it did not run" ;;
    69 | 126)
        [ ! -e "$t_dir/ran" ] || grep -q "could not be released" "$t_err" ||
            t_fail "run $at: $t_status, but it ran"
        ;;
    124) t_fail "run $at: hangs: $(head -c 300 "$t_err")" ;;
    *) t_fail "run $at: exit status $t_status: $(head -c 300 "$t_err")" ;;
    esac
    # What could not be given back, and was told so, is free after its TTL.
    "$tenure" status "r$at" | grep -q ': free' || grep -q "could not be released" "$t_err" ||
        t_fail "run $at: exit status $t_status, and it is still held"
    # A store that does not answer once is asked again, and that is told.
    lines=$(wc -l <"$t_err")
    if [ "$lines" -gt 1 ] || { [ "$t_status" -eq 69 ] && [ "$lines" -eq 0 ]; }; then
        t_fail "run $at: exit status $t_status, $lines lines: $(head -c 300 "$t_err")"
    fi
    at=$((at + stride)) count=$((count + 1))
done

t_case "there were allocations to fail"
t_check "$count is not enough" [ $((count * stride)) -gt 3000 ]

t_case "without any memory"
for words in "status kept" list "acquire other" "run other -- true"; do
    for at in 1 20 100 400; do
        # shellcheck disable=SC2086 # Words are meant to be split.
        TN_FAIL_ON=1 failing $at $words
        as_documented "all from $at, $words" 69
    done
done
t_done
