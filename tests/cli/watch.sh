#!/bin/sh
# watch.sh - `tenure watch` for people: times, patterns, colours on a terminal, the live table.
# shellcheck source=tests/harness/lib.sh
. "${TENURE_ROOT:-$(dirname "$0")/../..}/tests/harness/lib.sh"
# shellcheck source=tests/live/live.lib
. "$TENURE_ROOT/tests/live/live.lib"

export TENURE_STORE="sqlite:$t_dir/store.db" TERM=xterm
unset NO_COLOR
screen=$TENURE_ROOT/tests/cli/screen.py
take() { "$tenure" acquire "$1" --id "$2" --ttl 10m >"$t_dir/$2.lease"; }
give_back() {
    (
        eval "$(cat "$t_dir/$2.lease")"
        export TENURE_SECRET
        "$tenure" release "$1" --token "$TENURE_TOKEN"
    )
}

t_case "each line begins with the time; the objects do not change"
take jobs/a ada
began=$(date '+%Y-%m-%d %H:%M')
"$tenure" watch jobs/a >"$t_dir/text" &
text=$!
"$tenure" watch --json jobs/a >"$t_dir/json" &
json=$!
candidates="$text $json"
t_check "text" until_line "$t_dir/text" 'jobs/a: led by ada, token 1'
t_check "the time: $(cat "$t_dir/text")" grep -qE \
    '^20[0-9-]{8} [0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3} jobs/a: led by ada, token 1$' "$t_dir/text"
stamp=$(cut -c 1-16 "$t_dir/text")
t_check "it is now: $stamp, since $began" [ "$stamp" = "$began" -o \
    "$stamp" = "$(date '+%Y-%m-%d %H:%M')" ]
t_check "json" until_line "$t_dir/json" \
    '^{"event":"leader","name":"jobs/a","holder":"ada","token":1,"reason":null}$'
end "$text"
end "$json"

t_case "a pattern: those below it, also new ones, and no others"
"$tenure" watch 'jobs/*' >"$t_dir/text" &
text=$!
candidates="$candidates $text"
t_check "old" until_line "$t_dir/text" 'jobs/a: led by ada'
take jobsaway bob
take other cyd
take jobs/b/c dan
t_check "new" until_line "$t_dir/text" 'jobs/b/c: led by dan'
t_refute "no other: $(cat "$t_dir/text")" grep -qe jobsaway -e other "$t_dir/text"
end "$text"
t_check "status $status" [ "$status" -eq 0 ]

t_case "status and list take the same pattern"
for verb in status list; do
    t_run "$tenure" $verb --json 'jobs/*'
    t_ends 0
    t_check "$verb: two: $(cat "$t_out")" [ "$(grep -c '"name":"jobs/' "$t_out")" -eq 2 ]
    t_check "$verb: no more" [ "$(wc -l <"$t_out")" -eq 2 ]
done
t_run "$tenure" status other 'jobs/*'
t_ends 0
t_check "in the order of the words: $(cat "$t_out")" \
    [ "$(sed 's/:.*//' "$t_out" | tr '\n' ' ')" = "other jobs/a jobs/b/c " ]
for verb in status list watch; do
    t_bad "'jobs*' is not a pattern: a star stands alone or for all that is below a name" \
        "$tenure" $verb 'jobs*'
    t_bad "'a//b' is not a" "$tenure" $verb a//b
done

t_case "names that Tenure keeps for itself are shown to those who ask"
t_run "$tenure" run --every 1h nightly -- true
t_ends 0
for words in "" "*"; do
    # shellcheck disable=SC2086 # None, or one.
    t_run "$tenure" list $words
    t_refute "hidden: $(cat "$t_out")" grep -q '~tenure' "$t_out"
done
t_run "$tenure" list '~tenure/*'
t_prints '~tenure/every/nightly  held'

t_case "durations for people"
t_check "seconds to ten minutes: $("$tenure" status jobs/a)" \
    grep -qE ', 9m[0-9]{2}s left of 10m,|, 10m00s left' <<END
$("$tenure" status jobs/a)
END
"$tenure" acquire long --ttl 23h >/dev/null
t_check "hours" grep -qE ' 22h59m$' <<END
$("$tenure" list long | tail -n 1)
END

# on_terminal FILE COMMAND...: in the background; $terminal.
on_terminal() {
    file=$1
    shift
    "$screen" 8 60 "$file" "$@" &
    terminal=$!
    candidates="$candidates $terminal"
}
esc=$(printf '\033')

t_case "colours on a terminal, and not if NO_COLOR is set, or elsewhere"
on_terminal "$t_dir/tty" "$tenure" watch other
t_check "green" until_line "$t_dir/tty.raw" "$esc\\[32mled by cyd, token [0-9]*$esc\\[0m"
end "$terminal"
on_terminal "$t_dir/plain" env NO_COLOR=1 "$tenure" watch other
t_check "there" until_line "$t_dir/plain.raw" "led by cyd"
t_refute "no sequence" grep -q "$esc" "$t_dir/plain.raw"
end "$terminal"

t_case "--live: a table, updated in place, and the terminal as it was"
on_terminal "$t_dir/live" "$tenure" watch --live 'jobs/*'
t_check "the head" until_line "$t_dir/live" '^NAME  *STATE  *HOLDER  *TOKEN  *SINCE  *LEFT$'
t_check "a row" until_line "$t_dir/live" '^jobs/a  *held  *ada '
t_check "a row" until_line "$t_dir/live" '^jobs/b/c  *held  *dan '
t_check "the sum" until_line "$t_dir/live" '^2 names; ^C ends$'
give_back jobs/a ada
t_check "changed" until_line "$t_dir/live" '^jobs/a  *free  *-  *1 '
t_check "once: $(cat "$t_dir/live")" [ "$(grep -c '^jobs/a' "$t_dir/live")" -eq 1 ]
take jobs/long-enough-to-need-more-than-the-sixty-columns-of-it eve
t_check "clipped at 60" until_line "$t_dir/live" '^jobs/long-enough.*-sixty-columns-of'
t_check "one line each: $(cat "$t_dir/live")" [ "$(grep -c . "$t_dir/live")" -eq 5 ]
for name in 1 2 3 4 5 6; do
    take jobs/many$name "m$name"
done
t_check "as many as fit" until_line "$t_dir/live" '^9 names; ^C ends$'
t_check "the head stays: $(cat "$t_dir/live")" [ "$(head -c 4 "$t_dir/live")" = NAME ]
end "$terminal"
t_check "^C: status $status" [ "$status" -eq 0 ]
t_check "the cursor is back" grep -q "$esc\\[?25h$esc\\[?1049l" "$t_dir/live.raw"
t_bad "--live needs a terminal" "$tenure" watch --live
t_bad "--live is for people, --json for programs" "$tenure" watch --live --json
t_done
