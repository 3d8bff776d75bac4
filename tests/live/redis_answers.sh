#!/bin/sh
# redis_answers.sh - a real Redis that answers, but refuses: full, loading, without its disk or its
# replicas, no master any more. One line says what it said and what to do, exit status 69; a term
# that cannot be renewed ends by its deadline, and goes on as another one when the server is well.
# Passwords, permissions and databases are in redis.sh.
# shellcheck source=tests/harness/lib.sh
. "${TENURE_ROOT:-$(dirname "$0")/../..}/tests/harness/lib.sh"
# shellcheck source=tests/live/redis.inc
. "$TENURE_ROOT/tests/live/redis.inc"
rd_begin

# answers NAME N CODE REMEDY: while ill NAME holds for server N, until well NAME.
answers() {
    an_name=$1 an_url=$(rd_url "$2") an_code=$3 an_remedy=$4
    candidate ada "$an_name" "$an_url" 3s
    until_acted "$an_name" 0
    an_kept=$token
    "ill_$an_name" "$2" >/dev/null
    an_at=$(now_ms)
    refuses 69 "$an_code" "$an_url"
    t_check "the remedy: $(cat "$t_err")" grep -qF "$an_remedy" "$t_err"
    until_ms $((an_at + 4200))
    t_promise "nobody acts beyond the TTL: $(($(acted_at "$an_name") - an_at)) ms" \
        [ "$(acted_at "$an_name")" -le $((an_at + 3000)) ]
    t_check "who has lost says why: $(cat "$t_dir/$an_name.err")" \
        grep -q "leadership lost: expired (token $an_kept).*$an_code" "$t_dir/$an_name.err"
    "well_$an_name" "$2" >/dev/null
    until_acted "$an_name" "$an_kept"
    end_all
    t_promise "one after the other" apart "$an_name"
}

t_case "a server starts"
t_check "it runs" rd_start 1
t_check "and one that saves snapshots" rd_start 2 --appendonly no \
    --save '3600 1' --enable-protected-configs yes

t_case "OOM: it is full"
ill_full() { rd "$1" CONFIG SET maxmemory 1mb maxmemory-policy noeviction; }
well_full() { rd "$1" CONFIG SET maxmemory 0; }
rd 1 SETRANGE ballast 4000000 x >/dev/null
answers full 1 OOM "raise maxmemory there"

t_case "NOREPLICAS: it has too few of them"
ill_alone() { rd "$1" CONFIG SET min-replicas-to-write 1; }
well_alone() { rd "$1" CONFIG SET min-replicas-to-write 0; }
answers alone 1 NOREPLICAS "fewer replicas than min-replicas-to-write"

t_case "MISCONF: it cannot save"
saved() { rd "$1" INFO persistence | grep -q "^rdb_last_bgsave_status:$2"; }
# A folder that was removed: so not even root can write there.
ill_unsaved() {
    mkdir "$t_dir/data" && rd "$1" CONFIG SET dir "$t_dir/data" && rmdir "$t_dir/data"
    rd "$1" BGSAVE
    until_true 20 saved "$1" err
}
well_unsaved() {
    rd "$1" CONFIG SET dir "$t_dir/rd$1"
    rd "$1" BGSAVE
    until_true 20 saved "$1" ok
}
answers unsaved 2 MISCONF "look at its disk and its log"

t_case "READONLY: it is a replica now"
ill_demoted() { rd "$1" REPLICAOF 127.0.0.1 1; }
well_demoted() { rd "$1" REPLICAOF NO ONE; }
answers demoted 1 "read-only replica" "connect to the master"

t_case "LOADING: it reads its data"
# It listens at every kilobyte of a snapshot, some sixty keys of a millisecond each, and takes more
# than ten seconds for all of them: long sleeps, so that a busy machine does not stretch them.
seq 1 10000 | sed 's/.*/SET ballast:& x/' | rd 1 --pipe >/dev/null
is_loading() { rd "$1" PING 2>&1 | grep -q ^LOADING; }
is_rewritten() { rd "$1" INFO persistence | grep -q ^aof_rewrite_in_progress:0; }
ill_loading() {
    rd "$1" BGREWRITEAOF
    until_true 20 is_rewritten "$1"
    rd_kill "$1" KILL
    rd_launch "$1" --key-load-delay 1000 --loading-process-events-interval-bytes 1024
    until_true 20 is_loading "$1"
}
well_loading() {
    rd_kill "$1" KILL
    rd_start "$1"
}
answers loading 1 LOADING "it is still reading its data; wait"
t_done
