#!/bin/sh
# rows_throttle.sh - a server that asks for fewer requests, on each engine on rows: by the times at
# which the server was asked, the next request comes no sooner than it wants.
# shellcheck source=tests/harness/lib.sh
. "${TENURE_ROOT:-$(dirname "$0")/../..}/tests/harness/lib.sh"
# shellcheck source=tests/live/live.lib
. "$TENURE_ROOT/tests/live/live.lib"
# shellcheck source=tests/live/rows.lib
. "$TENURE_ROOT/tests/live/rows.lib"
engines='consul kubernetes dynamodb s3'
for engine in $engines; do
    rows_need "$engine"
    rows_start "$engine"
done

# say WORD...: to all; what each server is asked from then on is behind the line $from_ENGINE.
say() {
    for engine in $engines; do
        eval "from_$engine=$(($(rows_asked "$engine") + 1))"
        rows_say "$engine" "$@"
    done
}
# steps ENGINE: when it was asked, in ms since the first time. What comes within 600 ms
# of it was under way already, and is one step with it.
steps() {
    eval "tail -n +\$from_$1 '$t_dir/$1.log'" |
        awk '!n++ { first = last = $1; print 0 } $1 > last + 600 { last = $1; print last - first }'
}
# are_apart MS...: the steps in a file have these distances at least, the last one for all others.
are_apart() {
    awk -v least="$*" 'BEGIN { n = split(least, all, " ") }
        NR > 1 { want = all[NR - 1 < n ? NR - 1 : n]; bad = bad || $1 - last < want }
        { last = $1 } END { exit bad || NR < 3 }' "$t_dir/steps"
}
check_steps() { # ENGINE MS...
    cs_engine=$1
    shift
    steps "$cs_engine" >"$t_dir/steps"
    t_check "$cs_engine: at least $* ms apart, not: $(tr '\n' ' ' <"$t_dir/steps")" are_apart "$@"
}

t_case "the check can fail"
printf '0\n1000\n3100\n' >"$t_dir/steps"
t_check "apart" are_apart 1000 2000
t_refute "the first is too soon" are_apart 1001 2000
t_refute "the second is" are_apart 1000 2101
printf '0\n9000\n' >"$t_dir/steps"
t_refute "who is not asked again" are_apart 1000

t_case "candidates wait for a name that is held"
for engine in $engines; do
    t_run "$tenure" acquire --store "$(rows_url "$engine")" --ttl 60s job
    t_check "$engine: held: $(cat "$t_err")" [ "$t_status" -eq 0 ]
    setsid "$tenure" elect --store "$(rows_url "$engine")" --id bob --ttl 12s job \
        >"$t_dir/$engine.events" 2>"$t_dir/$engine.err" &
    candidates="$candidates $!"
done
for engine in $engines; do
    t_check "$engine: waits: $(cat "$t_dir/$engine.err" 2>&1)" \
        until_line "$t_dir/$engine.events" '"leader"'
done

t_case "Retry-After: nobody who waits asks before that"
say throttle 3
began=$(now_ms)
until_ms $((began + 10500))
for engine in $engines; do
    check_steps "$engine" 3000
done

t_case "without it, the distance grows"
say well
began=$(now_ms)
until_ms $((began + 3000))
say throttle
began=$(now_ms)
until_ms $((began + 9500))
for engine in consul dynamodb s3; do
    check_steps "$engine" 1000 2000 4000
done
check_steps kubernetes 1000 # It has priorities of its own, and always says how long.
end_all

t_case "a holder obeys for a second, and keeps its term"
say well
for engine in $engines; do
    setsid "$tenure" elect --store "$(rows_url "$engine")" --id ada --ttl 12s mine \
        >"$t_dir/$engine.events" 2>"$t_dir/$engine.err" &
    candidates="$candidates $!"
done
for engine in $engines; do
    t_check "$engine: leads: $(cat "$t_dir/$engine.err" 2>&1)" \
        until_line "$t_dir/$engine.events" '"won"'
done
say throttle 2
for engine in $engines; do
    t_check "$engine: cannot renew" until_line "$t_dir/$engine.events" '"jeopardy"'
done
began=$(now_ms)
until_ms $((began + 2500))
for engine in $engines; do
    check_steps "$engine" 1000
    rows_say "$engine" well
done
for engine in $engines; do
    t_check "$engine: is safe again: $(cat "$t_dir/$engine.events")" \
        until_line "$t_dir/$engine.events" '"safe"'
    t_refute "$engine: has lost nothing" has "$t_dir/$engine.events" '"lost"'
done
end_all
t_done
