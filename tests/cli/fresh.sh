#!/bin/sh
# fresh.sh - the first commands of a new user: the default store is not there yet, nor its folder.
# shellcheck source=tests/harness/lib.sh
. "${TENURE_ROOT:-$(dirname "$0")/../..}/tests/harness/lib.sh"
tenure=$TENURE_BUILD/tenure
unset TENURE_STORE TENURE_SECRET
export XDG_STATE_HOME="$t_dir/state"

t_case "nobody leads there, and to ask makes nothing"
t_run "$tenure" status job
t_ends 0
t_prints "job: free, never held"
t_run "$tenure" status --json job
t_ends 0
t_prints '"state":"free"'
t_run "$tenure" list
t_ends 0
t_run "$tenure" history job
t_ends 0
t_run "$tenure" resume job
t_ends 0
t_run "$tenure" undrain --host web1
t_ends 0
t_run "$tenure" handover job
t_check "nobody holds it: 80, not $t_status: $(cat "$t_err")" [ "$t_status" -eq 80 ]
t_refute "nothing was made" [ -e "$t_dir/state" ]

t_case "a folder that was mistyped is an error all the same"
t_run "$tenure" status -s "sqlite:$t_dir/nowhere/one.db" job
t_check "69, not $t_status" [ "$t_status" -eq 69 ]
t_check "one line" [ "$(wc -l <"$t_err")" -eq 1 ]

t_case "the first run makes it"
t_run "$tenure" run job -- true
t_ends 0
t_run "$tenure" status job
t_prints "job: free, last token 1"
t_done
