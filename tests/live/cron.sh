#!/bin/bash
# cron.sh - `tenure run` for cron: the line of docs/cron.md on five hosts runs once per night, skips
# in silence, and holds on to the lease.
# shellcheck source=tests/harness/lib.sh
. "$(dirname "$0")/../harness/lib.sh"
# shellcheck source=tests/live/tenured.lib
. "$(dirname "$0")/tenured.lib"

export TENURE_STORE="sqlite:$t_dir/store.db"
page=$TENURE_ROOT/docs/cron.md
ran=$t_dir/ran
mkdir "$t_dir/bin"
ln -s "$TENURE_BUILD/tenure" "$t_dir/bin/tenure"
cat >"$t_dir/bin/report.sh" <<END
#!/bin/sh
echo "\$TENURE_NAME \$TENURE_TOKEN" >>"$ran"
END
chmod +x "$t_dir/bin/report.sh"
PATH=$t_dir/bin:$PATH

times() { grep -c "^$1 " "$ran"; }
is_free() { "$tenure" status "$1" --json | grep -q '"state":"free"'; }
is_held() { "$tenure" status "$1" --json | grep -q '"state":"held"'; }
# give_back NAME: the lease that was acquired with its words in the file $t_dir/taken.
give_back() {
    (
        eval "$(cat "$t_dir/taken")"
        export TENURE_SECRET
        "$tenure" release "$1" --token "$TENURE_TOKEN"
    )
}

# in_cron COMMAND: as cron runs it, with little in its environment.
in_cron() { env -i HOME="$t_dir" PATH="$t_dir/bin:/usr/bin:/bin" SHELL=/bin/sh /bin/sh -c "$1"; }

# --- The page ----------------------------------------------------------------------------------

line=$(sed -n 's/^0 3 \* \* \* //p' "$page" | head -n 1)

# night STORE NAME: five hosts, up to 2 s apart, run the line of the page, with a shorter hold.
night() {
    local host words
    words=${line/tenured:\/\/leases.example/$1}
    words=${words/--hold 10m/--hold 12s --ttl 8s}
    words=${words/nightly-report/$2}
    for host in 1 2 3 4 5; do
        {
            sleep "$((RANDOM % 2)).$((RANDOM % 10))" # The skew of their clocks.
            in_cron "$words" >>"$t_dir/said.$2" 2>&1
            echo "$host $?" >>"$t_dir/ended.$2"
        } &
        hosts="$hosts $!"
    done
}

t_case "five hosts with skewed clocks: one run in each of ten nights, in silence"
t_check "the page has the line: $line" \
    [ "${line#tenure run --store tenured://leases.example --skip-if-held --hold 10m }" != "$line" ]
tenured_start
: >"$ran"
for night in 1 2; do
    hosts=
    for name in n1 n2 n3; do
        night "$TENURE_STORE" $name
    done
    for name in t1 t2; do
        night "$(url "$port")" $name
    done
    # shellcheck disable=SC2086 # Words.
    wait $hosts
    for name in n1 n2 n3 t1 t2; do
        t_check "$name: runs until night $night: $(times $name)" [ "$(times $name)" -eq $night ]
    done
done
for name in n1 n2 n3 t1 t2; do
    t_check "$name: all ten ended with 0" [ "$(grep -c ' 0$' "$t_dir/ended.$name")" -eq 10 ]
    t_refute "$name: silent: $(cat "$t_dir/said.$name")" [ -s "$t_dir/said.$name" ]
done
t_check "a token for each" [ "$(sort -u "$ran" | wc -l)" -eq 10 ]

t_case "the line with --every: once, and not again"
: >"$ran"
every=$(sed -n 's/^0 3 \* \* \* //p' "$page" | grep -e --every)
every=${every/tenured:\/\/leases.example/$TENURE_STORE}
t_run sh -c "${every/--quiet/--quiet --id web3-4711}"
t_ends 0
t_check "the line with --every ran" [ "$(times nightly-report)" -eq 1 ]
t_run sh -c "$every"
t_ends 0
t_check "and not again" [ "$(times nightly-report)" -eq 1 ]

t_case "two attempts in one night: the second skips"
: >"$ran"
sed -n 's/^0 [34] \* \* \* //p' "$page" | tail -n 2 | sort -u >"$t_dir/twice"
t_check "the page has the same line twice" [ "$(wc -l <"$t_dir/twice")" -eq 1 ]
sh -c "exec $(sed 's/--quiet/--id web3-1/' "$t_dir/twice")" 2>"$t_dir/first" &
first=$!
candidates="$candidates $first"
t_check "the first runs" until_line "$ran" '^nightly-report '
t_run sh -c "$(cat "$t_dir/twice")"
t_ends 0
t_check "once" [ "$(times nightly-report)" -eq 1 ]

t_case "the commands of the page print what it shows"
# shape FILE: each number is N, each gap one blank, and each short time in seconds.
shape() { sed -e 's/[0-9][0-9.]*/N/g' -e 's/Nms/Ns/g' -e 's/  */ /g' "$1"; }
sed -n 's/^\$ //p' "$page" >"$t_dir/commands"
t_check "there are four" [ "$(wc -l <"$t_dir/commands")" -eq 4 ]
while read -r command; do
    t_run sh -c "$command"
    awk -v command="\$ $command" '$0 == command { on = 1; next }
        /^```|^\$ / { on = 0 } on' "$page" >"$t_dir/expected"
    t_check "$command: $(shape "$t_out"), not $(shape "$t_dir/expected")" \
        [ "$(shape "$t_out")" = "$(shape "$t_dir/expected")" ]
    t_ends 0
done <"$t_dir/commands"
wait $first
t_check "revoked during the hold: 0" [ $? -eq 0 ]
t_check "one line: $(cat "$t_dir/first")" grep -qx \
    "tenure run: nightly-report: the hold ended early: leadership lost: revoked (token [0-9]*)" \
    "$t_dir/first"

# --- Skipping ----------------------------------------------------------------------------------

t_case "held by another: silence and 0, or the status that was asked for, at once"
"$tenure" acquire job --ttl 1h >"$t_dir/taken"
: >"$ran"
started=$(now_ms)
t_run "$tenure" run --skip-if-held job -- report.sh
t_ends 0
took=$(($(now_ms) - started))
t_check "at once: $took ms" [ $took -lt 4000 ]
t_refute "nothing on stdout" [ -s "$t_out" ]
t_run "$tenure" run --skip-if-held --conflict-exit 75 job -- report.sh
t_ends 75
t_run "$tenure" run --skip-if-held --conflict-exit 0 --hold 1m --quiet job -- report.sh
t_ends 0
t_refute "nothing ran" [ -s "$ran" ]
give_back job
t_run "$tenure" run --skip-if-held --conflict-exit 75 job -- sh -c 'exit 7'
t_ends 7

t_case "its own grant is not another's: with a fence that goes up first"
t_run "$tenure" fence install --at "file:$t_dir/fenced"
t_ends 0
for _ in 1 2 3 4 5; do
    t_run "$tenure" run --skip-if-held --fence "file:$t_dir/fenced" --conflict-exit 75 fenced -- \
        report.sh
    t_ends 0
done
t_check "all five ran: $(times fenced)" [ "$(times fenced)" -eq 5 ]

t_case "no store: 69 and one line, not a skip"
told 69 "connection refused" run --skip-if-held --quiet -s "tenured://127.0.0.1:$(t_ports 1)" \
    job -- true
told 69 "No such file" run --skip-if-held -s "sqlite:$t_dir/no/such/x.db" job -- true

t_case "bad combinations: one line, 64"
t_bad "--conflict-exit is the exit status of --skip-if-held; give both" \
    "$tenure" run --conflict-exit 75 job -- true
t_bad "--skip-if-held does not wait" "$tenure" run --skip-if-held --wait 1s job -- true
t_bad "--conflict-exit: '256' is too large" \
    "$tenure" run --skip-if-held --conflict-exit 256 job -- true
t_bad "--hold: '0s' is too short" "$tenure" run --hold 0s job -- true
t_bad "--hold: '5' has no unit" "$tenure" run --hold 5 job -- true
t_bad "--hold: '721h' is too long" "$tenure" run --hold 721h job -- true

# --- The hold ----------------------------------------------------------------------------------

# hold NAME OPTION...: in the background, its pid in $holder; true once the command has ended.
hold() {
    local name=$1
    shift
    rm -f "$t_dir/pid"
    "$tenure" run --ttl 3s "$@" "$name" -- sh -c "echo \$\$ >'$t_dir/pid'" 2>"$t_dir/$name.err" &
    holder=$!
    candidates="$candidates $holder"
    until_true 20 [ -s "$t_dir/pid" ] && until_true 20 is_gone "$(cat "$t_dir/pid")"
}
is_gone() { [ ! -e "/proc/$1" ]; }

t_case "the lease is held until the time is up, longer than a TTL, and the command is gone"
started=$(now_ms)
t_check "the command ends" hold long --hold 5s
t_check "held" is_held long
t_run "$tenure" run --skip-if-held --conflict-exit 75 long -- report.sh
t_ends 75
wait $holder
t_check "0" [ $? -eq 0 ]
took=$(($(now_ms) - started))
t_check "the whole hold: $took ms" [ $took -ge 5000 ]
t_check "free" is_free long

t_case "a signal ends the hold: 0, and free at once"
for signal in TERM HUP; do
    t_check "$signal: holds" hold "by-$signal" --hold 10m
    t_check "$signal: held" is_held "by-$signal"
    kill -$signal $holder
    wait $holder
    t_check "$signal: 0" [ $? -eq 0 ]
    t_check "$signal: free" is_free "by-$signal"
    t_refute "$signal: silent" [ -s "$t_dir/by-$signal.err" ]
done

t_case "a command that fails, or that outlives the hold: no hold"
t_run timeout 60 "$tenure" run --hold 10m job -- sh -c 'exit 3'
t_ends 3
t_run timeout 60 "$tenure" run --hold 1ms job -- sleep 0.1
t_ends 0
t_check "free" is_free job

t_case "the runner is killed during the hold: the next night runs, after the TTL"
: >"$ran"
t_check "holds" hold killed --hold 10m
kill -KILL $holder
wait $holder 2>/dev/null
t_check "still held" is_held killed
attempt() { "$tenure" run --skip-if-held killed -- report.sh && [ "$(times killed)" -eq 1 ]; }
t_refute "skips while it is held" attempt
t_check "runs" until_true 20 attempt

t_case "--quiet: no warnings, but what ends the run is told"
unset TENURE_FENCE
t_run "$tenure" run --contain tree job -- true
t_check "a warning without it" grep -q "warning: job has no fence" "$t_err"
t_run "$tenure" run --contain tree --quiet job -- true
t_ends 0
t_run "$tenure" run --quiet job -- sh -c 'echo mine >&2; exit 4'
t_check "the command's own lines stay" [ "$(cat "$t_err")" = mine ]
told 127 "cannot be run: No such file" run --quiet job -- "$t_dir/no-such-command"
"$tenure" run --quiet --once job -- sh -c "echo >'$t_dir/begun'; exec sleep 60" 2>"$t_dir/lost" &
holder=$!
candidates="$candidates $holder"
t_check "runs" until_true 20 [ -s "$t_dir/begun" ]
t_run "$tenure" revoke job
wait $holder
t_check "79" [ $? -eq 79 ]
t_check "one line: $(cat "$t_dir/lost")" \
    grep -qx "tenure run: job: leadership lost: revoked (token [0-9]*)" "$t_dir/lost"
export TENURE_FENCE=none

# --- The period --------------------------------------------------------------------------------

# every OPTION... -- COMMAND...: of the job "often"; two runs within an hour.
every() { t_run "$tenure" run --every 1h --id host1 often "$@"; }
mark() { "$tenure" status "~tenure/every/$1"; }

t_case "--every: what failed, could not start or was stopped does not count; a success does"
every -- sh -c 'exit 3'
t_ends 3
every -- "$t_dir/no-such-command"
t_check "127" [ "$t_status" -eq 127 ]
"$tenure" run --every 1h often -- \
    sh -c "trap 'exit 0' TERM; echo >'$t_dir/often'; sleep 60 & wait" &
holder=$!
candidates="$candidates $holder"
t_check "runs" until_true 20 [ -s "$t_dir/often" ]
kill -TERM $holder
wait $holder
t_check "no mark: $(mark often)" [ "$(mark often)" = "~tenure/every/often: free, never held" ]
: >"$ran"
every -- report.sh
t_ends 0
t_check "it ran" [ "$(times often)" -eq 1 ]
t_check "the mark: $(mark often)" grep -qE \
    'held by host1@20[0-9-]+T[0-9:]+\.[0-9]{3}Z, token [0-9]+, .* left of ' <<<"$(mark often)"
every -- report.sh
t_ends 0
t_run "$tenure" run --every 1h --conflict-exit 75 often -- report.sh
t_ends 75
t_check "not again" [ "$(times often)" -eq 1 ]
t_check "free" is_free often

t_case "--every: without it the command runs, and the mark stays"
before=$(mark often)
t_run "$tenure" run often -- report.sh
t_ends 0
t_check "it ran" [ "$(times often)" -eq 2 ]
t_check "the same mark" [ "${before%%, [0-9]*}" = "$(mark often | sed 's/, [0-9].*//')" ]

t_case "--every: a shorter period of the same job counts; a mark that is over is replaced"
over() { t_run "$tenure" run --every 1s often -- report.sh && [ "$(times often)" -eq 3 ]; }
t_check "runs" until_true 20 over
t_check "a new mark" [ "${before#*@}" != "$(mark often | sed 's/.*@//')" ]

t_case "--every: the daemon restarts, and gives the mark a full TTL: the next night runs"
: >"$ran"
t_run "$tenure" run -s "$(url "$port")" --every 8s restart -- report.sh
t_ends 0
started=$(now_ms)
until_ms $((started + 6000))
tenured_end
tenured_again
until_ms $((started + 9000))
t_check "the mark is still held" grep -q "held by" \
    <<<"$("$tenure" status -s "$(url "$port")" "~tenure/every/restart")"
t_run "$tenure" run -s "$(url "$port")" --every 8s restart -- report.sh
t_ends 0
t_check "it ran again" [ "$(times restart)" -eq 2 ]

t_case "--every: what cannot be remembered is refused before anything runs"
t_bad "--every: 25h is too long: sqlite: remembers a run for 24h at most" \
    "$tenure" run --every 25h job -- true
t_bad "--every: in memory: nothing outlives the process" \
    "$tenure" run --every 1h -s memory: job -- true
t_bad "--every: '0.5s' is too short" "$tenure" run --every 0.5s job -- true
t_bad "--every: the name has 255 characters; with --every it may have 241" \
    "$tenure" run --every 1h "$(printf %0255d 0)" -- true

# --- The help ----------------------------------------------------------------------------------

# examples VERB: those that its help shows, without the words behind them.
examples() {
    "$tenure" "$1" --help | sed -n '/^Examples:/,/^$/s/^  \(tenure .*\)/\1/p' | sed 's/   *.*//'
}
token_of_report() { "$tenure" status --json nightly-report | sed 's/.*"token":\([0-9]*\).*/\1/'; }

# try_examples STATE VERB STATUS: of the verb itself; what only looks succeeds always.
try_examples() {
    local command expected
    t_check "$2 has examples" [ "$(examples "$2" | wc -l)" -ge 3 ]
    while read -r command; do
        expected=$3
        [[ $command == "tenure $2"* ]] || expected=0
        t_run sh -c "${command/--token 7/--token $(token_of_report)}"
        t_check "$1: $command: $t_status: $(cat "$t_err")" [ "$t_status" -eq "$expected" ]
        [ "$expected" -ne 0 ] || [ "$1" = free ] || t_check "$command prints" [ -s "$t_out" ]
    done < <(examples "$2")
}

t_case "every example of list, status and revoke, free and held"
export TENURE_STORE="sqlite:$t_dir/examples.db"
for state in free held; do
    for name in nightly-report jobs/a billing backup; do
        "$tenure" acquire $name --id web1 --ttl 10m >"$t_dir/taken"
        [ $state = held ] || give_back $name
    done
    try_examples $state list 0
    try_examples $state status 0
    try_examples $state revoke "$([ $state = free ] && echo 80 || echo 0)"
done

t_case "the examples of run that are for cron, free and held"
cd "$t_dir/bin" || exit 1
while read -r command; do
    "$tenure" acquire nightly --ttl 1h >"$t_dir/taken"
    : >"$ran"
    t_run sh -c "$command"
    t_ends "$([[ $command == *--conflict-exit* ]] && echo 75 || echo 0)"
    t_refute "$command: held: nothing runs" [ -s "$ran" ]
    give_back nightly
    t_run sh -c "${command/--hold 10m/--hold 1s}"
    t_ends 0
    t_check "$command: free: runs" [ "$(times nightly)" -eq 1 ]
done < <(examples run | grep -e --skip-if-held)
t_check "two of them" [ "$(examples run | grep -c -e --skip-if-held)" -eq 2 ]
command=$(examples run | grep -e --every)
: >"$ran"
t_run sh -c "$command"
t_ends 0
t_run sh -c "$command"
t_ends 0
t_check "$command: runs once" [ "$(times nightly)" -eq 1 ]

t_done
