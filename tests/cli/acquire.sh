#!/bin/sh
# acquire.sh - acquire, renew, release, status and list: the contract that scripts rely on.
# shellcheck source=tests/harness/lib.sh
. "${TENURE_ROOT:-$(dirname "$0")/../..}/tests/harness/lib.sh"

tenure=$TENURE_BUILD/tenure
TENURE_STORE=sqlite:$t_dir/t.db
XDG_STATE_HOME=$t_dir/state
export TENURE_STORE XDG_STATE_HOME
unset TENURE_SECRET

# A program that counts its branches complains when it may not write them down.
export GCOV_ERROR_FILE=/dev/null

# field NAME: of the JSON object on $t_out.
field() { sed -n 's/.*"'"$1"'":"\{0,1\}\([^",}]*\).*/\1/p' "$t_out"; }

# failed STATUS WORDS: that exit status, and one line with WORDS on stderr.
failed() {
    t_check "exit status is $1, not $t_status" [ "$t_status" -eq "$1" ]
    t_check "one line on stderr" [ "$(wc -l <"$t_err")" -eq 1 ]
    t_check "at most 500 characters" [ "$(wc -c <"$t_err")" -le 501 ]
    t_check "says why" grep -qF -e "$2" "$t_err"
}

now_ms() { echo $(($(date +%s%N) / 1000000)); }

# take ARGUMENT...: acquire with --json; sets token and secret.
take() {
    t_run "$tenure" acquire --json "$@"
    t_check "granted" [ "$t_status" -eq 0 ]
    token=$(field token)
    TENURE_SECRET=$(field secret)
    export TENURE_SECRET
}

t_case "acquire, status, renew, release"
t_run "$tenure" status --json job
t_check "free from the start" grep -qx \
    '{"name":"job","state":"free","holder":null,"token":0,"ttl_ms":0,"remaining_ms":0}' "$t_out"
t_check "looking makes no file" [ ! -e "$t_dir/t.db" ]
take job --id me --ttl 30s
t_check "all fields" grep -Eqx \
    '\{"granted":true,"name":"job","token":1,"secret":"[0-9a-f]{64}","ttl_ms":30000\}' "$t_out"
t_check "the file is private" [ "$(stat -c %a "$t_dir/t.db")" = 600 ]
t_run "$tenure" status --json job
held='\{"name":"job","state":"held","holder":"me","token":1,"ttl_ms":30000,"remaining_ms":[0-9]+'
held=$held',"since_ms":[0-9]{13},"renewed_ago_ms":[0-9]+,"waiting":0\}'
t_check "status" grep -Eqx "$held" "$t_out"
t_run "$tenure" status job
t_check "for people" grep -Eqx \
    'job: held by me, token 1, .*s left of 30s, since [0-9-]{10} [0-9:]{8}, renewed .*s ago' \
    "$t_out"
t_run "$tenure" acquire job --json --id you
t_check "held: 75" [ "$t_status" -eq 75 ]
t_check "who holds it" grep -Eqx \
    '\{"granted":false,"holder":"me","token":1,"remaining_ms":[0-9]+\}' "$t_out"
t_refute "stderr is empty" [ -s "$t_err" ]
t_run "$tenure" acquire job
failed 75 "job is held by 'me', token 1"
t_run "$tenure" renew job --token 1
t_check "renewed" [ "$t_status" -eq 0 ]
t_run "$tenure" release job --token 1
t_check "released" [ "$t_status" -eq 0 ]
t_run "$tenure" release job --token 1
t_check "released again" [ "$t_status" -eq 0 ]
t_run "$tenure" renew job --token 1
failed 80 "token 1 is over"
t_run "$tenure" status --json job
t_check "the last token" grep -qF '"state":"free","holder":null,"token":1' "$t_out"

t_case "the text form is for eval"
t_run "$tenure" acquire text
t_check "token" grep -Eqx 'TENURE_TOKEN=[0-9]+' "$t_out"
t_check "secret" grep -Eqx 'TENURE_SECRET=[0-9a-f]{64}' "$t_out"

t_case "the same id twice: one leads"
take twice --id same
t_run "$tenure" acquire twice --id same --json
t_check "held" [ "$t_status" -eq 75 ]

t_case "a wrong secret, an old token"
take exact
right=$TENURE_SECRET
wrong=$(printf '%064d' 7)
for verb in renew release; do
    TENURE_SECRET=$wrong t_run "$tenure" $verb exact --token "$token"
    failed 77 "not the holder's"
    t_run "$tenure" $verb exact --token $((token + 1))
    failed 80 "is over"
    t_run "$tenure" $verb exact --token 18446744073709551615
    failed 80 "is over"
    t_run "$tenure" $verb other --token "$token"
    failed 80 "is over"
    for bad in 0 -1 007 x 18446744073709551616 1.0; do
        t_run "$tenure" $verb exact --token=$bad
        failed 64 "--token"
    done
    t_run "$tenure" $verb exact
    failed 64 "--token is missing"
    t_run "$tenure" $verb exact --token "$token" --secret abc
    failed 64 "secret is malformed"
    t_refute "the secret is not repeated" grep -q abc "$t_err"
    TENURE_SECRET='' t_run "$tenure" $verb exact --token "$token"
    failed 64 "secret is missing"
done
t_run "$tenure" release exact --token "$token" --secret "$right" --json
t_check "released" grep -qx "{\"released\":true,\"name\":\"exact\",\"token\":$token}" "$t_out"

t_case "expired: a new and larger token, and the old term is over"
take short --ttl 1s
old=$token
zombie=$TENURE_SECRET
is_free() { "$tenure" status --json short | grep -q '"state":"free"'; }
t_check "expires" until_true 10 is_free
t_run "$tenure" renew short --token "$old"
failed 80 "is over"
t_run "$tenure" release short --token "$old"
failed 80 "is over"
take short
t_check "larger" [ "$token" -gt "$old" ]
TENURE_SECRET=$zombie t_run "$tenure" renew short --token "$old"
failed 80 "is over"

t_case "list"
export TENURE_STORE="sqlite:$t_dir/list.db"
t_run "$tenure" list
t_check "an absent store is empty" [ "$t_status" -eq 0 ]
t_refute "nothing" [ -s "$t_out" ]
for name in jobs/b jobs/a other; do
    take $name
done
t_run "$tenure" release other --token "$token"
t_run "$tenure" list
t_check "sorted" [ "$(cut -d' ' -f1 "$t_out" | tr '\n' ' ')" = "NAME jobs/a jobs/b other " ]
t_run "$tenure" list jobs/ --json
t_check "only those" [ "$(grep -c '"state":"held"' "$t_out")" -eq 2 ]
t_run "$tenure" status
t_check "status without a name lists" [ "$(wc -l <"$t_out")" -eq 3 ]
t_run "$tenure" status other jobs/a never
t_check "status of several, as they were given" \
    [ "$(cut -d: -f1 "$t_out" | tr '\n' ' ')" = "other jobs/a never " ]
t_run "$tenure" status --json never jobs/b
t_check "an object for each" [ "$(grep -c '^{"name":"[a-z/]*","state":.*}$' "$t_out")" -eq 2 ]
t_bad "is not a name" "$tenure" status jobs/a jobs//b

t_case "list: columns, patterns and filters"
"$tenure" acquire jobs/deep/one --id "$(printf 'web\t1')" --ttl 1h >"$t_dir/long"
t_run "$tenure" list
t_check "one column for each: $(cat "$t_out")" \
    [ "$(awk 'NR == 1 { print NF }' "$t_out")" = 6 ]
t_check "aligned" [ "$(sed -n 's/ held .*//p; s/ STATE .*//p; s/ free .*//p' "$t_out" |
    awk '{ print length($0) }' | sort -u | wc -l)" -eq 1 ]
t_check "what is held: $(cat "$t_out")" \
    grep -Eq '^jobs/deep/one  held   web.t1 +[0-9]+ +[0-9-]{10} [0-9:]{8} +(1h00m|59m[0-9]{2}s)$' \
    "$t_out"
t_check "what is free" grep -Eq '^other +free +- +[0-9]+ +- +-$' "$t_out"
names() { # names WORD...: what list shows, in one line.
    t_run "$tenure" list "$@"
    sed -n '2,$s/ .*//p' "$t_out" | tr '\n' ' '
}
t_check "a pattern" [ "$(names 'jobs/*')" = "jobs/a jobs/b jobs/deep/one " ]
t_check "a deeper one" [ "$(names 'jobs/deep/*')" = "jobs/deep/one " ]
t_check "the name itself is not below it" [ -z "$(names 'other/*')" ]
t_check "all" [ "$(names '*')" = "jobs/a jobs/b jobs/deep/one other " ]
t_check "--free" [ "$(names --free)" = "other " ]
t_check "--held" [ "$(names --held)" = "jobs/a jobs/b jobs/deep/one " ]
t_check "--holder" [ "$(names --holder "$(printf 'web\t1')")" = "jobs/deep/one " ]
t_check "--holder is the whole label" [ -z "$(names --holder web)" ]
t_run "$tenure" list --free --json 'o*'
t_check "a star within a segment: 64" [ "$t_status" -eq 64 ]
t_run "$tenure" list --free --json
t_check "filters and --json" grep -qx '{"name":"other","state":"free",.*}' "$t_out"
for words in 'jobs*' '*/a' 'jobs/**' '/*' 'a//*'; do
    t_bad "is not a pattern" "$tenure" list "$words"
done
t_bad "--held and --free" "$tenure" list --held --free
t_bad "a free name has no holder" "$tenure" list --free --holder web
export TENURE_STORE="sqlite:$t_dir/t.db"

t_case "bad usage is one line and makes no file"
unset TENURE_STORE
for words in "acquire" "acquire a//b" "acquire a b" "acquire ../x" "acquire a --ttl 15" \
    "acquire a --ttl 999ms" "acquire a --ttl 25h" "acquire a --ttl 1s --rho 0.4" \
    "acquire a --wait 5" "status a//b" "list a//b" "list /" "renew a --token 1" \
    "acquire a -s frob:x" "acquire a -s etcd://:x" "acquire a -s sqlite://host/x" \
    "acquire a -s $t_dir/x.db" "acquire a -s sqlite:$t_dir/" "acquire a -s memory:" \
    "status a -s memory:" "list -s memory:" "watch -s memory:"; do
    # shellcheck disable=SC2086 # Words are meant to be split.
    TENURE_SECRET='' t_run "$tenure" $words
    t_check "$words: exit status is 64, not $t_status" [ "$t_status" -eq 64 ]
    t_check "$words: one line on stderr" [ "$(wc -l <"$t_err")" -eq 1 ]
    # What acquire prints is for eval, which must fail.
    t_refute "$words: nothing but a failure on stdout" grep -qv "(exit 64)" "$t_out"
done
t_run "$tenure" acquire a --id "$(printf '%0256d' 1)"
failed 64 "--id"
t_check "no state directory" [ ! -e "$XDG_STATE_HOME" ]

t_case "the default store is in the state directory"
take default
t_check "directory" [ "$(stat -c %a "$XDG_STATE_HOME/tenure")" = 700 ]
t_check "file" [ "$(stat -c %a "$XDG_STATE_HOME/tenure/tenure.db")" = 600 ]
t_run env -u XDG_STATE_HOME HOME="$t_dir/home" "$tenure" acquire default
t_check "below home" [ -f "$t_dir/home/.local/state/tenure/tenure.db" ]
export TENURE_STORE="sqlite:$t_dir/t.db"

t_case "a hostile label stays on its line"
take label --id "$(printf 'a\033[2J\n"b\\')"
t_run "$tenure" status label
t_check "one line" [ "$(wc -l <"$t_out")" -eq 1 ]
t_check "escaped" grep -qF 'held by a\x1b[2J\n"b\\,' "$t_out"
t_run "$tenure" status label --json
t_check "escaped" grep -qF '"holder":"a\u001b[2J\n\"b\\",' "$t_out"

t_case "sixteen at once: exactly one is granted"
export TENURE_STORE="sqlite:$t_dir/race.db"
i=0
while [ $i -lt 16 ]; do
    "$tenure" acquire one --json >"$t_dir/race.$i" 2>&1 &
    i=$((i + 1))
done
wait
t_check "one granted" [ "$(cat "$t_dir"/race.[0-9]* | grep -c '"granted":true')" -eq 1 ]
t_check "fifteen told" [ "$(cat "$t_dir"/race.[0-9]* | grep -c '"granted":false')" -eq 15 ]

t_case "tokens rise over 200 rounds of eight processes"
# worker: 25 rounds; the token is written down while it is held, so the file has the store's order.
worker() {
    round=0
    while [ $round -lt 25 ]; do
        answer=$("$tenure" acquire turns --wait 60s --json) || exit 1
        token=${answer#*\"token\":} token=${token%%,*}
        TENURE_SECRET=${answer#*\"secret\":\"} TENURE_SECRET=${TENURE_SECRET%%\"*}
        export TENURE_SECRET
        echo "$token" >>"$t_dir/tokens"
        "$tenure" release turns --token "$token" || exit 1
        round=$((round + 1))
    done
}
i=0
while [ $i -lt 8 ]; do
    worker 2>>"$t_dir/worker.err" &
    i=$((i + 1))
done
wait
t_check "no complaint" [ ! -s "$t_dir/worker.err" ]
t_check "200 rounds" [ "$(wc -l <"$t_dir/tokens")" -eq 200 ]
t_check "strictly rising" sort -n -u -C "$t_dir/tokens"

t_case "a waiter wakes long before the TTL is over"
export TENURE_STORE="sqlite:$t_dir/wake.db"
take wake --ttl 1m
before=$(cksum <"$t_dir/wake.db")
"$tenure" acquire wake --wait 50s --json >"$t_dir/woken" 2>&1 &
waiter=$!
is_queued() { [ "$(cksum <"$t_dir/wake.db")" != "$before" ]; }
t_check "queued" until_true 10 is_queued
t_run "$tenure" acquire wake --json
t_check "nobody overtakes it" [ "$t_status" -eq 75 ]
started=$(now_ms)
t_run "$tenure" release wake --token "$token"
wait $waiter
t_check "granted" [ $? -eq 0 ]
t_check "at once" [ $(($(now_ms) - started)) -lt 5000 ]
t_check "the next token" grep -q "\"token\":$((token + 1))," "$t_dir/woken"

t_case "a wait ends in time, and leaves no place behind"
started=$(now_ms)
t_run "$tenure" acquire wake --wait 300ms --json
t_check "held" [ "$t_status" -eq 75 ]
t_check "waited" [ $(($(now_ms) - started)) -ge 300 ]
TENURE_SECRET=$(sed 's/.*"secret":"\([^"]*\)".*/\1/' "$t_dir/woken")
t_run "$tenure" release wake --token $((token + 1))
t_run "$tenure" status wake
t_check "free" grep -q '^wake: free' "$t_out"

t_case "a waiter that is told to end takes its place back"
take wake --ttl 1m
before=$(cksum <"$t_dir/wake.db")
"$tenure" acquire wake --wait 50s >/dev/null 2>&1 &
waiter=$!
t_check "queued" until_true 10 is_queued
kill -TERM $waiter
wait $waiter 2>/dev/null
t_check "ended by the signal" [ $? -eq 143 ]
t_run "$tenure" release wake --token "$token"
t_run "$tenure" status wake
t_check "free" grep -q '^wake: free' "$t_out"

t_case "an expired holder is followed by the waiter"
take wake --ttl 1s
t_run "$tenure" acquire wake --wait 30s --json
t_check "granted" [ "$t_status" -eq 0 ]
t_check "larger" [ "$(field token)" -gt "$token" ]

t_case "killed at any moment, the store goes on"
export TENURE_STORE="sqlite:$t_dir/kill.db"
last=0
i=0
while [ $i -lt 40 ]; do
    timeout -s KILL "0.00$((i % 10))$((i * 7 % 10))" "$tenure" acquire "k$i" >/dev/null 2>&1
    take "again$i"
    t_check "larger" [ "$token" -gt "$last" ]
    last=$token
    i=$((i + 1))
done
export TENURE_STORE="sqlite:$t_dir/wake.db"

t_case "a lost output gives the lease back"
"$tenure" acquire lost >&- 2>"$t_err"
t_check "exit status" [ $? -eq 74 ]
t_run "$tenure" status lost
t_check "free" grep -q '^lost: free' "$t_out"

t_case "what is not a store of ours is refused and stays as it was"
echo "not a database" >"$t_dir/plain"
: >"$t_dir/empty"
head -c 20000 /dev/zero >"$t_dir/zeros"
head -c 6000 "$t_dir/t.db" >"$t_dir/cut"
for file in plain empty zeros cut; do
    cp "$t_dir/$file" "$t_dir/copy"
    for words in "acquire a" "status a" "list"; do
        # shellcheck disable=SC2086 # Words are meant to be split.
        t_run "$tenure" $words -s "sqlite:$t_dir/$file"
        failed 69 "$t_dir/$file"
        t_check "$file is untouched" cmp -s "$t_dir/$file" "$t_dir/copy"
    done
done
ln -s t.db "$t_dir/link"
t_run "$tenure" status a -s "sqlite:$t_dir/link"
failed 77 "symbolic link"
t_run "$tenure" acquire a -s "sqlite:$t_dir/nowhere/t.db"
failed 69 "No such file or directory"

# A user without root's powers, and a copy of the program that it can reach.
chmod 711 "$t_dir"
cp "$tenure" "$t_dir/tenure"
mkdir "$t_dir/theirs"
plain=
if [ "$(id -u)" -eq 0 ]; then
    plain="setpriv --reuid=65534 --regid=65534 --clear-groups"
    chown 65534:65534 "$t_dir/theirs"
fi

t_case "another user's file"
theirs=/etc/passwd
if [ "$(id -u)" -eq 0 ]; then
    cp "$t_dir/t.db" "$t_dir/theirs/t.db"
    chown 65534 "$t_dir/theirs/t.db"
    theirs=$t_dir/theirs/t.db
fi
t_run "$tenure" status a -s "sqlite:$theirs"
failed 77 "belongs to another user"

t_case "an unwritable file, and a read-only directory"
rm -f "$t_dir/theirs/t.db"
# shellcheck disable=SC2086 # Words are meant to be split.
{
    t_run $plain "$t_dir/tenure" acquire a -s "sqlite:$t_dir/theirs/own.db"
    t_check "granted" [ "$t_status" -eq 0 ]
    chmod 400 "$t_dir/theirs/own.db"
    t_run $plain "$t_dir/tenure" acquire b -s "sqlite:$t_dir/theirs/own.db"
    failed 77 "Permission denied"
    chmod 600 "$t_dir/theirs/own.db"
    chmod 500 "$t_dir/theirs"
    t_run $plain "$t_dir/tenure" acquire a -s "sqlite:$t_dir/theirs/new.db"
    failed 77 "Permission denied"
    chmod 700 "$t_dir/theirs"
    t_run $plain "$t_dir/tenure" acquire b -s "sqlite:$t_dir/theirs/own.db"
    t_check "recovers" [ "$t_status" -eq 0 ]
}

t_case "a file that cannot grow"
export TENURE_STORE="sqlite:$t_dir/grow.db"
take a
cp "$t_dir/grow.db" "$t_dir/copy"
(trap '' XFSZ && ulimit -f 1 && exec "$tenure" acquire b >"$t_out" 2>"$t_err")
t_status=$?
failed 69 "$t_dir/grow.db"
t_run "$tenure" status --json a
t_check "nothing is lost" grep -q '"state":"held"' "$t_out"
t_run "$tenure" status --json b
t_check "nothing half done" grep -q '"state":"free","holder":null,"token":0' "$t_out"
take b
t_check "recovers" [ "$token" -eq 2 ]

t_case "a full disk, and a read-only one"
mkdir "$t_dir/disk"
# shellcheck disable=SC2016 # Expanded by the inner shell.
if ! unshare -m mount -t tmpfs none "$t_dir/disk" 2>/dev/null; then
    t_skip "no filesystem can be mounted here"
else
    t_run unshare -m sh -c '
        mount -t tmpfs -o size=256k none "$2" || exit 1
        "$1" acquire a -s "sqlite:$2/t.db" >/dev/null || exit 2
        : >"$2/t.db-journal" # Else its space would do.
        dd if=/dev/zero of="$2/fill" bs=4k 2>/dev/null
        "$1" acquire b -s "sqlite:$2/t.db" >/dev/null 2>"$3"; echo "full $?"
        rm "$2/fill"
        "$1" acquire b -s "sqlite:$2/t.db" >/dev/null; echo "room $?"
        mount -o remount,ro "$2"
        "$1" acquire c -s "sqlite:$2/t.db" >/dev/null 2>>"$3"; echo "read-only $?"
        mount -o remount,rw "$2"
        "$1" acquire c -s "sqlite:$2/t.db" >/dev/null; echo "writable $?"
    ' sh "$tenure" "$t_dir/disk" "$t_dir/disk.err"
    t_check "each as promised" [ "$(tr '\n' ' ' <"$t_out")" = \
        "full 69 room 0 read-only 69 writable 0 " ]
    t_check "one line each" [ "$(wc -l <"$t_dir/disk.err")" -eq 2 ]
    cat "$t_err"
fi

t_case "another time namespace never takes a lease early"
export TENURE_STORE="sqlite:$t_dir/space.db"
if ! unshare -T -f --boottime 100000 true 2>/dev/null; then
    t_skip "no time namespace can be made here"
fi
take space --ttl 20s
t_run unshare -T -f --boottime 100000 "$tenure" acquire space --json
t_check "held there too" [ "$t_status" -eq 75 ]
t_check "for its TTL" [ "$(field remaining_ms)" -le 20000 ]
t_run "$tenure" renew space --token "$token"
t_check "and the holder goes on" [ "$t_status" -eq 0 ]

t_case "out of descriptors"
(
    exec >"$t_out" 2>"$t_err"
    ulimit -n 4 && exec "$tenure" acquire a -s "sqlite:$t_dir/t.db"
)
t_status=$?
t_check "exit status is 69, not $t_status" [ "$t_status" -eq 69 ]
t_check "one line on stderr" [ "$(wc -l <"$t_err")" -eq 1 ]
t_run "$tenure" status a -s "sqlite:$t_dir/t.db"
t_check "recovers" [ "$t_status" -eq 0 ]

t_case "each verb has help with examples"
for verb in acquire renew release status list; do
    t_run "$tenure" help $verb
    t_check "exit status" [ "$t_status" -eq 0 ]
    t_check "usage" grep -q "^usage: tenure $verb" "$t_out"
    t_check "example" grep -q "^Example" "$t_out"
    t_refute "no secret on a command line" grep -qe '--secret [0-9a-f$"]' "$t_out"
done

t_case "no password of a URL is repeated"
for verb in "status x" list "acquire x" watch; do
    # shellcheck disable=SC2086 # Words are meant to be split.
    t_run timeout 10 "$tenure" $verb --store 'postgres://joe:hunter2@127.0.0.1:1/db'
    t_check "$verb: 69" [ "$t_status" -eq 69 ]
    t_refute "$verb: $(cat "$t_err")" grep -q hunter2 "$t_err"
done
t_done
