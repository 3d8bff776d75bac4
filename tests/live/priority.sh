#!/bin/sh
# priority.sh - of those who wait, the highest leads first, whatever the order in which they came; a
# leader that yields hands over; an operator goes first.
# shellcheck source=tests/harness/lib.sh
. "${TENURE_ROOT:-$(dirname "$0")/../..}/tests/harness/lib.sh"
# shellcheck source=tests/live/tenured.lib
. "$TENURE_ROOT/tests/live/tenured.lib"
# shellcheck source=tests/live/etcd.lib
. "$TENURE_ROOT/tests/live/etcd.lib"
# shellcheck source=tests/live/postgres.inc
. "$TENURE_ROOT/tests/live/postgres.inc"
# shellcheck source=tests/live/redis.inc
. "$TENURE_ROOT/tests/live/redis.inc"
# shellcheck source=tests/harness/zookeeper.sh
. "$TENURE_ROOT/tests/harness/zookeeper.sh"
in_finish tenured_end # Each has begun the list anew.
in_finish etcd_end
in_finish pg_clean
in_finish rd_clean

acts=$t_dir/acts
cat >"$t_dir/work" <<'END_OF_WORK'
#!/bin/sh
trap 'echo "ends $TENURE_ID" >>"$ACTS"; exit 0' TERM
echo "begins $TENURE_ID $(cut -d' ' -f1 /proc/uptime)" >>"$ACTS"
while :; do sleep 0.05; done
END_OF_WORK
chmod +x "$t_dir/work"
export ACTS="$acts"
ttl=6s
# lead ID OPTION...
lead() {
    le_id=$1
    shift
    "$tenure" run --id "$le_id" --ttl "$ttl" "$@" job -- "$t_dir/work" 2>"$t_dir/$le_id.err" &
    candidates="$candidates $!"
    eval "pid_$le_id=$!"
}
end() { # ID: gives the lease back, or leaves the line
    eval "en_pid=\$pid_$1"
    kill -TERM "$en_pid"
    wait "$en_pid"
}
stop_candidates() {
    for pid in $candidates; do kill -TERM "$pid" 2>/dev/null; done
    for pid in $candidates; do wait "$pid" 2>/dev/null; done
    candidates=
}
# Nobody begins before the one before has ended.
in_turn() {
    awk '$1 == "begins" { if (on) exit 1; on = 1 } $1 == "ends" { on = 0 }' "$acts"
}
# waits N: somebody waits at that priority.
waits() { "$tenure" status "~tenure/priority/$1/job" | grep -q ': held'; }
has_line() { "$tenure" status job | grep -q "$1"; }
# Low ones leave the line within a moment, and are back behind the high one after a step (two
# attempts, 1 s here), and each level below after one more.
settled() {
    t_check "$1 waits" until_true 30 waits "$1"
    sleep 3
}

story() { # ENGINE URL
    TENURE_STORE=$2
    export TENURE_STORE

    t_case "$1: of those who wait, the highest leads first"
    : >"$acts"
    lead first --priority 5
    t_check "the first to come leads" until_line "$acts" '^begins first'
    lead low --priority 1
    settled 1
    lead mid --priority 4
    settled 4
    lead high --priority 9
    settled 9
    t_check "status shows them in that order: $("$tenure" status job)" until_true 30 has_line \
        '3 waiting: high (priority 9), mid (priority 4), low (priority 1)$'
    t_check "for scripts, too: $("$tenure" status --json job)" sh -c "'$tenure' status --json job |
        grep -q '\"line\":\[{\"id\":\"high\",\"priority\":9},{\"id\":\"mid\",\"priority\":4}'"
    end first
    t_check "high, which came last: $(tr '\n' ',' <"$acts")" until_line "$acts" '^begins high'
    t_refute "not low: $(tr '\n' ',' <"$acts")" has "$acts" '^begins low\|^begins mid'
    sleep 2
    end high
    t_check "then mid" until_line "$acts" '^begins mid'
    t_refute "not low: $(tr '\n' ',' <"$acts")" has "$acts" '^begins low'
    end mid
    t_check "then low" until_line "$acts" '^begins low'
    t_promise "in turn: $(tr '\n' ',' <"$acts")" in_turn
    stop_candidates

    t_case "$1: a leader that yields hands over to a higher one"
    : >"$acts"
    lead low --priority 2 --yield
    t_check "low leads" until_line "$acts" '^begins low'
    lead same --priority 2
    sleep 1
    lead high --priority 7 --yield
    t_check "high leads: $(tr '\n' ',' <"$acts")" until_line "$acts" '^begins high'
    t_refute "same does not: $(tr '\n' ',' <"$acts")" has "$acts" '^begins same'
    t_check "low says why: $(cat "$t_dir/low.err")" has "$t_dir/low.err" \
        "job: stepping down for a higher priority (token [0-9]*)"
    t_promise "in turn: $(tr '\n' ',' <"$acts")" in_turn

    t_case "$1: an operator goes first"
    for _ in 1 2 3 4 5 6; do
        t_run "$tenure" handover job --to low
        [ "$t_status" -eq 75 ] || break
    done
    t_ends 0
    t_check "low leads: $(cat "$t_out")" has "$t_out" "from high, token [0-9]*, to low"
    sleep 3
    t_check "and stays" until_line "$t_dir/now" '"holder":"low"'
    t_promise "in turn: $(tr '\n' ',' <"$acts")" in_turn
    stop_candidates
}
until_line() { # Once more, for a file that `status` writes.
    if [ "$1" = "$t_dir/now" ]; then
        "$tenure" status --json job >"$1"
    fi
    ul_left=150
    until grep -q "$2" "$1" 2>/dev/null; do
        ul_left=$((ul_left - 1))
        [ "$ul_left" -gt 0 ] || return 1
        sleep 0.1
    done
}

story sqlite "sqlite:$t_dir/store.db"
tenured_start
# shellcheck disable=SC2154 # tenured.lib sets it.
story tenured "unix:$socket"

if command -v redis-server >/dev/null && command -v redis-cli >/dev/null && rd_start 1; then
    story redis "$(rd_url 1)"
    rd_clean
else
    t_case "redis"
    t_skip "Redis is not installed; install redis-server and redis-tools"
fi

if pg_find && pg_init && pg_start; then
    story postgres "$(at postgres)"
else
    t_case "postgres"
    t_skip "PostgreSQL is not installed"
fi

if command -v etcd >/dev/null && etcd_start one; then
    # shellcheck disable=SC2154 # etcd_start sets it.
    story etcd "etcd://127.0.0.1:$port_one/t"
    etcd_stop one
else
    t_case "etcd"
    t_skip "no etcd: install etcd-server and etcd-client"
fi

zk_need
port=$(t_ports 1)
zk_make one "$port"
t_case "zookeeper: a server"
t_check "starts" zk_start one
story zookeeper "zookeeper://127.0.0.1:$port/t"

t_done
