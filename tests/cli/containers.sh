#!/bin/bash
# containers.sh - containers that share a store: exclusion holds, or the use is refused, and why.
#
# A container here has mount, pid, user and time namespaces of its own, and a directory of the host
# or a single file mounted into it. Its boot clock is set apart from the host's. An act carries the
# time of the wall clock, which all containers share.
# shellcheck source=tests/harness/lib.sh
. "${TENURE_ROOT:-$(dirname "$0")/../..}/tests/harness/lib.sh"

tenure=$TENURE_BUILD/tenure
tenured=$TENURE_BUILD/tenured
hold=$TENURE_BUILD/tests/fixtures/hold
shared=$t_dir/shared
log=$t_dir/acts
worker=$t_dir/worker
pids=()

cat >"$worker" <<'END'
#!/bin/sh
while :; do date "+%s%N $TENURE_TOKEN $TENURE_ID" >>"$ACTS"; done
END
chmod +x "$worker"
export ACTS=$log

now() { date +%s%N; }

# box AHEAD FROM TO COMMAND...: runs it in a container whose boot clock is AHEAD seconds ahead, with
# FROM of the host mounted on TO. Whoever kills it kills all that is in it.
box() {
    local ahead=$1 from=$2 to=$3
    shift 3
    # shellcheck disable=SC2016 # For the shell inside.
    exec unshare -U -r -m -p -f -T --boottime "$ahead" --mount-proc --kill-child \
        sh -c 'mount --bind "$1" "$2" && shift 2 && "$@"; exit' sh "$from" "$to" "$@"
}

can_box() { (box 7 "$shared" "$inside" true) 2>"$t_dir/why"; }

tidy_up() {
    local p
    for p in "${pids[@]}"; do
        kill -KILL "$p" 2>/dev/null
    done
    wait 2>/dev/null
    pids=()
}

no_worker() { ! grep -qsF "$worker" /proc/[0-9]*/cmdline; }

new_case() {
    tidy_up
    until_true 20 no_worker || t_fail "a worker of the case before is still there"
    t_case "$1"
    inside=$t_dir/inside
    rm -rf "$shared" "$inside" "$t_dir"/err.*
    mkdir -m 700 "$shared" "$inside"
    from=$shared to=$inside
    : >"$log"
    can_box || t_skip "namespaces are not allowed here: $(tail -n 1 "$t_dir/why")"
    can_box
}

# candidate ID AHEAD STORE: a run in a container of its own, with $from mounted on $to; $pid.
candidate() {
    (box "$2" "$from" "$to" "$tenure" run --ttl 2s --id "$1" --store "$3" job -- \
        "$worker") >"$t_dir/out.$1" 2>"$t_dir/err.$1" &
    pid=$!
    pids+=("$pid")
}

acts() { tail -n 1 "$log" | grep -q " $1\$"; }
acts_after() { [ "$(tail -n 1 "$log" | cut -d' ' -f1)" -gt "$1" ]; }

# No act of a term after the first of the next, and tokens rise.
no_overlap() {
    awk '!($2 in first) { first[$2] = $1; order[++n] = $2 } { last[$2] = $1 }
         END { for (i = 2; i <= n; i++) {
                   if (order[i] + 0 <= order[i - 1] + 0) exit 1
                   if (first[order[i]] + 0 <= last[order[i - 1]] + 0) exit 1 } }' "$log"
}

# hands_over STORE AHEAD_A AHEAD_B AHEAD_C: a leads, b waits for three TTLs in vain, a's container
# is killed and b leads, b resigns and c leads.
hands_over() {
    candidate a "$2" "$1"
    local a=$pid
    t_check "a leads: $(cat "$t_dir/err.a")" until_true 20 acts a
    candidate b "$3" "$1"
    local b=$pid since
    since=$(($(now) + 6000000000))
    t_check "a goes on" until_true 30 acts_after $since
    t_refute "b waits for its turn" grep -q ' b$' "$log"
    kill -KILL $a
    t_check "b takes over: $(cat "$t_dir/err.b")" until_true 30 acts b
    candidate c "$4" "$1"
    t_check "c waits" until_true 20 test -e "$t_dir/err.c"
    # The supervisor is older than its guardian.
    kill -TERM "$(pgrep -o -f -- "^$tenure run .* --id b --store $1 ")"
    wait $b
    t_check "c leads: $(cat "$t_dir/err.c")" until_true 30 acts c
    t_promise "never two at one time, and tokens rise" no_overlap
}

# refused WORDS COMMAND...: in a container with the single file mounted: one line, and 77.
refused() {
    local words=$1
    shift
    t_run "$@"
    t_check "$*: exit status is 77, not $t_status" [ "$t_status" -eq 77 ]
    t_check "$*: one line: $(cat "$t_err")" [ "$(wc -l <"$t_err")" -eq 1 ]
    t_check "$*: says why: $(cat "$t_err")" grep -q -e "$words" "$t_err"
    # acquire says what makes a script's eval fail.
    t_refute "$*: nothing on stdout" grep -qv '^unset TENURE_TOKEN TENURE_SECRET' "$t_out"
}

in_box() { (box "$@"); }

if new_case "SQLite: containers with clocks far apart share a directory"; then
    hands_over "sqlite:$inside/t.db" 0 86400 1000000
fi

if new_case "SQLite: what was killed inside COMMIT in one container is undone in the other"; then
    file=$inside/t.db
    in_box 0 "$shared" "$inside" "$tenure" acquire job --ttl 10m --id a --store "sqlite:$file" \
        --json >"$t_dir/a" 2>"$t_dir/err.a"
    t_check "granted: $(cat "$t_dir/err.a")" grep -q '"granted":true' "$t_dir/a"
    (box 500 "$shared" "$inside" "$hold" "$file" \
        "DELETE FROM leases; UPDATE counter SET token = 0") >"$t_dir/held" &
    pids+=($!)
    t_check "it stands inside COMMIT" until_true 20 grep -q held "$t_dir/held"
    kill -KILL $!
    wait $! 2>/dev/null
    t_run in_box 900 "$shared" "$inside" "$tenure" acquire job --id b --store "sqlite:$file" --json
    t_check "it is held still: $(cat "$t_err")" [ "$t_status" -eq 75 ]
    t_prints '"holder":"a","token":1'
fi

if new_case "SQLite: a single file that is mounted is refused, and leaves the store alone"; then
    "$tenure" acquire job --ttl 10m --id host --store "sqlite:$shared/t.db" >/dev/null
    t_check "a fence" "$tenure" fence install --at "sqlite:$shared/app.db"
    : >"$inside/t.db"
    for verb in "acquire job" "status job" list "run --wait 3s job -- true"; do
        # shellcheck disable=SC2086 # Words are meant to be split.
        refused "t.db: is mounted as a single file.*mount its directory" in_box 0 "$shared/t.db" \
            "$inside/t.db" env "TENURE_STORE=sqlite:$inside/t.db" "$tenure" $verb
    done
    refused "is mounted as a single file" in_box 0 "$shared/app.db" "$inside/t.db" \
        "$tenure" fence raise --at "sqlite:$inside/t.db" orders 6
    : >"$shared/data"
    refused "is mounted as a single file" in_box 0 "$shared/data" "$inside/t.db" \
        "$tenure" fence raise --at "file:$inside/t.db" 6
    t_check "nothing was left inside" [ "$(ls -A "$inside")" = t.db ]
    t_run "$tenure" status job --store "sqlite:$shared/t.db" --json
    t_prints '"state":"held","holder":"host","token":1'
fi

if new_case "SQLite: a user without a mapping is refused, since all such users look alike"; then
    "$tenure" acquire job --ttl 10m --id host --store "sqlite:$shared/t.db" >/dev/null
    refused "t.db: belongs to nobody" unshare -U "$tenure" acquire job \
        --store "sqlite:$shared/t.db"
fi

if new_case "tenured: containers share a socket, by its directory and then by the file alone"; then
    mkdir -m 700 "$t_dir/data"
    "$tenured" --data "$t_dir/data" --listen "unix:$shared/s" >"$t_dir/daemon" 2>&1 &
    pids+=($!)
    t_check "the daemon listens: $(cat "$t_dir/daemon")" until_true 20 test -S "$shared/s"
    hands_over "unix:$inside/s" 0 86400 1000000
    kill -KILL "$pid"
    wait "$pid" 2>/dev/null
    until_true 20 no_worker || t_fail "a worker is still there"
    : >"$log"
    from=$shared/s to=$inside/s
    : >"$to"
    hands_over "unix:$inside/s" 0 86400 1000000
fi

tidy_up
t_done
