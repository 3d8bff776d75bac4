#!/bin/sh
# contain.sh - every containment that the machine has, as root and as a plain user: commands that
# fork and exit without rest, whose supervisor or guardian is stopped, killed or traced, under load.
#
# TENURE_CONTAIN_RUNS (25) random runs of the guardian, and as many of the whole command, for each
# of them; TENURE_CONTAIN_LOAD (2) processes beside them only use up the processor. With the tree
# alone the command does not fork and exit: it promises nothing then. What was seen in 200 runs each
# is in docs/runner.md.
TENURE_ROOT=${TENURE_ROOT:-$(cd "$(dirname "$0")/../../.." && pwd)}
# shellcheck source=tests/harness/lib.sh
. "$TENURE_ROOT/tests/harness/lib.sh"

runs=${TENURE_CONTAIN_RUNS:-25} load=${TENURE_CONTAIN_LOAD:-2}

# judge: the program's own verdict; what it cannot play here is skipped.
judge() {
    if grep -q ' 0 failed, 1 skipped$' "$t_out"; then
        t_skip "$(head -n 2 "$t_out" | tail -n 1)"
        return
    fi
    t_check "it passes: $(grep FAIL "$t_out")" [ "$t_status" -eq 0 ]
    grep '^last act' "$t_out" | sed "s/^/# $t_name: /"
}

# cell CONTAINMENT [--user]
cell() {
    t_case "run, $1${2:+, plain user}"
    comets=--comets
    [ "$1" != tree ] || comets=
    # shellcheck disable=SC2086 # Words, or none.
    t_run "$TENURE_BUILD/chaos/run" --contain "$1" $comets --faults 1 --at-once 2 --load "$load" \
        ${2:-} "$runs"
    judge

    # A plain user owns a cgroup only if somebody gives it one, which `run` does.
    case $1${2:-} in
    cgroup--user | v1--user) return ;;
    esac
    t_case "guardian, $1${2:+, plain user}"
    set -- "$1" "${2:+setpriv --reuid=65534 --regid=65534 --clear-groups}"
    hide=:
    [ "$1" != v1 ] || hide="mount -t tmpfs none /sys/fs/cgroup/unified"
    contain=$1
    [ "$1" != v1 ] || contain=cgroup
    # shellcheck disable=SC2016,SC2086 # The shell inside expands it; words.
    t_run unshare -m --propagation private sh -c '
        '"$hide"' || exit 99
        for i in $(seq "$1"); do
            while :; do :; done &
            burners="$burners $!"
        done
        shift
        TN_CONTAIN=$1
        export TN_CONTAIN
        shift
        status=0
        "$@" || status=$?
        kill $burners
        exit $status' sh "$load" "$contain" $2 "$TENURE_BUILD/chaos/guardian" --acts "$runs"
    if [ "$t_status" -eq 99 ]; then
        t_skip "there is no cgroup v2 to hide"
        return
    fi
    judge
}

if [ "$(id -u)" -ne 0 ]; then
    t_case "containments"
    t_skip "needs root, which becomes a plain user where it must"
    t_done
fi
for containment in cgroup v1 pidns tree; do
    cell $containment
    cell $containment --user
done
t_done
