#!/bin/sh
# fence-unix.sh - a fence, or a store, behind a Unix socket that somebody else could have made.
# shellcheck source=tests/harness/lib.sh
. "${TENURE_ROOT:-$(dirname "$0")/../..}/tests/harness/lib.sh"

tenure=$TENURE_BUILD/tenure
# shellcheck source=tests/harness/fence.sh
. "$TENURE_ROOT/tests/harness/fence.sh"

pids=
trap 'for pid in $pids; do kill -KILL "$pid" 2>/dev/null; done; rm -rf "$t_dir"' EXIT

if [ "$(id -u)" -ne 0 ]; then
    t_case "sockets of other users"
    t_skip "needs root, to be two users"
    t_done
fi
nobody="setpriv --reuid=65534 --regid=65534 --clear-groups"
chmod 711 "$t_dir"
cp "$TENURE_BUILD/tenured" "$tenure" "$t_dir/"

# daemon USER SOCKET: a tenured of that user (a prefix of the command); its data is beside.
daemon() {
    mkdir -p "$2.data"
    chmod 700 "$2.data"
    [ -z "$1" ] || chown 65534:65534 "$2.data"
    # shellcheck disable=SC2086 # A prefix of several words, or of none.
    $1 "$t_dir/tenured" --data "$2.data/data" --listen "unix:$2" >"$2.said" 2>&1 &
    pids="$pids $!"
    t_check "a daemon" until_true 10 grep -q ready "$2.said"
}

# refused WORDS PATH: no fence at this socket is believed.
refused() {
    t_run "$tenure" fence raise --at "unix:$2" orders 7
    failed 77 "$1"
    t_run "$tenure" fence show --at "unix:$2" orders
    failed 77 "$1"
    t_run timeout 60 "$tenure" run --store "sqlite:$t_dir/store.db" --fence "unix:$2#orders" \
        orders -- true
    failed 77 "$1"
    t_run "$tenure" status orders --json --store "sqlite:$t_dir/store.db"
    t_check "no token was granted" grep -q '"token":0,' "$t_out"
}
"$tenure" status orders --store "sqlite:$t_dir/store.db" >/dev/null

t_case "our own daemon is believed"
mkdir "$t_dir/own"
daemon "" "$t_dir/own/socket"
t_run "$tenure" fence raise --at "unix:$t_dir/own/socket" orders 7
t_ends 0
(cd "$t_dir/own" && "$tenure" fence raise --at unix:socket orders 7)
t_check "by a relative path, too" [ $? -eq 0 ]

t_case "another user's daemon where everybody may make a socket is not"
mkdir "$t_dir/open"
chmod 1777 "$t_dir/open"
daemon "$nobody" "$t_dir/open/socket"
refused "$t_dir/open/socket belongs to another user (uid 65534)" "$t_dir/open/socket"

t_case "our own daemon is not, where another user can put a different one"
mkdir "$t_dir/theirs"
chown 65534 "$t_dir/theirs"
$nobody ln -s "$t_dir/own/socket" "$t_dir/theirs/socket"
refused "$t_dir/theirs belongs to another user (uid 65534)" "$t_dir/theirs/socket"
$nobody ln -s "$t_dir/own" "$t_dir/open/link"
refused "$t_dir/open/link belongs to another user (uid 65534)" "$t_dir/open/link/socket"
ln -s "$t_dir/theirs/socket" "$t_dir/own/link"
refused "$t_dir/theirs belongs to another user (uid 65534)" "$t_dir/own/link"
mkdir "$t_dir/wild"
daemon "" "$t_dir/wild/socket"
chmod 777 "$t_dir/wild"
refused "$t_dir/wild can be written by every user" "$t_dir/wild/socket"
t_run "$tenure" status orders --store "unix:$t_dir/wild/socket"
failed 77 "$t_dir/wild can be written by every user"
chmod 1777 "$t_dir/wild"
t_run "$tenure" fence raise --at "unix:$t_dir/wild/socket" orders 7
t_ends 0
ln -s own "$t_dir/linked"
t_run "$tenure" fence raise --at "unix:$t_dir/linked/../own/socket" orders 7
t_ends 0

t_case "a user believes a daemon of root"
chmod 755 "$t_dir/own" && chmod 666 "$t_dir/own/socket"
t_run $nobody "$t_dir/tenure" fence raise --at "unix:$t_dir/own/socket" orders 8
t_check "asked, and not let in: $(cat "$t_err")" grep -qv "another user" "$t_err"

# redis USER FOLDER: a Redis of nobody with its socket there.
redis() {
    (cd "$t_dir/redis" && exec $nobody redis-server --port 0 --save "" --unixsocket "$1/redis" \
        --unixsocketperm 777) >"$t_dir/redis.said" 2>&1 &
    redis=$!
    pids="$pids $redis"
    t_check "a Redis" until_true 10 redis-cli -s "$1/redis" PING >/dev/null 2>&1
}

t_case "a Redis runs as its own user, in its own directory or in one of root's"
if ! command -v redis-server >/dev/null; then
    t_skip "redis-server is not installed; tools/deps servers installs it"
    t_done
fi
mkdir "$t_dir/redis"
chown 65534 "$t_dir/redis"
redis "$t_dir/redis"
t_run "$tenure" fence raise --at "redis+unix:$t_dir/redis/redis" orders 7
t_ends 0
t_run "$tenure" status orders --store "redis+unix:$t_dir/redis/redis"
t_check "as a store, too: $(cat "$t_err")" [ "$t_status" -eq 0 ]

t_case "but not where everybody may make a socket, or a directory"
kill "$redis"
wait "$redis" 2>/dev/null
redis "$t_dir/open"
t_run "$tenure" fence raise --at "redis+unix:$t_dir/open/redis" orders 7
failed 77 "$t_dir/open/redis belongs to another user (uid 65534)"
t_run "$tenure" status orders --store "redis+unix:$t_dir/open/redis"
t_check "as a store: 77, not $t_status" [ "$t_status" -eq 77 ]
t_check "why: $(cat "$t_err")" grep -q "belongs to another user (uid 65534)" "$t_err"
kill "$redis"
wait "$redis" 2>/dev/null
$nobody mkdir "$t_dir/open/made"
redis "$t_dir/open/made"
t_run "$tenure" fence raise --at "redis+unix:$t_dir/open/made/redis" orders 7
failed 77 "$t_dir/open/made belongs to another user (uid 65534)"
kill "$redis"
wait "$redis" 2>/dev/null

t_case "PostgreSQL: libpq looks, when requirepeer asks it to"
at=$("$TENURE_ROOT/tests/harness/postgres" start "$t_dir/postgres") || t_skip "$at"
t_run "$tenure" fence install --at "$at&requirepeer=nobody"
t_ends 0
t_run "$tenure" fence raise --at "$at&requirepeer=root" orders 7
t_check "refused, not $t_status" [ "$t_status" -ne 0 ]
t_check "names it" grep -q 'requirepeer specifies "root"' "$t_err"
"$TENURE_ROOT/tests/harness/postgres" stop "$t_dir/postgres"

t_done
