#!/bin/sh
# c_programs.sh - the list that every binding passes, for C: win, lose by pause, resign, drain,
# fence refused, store gone. The programs are examples/leader.c and examples/fenced-writer.c as they
# stand there, on SQLite, tenured and etcd. Python's list is bindings/python/tests/
# test_conformance.py, Go's bindings/go/conformance_test.go.
# shellcheck source=tests/harness/lib.sh
. "${TENURE_ROOT:-$(dirname "$0")/../..}/tests/harness/lib.sh"
# shellcheck source=tests/live/tenured.lib
. "$TENURE_ROOT/tests/live/tenured.lib"
# shellcheck source=tests/live/etcd.lib
. "$TENURE_ROOT/tests/live/etcd.lib"

# Nobody waits for terms of 15 s here: the linker gives the programs another tenure_open.
cat >"$t_dir/ttl.c" <<'END'
#include <stdlib.h>

#include "tenure/tenure.h"

int __real_tenure_open(const char *url, const struct tenure_options *options,
                       struct tenure **ret_tenure, struct tenure_error *reterr);
int __wrap_tenure_open(const char *url, const struct tenure_options *options,
                       struct tenure **ret_tenure, struct tenure_error *reterr)
{
    struct tenure_options with = { .size = sizeof with, .ttl = atoll(getenv("TTL")) * 1000000000 };

    (void)options; /* NULL in both programs. */
    return __real_tenure_open(url, &with, ret_tenure, reterr);
}
END
setting() { sed -n "s/^$1:[^=]*=//p" "$TENURE_BUILD/CMakeCache.txt"; }
cc=$(setting CMAKE_C_COMPILER)
instrument=
[ -z "$(setting TENURE_SANITIZE)" ] || instrument="-fsanitize=$(setting TENURE_SANITIZE)"
[ "$(setting TENURE_COVERAGE)" != ON ] || instrument=--coverage
LD_LIBRARY_PATH=$TENURE_BUILD
export LD_LIBRARY_PATH
t_case "the programs compile"
for program in leader fenced-writer; do
    # shellcheck disable=SC2086 # Words.
    t_run "$cc" -std=c11 -D_GNU_SOURCE -Wall -Wextra -Werror $instrument \
        -I"$TENURE_ROOT/include" "$TENURE_ROOT/examples/$program.c" "$t_dir/ttl.c" \
        -Wl,--wrap=tenure_open -o "$t_dir/$program" -L"$TENURE_BUILD" -ltenure
    t_check "$program: $(head -n 5 "$t_err")" [ "$t_status" -eq 0 ]
done

# lead TTL FILE NAME, fenced TTL JOURNAL NAME: one of the programs in the background, $started.
lead() {
    TTL=$1 "$t_dir/leader" "$3" "$store" >"$t_dir/$2" 2>&1 &
    started=$!
    candidates="$candidates $started"
}
fenced() {
    TTL=$1 "$t_dir/fenced-writer" "$3" "$t_dir/$2" "$store" >"$t_dir/$2.said" 2>&1 &
    started=$!
    candidates="$candidates $started"
}
working() { sed -n 's/^working, token //p' "$t_dir/$1" | tail -n 1; }
works() { until_line "$t_dir/$1" '^working, token ' 90; }
works_later() { [ "$(working "$1")" -gt "$2" ]; }
steps() { grep -c '^working' "$t_dir/$1"; }
writes() { until_line "$t_dir/$1" " $2\$" 90; } # JOURNAL PID
holder() {
    "$tenure" status --json --store "$store" "$1" | sed -n 's/.*"holder":"\([^"]*\)".*/\1/p'
}
holder_is() { [ "$(holder "$1")" = "$2" ]; }
ends_with() { # STATUS PID
    wait "$2"
    ew_status=$?
    t_check "exit status is $1, not $ew_status" [ $ew_status -eq "$1" ]
}

# A write that has begun, and cannot end until unlock: the program has asked for its token, and now
# waits for the journal. JOURNAL PID
waits_for_lock() { grep -q -- "-> FLOCK.* $1 " /proc/locks; }
is_stopped() { grep -q ') T ' "/proc/$1/stat"; }
lock() {
    exec 7<>"$t_dir/$1"
    flock 7
    t_check "a write is under way" until_true 90 waits_for_lock "$2"
}
unlock() { flock -u 7; } # Also for those that were started meanwhile.
# Nobody wrote behind one with a higher token.
tokens_rise() { awk 'NR > 1 && $1 < last { exit 1 } NR > 1 { last = $1 }' "$t_dir/$1"; }

win() {
    lead 2 "$1-win.1" "$1-win"
    first=$started
    t_check "the first works: $(cat "$t_dir/$1-win.1")" works "$1-win.1"
    lead 2 "$1-win.2" "$1-win"
    second=$started
    until_ms $(($(now_ms) + 2400))
    t_promise "the second waits" [ ! -s "$t_dir/$1-win.2" ]
    kill -KILL $first
    t_check "it follows" works "$1-win.2"
    t_promise "with a higher token" \
        [ "$(working "$1-win.2")" -gt "$(working "$1-win.1")" ]
    end $second
}

# Three TTLs between the look at the token and the write.
lose_by_pause() {
    fenced 2 "$1-pause" "$1-pause"
    first=$started
    t_check "the first writes: $(cat "$t_dir/$1-pause.said")" writes "$1-pause" $first
    lock "$1-pause" $first
    kill -STOP $first
    # Until then the unlock would give it the lock, for as long as it is stopped.
    t_check "it is stopped" until_true 90 is_stopped $first
    unlock
    stopped=$(now_ms)
    fenced 2 "$1-pause" "$1-pause"
    second=$started
    t_check "the second writes" writes "$1-pause" $second
    lead 2 "$1-pause.out" "$1-pause.steps"
    leader=$started
    t_check "the leader works" works "$1-pause.out"
    kill -STOP $leader
    until_ms $((stopped + 6000))
    kill -CONT $first
    ends_with 80 $first
    t_promise "the late write is refused" tokens_rise "$1-pause"
    t_check "it says so: $(cat "$t_dir/$1-pause.said")" \
        grep -q 'token' "$t_dir/$1-pause.said"
    end $second
    # The token is 0 before the first step after the pause.
    lead 2 "$1-pause.next" "$1-pause.steps"
    next=$started
    t_check "the next one works" works "$1-pause.next"
    until_ms $((stopped + 12000))
    before=$(steps "$1-pause.out")
    kill -CONT $leader
    until_ms $(($(now_ms) + 1000))
    t_promise "no step after the pause" [ "$(steps "$1-pause.out")" -eq "$before" ]
    end $next
    t_check "it leads again later" until_true 90 works_later "$1-pause.out" \
        "$(working "$1-pause.next")"
    end $leader
}

# The TTL is longer than anybody waits here: the lease was given back.
resign() {
    lead 60 "$1-resign.1" "$1-resign"
    first=$started
    t_check "the first works" works "$1-resign.1"
    lead 60 "$1-resign.2" "$1-resign"
    second=$started
    kill -TERM $first
    ends_with 0 $first
    t_check "the second follows" works "$1-resign.2"
    t_promise "with a higher token" \
        [ "$(working "$1-resign.2")" -gt "$(working "$1-resign.1")" ]
    end $second
}

# An operator asks in the middle of a write: the lease passes on behind it, and not before. The TTL
# is longer than anybody waits here.
drain() {
    fenced 120 "$1-drain" "$1-drain"
    first=$started
    t_check "the first writes" writes "$1-drain" $first
    leader=$(holder "$1-drain")
    "$tenure" run --store "$store" --ttl 120s --id next "$1-drain" -- sleep 600 2>/dev/null &
    next=$!
    candidates="$candidates $next"
    lock "$1-drain" $first
    lines=$(wc -l <"$t_dir/$1-drain")
    # More than once, if the next one did not wait yet.
    timeout 60 sh -c 'until "$@" 2>/dev/null; do :; done' - \
        "$tenure" handover --store "$store" --wait 20s "$1-drain" >/dev/null &
    handover=$!
    until_ms $(($(now_ms) + 1500))
    t_promise "the write is not over" holder_is "$1-drain" "$leader"
    unlock
    wait $handover
    t_check "handed over" [ $? -eq 0 ]
    t_check "the next one leads" until_true 10 holder_is "$1-drain" next
    t_check "the write was done" [ "$(wc -l <"$t_dir/$1-drain")" -gt "$lines" ]
    end $next
    end $first
    t_check "ends well" [ "$status" -eq 0 ]
}

# The journal has seen a later leader.
fence_refused() {
    fenced 2 "$1-fence" "$1-fence"
    first=$started
    t_check "it writes" writes "$1-fence" $first
    lock "$1-fence" $first
    printf '%020d' 99999999 1<>"$t_dir/$1-fence"
    lines=$(wc -l <"$t_dir/$1-fence")
    unlock
    ends_with 80 $first
    t_promise "nothing was written" [ "$(wc -l <"$t_dir/$1-fence")" -eq "$lines" ]
}

store_gone() {
    lead 2 "$1-gone" "$1-gone"
    first=$started
    t_check "it works" works "$1-gone"
    old=$(working "$1-gone")
    hurt "$1_kill" one
    # The deadline counts from a renewal before that.
    until_ms $((hurt_at + 2000))
    before=$(steps "$1-gone")
    until_ms $((hurt_at + 3000))
    t_promise "no step behind the deadline" [ "$(steps "$1-gone")" -eq "$before" ]
    "$1_again" one
    t_check "it works again, with a higher token" until_true 90 works_later "$1-gone" "$old"
    end $first
    t_check "ends well" [ "$status" -eq 0 ]
}

# The file is gone while somebody else keeps it to himself.
mkfifo "$t_dir/keeper"
sqlite_kill() {
    sqlite3 "$t_dir/store.db" <"$t_dir/keeper" >"$t_dir/kept" 2>&1 &
    exec 8>"$t_dir/keeper"
    printf '.timeout 10000\nBEGIN EXCLUSIVE;\nSELECT 1;\n' >&8
    until_line "$t_dir/kept" 1 || t_fail "the file was not kept"
}
sqlite_again() { exec 8>&-; }
tenured_kill() { tenured_end; }
etcd_kill() { etcd_stop "$1"; } # etcd_again is etcd.lib's.

kinds="sqlite tenured"
tenured_start
if ! command -v etcd >/dev/null 2>&1; then
    t_case "etcd"
    t_skip "no etcd: tools/deps etcd"
elif etcd_start one; then
    kinds="$kinds etcd"
fi
for kind in $kinds; do
    case $kind in
    sqlite) store=sqlite:$t_dir/store.db ;;
    tenured) store=unix:$socket ;;
    # shellcheck disable=SC2154 # By etcd_start.
    etcd) store=etcd://127.0.0.1:$port_one/t ;;
    esac
    for item in win lose_by_pause resign drain fence_refused store_gone; do
        t_case "$kind: $(echo $item | tr _ ' ')"
        $item $kind
    done
done
t_done
