#!/bin/sh
# handover.sh - hand-over, directed and not, drain, stand-down: the holder drains and gives way, the
# right one leads, the wish ends, and what is wrong is one line.
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

# The command writes when it begins and ends; it takes a moment to stop.
acts=$t_dir/acts
cat >"$t_dir/work" <<'END_OF_WORK'
#!/bin/sh
trap 'sleep 0.1; echo "ends $TENURE_ID" >>"$ACTS"; exit 0' TERM
echo "begins $TENURE_ID" >>"$ACTS"
while :; do sleep 0.05; done
END_OF_WORK
chmod +x "$t_dir/work"
export ACTS="$acts"
lead() {
    "$tenure" run --id "$1" --ttl 10s "${2:-job}" -- "$t_dir/work" 2>"$t_dir/$1.err" &
    candidates="$candidates $!"
    eval "pid_$1=$!"
}
holder() { "$tenure" status --json "${1:-job}" | sed 's/.*"holder":"\([^"]*\)".*/\1/; /{/d'; }
until_holder() {
    until_true 30 is_holder "$@"
}
is_holder() { [ "$(holder)" = "$1" ]; }
# Nobody begins before the one before has ended.
in_turn() {
    awk '$1 == "begins" { if (on) exit 1; on = 1 } $1 == "ends" { on = 0 }' "$acts"
}

hand_overs() {
    TENURE_STORE=$2
    export TENURE_STORE
    : >"$acts"

    t_case "$1: --wait 0s and --skip-if-held lead where nobody does, also when somebody did"
    for once in first second third; do
        t_run "$tenure" run --quiet --ttl 10s --wait 0s before -- true
        t_check "--wait 0s, $once time, not $t_status: $(cat "$t_err")" [ "$t_status" -eq 0 ]
        t_run "$tenure" run --quiet --ttl 10s --skip-if-held before -- echo ran
        t_check "--skip-if-held, $once time" [ "$(cat "$t_out")" = ran ]
    done

    t_case "$1: a hand-over: the work ends, then the next one leads"
    lead ada
    t_check "ada leads" until_line "$acts" '^begins ada'
    lead bob
    t_check "status shows what the store can tell, $3: $("$tenure" status --json job)" \
        until_true 30 shows $3
    t_check "and who waits: $("$tenure" status job)" has_text ', 1 waiting: bob$'
    t_check "for scripts, too" shown '"waiting":1,"line":\[\{"id":"bob"\}\]\}$'
    hand_over job --json
    t_ends 0
    t_check "ada to bob: $(cat "$t_out")" has "$t_out" \
        '"handed_over":true,"name":"job","from":"ada","from_token":[0-9]*,"holder":"bob"'
    t_check "and the gap: $(cat "$t_out")" has "$t_out" '"token":[0-9]*,"gap_ms":[0-9.]*}$'
    t_check "bob begins" until_line "$acts" '^begins bob'
    t_check "ada says why: $(cat "$t_dir/ada.err")" has "$t_dir/ada.err" \
        "stepping down, as an operator asked: handover"
    t_promise "in turn: $(tr '\n' ',' <"$acts")" in_turn

    t_case "$1: a directed hand-over, past one that waits longer"
    lead eve
    hand_over job --to eve
    t_ends 0
    t_check "to eve: $(cat "$t_out")" has "$t_out" \
        "^job: handed over from .*, token [0-9]*, to eve, token [0-9]*; nobody led for [0-9.]* ms$"
    t_check "eve holds it" is_holder eve
    t_run "$tenure" handover job --to eve
    t_prints "job: eve leads already"
    t_run "$tenure" handover job --to eve --json
    t_ends 0
    t_check "for scripts, too: $(cat "$t_out")" has "$t_out" \
        '^{"handed_over":false,"name":"job","holder":"eve","token":[0-9]*}$'
    t_promise "in turn: $(tr '\n' ',' <"$acts")" in_turn

    t_case "$1: nobody by that id: one line, and somebody leads"
    t_run "$tenure" handover job --to nobody
    t_check "75" [ "$t_status" -eq 75 ]
    t_check "says who leads: $(cat "$t_err")" has "$t_err" "not the one of --to\|leads again"
    t_check "one line" [ "$(wc -l <"$t_err")" -eq 1 ]
    t_promise "in turn: $(tr '\n' ',' <"$acts")" in_turn
}

# After hand_overs, in the same store.
notes_that_last() {
    t_case "$1: stand-down: nobody leads, until resume"
    t_run "$tenure" stand-down job --for 2m
    t_ends 0
    t_prints "job: stands down for 2m; nobody leads"
    t_check "status says so: $("$tenure" status job)" shown '"asked":"stand-down"'
    t_check "for people, too" has_text ', stands down$'
    t_check "free: $("$tenure" status job)" has_free job
    told 80 "nobody holds it" handover job
    began=$(now_ms)
    told 75 "an operator lets nobody lead; 'tenure resume job' ends that" \
        run --quiet --ttl 10s --wait 0s job -- true
    took=$(($(now_ms) - began))
    t_check "run --wait 0s says so at once: $took ms" [ "$took" -lt 4000 ]
    t_run "$tenure" list
    t_refute "a note is not shown" has "$t_out" '~tenure'
    t_run "$tenure" resume job
    t_prints "job: may lead again"
    t_check "somebody leads" until_true 30 is_held job
    t_run "$tenure" resume job
    t_prints "job: did not stand down"

    t_case "$1: stand-down once more, and again while it lasts"
    for once in more again; do
        for _ in 1 2; do
            t_run "$tenure" stand-down job --for 2m
            t_ends 0
            t_check "once $once free: $("$tenure" status job)" has_free job
        done
        t_run "$tenure" resume job
        t_prints "job: may lead again"
        t_check "somebody leads" until_true 30 is_held job
    done

    t_case "$1: drain: the node gives all back and wins nothing, until undrain"
    first=$(holder)
    lead "$first" other
    t_check "it holds another name, too" until_true 30 is_held other
    t_run "$tenure" drain --id "$first" --for 2m
    t_ends 0
    t_check "says how many: $(cat "$t_out")" has "$t_out" \
        "^'$first': drained for 2m; [12] given back$"
    t_refute "no wish about the next leader" shown '"asked"'
    t_check "another leads" until_true 30 is_other "$first"
    t_check "other is free" has_free other
    told 75 "is drained and does not lead; 'tenure undrain' ends that" \
        run --quiet --ttl 10s --wait 0s --id "$first" other -- true
    t_run "$tenure" undrain --id "$first"
    t_prints "'$first': may lead again"
    t_check "leads other again" until_true 30 is_held other
    stop_candidates

    t_case "$1: drain --host: all processes of the host, and one that starts later"
    host=$(uname -n)
    : >"$acts"
    default_id jobs/a
    default_id jobs/b
    t_check "two lead: $("$tenure" list jobs/)" until_true 30 are_held 2
    t_run "$tenure" drain --host "$host" --for 2m
    t_ends 0
    t_check "says how many: $(cat "$t_out")" has "$t_out" \
        "^'$host': drained for 2m; 2 given back$"
    t_check "both ended: $(cat "$acts")" [ "$(grep -c '^ends' "$acts")" -eq 2 ]
    page=$(t_ports 1)
    default_id jobs/c --http "127.0.0.1:$page"
    t_check "the late one follows" until_true 30 curl -sf -o "$t_out" \
        "http://127.0.0.1:$page/follower"
    t_check "nobody of the host leads: $("$tenure" list jobs/)" are_held 0
    t_refute "nor did in between" [ "$(grep -c '^begins' "$acts")" -gt 2 ]
    t_run "$tenure" undrain --host "$host"
    t_prints "'$host': may lead again"
    t_check "then all three lead: $("$tenure" list jobs/)" until_true 20 are_held 3
}

# default_id NAME [OPTION...]: a candidate with the id that names its host.
default_id() {
    di_name=$1
    shift
    "$tenure" run --ttl 10s "$@" "$di_name" -- "$t_dir/work" 2>"$t_dir/default.err" &
    candidates="$candidates $!"
}
are_held() { [ "$("$tenure" list --json --held jobs/ | grep -c .)" -eq "$1" ]; }

# shown EXPRESSION: what `status --json job` says. shows FIELD...: it has them.
shown() { "$tenure" status --json job | grep -Eq "$1"; }
has_text() { "$tenure" status job | grep -Eq "$1"; }
shows() {
    for sh_field in waiting since_ms renewed_ago_ms; do
        case " $* " in
        *" $sh_field "*) ;;
        *)
            ! shown "\"$sh_field\":" || return 1
            continue
            ;;
        esac
        case $sh_field in
        waiting) shown '"waiting":1[,}]' || return 1 ;;
        since_ms) shown '"since_ms":[0-9]{13}[,}]' || return 1 ;;
        *) shown "\"$sh_field\":[0-9]+[,}]" || return 1 ;;
        esac
    done
}

story() {
    hand_overs "$@"
    notes_that_last "$@"
    stop_candidates
}
has_free() { "$tenure" status "$1" | grep -q ': free'; }
is_held() { "$tenure" status "$1" | grep -q ': held'; }
is_other() { is_held job && [ "$(holder)" != "$1" ]; }
# Nobody can tell whether a candidate that has just been started waits already: 75 until it does.
hand_over() {
    for ho_try in 1 2 3 4 5 6; do
        t_run "$tenure" handover "$@"
        [ "$t_status" -eq 75 ] || break
        echo "try $ho_try: $(cat "$t_err")"
    done
}
stop_candidates() {
    for pid in $candidates; do kill -TERM "$pid" 2>/dev/null; done
    for pid in $candidates; do wait "$pid" 2>/dev/null; done
    candidates=
}

story sqlite "sqlite:$t_dir/store.db" "waiting since_ms renewed_ago_ms"
tenured_start
story tenured "unix:$socket" "waiting since_ms renewed_ago_ms"

if command -v redis-server >/dev/null && command -v redis-cli >/dev/null && rd_start 1; then
    story redis "$(rd_url 1)" "waiting since_ms renewed_ago_ms"
    rd_clean
else
    t_case "redis"
    t_skip "Redis is not installed; install redis-server and redis-tools"
fi

if pg_find && pg_init && pg_start; then
    story postgres "$(at postgres)" waiting
else
    t_case "postgres"
    t_skip "PostgreSQL is not installed"
fi

if command -v etcd >/dev/null && etcd_start one; then
    # shellcheck disable=SC2154 # etcd_start sets it.
    story etcd "etcd://127.0.0.1:$port_one/t" "waiting renewed_ago_ms"
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
hand_overs zookeeper "zookeeper://127.0.0.1:$port/t" waiting

t_case "zookeeper: a stand-down lasts as long as its command"
"$tenure" stand-down job >"$t_dir/down" 2>"$t_dir/down.err" &
down=$!
t_check "stands down: $(cat "$t_dir/down.err")" until_line "$t_dir/down" "stands down for 24h"
t_check "says so" until_line "$t_dir/down.err" "this command stays"
t_check "free" has_free job
kill -TERM "$down"
wait "$down"
t_check "somebody leads" until_true 30 is_held job
stop_candidates

t_done
