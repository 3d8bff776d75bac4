#!/bin/sh
# main.sh - the frame of the command: verbs, help, version, and output that cannot be written.
# shellcheck source=tests/harness/lib.sh
. "${TENURE_ROOT:-$(dirname "$0")/../..}/tests/harness/lib.sh"

tenure=$TENURE_BUILD/tenure

# refused WORDS: exit 64, nothing on stdout, one line with WORDS on stderr.
refused() {
    t_check "exit status is 64, not $t_status" [ "$t_status" -eq 64 ]
    t_refute "stdout is empty" [ -s "$t_out" ]
    t_check "one line on stderr" [ "$(wc -l <"$t_err")" -eq 1 ]
    t_check "says why" grep -qF -e "$1" "$t_err"
}

t_case "help lists the verbs"
for word in --help -h help; do
    t_run "$tenure" "$word"
    t_check "exit status" [ "$t_status" -eq 0 ]
    t_check "usage" grep -q '^usage: tenure VERB' "$t_out"
    t_check "plan is there" grep -q '^  plan  ' "$t_out"
    t_refute "stderr is empty" [ -s "$t_err" ]
done

t_case "help of help is the list of verbs"
for word in help --help -h; do
    t_run "$tenure" help "$word"
    t_ends 0
    t_prints "usage: tenure VERB"
done

t_case "tenured: help and version, and one line for what it does not know"
for word in --help -h; do
    t_run "$TENURE_BUILD/tenured" "$word"
    t_ends 0
    t_prints "usage: tenured"
done
for word in --version -V; do
    t_run "$TENURE_BUILD/tenured" "$word"
    t_ends 0
    t_prints "tenured "
done
t_bad "'start' is no option" "$TENURE_BUILD/tenured" start
t_bad "there is no option '-x'" "$TENURE_BUILD/tenured" -x

t_case "help of a verb is the same in both spellings"
t_run "$tenure" plan --help
t_check "exit status" [ "$t_status" -eq 0 ]
t_check "usage" grep -q '^usage: tenure plan' "$t_out"
cp "$t_out" "$t_dir/help"
t_run "$tenure" help plan
t_check "exit status" [ "$t_status" -eq 0 ]
t_check "same text" cmp -s "$t_out" "$t_dir/help"

t_case "version"
for word in --version -V; do
    t_run "$tenure" "$word"
    t_check "exit status" [ "$t_status" -eq 0 ]
    t_check "the version" grep -Eqx 'tenure [0-9]+\.[0-9]+\.[0-9]+' "$t_out"
    t_check "the stores" grep -Eq '^stores: sqlite, memory' "$t_out"
done

t_case "an unknown verb is answered with the nearest one"
t_run "$tenure" paln
refused "tenure: 'paln' is not a verb; did you mean 'plan'?"
t_run "$tenure" help paln
refused "did you mean 'plan'?"
t_run "$tenure" frobnicate
refused "tenure: 'frobnicate' is not a verb; 'tenure --help' lists them"
t_run "$tenure" ''
refused "tenure: '' is not a verb"
t_run "$tenure"
refused "a verb is missing"
t_run "$tenure" help plan plan
refused "one verb at a time"

t_case "a hostile word is escaped and shortened"
t_run "$tenure" "$(printf 'a\033[2J\nb\r%0900d' 1)"
refused "'a\\x1b[2J\\nb\\r000"
t_check "at most 500 characters" [ "$(wc -c <"$t_err")" -le 501 ]
t_check "printable" [ "$(tr -d '\n -~' <"$t_err" | wc -c)" -eq 0 ]

t_case "a closed output is an error"
for words in "plan" "plan --json" "plan --help" "--help" "--version"; do
    # shellcheck disable=SC2086 # Words are meant to be split.
    "$tenure" $words >&- 2>"$t_err"
    t_status=$?
    t_check "$words: exit status is 74, not $t_status" [ "$t_status" -eq 74 ]
    t_check "$words: one line on stderr" [ "$(wc -l <"$t_err")" -eq 1 ]
done

t_case "a full disk is an error"
if [ -w /dev/full ]; then
    "$tenure" plan >/dev/full 2>"$t_err"
    t_status=$?
    t_check "exit status is 74, not $t_status" [ "$t_status" -eq 74 ]
    t_check "says why" grep -q 'could not be written' "$t_err"
fi

t_case "all streams closed is survived"
"$tenure" plan <&- >&- 2>&-
t_status=$?
t_check "exit status is 74, not $t_status" [ "$t_status" -eq 74 ]

t_case "no colour outside a terminal"
t_run env TERM=xterm "$tenure" plan
t_refute "no escape sequence" grep -q "$(printf '\033')" "$t_out"

t_done
