#!/bin/sh
# memory.sh - the unit tests and every verb under valgrind: no error, and nothing is lost.
#
# Every process that execs nothing writes its own log; a forked child inherits its parent's blocks,
# so only those that were started count.
# shellcheck source=tests/harness/lib.sh
. "${TENURE_ROOT:-$(dirname "$0")/../..}/tests/harness/lib.sh"

tenure=$TENURE_BUILD/tenure
logs=$t_dir/logs
TENURE_STORE=sqlite:$t_dir/t.db
TENURE_SIM_SEEDS=20
export TENURE_STORE TENURE_SIM_SEEDS
mkdir "$logs"

# checked COMMAND...: as t_run, under valgrind.
checked() {
    rm -f "$logs"/*
    t_run timeout 170 valgrind --leak-check=full --child-silent-after-fork=yes \
        --errors-for-leak-kinds=definite,indirect,possible --log-file="$logs/%p" "$@"
}

# What is wrong in the logs; the last line of a log that has none is its summary.
findings() {
    grep -hE "ERROR SUMMARY: [1-9]|(Invalid|Conditional|Use of|Syscall|are .* lost)" "$logs"/* |
        sed 's/^==[0-9]*== //'
}

is_clean() {
    grep -q "ERROR SUMMARY: 0 errors" "$logs"/* && [ -z "$(findings)" ]
}

# verb STATUS WORD...: the verb ends so, and is clean.
verb() {
    wanted=$1
    shift
    checked "$tenure" "$@"
    t_check "$*: exit status is $wanted, not $t_status: $(cat "$t_err")" \
        [ "$t_status" -eq "$wanted" ]
    t_check "$*: $(findings)" is_clean
}

t_case "something is found when there is something to find"
if ! command -v valgrind >/dev/null; then
    t_skip "valgrind is not installed; tools/deps valgrind installs it"
    t_done
fi
checked "$TENURE_BUILD/tests/fixtures/leak"
t_check "exit status" [ "$t_status" -eq 0 ]
t_refute "a block that nobody freed" is_clean
t_check "it is named" [ "$(findings | grep -c "are definitely lost")" -eq 1 ]

for suite in unit conformance; do
    t_case "the $suite tests"
    checked "$TENURE_BUILD/tests/$suite"
    t_check "pass: $(grep FAIL "$t_out")" [ "$t_status" -eq 0 ]
    t_check "clean: $(findings | head -5)" is_clean
done

t_case "the lease verbs"
verb 0 status job
verb 0 acquire job --ttl 1m --json
token=$(sed 's/.*"token":\([0-9]*\).*/\1/' "$t_out")
TENURE_SECRET=$(sed 's/.*"secret":"\([^"]*\)".*/\1/' "$t_out")
export TENURE_SECRET
verb 75 acquire job
verb 75 acquire job --wait 100ms
verb 0 renew job --token "$token"
verb 80 renew job --token 99
verb 77 renew job --token "$token" --secret "$(printf %064d 1)"
verb 0 status job
verb 0 status --json
verb 0 list --json
verb 75 run --wait 100ms job -- true
verb 0 release job --token "$token"
verb 0 release job --token "$token"
verb 0 acquire other

t_case "run, elect and watch"
# A valgrind that does not know pidfds lets no guardian start: 69. Nothing may be lost then, too.
for words in true "sh -c true" "$t_dir/no-such-command"; do
    # shellcheck disable=SC2086 # Words are meant to be split.
    checked "$tenure" run job -- $words
    t_check "run $words: $(findings)" is_clean
done
verb 75 elect --wait 100ms other

t_case "the fence"
verb 69 fence admit --at "sqlite:$t_dir/fence.db" orders 7
verb 0 fence install --at "sqlite:$t_dir/fence.db"
verb 0 fence admit --at "sqlite:$t_dir/fence.db" orders 7
verb 80 fence admit --at "sqlite:$t_dir/fence.db" orders 6
verb 0 fence install --at "file:$t_dir/file"
verb 0 fence raise --at "file:$t_dir/file" 7
verb 0 fence show --at "sqlite:$t_dir/fence.db" --json

t_case "what fails"
printf 'not a database' >"$t_dir/plain"
verb 69 status job -s "sqlite:$t_dir/plain"
verb 69 run job -s "sqlite:$t_dir/plain" -- true
verb 69 acquire job -s "sqlite:$t_dir/no/such/folder"
verb 64 acquire a//b
verb 64 run job
verb 64 nonsense

t_case "the rest"
verb 0 plan
verb 0 plan --json
verb 0 sim --seeds 2
verb 0 help run
t_done
