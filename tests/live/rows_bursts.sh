#!/bin/sh
# rows_bursts.sh - a server that answers nonsense for a few seconds: on each engine on rows the
# holder tries again and keeps its term, and what was written without an answer counts once. How
# real servers are killed, stopped and cut off is in tests/engines/*_faults.sh.
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

# What a renewal looks like in the log.
renewal_consul=' PUT /v1/session/renew/'
renewal_kubernetes=' PUT .*/leases/job?'
renewal_dynamodb=' UpdateItem job$'
renewal_s3=' PUT /leases/t/job/'
renewals() { eval "rows_asked \$1 \"\$renewal_$1\""; }
events() { grep -c "\"$2\"" "$t_dir/$1.events"; }
# mark: all_renewed then asks whether each engine has renewed since.
mark() { for engine in $engines; do eval "seen_$engine=$(renewals "$engine")"; done; }
all_renewed() {
    for engine in $engines; do
        eval "[ $(renewals "$engine") -gt \$seen_$engine ]" || return 1
    done
}
lost() { cat "$t_dir"/*.events | grep -c '"lost"'; }
nothing_lost() {
    t_check "nothing is lost: $(grep '"lost"' "$t_dir"/*.events | tail -n 2)" [ "$(lost)" -eq 0 ]
}

t_case "they lead"
for engine in $engines; do
    setsid "$tenure" elect --store "$(rows_url "$engine")" --id ada --ttl 12s job \
        >"$t_dir/$engine.events" 2>"$t_dir/$engine.err" &
    candidates="$candidates $!"
done
for engine in $engines; do
    t_check "$engine: $(cat "$t_dir/$engine.err" 2>&1)" \
        until_line "$t_dir/$engine.events" '"won"'
    eval "token_$engine=$(sed -n 's/.*"won".*"token":\([0-9]*\).*/\1/p' "$t_dir/$engine.events")"
done

# burst ENGINE WORD...: from now until a renewal has failed, and for a second after that.
burst() {
    bu_engine=$1 bu_bad=$(events "$1" jeopardy) bu_good=$(events "$1" safe)
    shift
    rows_say "$bu_engine" "$@"
    t_check "$bu_engine: cannot renew" until_true 20 more_events jeopardy "$bu_bad"
    from=$(now_ms)
    until_ms $((from + 1000))
    rows_say "$bu_engine" well
    t_check "$bu_engine: renews again" until_true 20 more_events safe "$bu_good"
}
more_events() { [ "$(events "$bu_engine" "$1")" -gt "$2" ]; }

for words in throttle "throttle 1" "status 500" "status 503" "status 404" "status 409" denied \
    expired garbage cat huge drop; do
    [ "$(lost)" -eq 0 ] || t_done # The next ones would only say so again.
    t_case "a burst of: $words"
    bursts=
    for engine in $engines; do
        # shellcheck disable=SC2086 # Words.
        burst "$engine" $words &
        bursts="$bursts $!"
    done
    # shellcheck disable=SC2086 # A list of numbers.
    wait $bursts
    nothing_lost
done

t_case "a reply to a renewal that is lost costs nothing"
for engine in $engines; do
    rows_say "$engine" lose 2
done
for time in 1 2 3; do
    mark
    t_check "all renew" until_true 20 all_renewed
done
nothing_lost

t_case "the token is that of the beginning"
for engine in $engines; do
    eval "token=\$token_$engine"
    t_run "$tenure" status --store "$(rows_url "$engine")" --json job
    t_check "$engine: $(cat "$t_out" "$t_err")" \
        grep -q "\"holder\":\"ada\",\"token\":$token[,}]" "$t_out"
    t_check "$engine: its process lives" [ "$(grep -c '"won"' "$t_dir/$engine.events")" -eq 1 ]
done
end_all

t_case "a reply to a grant that is lost: one term, and the next token is the next one"
for engine in $engines; do
    url=$(rows_url "$engine")
    t_run timeout 60 "$tenure" run --store "$url" --ttl 12s --wait 20s twice -- true
    t_check "$engine leads before: $(cat "$t_err")" [ "$t_status" -eq 0 ]
    before=$("$tenure" status --store "$url" --json twice | sed 's/.*"token":\([0-9]*\).*/\1/')
    rows_say "$engine" lose 1
    t_run timeout 60 "$tenure" run --store "$url" --ttl 12s --wait 20s twice -- \
        sh -c 'echo "$TENURE_TOKEN"'
    t_check "$engine leads: $t_status $(cat "$t_err")" [ "$t_status" -eq 0 ]
    t_check "$engine: once: $(cat "$t_out")" [ "$(wc -l <"$t_out")" -eq 1 ]
    t_check "$engine: a higher token than $before: $(cat "$t_out")" \
        [ "$(cat "$t_out")" -gt "$before" ]
    case $engine in
    dynamodb | s3) # They count by one.
        t_check "$engine: the next one: $(cat "$t_out")" [ "$(cat "$t_out")" -eq $((before + 1)) ]
        ;;
    esac
done
# A transaction that was carried out is repeated under its own number, and DynamoDB knows it.
sed -n 's/.* TransactWriteItems \([0-9a-f-]\{36\}\).*/\1/p' "$t_dir/dynamodb.log" | tail -n 2 \
    >"$t_dir/numbers"
t_check "under the same number: $(cat "$t_dir/numbers")" \
    [ "$(sort -u "$t_dir/numbers" | wc -l)" -eq 1 ]
rows_item dynamodb '#tenure/twice' >"$t_dir/counter"
t_check "the counter was raised once: $(cat "$t_dir/counter")" \
    grep -q "\"tenureToken\": {\"N\": \"2\"}" "$t_dir/counter"
t_done
