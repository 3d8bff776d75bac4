# shellcheck shell=sh
# lib.sh - the harness of the shell tests; sourced, never run.
#
#     . "$TENURE_ROOT/tests/harness/lib.sh"
#     t_case "a bad name is refused"
#     t_run "$TENURE_BUILD/tenure" status a//b
#     t_check "exit status" [ "$t_status" -eq 64 ]
#     t_check "says why" grep -q "empty segment" "$t_err"
#     t_done
#
# t_case NAME          starts a case (and ends the one before)
# t_run COMMAND...     runs it; then $t_status, and the files $t_out and $t_err
# t_check WHAT CMD...  the case fails unless CMD succeeds; later checks still run
# t_promise WHAT CMD... the same for what no lack of time excuses, such as two leaders: tests/run
#                      gives such a suite no second try
# t_refute WHAT CMD... the case fails if CMD succeeds
# t_ends STATUS        the last t_run ended so, and said nothing on stderr
# t_prints WORDS       it printed WORDS on stdout
# t_bad WORDS CMD...   runs CMD: exit 64, nothing on stdout, one line with WORDS on stderr
# t_fail WHAT          the case fails
# t_skip REASON        the case is skipped; its later checks are not run
# until_true N CMD...  waits until CMD succeeds, N seconds at most
# t_ports COUNT        so many ports that nobody has
# t_full PIPE FD       makes a pipe without any room left, open at FD; nobody reads it
# t_done               prints the summary and exits; a script that ends without it has failed
#
# $t_dir is a scratch directory, removed at the end. tests/run sets TENURE_ROOT (the sources) and
# TENURE_BUILD (the build directory); run by hand, a script finds both itself.
set -u

t_suite=$(basename "$0" .sh)
TENURE_ROOT=${TENURE_ROOT:-$(cd "$(dirname "$0")/../.." && pwd)}
TENURE_BUILD=${TENURE_BUILD:-$TENURE_ROOT/build}
# Commands are run without a fence, and know it.
TENURE_FENCE=none
export TENURE_ROOT TENURE_BUILD TENURE_FENCE
t_dir=$(mktemp -d) || exit 1
t_out=$t_dir/.out
t_err=$t_dir/.err
t_status=0
t_passed=0 t_failed=0 t_skipped=0
t_name='outside any case'

# The running case's verdict is a file, so that a check in a pipe or a subshell counts too.
t_verdict=$t_dir/.verdict

trap 'rm -rf "$t_dir"' EXIT
trap 'exit 130' INT TERM

# Below those that the system gives to whoever connects: one of these may be gone when it is needed.
# A file says that it is spoken for, since the servers of other tests choose at the same time and
# may listen later; two that choose the same one both see two files, and choose again.
t_ports() {
    tp_left=$1
    for tp_port in $(shuf -i 10000-32000 -n $(($1 + 100))); do
        [ "$tp_left" -gt 0 ] || break
        if t_reserves "$tp_port"; then
            echo "$tp_port"
            tp_left=$((tp_left - 1))
        fi
    done
}

t_reserves() {
    tr_file=.port-$1
    [ ! -e "$t_dir/$tr_file" ] || return 1
    : >"$t_dir/$tr_file"
    set -- "${t_dir%/*}"/*/"$tr_file"
    if [ $# -gt 1 ] || cat /proc/net/tcp /proc/net/tcp6 2>/dev/null |
        grep -qi ":$(printf %04X "${tr_file#.port-}") "; then
        rm "$t_dir/$tr_file"
        return 1
    fi
}

t_full() {
    mkfifo "$1"
    eval "exec $2<>\"\$1\""
    dd if=/dev/zero of="$1" bs=4096 oflag=nonblock status=none 2>/dev/null
    dd if=/dev/zero of="$1" bs=1 oflag=nonblock status=none 2>/dev/null
    true # They end because there is no room.
}

t_verdict_is() { [ -e "$t_verdict" ] && [ "$(cat "$t_verdict")" = "$1" ]; }

t_end_case() {
    if t_verdict_is passed; then
        t_passed=$((t_passed + 1))
    elif t_verdict_is skipped; then
        t_skipped=$((t_skipped + 1))
    elif [ -e "$t_verdict" ]; then
        t_failed=$((t_failed + 1))
    fi
    rm -f "$t_verdict"
}

until_true() {
    local limit=$(($(date +%s) + $1))
    shift
    until "$@" >/dev/null 2>&1; do
        [ "$(date +%s)" -le "$limit" ] || return 1
        sleep 0.02
    done
}

t_case() {
    t_end_case
    t_name=$1
    echo passed >"$t_verdict"
}

t_run() {
    "$@" >"$t_out" 2>"$t_err"
    t_status=$?
}

t_fail() {
    echo "FAIL $t_suite/$t_name: $1"
    echo failed >"$t_verdict"
}

t_check() {
    t_what=$1
    shift
    if ! t_verdict_is skipped && ! "$@"; then
        t_fail "$t_what: $*"
    fi
}

t_promise() {
    t_what=$1
    shift
    t_check "broken promise: $t_what" "$@"
}

t_refute() {
    t_what=$1
    shift
    if ! t_verdict_is skipped && "$@"; then
        t_fail "$t_what: expected to fail: $*"
    fi
}

t_ends() {
    t_check "exit status is $1, not $t_status" [ "$t_status" -eq "$1" ]
    t_refute "stderr is empty, not: $(head -c 300 "$t_err")" [ -s "$t_err" ]
}

t_prints() { t_check "prints $1" grep -qF -e "$1" "$t_out"; }

t_bad() {
    t_words=$1
    shift
    t_run "$@"
    t_check "$*: exit status is 64, not $t_status" [ "$t_status" -eq 64 ]
    t_refute "$*: stdout is empty" [ -s "$t_out" ]
    t_check "$*: one line on stderr" [ "$(wc -l <"$t_err")" -eq 1 ]
    t_check "$*: at most 500 characters" [ "$(wc -c <"$t_err")" -le 501 ]
    t_check "$*: says why" grep -qF -e "$t_words" "$t_err"
}

t_skip() {
    if t_verdict_is passed; then
        echo "SKIP $t_suite/$t_name: $1"
        echo skipped >"$t_verdict"
    fi
}

t_done() {
    t_end_case
    if [ $((t_passed + t_failed + t_skipped)) -eq 0 ]; then
        echo "FAIL $t_suite: no test ran"
        t_failed=1
    fi
    echo "$t_passed passed, $t_failed failed, $t_skipped skipped"
    [ "$t_failed" -eq 0 ]
    exit
}
