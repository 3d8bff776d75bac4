#!/bin/bash
# restored.sh - a store that went back in time: who knows better says so once, and what to do.
#
# An older copy of the data is put back under a candidate that has seen later tokens. It refuses to
# lead with a lower one; its line names the command that raises the counter, and that command helps.
# shellcheck source=tests/harness/lib.sh
. "${TENURE_ROOT:-$(dirname "$0")/../..}/tests/harness/lib.sh"

tenure=$TENURE_BUILD/tenure
tenured=$TENURE_BUILD/tenured
file=$t_dir/t.db
pids=()

tidy_up() {
    local p
    for p in "${pids[@]}"; do
        kill -KILL "$p" 2>/dev/null
        wait "$p" 2>/dev/null
    done
    pids=()
}

burn() { "$tenure" run --ttl 2s burnt -- true || t_fail "no token"; }

start() { # start VERB [COMMAND...]: a candidate; $pid
    local verb=$1
    shift
    "$tenure" "$verb" --ttl 2s --id "$verb" "job-$verb" "$@" >"$t_dir/out.$verb" \
        2>"$t_dir/err.$verb" &
    pid=$!
    pids+=("$pid")
}

start_both() {
    start run -- sh -c 'echo "led $TENURE_TOKEN"; exec sleep 1000'
    start elect
    t_check "run leads: $(cat "$t_dir/err.run")" until_true 20 grep -q led "$t_dir/out.run"
    t_check "elect leads: $(cat "$t_dir/err.elect")" until_true 20 grep -q won "$t_dir/out.elect"
}

# told VERB WORDS: exactly one line of the verb's has them.
told() {
    t_check "$1 says why and what to do: $(cat "$t_dir/err.$1")" \
        until_true 30 grep -q -e "$2" "$t_dir/err.$1"
    t_check "$1 says it once: $(cat "$t_dir/err.$1")" [ "$(grep -c -e "$2" "$t_dir/err.$1")" -eq 1 ]
    t_check "$1: at most 500 characters" [ "$(wc -L <"$t_dir/err.$1")" -le 500 ]
}

# token_is N: the store has granted that one.
token_is() { [ "$(sqlite3 "$file" 'SELECT token FROM counter')" -ge "$1" ]; }
led() { grep -q "^led $1\$" "$t_dir/out.run"; }
won() { grep -q "\"won\".*\"token\":$1," "$t_dir/out.elect"; }

daemon() {
    : >"$t_dir/ready" # The last one's word does not count.
    "$tenured" --data "$t_dir/data" --listen "unix:$t_dir/s" >"$t_dir/ready" 2>>"$t_dir/log" &
    daemon=$!
    pids+=("$daemon")
    t_check "the daemon is ready: $(cat "$t_dir/log")" until_true 20 grep -q ready "$t_dir/ready"
}

restore_sqlite() {
    export TENURE_STORE=sqlite:$file
    burn
    cp "$file" "$t_dir/old"
    sqlite3 "$file" 'UPDATE counter SET token = 500'
    start_both
    cp "$t_dir/old" "$t_dir/older"
    mv "$t_dir/older" "$file"
    remedy="token-regressed.*an old backup.*sqlite3 FILE 'UPDATE counter SET token = 50[12]'"
    told run "$remedy"
    told elect "$remedy"
    t_check "both were refused several times" until_true 60 token_is 8
    told run "$remedy"
    told elect "$remedy"
    t_check "nobody has led meanwhile" [ "$(grep -c led "$t_dir/out.run")" -eq 1 ]
    sqlite3 -cmd '.timeout 5000' "$file" 'UPDATE counter SET token = 1000'
    t_check "then run leads" until_true 30 led '1[0-9]*'
    t_check "then elect leads" until_true 30 won '1[0-9]*'
    tidy_up
}

restore_tenured() {
    export TENURE_STORE=unix:$t_dir/s
    mkdir -m 700 "$t_dir/data"
    daemon
    burn
    kill -KILL $daemon
    wait $daemon 2>/dev/null
    cp -a "$t_dir/data" "$t_dir/old-data"
    daemon
    redis-cli -s "$t_dir/s" TOKEN RAISE 500 >/dev/null
    start_both
    kill -KILL $daemon
    wait $daemon 2>/dev/null
    t_check "run says that it is away" until_true 30 grep -q "refused\|no answer" "$t_dir/err.run"
    t_check "elect says that it is away" until_true 30 grep -q "no answer" "$t_dir/err.elect"
    rm -rf "$t_dir/data" "$t_dir"/data.witness*
    mv "$t_dir/old-data" "$t_dir/data"
    daemon
    remedy="an older copy of the data.*TOKEN RAISE 50[12]"
    told run "$remedy"
    told elect "$remedy"
    # Long enough to ask many times; nobody leads meanwhile.
    t_refute "run does not lead" until_true 2 led '[0-4][0-9]*'
    redis-cli -s "$t_dir/s" TOKEN RAISE 1000 >/dev/null
    t_check "then run leads: $(cat "$t_dir/err.run")" until_true 30 led '1[0-9]*'
    t_check "then elect leads: $(cat "$t_dir/err.elect")" until_true 30 won '1[0-9]*'
    told run "$remedy"
    told elect "$remedy"
    tidy_up
}

t_case "SQLite"
if command -v sqlite3 >/dev/null; then
    restore_sqlite
else
    t_skip "sqlite3 is not installed"
fi

t_case "tenured: also when the daemon was away before"
if command -v redis-cli >/dev/null; then
    restore_tenured
else
    t_skip "redis-cli is not installed"
fi

t_done
