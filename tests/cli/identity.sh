#!/bin/sh
# identity.sh - an id is a label and proves nothing: the same one twice, started again, and undead.
# shellcheck source=tests/harness/lib.sh
. "${TENURE_ROOT:-$(dirname "$0")/../..}/tests/harness/lib.sh"

tenure=$TENURE_BUILD/tenure
worker=$t_dir/worker
log=$t_dir/acts
pids=

cat >"$worker" <<'EOT'
#!/bin/sh
while :; do date "+%s%N $TENURE_TOKEN $PPID" >>"$ACTS"; done
EOT
chmod +x "$worker"
ACTS=$log
export ACTS

candidate() { # candidate FILE [OPTION]... NAME -- COMMAND...
    errors=$t_dir/err.$1
    shift
    "$tenure" run "$@" 2>>"$errors" &
    pid=$!
    pids="$pids $pid"
}

acts_with() { tail -n 1 "$log" | grep -q " $1 "; }
is_free() { "$tenure" status "$1" --json | grep -q '"state":"free"'; }
held_with() { "$tenure" status "$1" --json | grep -q "\"state\":\"held\".*\"token\":$2,"; }
child_of() { tr -d ' ' <"/proc/$1/task/$1/children"; }
no_worker() { ! grep -qsF "$worker" /proc/[0-9]*/cmdline; }
no_overlap() {
    awk '{ if ($2 + 0 < token) exit 1; token = $2 + 0 }' "$log"
}

new_case() {
    for p in $pids; do
        kill -CONT "$p" 2>/dev/null
        kill -KILL "$p" 2>/dev/null
    done
    wait 2>/dev/null
    pids=
    until_true 10 no_worker || t_fail "a worker of the case before is still there"
    rm -rf "$t_dir/store" "$t_dir"/err.*
    mkdir -m 700 "$t_dir/store"
    TENURE_STORE=sqlite:$t_dir/store/tenure.db
    export TENURE_STORE
    : >"$log"
    t_case "$1"
}

# take NAME [OPTION]...: sets token and secret.
take() {
    t_run "$tenure" acquire --json "$@"
    t_check "granted" [ "$t_status" -eq 0 ]
    token=$(sed 's/.*"token":\([0-9]*\).*/\1/' "$t_out")
    secret=$(sed 's/.*"secret":"\([^"]*\)".*/\1/' "$t_out")
}

# says STATUS WORDS VERB TOKEN SECRET
says() {
    TENURE_SECRET=$5 t_run "$tenure" "$3" job --token "$4"
    t_check "$3 $4: exit status is $1, not $t_status" [ "$t_status" -eq "$1" ]
    t_check "$3 $4: one line" [ "$(wc -l <"$t_err")" -eq 1 ]
    t_check "$3 $4: says why" grep -q "$2" "$t_err"
}

new_case "the same id twice: one leads, the other waits as any other would"
candidate a --id same --ttl 2s job -- "$worker"
first=$pid
t_check "the first acts" until_true 5 acts_with 1
candidate b --id same --ttl 2s job -- "$worker"
second=$pid
t_run "$tenure" acquire job --id same
t_check "75, not $t_status" [ "$t_status" -eq 75 ]
t_run "$tenure" run --id same --wait 2500ms job -- true
t_check "not for longer than a TTL: 75, not $t_status" [ "$t_status" -eq 75 ]
t_check "the token is the first's" acts_with 1
kill -TERM "$first"
t_check "then the second" until_true 5 acts_with 2
t_promise "never both" no_overlap
t_check "both were there" kill -0 "$second"

new_case "started again with the same id after a crash: a larger token"
candidate a --id same --ttl 1s job -- "$worker"
t_check "acts" until_true 5 acts_with 1
kill -KILL "$pid"
candidate b --id same --ttl 1s job -- "$worker"
t_check "acts again" until_true 10 acts_with 2
t_promise "never both" no_overlap

new_case "a stopped run comes back when its successor has the same id: it is refused"
candidate a --id same --ttl 1s job -- "$worker"
zombie=$pid
t_check "acts" until_true 5 acts_with 1
kill -STOP "$zombie"
candidate b --id same --ttl 1s job -- "$worker"
t_check "the successor acts" until_true 10 acts_with 2
kill -CONT "$zombie"
t_check "the zombie hears that it lost" until_true 5 grep -q "leadership lost" "$t_dir/err.a"
t_check "the successor goes on" until_true 5 held_with job 2
t_check "with its token" acts_with 2
t_refute "nobody told the successor anything" [ -s "$t_dir/err.b" ]
t_promise "never both" no_overlap

new_case "a script started again with the same id: the zombie's renew and release are refused"
take job --id same --ttl 1s
old=$token
zombie=$secret
t_check "expires" until_true 10 is_free job
take job --id same --ttl 1m
t_check "larger" [ "$token" -gt "$old" ]
for verb in renew release; do
    says 80 "token $old is over" $verb "$old" "$zombie"
    says 80 "token $old is over" $verb "$old" "$secret"
    says 77 "not the holder's" $verb "$token" "$zombie"
    t_check "still held" held_with job "$token"
done
TENURE_SECRET=$secret t_run "$tenure" renew job --token "$token"
t_ends 0
TENURE_SECRET=$secret t_run "$tenure" release job --token "$token"
t_ends 0
t_check "free" is_free job

new_case "a command that cannot be run: the next leads at once"
printf '#!/bin/sh\n' >"$t_dir/plain"
chmod 644 "$t_dir/plain"
for line in "127 $t_dir/no-such-command" "127 no-such-command-in-the-path" "126 $t_dir/plain/x" \
    "126 $t_dir/plain" "126 $t_dir"; do
    status=${line%% *} command=${line#* }
    take job --ttl 1m
    candidate a --ttl 1m job -- "$command"
    broken=$pid
    TENURE_SECRET=$secret t_run "$tenure" release job --token "$token"
    wait "$broken"
    t_check "$command: exit status is $status" [ $? -eq "$status" ]
    t_check "$command: free at once" is_free job
    t_check "$command: one line" [ "$(wc -l <"$t_dir/err.a")" -eq 1 ]
    t_check "$command: says why" grep -q "cannot be run" "$t_dir/err.a"
    rm -f "$t_dir/err.a"
done

new_case "a guardian that is stopped or killed costs the term, not the candidacy"
candidate a --ttl 5s --grace 100ms job -- "$worker"
a=$pid
token=1
for signal in STOP KILL; do
    t_check "acts with $token" until_true 5 acts_with $token
    guardian=$(child_of "$a")
    kill -"$signal" "$guardian"
    token=$((token + 1))
    t_check "acts with $token" until_true 5 acts_with $token
done
t_check "says so" grep -q "leadership lost: its guardian was stopped (token 1)" "$t_dir/err.a"
t_check "says so" grep -q "leadership lost: its guardian was killed (token 2)" "$t_dir/err.a"
t_check "twice" [ "$(wc -l <"$t_dir/err.a")" -eq 2 ]
t_promise "never two" no_overlap
kill -TERM "$a"
wait "$a"
t_check "ends when it is asked to" [ $? -eq 143 ]
t_check "free" is_free job

new_case "nothing is left running"
t_check "no worker" until_true 10 no_worker
t_done
