#!/bin/sh
# history.sh - `tenure history` on the stores that keep one: who led, why it ended, how long nobody
# did; over restarts; who may see it; and what is said where there is none.
# shellcheck source=tests/harness/lib.sh
. "${TENURE_ROOT:-$(dirname "$0")/../..}/tests/harness/lib.sh"
# shellcheck source=tests/live/tenured.lib
. "$TENURE_ROOT/tests/live/tenured.lib"
tenure=$TENURE_BUILD/tenure
unset TENURE_STORE TENURE_SECRET
export XDG_STATE_HOME="$t_dir/state"

# field EXPRESSION: of the JSON in $t_out, by Python; h is the history.
field() { python3 -c "import json,sys; h = json.load(open(sys.argv[1])); print($1)" "$t_out"; }
is() { [ "$(field "$2")" = "$1" ] || { echo "$2 is $(field "$2"), not $1"; false; }; }
history() { t_run "$tenure" history --json -s "$store" "$1"; }
is_free() { "$tenure" status -s "$store" --json "$1" | grep -q '"free"'; }
lead() { "$tenure" run -s "$store" --fence none --id "$2" "$1" -- true 2>/dev/null; }

stories() {
    store=$1
    t_case "$2: a term that was given back, and one that fell silent"
    lead job first
    "$tenure" acquire -s "$store" --ttl 1s --id second job >"$t_dir/secret"
    until_true 20 is_free job
    lead job third
    history job
    t_ends 0
    t_check "three terms" is 3 'len(h["terms"])'
    t_check "in order" is 'first second third' '" ".join(t["holder"] for t in h["terms"])'
    t_check "why" is 'released expired released' '" ".join(t["ended"] for t in h["terms"])'
    t_check "causes" is 'hand-over crash' '" ".join(g["cause"] for g in h["gaps"][:2])'
    t_check "from the last renewal: a TTL and more" is True 'h["gaps"][1]["ms"] >= 1000'
    t_check "no longer than it took" is True 'h["gaps"][1]["ms"] < 60000'
    t_check "the longest of them" is True \
        'h["longest_gap"]["ms"] == max(g["ms"] for g in h["gaps"])'
    t_check "after a release nobody was ready" is 'nobody ready None' \
        'h["gaps"][-1]["cause"] + " " + str(h["gaps"][-1]["to"])'

    t_case "$2: a term that was revoked stays revoked, however its holder leaves"
    "$tenure" acquire -s "$store" --ttl 1s --id fourth taken >"$t_dir/secret"
    "$tenure" revoke -s "$store" taken >/dev/null
    until_true 20 is_free taken
    history taken
    t_check "why" is revoked 'h["terms"][0]["ended"]'
    t_check "the cause" is revoked 'h["gaps"][0]["cause"]'

    t_case "$2: the table for people"
    t_run "$tenure" history -s "$store" job
    t_ends 0
    t_prints "second"
    t_prints "expired"
    t_prints "nobody"
    t_prints "longest gap of the last 24 h"
    t_run "$tenure" history -s "$store" never
    t_ends 0
    t_prints "no gap in the last 24 h"
}

stories "sqlite:$t_dir/one.db" sqlite

t_case "sqlite: the history of a name is bounded: 100 terms that ended"
for i in $(seq 103); do
    lead often "holder-$i"
done
history often
t_check "the newest 100" is 'holder-4 holder-103 100' \
    'h["terms"][0]["holder"] + " " + h["terms"][-1]["holder"] + " " + str(len(h["terms"]))'

t_case "sqlite: the history of all names is bounded: 20,000 terms, and those that go on"
store=sqlite:$t_dir/full.db
"$tenure" acquire -s "$store" --ttl 1h --id long-ago old >"$t_dir/secret"
# sql QUERY
sql() {
    python3 - "$t_dir/full.db" "$1" <<'END'
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], timeout=20)
for row in db.execute(sys.argv[2]):
    print(*row)
db.commit()
END
}
# Terms 2 to 25,000 of names of their own. Every 64th grant cuts: the next one, with token 25,600.
sql "INSERT INTO history WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE
    i < 25000) SELECT i, 'many/' || i, 'made-up', 1000, 1, 2, 1, 1 FROM n"
sql "UPDATE counter SET token = 25599"
lead last newest
rows=$(sql "SELECT count(*) FROM history")
t_check "20,000 rows, not $rows" [ "$rows" -eq 20000 ]
# Since when there is a history, the term that goes on, the newest, and 19,997 of those made up.
oldest=$(sql "SELECT min(token) FROM history WHERE label = 'made-up'")
t_check "the oldest have gone, up to $oldest" [ "$oldest" -eq 5004 ]
history last
t_check "the newest is there" is 'newest 25600' \
    'h["terms"][0]["holder"] + " " + str(h["terms"][0]["token"])'
history old
t_check "one that goes on is never cut" is 'long-ago None' \
    'h["terms"][0]["holder"] + " " + str(h["terms"][0]["ended"])'

tenured_start
stories "unix:$socket" tenured

t_case "a process that was killed is a crash, at once"
"$tenure" elect -s "unix:$socket" --id killed gone >"$t_dir/elect" &
elect=$!
until_line "$t_dir/elect" '"won"'
kill -9 "$elect"
wait "$elect" 2>/dev/null
until_true 20 is_free gone
history gone
t_check "why" is gone 'h["terms"][0]["ended"]'
t_check "the cause" is crash 'h["gaps"][0]["cause"]'

t_case "the history is there after SIGKILL, and a holder that does not come back has lost the store"
"$tenure" acquire -s "unix:$socket" --ttl 2s --id stays silent >"$t_dir/secret"
until_line "$data/history" '"silent"'
tenured_end
tenured_again
history job
t_check "three terms" is 3 'len(h["terms"])'
until_true 20 is_free silent
history silent
t_check "why" is store 'h["terms"][0]["ended"]'
t_check "the cause" is 'store gone' 'h["gaps"][0]["cause"]'

t_case "a history that cannot be read, or written, does not keep the daemon from serving"
tenured_end
rm "$data/history"
mkdir "$data/history"
tenured_again
store=unix:$socket
lead job after
history job
t_ends 0
t_check "from here on" is after 'h["terms"][0]["holder"]'
t_check "a line says so" until_line "$t_dir/daemon.err" 'history of terms has a hole'
tenured_end
rmdir "$data/history"

t_case "a pipe or a link in the place of the history keeps nothing waiting and leads nowhere"
for make in "mkfifo" "ln -s $t_dir/elsewhere"; do
    $make "$data/history"
    tenured_again
    lead job instead
    t_check "$make: it is a file again" until_true 20 [ -f "$data/history" ]
    t_check "$make: with the term" until_line "$data/history" '"instead"'
    t_refute "$make: and no link" [ -L "$data/history" ]
    tenured_end
    rm "$data/history"
done
t_refute "nothing was written elsewhere" [ -e "$t_dir/elsewhere" ]

t_case "a term during which the clock was set back has no length"
printf '%s\n' '{"since":1790000000000}' '{"name":"back","token":1,"holder":"a","ttl_ms":1000,'\
'"from":1790000000000,"to":1780000000000,"heard":0,"ended":"released"}' >"$data/history"
tenured_again
t_run "$tenure" history -s "unix:$socket" back
t_ends 0
t_check "none: $(cat "$t_out")" grep -qE '^1 +a .* - +released$' "$t_out"
tenured_end
rm "$data/history"

t_case "a history that cannot be written is said once"
mkdir "$data/history.new"
: >"$t_dir/daemon.err"
tenured_again
t_check "a line" until_line "$t_dir/daemon.err" 'history of terms has a hole'
began=$(now_ms)
lead job holes
until_ms $((began + 12000)) # Tried again after 10 s, with a sign of life in between.
t_check "once: $(cat "$t_dir/daemon.err")" [ "$(grep -c 'has a hole' "$t_dir/daemon.err")" -eq 1 ]
rmdir "$data/history.new"
t_check "it is written again" until_line "$data/history" '"holes"' 30
tenured_end

t_case "a file of a version without a history gets one, and its schema stays"
if command -v sqlite3 >/dev/null; then
    sqlite3 "$t_dir/one.db" 'DROP TABLE history'
    store=sqlite:$t_dir/one.db
    lead job later
    history job
    t_check "from here on" is 'later' '" ".join(t["holder"] for t in h["terms"])'
    t_check "the same schema" [ "$(sqlite3 "$t_dir/one.db" 'PRAGMA user_version')" = 3 ]
else
    t_skip "no sqlite3"
fi

t_case "bad usage, and a store that is not there"
t_bad "name" "$tenure" history
t_bad "name" "$tenure" history 'a//b'
t_run "$tenure" history -s "sqlite:$t_dir/none.db" job
t_ends 0
t_prints "no gap"
t_refute "nothing was made" [ -e "$t_dir/none.db" ]
t_done
