#!/bin/sh
# fence.sh - `tenure fence`: the contract that scripts rely on, and the story of the paused leader.
# shellcheck source=tests/harness/lib.sh
. "${TENURE_ROOT:-$(dirname "$0")/../..}/tests/harness/lib.sh"

tenure=$TENURE_BUILD/tenure
TENURE_STORE=sqlite:$t_dir/store.db
export TENURE_STORE
unset TENURE_SECRET

# A program that counts its branches complains when it may not write them down.
export GCOV_ERROR_FILE=/dev/null

# shellcheck source=tests/harness/fence.sh
. "$TENURE_ROOT/tests/harness/fence.sh"

kind=sqlite at=sqlite:$t_dir/app.db resource=orders
"$tenure" fence install --at "$at"
check_contract
kind=file at=file:$t_dir/data resource=
"$tenure" fence install --at "$at"
check_contract

t_case "show lists all fences of a database"
t_run "$tenure" fence install --at "sqlite:$t_dir/two.db"
t_ends 0
t_run "$tenure" fence show --at "sqlite:$t_dir/two.db"
t_ends 0
t_refute "none" [ -s "$t_out" ]
for resource in b/two a~one; do
    "$tenure" fence raise --at "sqlite:$t_dir/two.db" $resource 7
done
t_run "$tenure" fence show --at "sqlite:$t_dir/two.db" --json
t_check "in order" [ "$(cat "$t_out")" = \
    "$(printf '{"resource":"a~one","token":7}\n{"resource":"b/two","token":7}')" ]
t_run "$tenure" fence show --at "sqlite:$t_dir/two.db"
t_prints "a~one: highest token 7"
t_run "$tenure" fence show --at "sqlite:$t_dir/two.db" none
t_prints "none: no token was seen"

t_case "bad usage makes no file"
new=sqlite:$t_dir/new.db
t_bad "an action is missing" "$tenure" fence
t_bad "did you mean 'admit'?" "$tenure" fence admitt --at "$new" a 1
t_bad "--at is missing" "$tenure" fence admit a 1
t_bad "is not a fence that this tenure knows" "$tenure" fence admit --at "x$new" a 1
t_bad "the path is missing" "$tenure" fence admit --at sqlite: a 1
t_bad "names a host" "$tenure" fence admit --at "sqlite://host/x" a 1
t_bad "empty segment" "$tenure" fence admit --at "$new" a//b 1
t_bad "a name has only" "$tenure" fence admit --at "$new" "a b" 1
t_bad "the resource and the token are missing" "$tenure" fence raise --at "$new"
t_bad "one word too many" "$tenure" fence admit --at "file:$t_dir/new.db" a 1
t_bad "--append goes with 'write' only" "$tenure" fence admit --at "$new" a 1 --append
t_bad "--table goes with" "$tenure" fence admit --at "$new" a 1 --table t
t_bad "--table and --resource go together" "$tenure" fence install --at "$new" --table t
t_bad "file: can" "$tenure" fence write --at "sqlite:$t_dir/two.db" 9
t_bad "has no resource" "$tenure" fence install --at "file:$t_dir/new.db" --table a --resource b
t_check "no file" [ -z "$(find "$t_dir" -name 'new.db*')" ]

t_case "receivers that cannot be used"
t_run "$tenure" fence admit --at "sqlite:$t_dir/nowhere/x.db" a 1
failed 69 "No such file or directory"
t_run "$tenure" fence admit --at "file:$t_dir/nowhere/x" 1
failed 69 "No such file or directory"
echo "not a database, but long enough to look like a file that somebody needs" >"$t_dir/text"
cp "$t_dir/text" "$t_dir/text.copy"
t_run "$tenure" fence admit --at "sqlite:$t_dir/text" a 1
failed 69 "not a database"
t_check "untouched" cmp -s "$t_dir/text" "$t_dir/text.copy"
ln -s two.db "$t_dir/link.db"
t_run "$tenure" fence admit --at "sqlite:$t_dir/link.db" a 1
failed 77 "symbolic link"
echo "hello" >"$t_dir/odd.fence"
t_run "$tenure" fence admit --at "file:$t_dir/odd" 1
failed 69 "something else than a token"

chmod 711 "$t_dir"
cp "$tenure" "$t_dir/tenure"
mkdir "$t_dir/theirs"
plain=
if [ "$(id -u)" -eq 0 ]; then
    plain="setpriv --reuid=65534 --regid=65534 --clear-groups"
fi
cp "$t_dir/two.db" "$t_dir/theirs/t.db"
chmod 400 "$t_dir/theirs/t.db"
: >"$t_dir/theirs/f"
chmod 555 "$t_dir/theirs"
# shellcheck disable=SC2086 # Words are meant to be split.
{
    t_run $plain "$t_dir/tenure" fence raise --at "sqlite:$t_dir/theirs/t.db" a 9
    failed 77 "Permission denied"
    t_run $plain "$t_dir/tenure" fence raise --at "file:$t_dir/theirs/f" 9
    failed 77 "Permission denied"
}
chmod 755 "$t_dir/theirs"

t_case "a database that another keeps busy"
if command -v sqlite3 >/dev/null; then
    mkfifo "$t_dir/hold"
    sqlite3 "$t_dir/two.db" <"$t_dir/hold" >"$t_dir/held" &
    holder=$!
    exec 3>"$t_dir/hold"
    echo "BEGIN IMMEDIATE; SELECT 'mine';" >&3
    t_check "held" until_true 5 grep -q mine "$t_dir/held"
    t_run "$tenure" fence raise --at "sqlite:$t_dir/two.db" a 9 --timeout 50ms
    failed 69 "database is locked"
    exec 3>&-
    wait $holder
    t_run "$tenure" fence raise --at "sqlite:$t_dir/two.db" a 9
    t_ends 0
else
    t_skip "sqlite3 is not installed"
fi

t_case "a store's own file carries fences, and goes on"
t_run "$tenure" acquire job --json
t_check "granted" [ "$t_status" -eq 0 ]
t_run "$tenure" fence raise --at "$TENURE_STORE" job 1
t_ends 0
t_run "$tenure" status job --json
t_prints '"state":"held"'
t_run "$tenure" acquire other
t_check "granted" [ "$t_status" -eq 0 ]
t_run "$tenure" fence show --at "$TENURE_STORE" job --json
t_prints '"token":1}'

t_case "write replaces and appends"
put() { printf '%s' "$1" | "$tenure" fence write --at "file:$t_dir/report" "$2" $3; }
t_run put "one " 5 ""
t_ends 0
t_run put "two" 5 --append
t_ends 0
t_check "both" [ "$(cat "$t_dir/report")" = "one two" ]
t_run put "old" 4 ""
failed 80 "token 4 is stale, the fence stands at 5"
t_run put "old" 4 --append
failed 80 "token 4 is stale"
t_check "nothing written" [ "$(cat "$t_dir/report")" = "one two" ]
head -c 3000000 /dev/urandom >"$t_dir/large"
t_run "$tenure" fence write --at "file:$t_dir/report" 6 <"$t_dir/large"
t_ends 0
t_check "large" cmp -s "$t_dir/large" "$t_dir/report"

t_case "a protected table refuses a shell without a token"
if command -v sqlite3 >/dev/null; then
    sqlite3 "$t_dir/shop.db" "CREATE TABLE orders (id); INSERT INTO orders VALUES (1)"
    t_run "$tenure" fence install --at "sqlite:$t_dir/shop.db" --table orders --resource orders
    t_ends 0
    t_run sqlite3 "$t_dir/shop.db" "DELETE FROM orders"
    t_check "refused" [ "$t_status" -ne 0 ]
    t_check "why" grep -q tenure_fence_presented "$t_err"
    t_check "unchanged" [ "$(sqlite3 "$t_dir/shop.db" "SELECT count(*) FROM orders")" = 1 ]
    t_run "$tenure" fence install --at "sqlite:$t_dir/shop.db" --table none --resource orders
    failed 64 "no such table"
    t_run "$tenure" fence remove --at "sqlite:$t_dir/shop.db" --table orders
    t_ends 0
    t_run sqlite3 "$t_dir/shop.db" "DELETE FROM orders"
    t_ends 0
    t_run "$tenure" fence install --at "sqlite:$t_dir/gone.db" --table a --resource a
    failed 69 "No such file"
    t_check "no file" [ ! -e "$t_dir/gone.db" ]
else
    t_skip "sqlite3 is not installed"
fi

# The story. A leader writes its first half, is stopped with SIGSTOP in the middle of its work, and
# loses its lease; a successor is elected and raises the fence, but has not written yet. Then the
# old one wakes up and writes its second half.
cat >"$t_dir/leader" <<'END'
#!/bin/sh
# leader HOW: HOW is how it writes: through the fence, or not.
eval "$("$TENURE" acquire report --ttl 1s --wait 10s)" || exit
write() {
    if [ "$1" = fenced ]; then
        echo "$2" | "$TENURE" fence write --append --at "file:$REPORT" "$TENURE_TOKEN"
    else
        echo "$2" >>"$REPORT"
    fi
}
write "$1" "first half by $TENURE_TOKEN" || exit
echo "$TENURE_TOKEN" >"$REPORT.token"
read -r go <"$REPORT.fifo"
write "$1" "second half by $TENURE_TOKEN"
END
chmod +x "$t_dir/leader"
TENURE=$tenure
export TENURE REPORT

# story HOW: sets $old, the exit status of the old leader.
story() {
    REPORT=$t_dir/report.$1
    mkfifo "$REPORT.fifo"
    "$t_dir/leader" "$1" 2>"$t_dir/said.$1" &
    leader=$!
    t_check "the first half" until_true 10 [ -s "$REPORT.token" ]
    kill -STOP $leader
    eval "$("$tenure" acquire report --ttl 30s --wait 20s)"
    t_check "a successor" [ "$TENURE_TOKEN" -gt "$(cat "$REPORT.token")" ]
    [ "$1" = plain ] || "$tenure" fence raise --at "file:$REPORT" "$TENURE_TOKEN"
    kill -CONT $leader
    echo go >"$REPORT.fifo"
    wait $leader
    old=$?
    export TENURE_SECRET
    "$tenure" release report --token "$TENURE_TOKEN"
}

t_case "without a fence the woken leader writes over its successor"
story plain
t_check "it noticed nothing" [ "$old" -eq 0 ]
t_check "the damage is done" grep -q "second half" "$t_dir/report.plain"

t_case "with a fence the woken leader is refused, before its successor has written"
story fenced
t_check "the documented status" [ "$old" -eq 80 ]
t_check "the documented words" grep -q "is stale, the fence stands at" "$t_dir/said.fenced"
t_check "only the first half" [ "$(cat "$t_dir/report.fenced")" = \
    "first half by $(cat "$t_dir/report.fenced.token")" ]

t_case "run without a fence warns, in one line, and can be told not to"
t_run "$tenure" run quiet -- true
t_ends 0
unset TENURE_FENCE
t_run "$tenure" run quiet --fence none -- true
t_ends 0
"$tenure" fence install --at "file:$t_dir/fenced"
t_run "$tenure" run quiet --fence "file:$t_dir/fenced" -- true
t_ends 0
t_run "$tenure" run quiet -- echo done
t_check "the command's status" [ "$t_status" -eq 0 ]
t_check "its output" [ "$(cat "$t_out")" = "done" ]
t_check "one line" [ "$(wc -l <"$t_err")" -eq 1 ]
t_check "says what to do" grep -q "warning: quiet has no fence.*--fence" "$t_err"
t_run "$tenure" run quiet -- "$t_dir/nowhere"
failed 127 "cannot be run"
TENURE_FENCE=file:$t_dir/fenced "$tenure" run quiet -- sh -c 'echo $TENURE_TOKEN' \
    >"$t_dir/token" 2>"$t_dir/said"
t_refute "TENURE_FENCE is one" [ -s "$t_dir/said" ]
t_check "raised" [ "$(highest "file:$t_dir/fenced")" = "$(cat "$t_dir/token")" ]
TENURE_FENCE=nonsense t_run "$tenure" run quiet -- true
failed 64 "TENURE_FENCE: "
TENURE_FENCE=none
export TENURE_FENCE

# block FILE HEADING: the first example below it.
block() {
    awk -v h="$2" '$0 == h { on = 1 } on && /^```/ { if (seen) exit; seen = 1; next } seen' "$1"
}

t_case "the examples of the documents"
mkdir "$t_dir/docs"
ln -s "$tenure" "$t_dir/docs/tenure"
for stub in report.sh sync leader; do
    printf '#!/bin/sh\necho "$TENURE_TOKEN"\n' >"$t_dir/docs/$stub"
    chmod +x "$t_dir/docs/$stub"
done
block "$TENURE_ROOT/docs/fencing.md" "## From a shell" >"$t_dir/docs/shell"
t_check "found" grep -q "fence write" "$t_dir/docs/shell"
t_run env TENURE_TOKEN=7 sh -c 'cd "$1" && PATH=$1:$PATH sh -e shell' sh "$t_dir/docs"
t_ends 0
t_prints "orders: highest token 7"
t_check "the report" [ "$(cat "$t_dir/docs/report.txt")" = 7 ]
rm "$t_dir/docs/shop.db"
sed -n 's/^\$ \(.*tenure .*fence.*\)/\1/p' "$TENURE_ROOT/README.md" >"$t_dir/docs/readme"
t_check "two" [ "$(wc -l <"$t_dir/docs/readme")" -eq 2 ]
t_run sh -c 'cd "$1" && PATH=$1:$PATH sh -e readme' sh "$t_dir/docs"
t_ends 0
t_check "raised" [ "$(highest "sqlite:$t_dir/docs/shop.db" orders)" = "$(cat "$t_out")" ]

t_case "help with examples"
t_run "$tenure" help fence
t_ends 0
t_prints "usage: tenure fence"
t_prints "Examples:"
t_run "$tenure" fence admit --help
t_ends 0

t_case "run: a fence that cannot be reached is tried again, and that is said once"
t_run "$tenure" run --store "sqlite:$t_dir/unreached.db" --ttl 2s --fence redis://127.0.0.1:1#r \
    --wait 6s unreached -- true
t_check "75, not $t_status" [ "$t_status" -eq 75 ]
t_check "once: $(cat "$t_err")" \
    [ "$(grep -c "connection refused; .*; trying again" "$t_err")" -eq 1 ]
t_check "more than once tried" [ "$("$tenure" status unreached --json \
    --store "sqlite:$t_dir/unreached.db" | sed 's/.*"token":\([0-9]*\).*/\1/')" -gt 1 ]
t_check "names the fence: $(cat "$t_err")" grep -q "or the fence could not be raised" "$t_err"
t_check "two lines" [ "$(wc -l <"$t_err")" -eq 2 ]

t_case "run: and a wait that is over before that tells why it did not go up"
t_run "$tenure" run --store "sqlite:$t_dir/unreached.db" --fence redis://127.0.0.1:1#r --wait 2s \
    early -- true
t_check "75, not $t_status" [ "$t_status" -eq 75 ]
t_check "one line: $(cat "$t_err")" [ "$(wc -l <"$t_err")" -eq 1 ]
t_check "why: $(cat "$t_err")" grep -q "could not be raised: .*connection refused" "$t_err"

t_case "run: a fence that will never go up ends it, whatever the wait"
t_run timeout 60 "$tenure" run --fence "sqlite:$t_dir/link.db#r" never -- true
failed 77 "--fence: $t_dir/link.db: is a symbolic link"
t_run timeout 60 "$tenure" run --fence "sqlite:$t_dir/text#r" --wait 40s never -- true
failed 69 "--fence: $t_dir/text: not a database"
t_run "$tenure" status never --json
t_prints '"state":"free"'

t_done
