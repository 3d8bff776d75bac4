#!/bin/bash
# faults.sh - what goes wrong below the embedded store, while `run` leads and for every other verb.
#
# Each case: one line that says what is wrong, the documented exit status, nothing lost, and all
# goes on when the cause is gone. A command that leads is silent by its deadline, and the token of
# its next term is larger. What is mounted is so in a mount namespace of this script's own.
if [ -z "${FAULTS_INSIDE:-}" ] && unshare -m true 2>/dev/null; then
    FAULTS_INSIDE=yes exec unshare -m "$0" "$@"
fi
# shellcheck source=tests/harness/lib.sh
. "${TENURE_ROOT:-$(dirname "$0")/../..}/tests/harness/lib.sh"

tenure=$TENURE_BUILD/tenure
hold=$TENURE_BUILD/tests/fixtures/hold
disk=$t_dir/disk
store=$disk/t.db
log=$t_dir/acts
worker=$t_dir/worker
export TENURE_STORE=sqlite:$store
pids=()
as=() # What a command is started with, to be another user.

# D of a TTL of 2 s, in ms, and what the shell and its look at the clock may take.
deadline=1636
slack=250

cat >"$worker" <<'END'
#!/bin/sh
while :; do date "+%s%N $TENURE_TOKEN $TENURE_ID" >>"$ACTS"; done
END
chmod +x "$worker"
export ACTS=$log

now() { date +%s%N; }

# candidate ID [OPTION]...: a run that leads or waits; $pid.
candidate() {
    "${as[@]}" "$tenure" run --ttl 2s --id "$@" job -- "$worker" >>"$t_dir/out.$1" \
        2>>"$t_dir/err.$1" &
    pid=$!
    pids+=("$pid")
}

acts() { tail -n 1 "$log" | grep -q " $1\$"; }
last_token() { tail -n 1 "$log" | cut -d' ' -f2; }
# acts_after TIME: somebody has acted since.
acts_after() { [ "$(tail -n 1 "$log" | cut -d' ' -f1)" -gt "$1" ]; }
held() { [ -s "$t_dir/held" ]; }
ended() { ! kill -0 "$1"; }

no_overlap() {
    awk '!($2 in first) { first[$2] = $1; order[++n] = $2 } { last[$2] = $1 }
         END { for (i = 2; i <= n; i++) {
                   if (order[i] + 0 <= order[i - 1] + 0) exit 1
                   if (first[order[i]] + 0 <= last[order[i - 1]] + 0) exit 1 } }' "$log"
}

no_worker() { ! grep -qsF "$worker" /proc/[0-9]*/cmdline; }

tidy_up() {
    local p
    for p in "${pids[@]}"; do
        kill -CONT "$p" 2>/dev/null
        kill -KILL "$p" 2>/dev/null
    done
    wait 2>/dev/null
    pids=()
}

new_case() {
    tidy_up
    until_true 10 no_worker || t_fail "a worker of the case before is still there"
    umount "$disk" 2>/dev/null
    rm -rf "$disk" "$t_dir"/out.* "$t_dir"/err.* "$t_dir/held"
    mkdir -m 700 "$disk"
    : >"$log"
    as=()
    t_case "$1"
}

# One more lease, for the verbs that need one: $token, TENURE_SECRET.
take() {
    local answer
    answer=$("${as[@]}" "$tenure" acquire kept --ttl 5m --json) || t_fail "not granted"
    token=${answer#*\"token\":} token=${token%%,*}
    TENURE_SECRET=${answer#*\"secret\":\"} TENURE_SECRET=${TENURE_SECRET%%\"*}
    export TENURE_SECRET
}

lead() { # lead ID: it leads, and there is a lease to look after; $leader
    candidate "$1"
    leader=$pid
    t_check "$1 leads" until_true 10 acts "$1"
    take
    first=$(last_token)
}

# failed STATUS WORDS: the last t_run ended so, with one line that has the words.
failed() {
    t_check "$t_words: exit status is $1, not $t_status" [ "$t_status" -eq "$1" ]
    t_check "$t_words: one line on stderr: $(cat "$t_err")" [ "$(wc -l <"$t_err")" -eq 1 ]
    t_check "$t_words: at most 500 characters" [ "$(wc -c <"$t_err")" -le 501 ]
    t_check "$t_words: says why: $(cat "$t_err")" grep -Eq -e "$2" "$t_err"
    # acquire says what makes a script's eval fail.
    t_refute "$t_words: nothing on stdout" grep -qv '^unset TENURE_TOKEN TENURE_SECRET' "$t_out"
}

verb() {
    t_words=$1
    # shellcheck disable=SC2086 # Words are meant to be split.
    t_run "${as[@]}" "$tenure" $t_words
}

writing=("acquire other" "renew kept --token \$token" "release kept --token \$token"
    "run --wait 0s other -- true")
reading=("status kept" "list")

# all_fail STATUS WORDS LIST...
all_fail() {
    local status=$1 words=$2 each
    shift 2
    for each in "$@"; do
        verb "${each//\$token/$token}"
        failed "$status" "$words"
    done
}

# The command of the leader is silent by the deadline that it had when the fault came.
silent_by() { # silent_by FAULT
    local by=$(($1 + (deadline + slack) * 1000000))
    t_check "the leader says that it lost" until_true 10 grep -q "leadership lost" \
        "$t_dir/err.a"
    t_refute "it acts no more" acts_after "$by"
}

# Nothing is lost: the lease that was held is held, and whoever leads has a larger token.
all_goes_on() {
    local since
    since=$(now)
    t_check "somebody leads again: $(tail -n 2 "$t_dir"/err.*)" until_true 20 acts_after "$since"
    t_check "larger token" [ "$(last_token)" -gt "$first" ]
    t_promise "never two at one time, and tokens rise" no_overlap
    verb "renew kept --token $token"
    t_check "kept is still held: $(cat "$t_err")" [ "$t_status" -eq 0 ]
    verb "acquire new --json"
    t_check "a new token: $(cat "$t_err")" [ "$t_status" -eq 0 ]
    t_check "larger" [ "$(sed 's/.*"token":\([0-9]*\).*/\1/' "$t_out")" -gt "$(last_token)" ]
    verb "list"
    t_check "listed" [ "$(wc -l <"$t_out")" -ge 3 ]
    t_check "one line for the loss: $(cat "$t_dir/err.a")" \
        [ "$(grep -vc 'runs without containment' "$t_dir/err.a")" -eq 1 ]
    t_check "says why: $(cat "$t_dir/err.a")" grep -Eq "$1" "$t_dir/err.a"
    kill -TERM "$leader"
    t_check "it ends when asked to" until_true 10 ended "$leader"
}

new_case "a full disk"
if ! mount -t tmpfs -o size=512k,mode=700 none "$disk" 2>/dev/null; then
    t_skip "no filesystem can be mounted here"
else
    lead a
    # The space of the journal would do for a renewal; so somebody takes that, too.
    fill() {
        : >"$store-journal"
        dd if=/dev/zero of="$disk/fill" bs=4k conv=notrunc oflag=append 2>/dev/null
        "$tenure" acquire probe >/dev/null 2>&1
        [ $? -eq 69 ]
    }
    t_check "the disk is full" until_true 5 fill
    fault=$(now)
    all_fail 69 "full" "${writing[@]}"
    silent_by "$fault"
    rm "$disk/fill"
    all_goes_on "full"
fi

new_case "a directory that cannot be written"
if [ "$(id -u)" -ne 0 ]; then
    t_skip "only root can become another user"
else
    # The program where that user can reach it, and a directory that is that user's.
    chmod 711 "$t_dir"
    cp "$tenure" "$t_dir/tenure"
    tenure=$t_dir/tenure
    as=(setpriv --reuid=65534 --regid=65534 --clear-groups)
    chown 65534:65534 "$disk"
    : >"$log"
    chmod 666 "$log"
    lead a
    chmod 500 "$disk"
    rm "$store-journal"
    fault=$(now)
    all_fail 69 "the file or its directory is read-only" "${writing[@]}"
    silent_by "$fault"
    chmod 700 "$disk"
    all_goes_on "the file or its directory is read-only"
fi
tenure=$TENURE_BUILD/tenure

new_case "a file of another user, or without permission"
if [ "$(id -u)" -ne 0 ]; then
    t_skip "only root can become another user"
else
    cp "$tenure" "$t_dir/tenure"
    tenure=$t_dir/tenure
    chmod 711 "$disk"
    take
    as=(setpriv --reuid=65534 --regid=65534 --clear-groups)
    all_fail 77 "belongs to another user" "${writing[@]}" "${reading[@]}"
    chown 65534 "$store"
    for mode in 000 200 400; do
        chmod $mode "$store"
        all_fail 77 "Permission denied" "${writing[@]}" "${reading[@]}"
    done
    chmod 000 "$disk"
    chmod 600 "$store"
    all_fail 77 "Permission denied" "${writing[@]}" "${reading[@]}"
    chmod 711 "$disk"
    chown 0 "$store"
    as=()
    verb "renew kept --token $token"
    t_check "kept is still held: $(cat "$t_err")" [ "$t_status" -eq 0 ]
fi
tenure=$TENURE_BUILD/tenure

new_case "the file is replaced while it is in use"
lead a
# An empty one, which knows nothing of the lease: its tokens are too low to lead with.
"$tenure" watch --store "sqlite:$disk/copy" none >"$t_dir/none" &
pids+=($!)
t_check "another store" until_true 10 test -s "$t_dir/none"
mv "$store" "$disk/orig"
mv "$disk/copy" "$store"
fault=$(now)
silent_by "$fault"
t_check "refused" until_true 10 grep -q "refused to lead with token 1: token-regressed" \
    "$t_dir/err.a"
mv "$disk/orig" "$store"
sed -i '/refused to lead/d' "$t_dir/err.a"
all_goes_on "expired|replaced"

new_case "a copy takes the place of the file: the lease is in it, and goes on"
lead a
cp -p "$store" "$disk/copy"
mv "$disk/copy" "$store"
t_check "somebody leads: $(tail -n 2 "$t_dir"/err.*)" until_true 20 acts_after "$(now)"
t_promise "never two at one time, and tokens rise" no_overlap

new_case "the file is removed while it is in use"
lead a
mv "$store" "$disk/orig"
fault=$(now)
all_fail 69 "its journal is there" "${writing[@]}" "${reading[@]}"
silent_by "$fault"
t_check "nobody made a new one" [ ! -e "$store" ]
mv "$disk/orig" "$store"
all_goes_on "removed or replaced|is gone"

for size in 0 5000; do
    new_case "the file is cut to $size bytes while it is in use"
    lead a
    kill -STOP "$leader"
    cp "$store" "$disk/copy"
    truncate -s $size "$store"
    fault=$(now)
    kill -CONT "$leader"
    all_fail 69 "damaged|empty" "${writing[@]}" "${reading[@]}"
    silent_by "$fault"
    t_check "it stays as it was" [ "$(stat -c %s "$store")" -eq $size ]
    cat "$disk/copy" >"$store"
    all_goes_on "damaged|malformed|not a database|empty"
done

# Somebody in a transaction for long. The others ask for five seconds, all of them at once here;
# only a status that has nothing to bring up to date does not have to.
all_wait() {
    local i=0 each
    for each in "${writing[@]}" list; do
        # shellcheck disable=SC2086 # Words are meant to be split.
        "$tenure" ${each//\$token/$token} >"$t_dir/out.$i" 2>"$t_dir/err.$i" &
        verbs[i]=$!
        i=$((i + 1))
    done
    for i in "${!verbs[@]}"; do
        wait "${verbs[$i]}"
        t_check "verb $i: exit status" [ $? -eq 69 ]
        t_check "verb $i: one line: $(cat "$t_dir/err.$i")" [ "$(wc -l <"$t_dir/err.$i")" -eq 1 ]
        t_check "verb $i: says why" grep -q "busy\|locked\|transaction" "$t_dir/err.$i"
    done
}

for how in running stopped; do
    new_case "locked for long by a process that is $how"
    lead a
    candidate b
    "$hold" "$store" >"$t_dir/held" &
    holder=$!
    disown "$holder"
    pids+=("$holder")
    t_check "locked" until_true 10 held
    fault=$(now)
    [ $how = running ] || kill -STOP $holder
    silent_by "$fault"
    verbs=()
    all_wait
    t_run "$tenure" status kept
    t_ends 0
    t_check "who waits says why" until_true 10 grep -q "no answer, asking again" "$t_dir/err.b"
    t_check "once: $(cat "$t_dir/err.b")" [ "$(wc -l <"$t_dir/err.b")" -eq 1 ]
    t_refute "nobody acts" acts_after $((fault + (deadline + slack) * 1000000))
    kill -KILL $holder
    all_goes_on "busy|locked|transaction|expired"
done

new_case "a limit on descriptors"
take
for limit in 4 5 6 7 8 9 10 11 12 13 14 15 16 20; do
    for each in "acquire fd$limit" "renew kept --token $token" "status kept" "list" \
        "run --wait 500ms run$limit -- true"; do
        t_words="$each with $limit descriptors"
        # shellcheck disable=SC2086 # Words are meant to be split.
        (exec >"$t_out" 2>"$t_err" && ulimit -n $limit && exec "$tenure" $each)
        t_status=$?
        if [ $t_status -ne 0 ]; then
            : >"$t_out"
            failed 69 "cannot be opened|descriptor|could not be started|Too many"
        fi
    done
    verb "status run$limit"
    t_check "given back" grep -q ": free" "$t_out"
done
t_check "twenty are enough: $(cat "$t_err")" [ $t_status -eq 0 ]
verb "renew kept --token $token"
t_check "kept is still held" [ "$t_status" -eq 0 ]

new_case "nothing is left running"
t_check "no worker" until_true 10 no_worker
umount "$disk" 2>/dev/null
t_done
