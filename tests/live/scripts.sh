#!/bin/sh
# scripts.sh - acquire, renew, release, revoke, status, list and watch on the engines: each step is
# another process, and only the secret proves whose lease it is.
. "$(dirname "$0")/../harness/lib.sh"
. "$(dirname "$0")/etcd.lib"
. "$(dirname "$0")/postgres.inc"
. "$(dirname "$0")/tenured.lib"
. "$(dirname "$0")/redis.inc"

field() { sed "s/.*\"$1\":\"\{0,1\}\([^,\"}]*\).*/\1/" "$t_out"; }
is_free() { "$tenure" status "$1" --json | grep -q '"state":"free"'; }

# failed STATUS WORDS: that exit status, and one line on stderr with the words.
failed() {
    t_check "exit status is $1, not $t_status" [ "$t_status" -eq "$1" ]
    t_check "one line on stderr: $(cat "$t_err")" [ "$(wc -l <"$t_err")" -eq 1 ]
    t_check "says '$2': $(cat "$t_err")" grep -qF "$2" "$t_err"
}

# take ARGUMENT...: acquire with --json; sets token and TENURE_SECRET.
take() {
    t_run "$tenure" acquire --json "$@"
    t_check "granted: $(cat "$t_err")" [ "$t_status" -eq 0 ]
    token=$(field token)
    TENURE_SECRET=$(field secret)
    export TENURE_SECRET
}

primitives() {
    t_case "$1: each step in a process of its own"
    t_run "$tenure" status --json s/job
    t_check "free from the start" grep -qx \
        '{"name":"s/job","state":"free","holder":null,"token":0,"ttl_ms":0,"remaining_ms":0}' \
        "$t_out"
    take s/job --id me --ttl 20s
    told='\{"granted":true,"name":"s/job","token":[0-9]+,"secret":"[0-9a-f]{64}","ttl_ms":20000\}'
    t_check "all fields" grep -Eqx "$told" "$t_out"
    t_run "$tenure" status --json s/job
    told="\"holder\":\"me\",\"token\":$token,\"ttl_ms\":20000,\"remaining_ms\":[0-9]+"
    t_check "status: $(cat "$t_out")" grep -Eqx \
        "\{\"name\":\"s/job\",\"state\":\"held\",$told(,\"[a-z_]*\":[0-9]+)*\}" "$t_out"
    t_run "$tenure" acquire s/job --json --id you
    t_check "held: 75" [ "$t_status" -eq 75 ]
    told="{\"granted\":false,\"holder\":\"me\",\"token\":$token,"
    t_check "who holds it" grep -q "^$told" "$t_out"
    t_run "$tenure" acquire s/job
    failed 75 "s/job is held by 'me', token $token"
    t_run "$tenure" renew s/job --token "$token" --json
    t_check "renewed: $(cat "$t_err")" grep -qx \
        "{\"renewed\":true,\"name\":\"s/job\",\"token\":$token,\"ttl_ms\":20000}" "$t_out"
    t_run "$tenure" renew s/job --token "$token"
    t_ends 0
    wrong=$(printf '%064d' 7)
    for verb in renew release; do
        TENURE_SECRET=$wrong t_run "$tenure" $verb s/job --token "$token"
        failed 77 "not the holder's"
        t_run "$tenure" $verb s/job --token $((token + 1))
        failed 80 "is over"
        t_run "$tenure" $verb s/other --token "$token"
        failed 80 "is over"
    done
    t_run "$tenure" release s/job --token "$token"
    t_ends 0
    t_run "$tenure" release s/job --token "$token"
    t_ends 0
    t_run "$tenure" renew s/job --token "$token"
    failed 80 "token $token is over"
    t_run "$tenure" status --json s/job
    t_check "the last token" grep -qF "\"state\":\"free\",\"holder\":null,\"token\":$token" "$t_out"
    old=$token old_secret=$TENURE_SECRET
    take s/job --ttl 20s
    t_check "larger" [ "$token" -gt "$old" ]
    TENURE_SECRET=$old_secret t_run "$tenure" renew s/job --token "$old"
    failed 80 "is over"
    t_run "$tenure" release s/job --token "$token"

    t_case "$1: a waiter is woken by the release, and one that is told to end leaves no place"
    take s/wake --ttl 1m
    "$tenure" acquire s/wake --wait 50s --ttl 1m --json >"$t_dir/woken" 2>&1 &
    waiter=$!
    # It is in the queue when nobody can go past it any more; a look every now and then.
    until_true 20 queued "$waiter"
    started=$(now_ms)
    t_run "$tenure" release s/wake --token "$token"
    wait $waiter
    t_check "granted" [ $? -eq 0 ]
    took=$(($(now_ms) - started))
    t_check "long before the TTL: $took ms" [ $took -lt 10000 ]
    old=$token
    token=$(sed 's/.*"token":\([0-9]*\).*/\1/' "$t_dir/woken")
    TENURE_SECRET=$(sed 's/.*"secret":"\([^"]*\)".*/\1/' "$t_dir/woken")
    t_check "a larger token" [ "$token" -gt "$old" ]
    "$tenure" acquire s/wake --wait 50s >/dev/null 2>&1 &
    waiter=$!
    until_true 20 queued "$waiter"
    kill -TERM $waiter
    wait $waiter 2>/dev/null
    t_check "ended by the signal" [ $? -eq 143 ]
    t_run "$tenure" acquire s/wake --wait 300ms --json
    t_check "a short wait: 75, not $t_status" [ "$t_status" -eq 75 ]
    t_run "$tenure" release s/wake --token "$token"
    t_ends 0
    t_check "free" is_free s/wake

    t_case "$1: a lease that nobody renews is followed by the waiter"
    take s/dead --ttl 2s
    t_run "$tenure" acquire s/dead --wait 40s --ttl 20s --json
    t_check "granted: $(cat "$t_err")" [ "$t_status" -eq 0 ]
    t_check "a larger token" [ "$(field token)" -gt "$token" ]
    t_run "$tenure" renew s/dead --token "$token"
    failed 80 "is over"

    t_case "$1: a lease that is revoked says so until its holder has given it back"
    take s/taken --id me --ttl 20s
    t_run "$tenure" revoke s/taken --token $((token + 1))
    failed 80 "s/taken: token $((token + 1)) is not current, $token is"
    t_run "$tenure" revoke s/none
    failed 80 "s/none: nobody"
    t_run "$tenure" status --json s/taken
    t_refute "not yet: $(cat "$t_out")" grep -q revoked "$t_out"
    t_run "$tenure" revoke s/taken --json
    t_check "revoked: $(cat "$t_err")" grep -qx \
        "{\"revoked\":true,\"name\":\"s/taken\",\"holder\":\"me\",\"token\":$token}" "$t_out"
    t_run "$tenure" revoke s/taken
    t_ends 0
    t_run "$tenure" status --json s/taken
    t_check "status: $(cat "$t_out")" grep -q \
        "\"state\":\"held\",\"holder\":\"me\",\"token\":$token,.*,\"revoked\":true}" "$t_out"
    t_run "$tenure" list 's/*' --held
    t_check "list: $(cat "$t_out")" grep -Eq "^s/taken +revoked +me +$token " "$t_out"
    t_run "$tenure" acquire s/taken
    failed 75 "s/taken is held by 'me'"
    t_run "$tenure" release s/taken --token "$token"
    t_ends 0
    t_run "$tenure" status --json s/taken
    t_refute "no more: $(cat "$t_out")" grep -q revoked "$t_out"

    t_case "$1: list, and watch of all names"
    t_run "$tenure" list s/
    t_check "sorted: $(cat "$t_out")" \
        [ "$(cut -d' ' -f1 "$t_out" | tr '\n' ' ')" = "NAME s/dead s/job s/taken s/wake " ]
    "$tenure" watch --json >"$t_dir/watched" 2>"$t_dir/watched.err" &
    watcher=$!
    t_check "sees what is there" until_true 20 has "$t_dir/watched" '"leader","name":"s/dead"'
    take s/new --id late
    t_check "and what comes" \
        until_true 20 has "$t_dir/watched" '"leader","name":"s/new","holder":"late"'
    kill -TERM $watcher
    wait $watcher
    t_check "ends when asked" [ $? -eq 0 ]
    rm -f "$t_dir/watched"
}

# queued PID: it waits, which a process does that sleeps and has asked; asked by the engine's own
# means where there are any, else by the time that it has had.
queued() { "$is_queued" "$1"; }

if command -v etcd >/dev/null && etcd_start one; then
    # shellcheck disable=SC2154 # etcd_start sets it.
    endpoints=127.0.0.1:$port_one
    TENURE_STORE=etcd://$endpoints/t
    export TENURE_STORE
    etcd_queued() { [ "$(ctl get --prefix --keys-only t/s/wake/ | grep -c .)" -eq 2 ]; }
    is_queued=etcd_queued
    primitives etcd
    t_case "etcd: a TTL that it does not grant"
    t_run "$tenure" acquire s/short --ttl 1s
    failed 64 "takes 2s or more"
    t_case "etcd: no server"
    t_run "$tenure" acquire x --store etcd://127.0.0.1:1
    failed 69 "127.0.0.1:1"
    t_run "$tenure" status x --store etcd://127.0.0.1:1
    failed 69 "127.0.0.1:1"
else
    t_case "etcd"
    t_skip "no etcd: install etcd-server and etcd-client"
fi

tenured_start
TENURE_STORE=unix:$socket
export TENURE_STORE
is_queued=one_waits
primitives tenured
tenured_end

if pg_find && pg_init && pg_start; then
    TENURE_STORE=$(at postgres)
    export TENURE_STORE
    t_case "postgres: looking makes no schema"
    t_run "$tenure" status s/job
    t_check "free: $(cat "$t_err")" grep -q "^s/job: free, never held" "$t_out"
    t_run "$tenure" list
    t_check "empty" [ "$t_status" -eq 0 ]
    TENURE_SECRET=$(printf '%064d' 7) t_run "$tenure" release s/job --token 1
    failed 80 "is over"
    schemas=$(pg_sql postgres "SELECT count(*) FROM pg_namespace WHERE nspname = 'tenure'")
    t_check "no schema" [ "$schemas" -eq 0 ]
    pg_queued() { [ "$(pg_sql postgres "SELECT count(*) FROM tenure.waiter")" -eq 1 ]; }
    is_queued=pg_queued
    primitives postgres

    t_case "postgres: run --skip-if-held watches a holder long enough to tell whether it is dead"
    take s/cron --ttl 2s
    t_run "$tenure" run --skip-if-held --conflict-exit 75 --ttl 2s s/cron -- echo ran
    t_ends 0
    t_prints ran
    "$tenure" run --ttl 2s s/cron -- sleep 60 2>/dev/null &
    leader=$!
    candidates="$candidates $leader"
    t_check "led again" until_true 20 eval "! is_free s/cron"
    t_run "$tenure" run --skip-if-held --conflict-exit 75 --ttl 2s s/cron -- echo ran
    t_ends 75
    t_refute "nothing ran" [ -s "$t_out" ]
    kill -TERM $leader
    wait $leader
    t_case "postgres: what was released leaves no session behind"
    before=$(pg_sql postgres "SELECT count(*) FROM tenure.session")
    take s/tidy
    t_run "$tenure" release s/tidy --token "$token"
    t_run "$tenure" acquire s/new
    failed 75 "that shows to --wait"
    t_check "as before" [ "$(pg_sql postgres "SELECT count(*) FROM tenure.session")" -eq "$before" ]
    t_case "postgres: commits that are not waited for are told once"
    pg_sql postgres "CREATE DATABASE lazy"
    pg_sql lazy "ALTER DATABASE lazy SET synchronous_commit = off"
    t_run "$tenure" run --store "$(at lazy)" --ttl 5s job -- true
    t_check "leads" [ "$t_status" -eq 0 ]
    t_check "one line: $(cat "$t_err")" [ "$(wc -l <"$t_err")" -eq 1 ]
    t_check "says so" grep -q "^tenure run: warning: synchronous_commit is off" "$t_err"
else
    t_case "postgres"
    t_skip "PostgreSQL is not installed"
fi

if command -v redis-server >/dev/null && rd_start 1; then
    TENURE_STORE=$(rd_url 1)
    export TENURE_STORE
    redis_queued() { rd_says 1 1 ZCARD "{tenure}:q:s/wake"; }
    is_queued=redis_queued
    primitives redis
    for n in 2 3 4; do
        t_check "$n runs" rd_start "$n"
    done
    TENURE_STORE=$(rd_lock 2 3 4)
    # At a majority: who was granted there and has left may still have its place at a slow third.
    redlock_queued() {
        rq_count=0
        for rq_node in 2 3 4; do
            [ "$(rd $rq_node ZCARD "{tenure}:q:s/wake")" -lt 1 ] || rq_count=$((rq_count + 1))
        done
        [ $rq_count -ge 2 ]
    }
    is_queued=redlock_queued
    primitives redlock
    t_case "redis: no server"
    t_run "$tenure" acquire x --store redis://127.0.0.1:1
    failed 69 "127.0.0.1:1"
else
    t_case "redis"
    t_skip "Redis is not installed"
fi

t_case "zookeeper: a lease there ends with its process, and that is said"
TENURE_SECRET=$(printf '%064d' 7)
for verb in acquire "renew --token 1" "release --token 1"; do
    # shellcheck disable=SC2086 # Words are meant to be split.
    t_run "$tenure" $verb x --store zookeeper://127.0.0.1:1
    if grep -q "not in this build" "$t_err"; then
        t_skip "this build has no zookeeper:"
        break
    fi
    failed 64 "ends with the process"
done
t_done
