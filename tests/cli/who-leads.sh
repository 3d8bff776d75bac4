#!/bin/sh
# who-leads.sh - the commands of docs/who-leads.md print what the page shows, but for the times.
# shellcheck source=tests/harness/lib.sh
. "${TENURE_ROOT:-$(dirname "$0")/../..}/tests/harness/lib.sh"

tenure=$TENURE_BUILD/tenure
page=$TENURE_ROOT/docs/who-leads.md
TENURE_STORE=sqlite:$t_dir/leases.db
TENURE_FENCE=none
export TENURE_STORE TENURE_FENCE

# shape: the text with every time and duration as a word, and blanks as one.
shape() {
    sed -E 's/20[0-9]{2}-[0-9]{2}-[0-9]{2} [0-9:.]+/TIME/g; s/[0-9]+(\.[0-9]+)?m?s\b/SPAN/g
        s/("(remaining|renewed_ago|since)_ms":)[0-9]+/\1SPAN/g; s/ +/ /g; s/ $//'
}

# shown COMMAND: what the page shows behind it.
shown() {
    awk -v command="\$ $1" '
        on && (/^\$ / || /^```/) { exit } on { print } $0 == command { on = 1 }' "$page" | shape
}

# until_so COMMAND...: wait until it succeeds, for half a minute at most.
until_so() {
    un_left=300
    until "$@" >/dev/null 2>&1; do
        un_left=$((un_left - 1))
        [ $un_left -gt 0 ] || return 1
        sleep 0.1
    done
}

# is_held: somebody leads.
is_held() { "$tenure" status nightly-report | grep -q held; }

# prints_as_shown COMMAND: it prints so.
prints_as_shown() {
    # shellcheck disable=SC2086 # Words.
    t_run "$tenure" ${1#tenure }
    t_ends 0
    t_check "the page shows $1" [ -n "$(shown "$1")" ]
    t_check "it is $(shape <"$t_out")" [ "$(shape <"$t_out")" = "$(shown "$1")" ]
}

t_case "who leads"
"$tenure" watch nightly-report >"$t_dir/watched" 2>&1 &
watcher=$!
t_check "nobody leads" until_so grep -q "nobody leads" "$t_dir/watched"
mkfifo "$t_dir/end"
"$tenure" run --id web1-4711 --once nightly-report -- cat "$t_dir/end" &
holder=$!
t_check "it leads" until_so is_held
for command in "tenure status nightly-report" "tenure list" \
    "tenure status --json nightly-report"; do
    prints_as_shown "$command"
done

t_case "every change"
t_check "led by" until_so grep -q "led by" "$t_dir/watched"
: >"$t_dir/end"
wait $holder
t_check "last token" until_so grep -q "last token" "$t_dir/watched"
kill $watcher
wait $watcher
t_check "it is $(shape <"$t_dir/watched")" \
    [ "$(sed 1d "$t_dir/watched" | shape)" = "$(shown "tenure watch nightly-report")" ]

t_case "who led before"
prints_as_shown "tenure history nightly-report"
t_run "$tenure" status nightly-report
t_check "the page shows a free name" grep -qF "\`$(cat "$t_out")\`" "$page"

t_case "what the page does not show is noticed"
t_check "another state" [ "$("$tenure" status nightly-report | shape)" != \
    "$(shown "tenure status nightly-report")" ]
t_done
