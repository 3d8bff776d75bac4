#!/bin/sh
# conformance.sh - a store with a fault does not pass the conformance suite.
. "$(dirname "$0")/../harness/lib.sh"

suite=$TENURE_BUILD/tests/conformance
TENURE_CONFORMANCE_URL=memory:
export TENURE_CONFORMANCE_URL

# planted NAME SCENARIO: the scenario passes without the fault and fails with it.
planted() {
    t_case "$1 is found"
    unset TENURE_CONFORMANCE_PLANT
    t_run "$suite" "$2"
    t_check "passes without it" [ "$t_status" -eq 0 ]
    export TENURE_CONFORMANCE_PLANT="$1"
    t_run "$suite" "$2"
    t_check "fails with it" [ "$t_status" -eq 1 ]
    t_check "says what failed" grep -q "^FAIL .*/[a-z]*_$2: .*tests/conformance/" "$t_out"
}

planted repeats-token tokens_rise_over_terms_names_and_stores
planted grants-twice one_holder_at_a_time
planted forgets-done the_same_term_gets_the_same_answer
planted done-twice one_holder_at_a_time
planted done-inside one_holder_at_a_time
planted silent waiters_are_served_in_their_order
planted deaf who_watches_hears_of_changes
planted unrevoked a_revoked_lease_passes_on_when_it_was_given_back
planted unrevoked a_revoked_lease_is_held_off_for_a_ttl
planted miscounts a_session_knows_how_many_leases_it_has
planted never-releases a_release_is_exact
planted keeps-place a_withdrawn_acquire_is_never_granted
planted renews-nothing one_renewal_keeps_all_leases
planted forgets-open an_open_said_again_is_the_same_session
planted cuts-labels names_and_labels_go_to_their_limits
planted no-limits ttls_go_to_their_limits
planted raises-nothing a_raised_counter_grants_above_it
planted lost-at-close closing_answers_what_is_pending
# In a store that other processes see.
TENURE_CONFORMANCE_URL=sqlite:
planted denies-scripts who_knows_the_secret_is_the_session
planted miscounts a_session_that_is_taken_up_has_what_it_had
planted keeps-refused who_was_refused_leaves_nothing_behind
TENURE_CONFORMANCE_URL=memory:

t_case "a store of one's own passes, and with a fault does not"
unset TENURE_CONFORMANCE_PLANT
plugin=$TENURE_BUILD/tests/fixtures/dir-store.so
t_run "$TENURE_BUILD/tenure" doctor --conformance "dir:$t_dir/leases" --plugin "$plugin"
t_check "passes: $(grep FAIL "$t_out" | head -n 3)" \
    grep -q "^[1-9][0-9]* passed, 0 failed, 0 skipped" "$t_out"
t_check "in that folder" [ -s "$t_dir/leases/state" ]
TENURE_CONFORMANCE_PLUGIN=$plugin TENURE_CONFORMANCE_PLANT=repeats-token \
    TENURE_CONFORMANCE_URL=dir:$t_dir/planted t_run "$suite" tokens_rise
t_check "a fault is found" grep -q "^FAIL lease_test/dir_tokens_rise" "$t_out"
t_run "$TENURE_BUILD/tenure" doctor --conformance "dir:$t_dir/leases"
t_check "without it: 64" [ "$t_status" -eq 64 ]
t_run "$TENURE_BUILD/tenure" doctor --conformance "dir:$t_dir/leases" --plugin "$t_dir/none.so"
t_check "a file that is not there: 1" [ "$t_status" -eq 1 ]
t_check "is named" grep -q "none.so" "$t_out"
t_run "$TENURE_BUILD/tenure" doctor sqlite:x --plugin "$plugin"
t_check "only for the suite: 64" [ "$t_status" -eq 64 ]

t_case "the suite can be pointed at one store"
unset TENURE_CONFORMANCE_PLANT
t_run "$suite" --list
t_check "only that one" [ "$(grep -c /memory_ "$t_out")" -eq "$(wc -l <"$t_out")" ]

t_done
