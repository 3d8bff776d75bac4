#!/bin/sh
# run.sh - `tenure run`: real processes on the embedded store, stopped, killed and handed over.
#
# The commands write down when they act, with their token; two tokens must never act at one time.
# shellcheck source=tests/harness/lib.sh
. "${TENURE_ROOT:-$(dirname "$0")/../..}/tests/harness/lib.sh"

tenure=$TENURE_BUILD/tenure
TENURE_STORE=sqlite:$t_dir/store/tenure.db
export TENURE_STORE
log=$t_dir/acts
worker=$t_dir/worker
pids=

cat >"$worker" <<'EOF'
#!/bin/sh
# Acts until it is stopped; ignores SIGTERM if told to.
[ "${1:-}" != stubborn ] || trap '' TERM
while :; do date "+%s%N $TENURE_TOKEN $TENURE_ID" >>"$ACTS"; done
EOF
chmod +x "$worker"
ACTS=$log
export ACTS

candidate() { # candidate ID [OPTION]... -- COMMAND...
    label=$1
    shift
    "$tenure" run --id "$label" "$@" >>"$t_dir/out.$label" 2>>"$t_dir/err.$label" &
    pid=$!
    pids="$pids $pid"
}

acts() { grep -q " $1\$" "$log"; }
leads() { "$tenure" status "$2" --json | grep -q "\"holder\":\"$1\""; }
waits() { [ -e "/proc/$1" ] && ! leads "$2" job; }
is_free() { "$tenure" status "$1" --json | grep -q '"state":"free"'; }
is_quiet() { # Nobody has acted for 100 ms.
    quiet_before=$(wc -l <"$log")
    sleep 0.1
    [ "$(wc -l <"$log")" -eq "$quiet_before" ]
}

# Of each token the first and the last act: a later token must begin after the earlier one ended.
no_overlap() {
    awk '!($2 in first) { first[$2] = $1; order[++n] = $2 } { last[$2] = $1 }
         END { for (i = 2; i <= n; i++) {
                   if (order[i] + 0 <= order[i - 1] + 0) exit 1
                   if (first[order[i]] + 0 <= last[order[i - 1]] + 0) exit 1 } }' "$log"
}

# The guardians need a moment after their supervisors were killed.
no_worker() { ! grep -qsF "$worker" /proc/[0-9]*/cmdline; }

new_case() {
    for p in $pids; do
        kill -CONT "$p" 2>/dev/null
        kill -KILL "$p" 2>/dev/null
    done
    wait 2>/dev/null
    pids=
    until_true 10 no_worker || t_fail "a worker of the case before is still there"
    rm -rf "$t_dir/store" "$t_dir"/out.* "$t_dir"/err.*
    mkdir -m 700 "$t_dir/store"
    : >"$log"
    t_case "$1"
}

new_case "the command sees who it is, and its exit status is ours"
# shellcheck disable=SC2016 # The command's own shell expands these.
t_run "$tenure" run --id me job -- sh -c 'echo "$TENURE_NAME $TENURE_ID $TENURE_TOKEN"; exit 7'
t_check "exit status is 7, not $t_status" [ "$t_status" -eq 7 ]
t_check "environment" [ "$(cat "$t_out")" = "job me 1" ]
t_run "$tenure" status job --json
t_prints '"state":"free"'
# shellcheck disable=SC2016
t_run "$tenure" run job -- sh -c 'kill -9 $$'
t_check "ended by a signal: 137, not $t_status" [ "$t_status" -eq 137 ]

new_case "a command that cannot be run: 127 or 126, and the lease is free at once"
t_run "$tenure" run job -- "$t_dir/no-such-command"
t_check "127, not $t_status" [ "$t_status" -eq 127 ]
t_check "one line" [ "$(wc -l <"$t_err")" -eq 1 ]
t_run "$tenure" status job --json
t_prints '"state":"free"'
t_run "$tenure" run job -- "$t_dir"
t_check "126, not $t_status" [ "$t_status" -eq 126 ]

new_case "no secret and no descriptor reaches the command"
# shellcheck disable=SC2016
TENURE_SECRET=hidden t_run "$tenure" run job -- \
    sh -c 'env | grep -c SECRET; ls /proc/self/fd | wc -l'
t_check "nothing but the three streams and ls's own" [ "$(tr '\n' ' ' <"$t_out")" = "0 4 " ]

new_case "SIGTERM: the command stops, the lease is released, the next leads long before the TTL"
candidate a --ttl 60s job -- "$worker"
a=$pid
t_check "a acts" until_true 30 acts a
candidate b --ttl 60s job -- "$worker"
t_check "b waits" until_true 5 waits "$pid" b
t_refute "b does not act" acts b
kill -TERM "$a"
t_check "b acts" until_true 30 acts b
wait "$a"
t_check "128 + 15" [ $? -eq 143 ]
t_promise "never both" no_overlap

new_case "supervisor killed: its command goes too, and the next leads after the TTL"
candidate a --ttl 2s job -- "$worker" stubborn
a=$pid
t_check "a acts" until_true 30 acts a
candidate b --ttl 2s job -- "$worker"
kill -KILL "$a"
t_check "b acts" until_true 30 acts b
t_promise "never both" no_overlap

new_case "supervisor stopped: its command is gone by the deadline, the woken one waits again"
candidate a --ttl 2s job -- "$worker" stubborn
a=$pid
t_check "a acts" until_true 30 acts a
candidate b --ttl 2s job -- "$worker"
b=$pid
kill -STOP "$a"
t_check "b acts" until_true 30 acts b
kill -CONT "$a"
t_check "a says that it lost" until_true 30 grep -q "leadership lost: expired" "$t_dir/err.a"
kill -TERM "$b"
t_check "a leads again" until_true 5 leads a job
t_promise "never both" no_overlap

new_case "--once: 79 when the term was lost"
candidate a --ttl 1s --once job -- "$worker"
a=$pid
t_check "a acts" until_true 30 acts a
kill -STOP "$a"
t_check "the lease expires" until_true 10 is_free job
t_check "and nobody acts" until_true 10 is_quiet
kill -CONT "$a"
wait "$a"
t_check "79, not $?" [ $? -eq 79 ]

new_case "--once: 79 also in a session of its own, where the kernel hangs up on a stopped group"
setsid "$tenure" run --ttl 2s --once --id a job -- "$worker" stubborn 2>"$t_dir/err.a" &
a=$!
pids="$pids $a"
t_check "a acts" until_true 30 acts a
kill -STOP "$a"
t_check "the command is killed" until_true 10 is_quiet
kill -CONT "$a" 2>/dev/null
wait "$a"
status=$?
t_check "79, not $status" [ $status -eq 79 ]
t_check "says why: $(cat "$t_dir/err.a")" grep -q "leadership lost: " "$t_dir/err.a"

new_case "a tree that daemonizes is gone before the lease is given back"
# shellcheck disable=SC2016
candidate a --ttl 5s --grace 200ms job -- \
    sh -c '(setsid "$0" stubborn &) ; exec "$0"' "$worker"
a=$pid
t_check "a acts" until_true 30 acts a
candidate b --ttl 5s job -- "$worker"
kill -TERM "$a"
t_check "b acts" until_true 30 acts b
t_promise "never both" no_overlap

new_case "--wait: 75 when another holds it, and nothing is left behind"
candidate a --ttl 30s job -- "$worker"
a=$pid
t_check "a acts" until_true 30 acts a
t_run "$tenure" run --wait 300ms job -- true
t_check "75, not $t_status" [ "$t_status" -eq 75 ]
t_check "one line" [ "$(wc -l <"$t_err")" -eq 1 ]
t_check "who: $(cat "$t_err")" grep -q "held by others for the whole 300ms, last by 'a'" "$t_err"
t_run "$tenure" run --wait 0s job -- true
t_check "75, not $t_status" [ "$t_status" -eq 75 ]
t_check "one line: $(cat "$t_err")" grep -qx "tenure run: job is held by 'a'" "$t_err"

new_case "the same --id twice: one leads; started again it gets a larger token"
candidate a --ttl 2s job -- "$worker"
first=$pid
t_check "acts" until_true 30 acts a
candidate a --ttl 2s job -- "$worker"
kill -KILL "$first"
t_check "the second one acts" until_true 30 grep -q ' 2 a$' "$log"
t_promise "never both" no_overlap

new_case "bad input: 64, one line, and no file"
t_bad "the name of the lease is missing" "$tenure" run
t_bad "there is no command" "$tenure" run job
t_bad "the name of the lease is missing before --" "$tenure" run -- true
t_bad "put the command behind --" "$tenure" run job true
t_bad "there is no command" "$tenure" run job --
t_bad "no unit" "$tenure" run --ttl 5 job -- true
t_bad "what works: a TTL of 6.4s, or a grace of 500ms (P8" \
    "$tenure" run --ttl 2s --grace 2s job -- true
t_bad "segment" "$tenure" run a//b -- true
t_check "no file was made" [ -z "$(ls "$t_dir/store")" ]

new_case "a store that cannot be opened: 69 and why, at once"
t_run "$tenure" run -s "sqlite:$t_dir/no/such/folder/x.db" job -- true
t_check "69, not $t_status" [ "$t_status" -eq 69 ]
t_check "one line" [ "$(wc -l <"$t_err")" -eq 1 ]

new_case "--contain: the command is told which one it got, and a mistake is told at once"
# shellcheck disable=SC2016 # The command's own shell expands it.
contained='echo "$TENURE_CONTAIN"'
t_run "$tenure" run --contain tree job -- sh -c "$contained"
t_check "tree, and 0, not $t_status" [ "$t_status:$(cat "$t_out")" = 0:tree ]
t_check "what is not certain is told in one line" \
    [ "$(grep -c 'without containment.*may act after the deadline' "$t_err")" -eq 1 ]
t_run "$tenure" run --contain auto job -- sh -c "$contained"
got=$(cat "$t_out")
t_check "auto is a cgroup or the tree, not '$got'" expr "$got" : 'cgroup$' '|' "$got" : 'tree$'
t_check "the warning is there with the tree alone" \
    [ "$(grep -c 'without containment' "$t_err")" -eq "$([ "$got" = tree ] && echo 1 || echo 0)" ]
for how in cgroup pidns; do
    t_run "$tenure" run --contain $how job -- sh -c "$contained"
    if [ "$t_status" -eq 77 ]; then
        t_check "$how: one line says why not" grep -q "contain $how cannot be had here: ." "$t_err"
    else
        t_check "$how, and 0, not $t_status" [ "$t_status:$(cat "$t_out")" = "0:$how" ]
        t_check "$how: no warning of the tree" [ "$(grep -c 'without containment' "$t_err")" -eq 0 ]
    fi
done
# Supervisor and guardian go first where they may; what they start does not.
nice=$(($(nice) + 3))
for how in tree cgroup pidns; do
    t_run nice -n 3 "$tenure" run --contain $how job -- nice
    [ "$t_status" -eq 77 ] ||
        t_check "$how: the command's niceness is the caller's" [ "$(cat "$t_out")" = $nice ]
done
# The guardian goes before all ordinary processes where the kernel lets it.
if chrt -r 1 true 2>/dev/null; then
    # shellcheck disable=SC2016 # The command's own shell expands it.
    t_run "$tenure" run --contain tree job -- sh -c 'chrt -p $$ | head -n 1
        for i in $(seq 1000); do chrt -p $PPID | grep SCHED_RR && break; done'
    t_check "guardian: real time, command: not: $(cat "$t_out")" \
        [ "$(sed 's/.*: \(SCHED_[A-Z]*\).*/\1/' "$t_out" | tr '\n' ' ')" = "SCHED_OTHER SCHED_RR " ]
fi
rm -rf "$t_dir/store"
mkdir -m 700 "$t_dir/store"
t_run "$tenure" run --contain jail job -- true
t_check "64, not $t_status" [ "$t_status" -eq 64 ]
t_check "one line" [ "$(wc -l <"$t_err")" -eq 1 ]
t_check "no file was made" [ -z "$(ls "$t_dir/store")" ]

new_case "a supervisor that cannot know whether the tree is gone does not release the lease"
# It has a child from before, and cannot tell that from an orphan of the command's without /proc.
cat >"$t_dir/beside" <<'END'
#!/bin/sh
mount --make-rprivate / || exit 99
sleep 600 &
echo $! >"$1"
shift
exec "$@"
END
chmod +x "$t_dir/beside"
if ! unshare -m true 2>/dev/null; then
    t_skip "mounting is not permitted"
else
    unshare -m "$t_dir/beside" "$t_dir/helper" "$tenure" run --id a --contain tree --ttl 20s \
        job -- "$worker" >"$t_dir/out.a" 2>"$t_dir/err.a" &
    a=$!
    pids="$pids $a"
    t_check "a acts" until_true 30 acts a
    guardian=$(grep -l '^tenure-guardian$' /proc/[0-9]*/comm 2>/dev/null | while read -r comm; do
        comm=${comm%/comm}
        grep -q "^PPid:[^0-9]*$a\$" "$comm/status" && echo "${comm#/proc/}"
    done)
    t_check "its guardian is found" [ -n "$guardian" ]
    t_check "/proc is covered" nsenter -t "$a" -m mount -t tmpfs none /proc
    kill -KILL "$guardian"
    killed_at=$(date +%s%N)
    t_check "the command ends" until_true 10 is_quiet
    until_true 3 false # Where it could release the lease, it has by now.
    t_check "the lease is still held" leads a job
    t_check "its TTL is not over" [ $(($(date +%s%N) - killed_at)) -lt 15000000000 ]
    kill -KILL "$(cat "$t_dir/helper")"
fi

# Without a terminal the end of the command orphans the stopped process group, and the kernel sends
# SIGHUP to it; that is nobody's wish that we end.
new_case "stopped in a session without a terminal: 79 with --once"
# shellcheck disable=SC2016 # The shell that becomes the supervisor expands these.
setsid sh -c 'echo $$ >"$0"; exec "$@"' "$t_dir/service" "$tenure" run --once --ttl 3s \
    --fence none job -- "$worker" stubborn 2>"$t_dir/err.service" &
session=$!
until_true 10 test -s "$log" || t_fail "the command did not start"
kill -STOP "$(cat "$t_dir/service")"
until_true 20 no_worker || t_fail "the command was not stopped"
kill -CONT "$(cat "$t_dir/service")" 2>/dev/null
wait "$session"
status=$?
t_check "79, not $status" [ "$status" -eq 79 ]
t_check "says why" grep -q "leadership lost: this process was stopped" "$t_dir/err.service"

new_case "help has examples"
t_run "$tenure" run --help
t_ends 0
t_prints "tenure run nightly-report -- ./report.sh"

new_case "nothing is left running"
t_check "no worker" no_worker
t_done
