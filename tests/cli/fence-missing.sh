#!/bin/sh
# fence-missing.sh - a fence that is misspelt, not installed or not ours to use: one line, nothing
# made, and `tenure run` ends before it is granted a token.
# shellcheck source=tests/harness/lib.sh
. "${TENURE_ROOT:-$(dirname "$0")/../..}/tests/harness/lib.sh"

tenure=$TENURE_BUILD/tenure
harness=$TENURE_ROOT/tests/harness
TENURE_STORE=sqlite:$t_dir/store.db
export TENURE_STORE
# shellcheck source=tests/harness/fence.sh
. "$harness/fence.sh"

pids=
cleanup() {
    for pid in $pids; do kill -KILL "$pid" 2>/dev/null; done
    "$harness/redis" stop "$t_dir/redis"
    "$harness/postgres" stop "$t_dir/postgres"
    rm -rf "$t_dir"
}
trap cleanup EXIT
"$tenure" status job >/dev/null

# ends STATUS WORDS SPEC [PREFIX]...: `run` with this fence does, and no token was granted.
ends() {
    ends_status=$1 ends_words=$2 ends_spec=$3
    shift 3
    t_run timeout 60 "$@" "$tenure" run --fence "$ends_spec" job -- echo ran
    failed "$ends_status" "$ends_words"
    t_check "names the option" grep -q -e "--fence: " "$t_err"
    t_check "$ends_spec: no token was granted" \
        [ "$("$tenure" status job --json | sed 's/.*"token":\([0-9]*\).*/\1/')" -eq 0 ]
}

# absent WORDS URL RESOURCE: no verb but those that make a fence can use it.
absent() {
    # shellcheck disable=SC2086 # The resource may be no word at all.
    {
        t_run "$tenure" fence show --at "$2" $3
        failed 69 "$1"
        t_run "$tenure" fence show --at "$2" --json
        failed 69 "$1"
        t_run "$tenure" fence raise --at "$2" $3 7
        failed 69 "$1"
        t_run "$tenure" fence admit --at "$2" $3 7
        failed 69 "$1"
    }
    ends 69 "$1" "$2${3:+#$3}"
    t_check "nothing was made" [ -z "$(find "$t_dir" -name '*typo*')" ]
}

t_case "a misspelt path: no verb makes a fence by the way"
install="No such file or directory; check the path, or make it with 'tenure fence install --at URL'"
absent "$t_dir/typo.db: $install" "sqlite:$t_dir/typo.db" orders
absent "$t_dir/typo: $install" "file:$t_dir/typo" ""
absent "$t_dir/typo/x.db: No such file or directory" "sqlite:$t_dir/typo/x.db" orders
absent "$t_dir/typo/x: No such file or directory" "file:$t_dir/typo/x" ""
: >"$t_dir/plain"
absent "Not a directory" "sqlite:$t_dir/plain/typo.db" orders
absent "Not a directory" "file:$t_dir/plain/typo" ""
t_run "$tenure" fence remove --at "sqlite:$t_dir/typo.db" --table orders
failed 69 "No such file"
t_run "$tenure" fence install --at "sqlite:$t_dir/typo.db" --table orders --resource orders
failed 69 "No such file"
t_check "nothing was made" [ ! -e "$t_dir/typo.db" ]

t_case "install makes it, and then all verbs use it"
t_run "$tenure" fence install --at "sqlite:$t_dir/new.db"
t_ends 0
t_run "$tenure" fence show --at "sqlite:$t_dir/new.db"
t_ends 0
t_run "$tenure" fence show --at "sqlite:$t_dir/new.db" orders --json
t_prints '{"resource":"orders","token":0}'
t_run "$tenure" fence raise --at "sqlite:$t_dir/new.db" orders 7
t_ends 0
t_run "$tenure" fence install --at "sqlite:$t_dir/new.db"
t_ends 0
t_check "again it changes nothing" [ "$(highest "sqlite:$t_dir/new.db" orders)" = 7 ]
t_run "$tenure" fence install --at "file:$t_dir/new"
t_ends 0
t_run "$tenure" fence raise --at "file:$t_dir/new" 7
t_ends 0
t_run "$tenure" fence install --at "file:$t_dir/new"
t_ends 0
t_check "again it changes nothing" [ "$(highest "file:$t_dir/new")" = 7 ]
t_run "$tenure" fence install --at "sqlite:$t_dir/typo/x.db"
failed 69 "No such file or directory"
t_run "$tenure" fence install --at "file:$t_dir/typo/x"
failed 69 "No such file or directory"

t_case "what is there already needs no install"
: >"$t_dir/report"
t_run "$tenure" fence raise --at "file:$t_dir/report" 7
t_ends 0
echo hello | "$tenure" fence write --at "file:$t_dir/first" 7
t_check "write makes the file" [ "$(cat "$t_dir/first")" = hello ]
t_run "$tenure" fence raise --at "$TENURE_STORE" job 1
t_ends 0

t_case "run: what will never work ends it at once"
ends 69 "is not a regular file" "sqlite:$t_dir#r"
ends 69 "not a database" "sqlite:$0#r"
ln -s new.db "$t_dir/link.db"
ends 77 "symbolic link" "sqlite:$t_dir/link.db#r"
ends 64 "is not a fence that this tenure knows" "sqlit:$t_dir/new.db#r"
ends 64 "is not a resource" "sqlite:$t_dir/new.db#a b"
ends 64 "the resource is missing" "sqlite:$t_dir/new.db"
echo hello >"$t_dir/odd.fence"
ends 69 "something else than a token" "file:$t_dir/odd"

t_case "run: so does a place that this user may not write to"
if [ "$(id -u)" -ne 0 ]; then
    t_skip "needs root, to be two users"
else
    nobody="setpriv --reuid=65534 --regid=65534 --clear-groups"
    mkdir "$t_dir/user"
    cp "$tenure" "$t_dir/user/"
    chown 65534 "$t_dir/user"
    chmod 711 "$t_dir"
    mkdir "$t_dir/theirs"
    cp "$t_dir/new.db" "$t_dir/theirs/"
    cp "$t_dir/new.db" "$t_dir/theirs/open.db"
    : >"$t_dir/theirs/f" && chmod 666 "$t_dir/theirs/f" "$t_dir/theirs/open.db"
    for place in "sqlite:$t_dir/theirs/new.db#r" "sqlite:$t_dir/theirs/open.db#r" \
        "file:$t_dir/theirs/f"; do
        t_run timeout 60 $nobody "$t_dir/user/tenure" run --store "sqlite:$t_dir/user/store.db" \
            --fence "$place" job -- echo ran
        failed 77 "Permission denied"
        t_run $nobody "$t_dir/user/tenure" status --store "sqlite:$t_dir/user/store.db" --json job
        t_check "$place: no token was granted" grep -q '"token":0,' "$t_out"
    done
fi

t_case "run: a server that is no gate"
: >"$t_dir/log"
"$TENURE_BUILD/tests/fixtures/upstream" "$t_dir/log" >"$t_dir/port" &
pids="$pids $!"
t_check "a server" until_true 5 [ -s "$t_dir/port" ]
ends 69 "the gate answers 201" "http://127.0.0.1:$(cat "$t_dir/port")#r"

t_case "run: a tenured that does not know us, or lets us look and no more"
"$TENURE_BUILD/tenured" --new-secret ada >"$t_dir/ada"
secret=$(sed -n 's/.*shown once: //p' "$t_dir/ada")
{
    sed -n 's/^for the ACL file: //p' "$t_dir/ada"
    echo "allow ada observe seen"
    echo "allow ada acquire mine"
} >"$t_dir/acl"
chmod 600 "$t_dir/acl"
port=$(t_ports 1)
"$TENURE_BUILD/tenured" --data "$t_dir/data" --listen "tcp:127.0.0.1:$port" --acl "$t_dir/acl" \
    >"$t_dir/said" 2>&1 &
pids="$pids $!"
t_check "a daemon: $(cat "$t_dir/said")" until_true 10 grep -q ready "$t_dir/said"
ends 77 "wrong user or secret" "tenured://ada:wrong@127.0.0.1:$port#mine"
ends 77 "no right" "tenured://ada:$secret@127.0.0.1:$port#other"
ends 77 "no right" "tenured://ada:$secret@127.0.0.1:$port#seen"
t_run "$tenure" run --store "sqlite:$t_dir/second.db" \
    --fence "tenured://ada:$secret@127.0.0.1:$port#mine" job -- echo ran
t_ends 0

t_case "run: a Redis that does not let us in, or has no such database"
if "$harness/redis" start "$t_dir/redis" --requirepass secret >"$t_dir/at"; then
    at=$(cat "$t_dir/at")
    ends 77 "NOAUTH" "$at#r"
    port=$(t_ports 1)
    redis-cli -s "$t_dir/redis/redis.sock" -a secret --no-auth-warning \
        CONFIG SET port "$port" >"$t_dir/said"
    ends 77 "WRONGPASS" "redis://:wrong@127.0.0.1:$port#r"
    ends 64 "DB index" "redis://:secret@127.0.0.1:$port/99#r"
else
    t_skip "$(cat "$t_dir/at")"
fi

t_case "run: a PostgreSQL without the database, or without the fences"
if "$harness/postgres" start "$t_dir/postgres" >"$t_dir/at"; then
    at=$(cat "$t_dir/at")
    ends 64 "does not exist" "$(echo "$at" | sed 's|/postgres?|/none?|')#r"
    ends 77 "role" "$(echo "$at" | sed 's|user=tenure|user=none|')#r"
    ends 69 "'tenure fence install --at URL' makes them" "$at#r"
    "$tenure" fence install --at "$at"
    t_run "$tenure" run --fence "$at#r" job -- echo ran
    t_ends 0
else
    t_skip "$(cat "$t_dir/at")"
fi

t_done
