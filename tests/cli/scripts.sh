#!/bin/bash
# scripts.sh - every way that the documents show to take a lease in a script, in every shell there
# is: with the lease, without it, without a store, and without the program.
#
# Where a script must not go on, its work leaves no trace.
# shellcheck source=tests/harness/lib.sh
. "${TENURE_ROOT:-$(dirname "$0")/../..}/tests/harness/lib.sh"

export TENURE_STORE=sqlite:$t_dir/tenure.db
mkdir "$t_dir/bin" "$t_dir/empty"
ln -s "$TENURE_BUILD/tenure" "$t_dir/bin/tenure"
cat >"$t_dir/bin/work" <<'END'
#!/bin/sh
echo "$TENURE_TOKEN" >>"$WORK"
END
chmod +x "$t_dir/bin/work"
export WORK=$t_dir/work.log

shells=
for shell in bash dash zsh ksh mksh yash; do
    command -v $shell >/dev/null && shells="$shells $shell"
done
! command -v busybox >/dev/null || shells="$shells busybox-sh"

# script NAME: the text on stdin is a script of that name.
script() { cat >"$t_dir/$1" && chmod +x "$t_dir/$1"; }

script run <<'END'
tenure run --wait 0s job -- work
END
script exec <<'END'
[ "${TENURE_NAME-}" = job ] || exec tenure run --wait 0s job -- "$SHELL_USED" "$0" "$@"
work
END
script command <<'END'
tenure acquire job --ttl 10m -- sh -c 'work; tenure release job --token "$TENURE_TOKEN"'
END
script assigned <<'END'
lease=$(tenure acquire job --ttl 10m) || exit
eval "$lease" || exit; export TENURE_TOKEN TENURE_SECRET
work
tenure release job --token "$TENURE_TOKEN"
END
script errexit <<'END'
set -eu
lease=$(tenure acquire job --ttl 10m)
eval "$lease" || exit; export TENURE_TOKEN TENURE_SECRET
work
tenure release job --token "$TENURE_TOKEN"
END
# As documents before 0.2 had it: it is in scripts that run.
script evaluated <<'END'
eval "$(tenure acquire job --ttl 10m)" && export TENURE_TOKEN TENURE_SECRET || exit
work
tenure release job --token "$TENURE_TOKEN"
END
script unquoted <<'END'
eval $(tenure acquire job --ttl 10m) && export TENURE_TOKEN TENURE_SECRET || exit
work
tenure release job --token "$TENURE_TOKEN"
END
script eval_errexit <<'END'
set -eu
eval "$(tenure acquire job --ttl 10m)"
export TENURE_TOKEN TENURE_SECRET
work
tenure release job --token "$TENURE_TOKEN"
END
script nameless <<'END'
eval "$(tenure acquire $NO_SUCH_NAME)" && work || exit
END
idioms="run exec command assigned errexit"
evals="evaluated unquoted eval_errexit"

# go SHELL SCRIPT: with a lease of the past in its environment.
go() {
    local words=$1
    [ "$1" != busybox-sh ] || words="busybox sh"
    : >"$WORK"
    # shellcheck disable=SC2086 # Words.
    SHELL_USED=$(command -v ${words%% *}) TENURE_TOKEN=999 TENURE_SECRET=old \
        t_run env PATH="$path" "$(command -v ${words%% *})" ${words#"${words%% *}"} "$t_dir/$2"
    t_worked=$(cat "$WORK")
}
is_free() { "$t_dir/bin/tenure" status --json job | grep -q '"state":"free"'; }

path=$t_dir/bin:$PATH
t_case "granted: the work is done with its token, and the lease is free again"
token=0
for shell in $shells; do
    for idiom in $idioms $evals; do
        go $shell $idiom
        token=$((token + 1))
        t_check "$shell, $idiom: status $t_status: $(cat "$t_err")" [ "$t_status" -eq 0 ]
        t_check "$shell, $idiom: worked with $token, not '$t_worked'" [ "$t_worked" = $token ]
        t_check "$shell, $idiom: free" is_free
    done
done

t_case "held by another: nothing is done, 75"
"$t_dir/bin/tenure" acquire job --ttl 1h >"$t_dir/held"
for shell in $shells; do
    for idiom in $idioms $evals; do
        go $shell $idiom
        t_check "$shell, $idiom: 75, not $t_status" [ "$t_status" -eq 75 ]
        t_check "$shell, $idiom: did nothing, not '$t_worked'" [ -z "$t_worked" ]
    done
done

t_case "what eval leaves behind without a lease: no token and no secret"
for shell in $shells; do
    script remains <<'END'
TENURE_TOKEN=7 TENURE_SECRET=old
eval "$(tenure acquire job)"
echo "$? ${TENURE_TOKEN-none} ${TENURE_SECRET-none}"
END
    go $shell remains
    t_check "$shell: $(cat "$t_out")" [ "$(cat "$t_out")" = "75 none none" ]
done

t_case "a mistake in the words: nothing is done, 64"
for shell in $shells; do
    go $shell nameless
    t_check "$shell: 64, not $t_status" [ "$t_status" -eq 64 ]
    t_check "$shell: did nothing" [ -z "$t_worked" ]
done

t_case "no store: nothing is done, 69"
for shell in $shells; do
    for idiom in $idioms $evals; do
        TENURE_STORE=sqlite:$t_dir/no/such/folder/x.db go $shell $idiom
        t_check "$shell, $idiom: 69, not $t_status" [ "$t_status" -eq 69 ]
        t_check "$shell, $idiom: did nothing" [ -z "$t_worked" ]
    done
done

t_case "no program: nothing is done, 127"
rm "$t_dir/bin/tenure"
for shell in $shells; do
    for idiom in $idioms; do
        go $shell $idiom
        t_check "$shell, $idiom: 127, not $t_status" [ "$t_status" -eq 127 ]
        t_check "$shell, $idiom: did nothing" [ -z "$t_worked" ]
    done
done
ln -s "$TENURE_BUILD/tenure" "$t_dir/bin/tenure"

t_case "--json prints no words for a shell"
t_run "$t_dir/bin/tenure" acquire job --json
t_check "75, not $t_status" [ "$t_status" -eq 75 ]
t_prints '{"granted":false,'
t_check "one line" [ "$(wc -l <"$t_out")" -eq 1 ]

t_case "a command that cannot be run gives the lease back: 127 or 126"
t_run "$t_dir/bin/tenure" acquire other --ttl 1h -- "$t_dir/no-such-command"
t_check "127, not $t_status" [ "$t_status" -eq 127 ]
t_check "one line" [ "$(wc -l <"$t_err")" -eq 1 ]
t_run "$t_dir/bin/tenure" acquire other --ttl 1h -- "$t_dir"
t_check "126, not $t_status" [ "$t_status" -eq 126 ]
t_run "$t_dir/bin/tenure" status --json other
t_prints '"state":"free"'

t_case "bad input: 64 and one line"
t_bad "one name at a time" "$t_dir/bin/tenure" acquire --json a b
t_bad "leave one of them out" "$t_dir/bin/tenure" acquire --json a -- true
t_bad "there is no command" "$t_dir/bin/tenure" acquire --json a --

t_case "the documents show these forms and no other"
for file in README.md man/tenure.1 docs/stores/sqlite.md src/cli/acquire.c src/cli/renew.c \
    src/cli/release.c; do
    t_refute "$file: no eval of a command that may be missing" \
        grep -n 'eval.*\$(.*tenure acquire' "$TENURE_ROOT/$file"
done
t_done
