#!/bin/sh
# soft.sh - a leader is stopped whole, guardian and all: a candidate with the same fence leads
# behind the soft limit, and the late write of the former is refused; one without the fence waits
# for the TTL. And what is refused before anything is opened.
# shellcheck source=tests/harness/lib.sh
. "${TENURE_ROOT:-$(dirname "$0")/../..}/tests/harness/lib.sh"
# shellcheck source=tests/live/tenured.lib
. "$TENURE_ROOT/tests/live/tenured.lib"

fence=sqlite:$t_dir/shop.db#orders
acts=$t_dir/acts
cat >"$t_dir/work" <<END_OF_WORK
#!/bin/sh
echo "begins \$TENURE_ID \$TENURE_TOKEN \$(date +%s%N)" >>"$acts"
while :; do
    echo "asks \$TENURE_ID \$TENURE_TOKEN" >>"$acts"
    if "$tenure" fence admit --at "sqlite:$t_dir/shop.db" orders "\$TENURE_TOKEN" 2>/dev/null; then
        echo "writes \$TENURE_ID \$TENURE_TOKEN" >>"$acts"
    else
        echo "refused \$TENURE_ID \$TENURE_TOKEN" >>"$acts"
    fi
    sleep 0.2
done
END_OF_WORK
chmod +x "$t_dir/work"
"$tenure" fence install --at "sqlite:$t_dir/shop.db"

# TTL 12 s, clocks almost exact, so that a soft limit of 6 s will do: who has the fence leads within
# 6 s and a question of 1.5 s, who has none after 12 s less a renewal interval of 4 s.
lead() { # ID OPTION...
    le_id=$1
    shift
    "$tenure" run --id "$le_id" --ttl 12s --rho 0.01 "$@" job -- "$t_dir/work" \
        2>"$t_dir/$le_id.err" &
    candidates="$candidates $!"
    eval "pid_$le_id=$!"
}
tree() { # PID and all below it
    echo "$1"
    for tr_child in $(pgrep -P "$1"); do tree "$tr_child"; done
}
# Between the stop and the begin of @1, in ms.
gap() {
    awk -v id="$1" -v at="$stopped" '$1 == "begins" && $2 == id { print int($4 / 1000000) - at }' \
        "$acts"
}
# What ada was told before the stop it may write down later; only what it asks later counts.
lets_none_through() {
    awk '$1 == "woken" { woken = 1 } woken && $1 == "asks" && $2 == "ada" { asked = 1 }
         asked && $1 == "writes" && $2 == "ada" { exit 1 }' "$acts"
}
stop_whole() { # ID
    eval "sw_pid=\$pid_$1"
    stopped_tree=$(tree "$sw_pid")
    stopped=$(now_ms)
    # shellcheck disable=SC2086 # Numbers.
    kill -STOP $stopped_tree 2>/dev/null
}
finish_all() {
    # shellcheck disable=SC2086 # Numbers.
    kill -CONT $stopped_tree 2>/dev/null
    for pid in $candidates; do kill -TERM "$pid" 2>/dev/null; done
    for pid in $candidates; do wait "$pid" 2>/dev/null; done
    candidates=
    : >"$acts"
}

story() { # ENGINE URL
    TENURE_STORE=$2
    export TENURE_STORE
    t_case "$1: with the same fence the successor leads behind the soft limit"
    lead ada --soft-limit 6s --fence "$fence"
    t_check "ada leads" until_line "$acts" '^writes ada'
    lead bob --soft-limit 6s --fence "$fence"
    until_true 20 sh -c "'$tenure' status --json job | grep -q '\"waiting\":1'" ||
        t_fail "bob does not wait"
    stop_whole ada
    t_check "bob leads" until_line "$acts" '^begins bob'
    t_promise "early: $(gap bob) ms" [ "$(gap bob)" -lt 8000 ]
    t_check "bob writes" until_line "$acts" '^writes bob'
    old=$(awk '$1 == "begins" && $2 == "ada" { print $3 }' "$acts")
    t_run "$tenure" fence admit --at "sqlite:$t_dir/shop.db" orders "$old"
    t_promise "a late write is refused, not $t_status" [ "$t_status" -eq 80 ]
    t_case "$1: the former wakes up, writes nothing, and hears that it has lost"
    echo woken >>"$acts"
    # shellcheck disable=SC2086 # Numbers.
    kill -CONT $stopped_tree 2>/dev/null
    t_check "it is told" until_line "$t_dir/ada.err" 'lost'
    t_promise "nothing that ada asked for since was let through" lets_none_through
    finish_all

    t_case "$1: elect with the same fence leads behind the soft limit, too"
    lead ada --soft-limit 6s --fence "$fence"
    t_check "ada leads" until_line "$acts" '^begins ada'
    stop_whole ada
    "$tenure" elect --id dee --ttl 12s --rho 0.01 --soft-limit 6s --fence "$fence" job \
        >"$t_dir/dee" 2>"$t_dir/dee.err" &
    candidates="$candidates $!"
    t_check "dee leads: $(cat "$t_dir/dee.err")" until_line "$t_dir/dee" '"event":"won"'
    took=$(($(now_ms) - stopped))
    t_promise "early: $took ms" [ "$took" -lt 8000 ]
    won=$(sed -n 's/.*"won".*"token":\([0-9]*\).*/\1/p' "$t_dir/dee")
    t_check "and its fence stands at $won" [ "$("$tenure" fence show --at "sqlite:$t_dir/shop.db" \
        orders | tr -dc 0-9)" = "$won" ]
    finish_all

    t_case "$1: without the fence the candidate waits for the TTL"
    lead ada --soft-limit 6s --fence "$fence"
    t_check "ada leads" until_line "$acts" '^begins ada'
    lead cyd
    until_true 20 sh -c "'$tenure' status --json job | grep -q '\"waiting\":1'" ||
        t_fail "cyd does not wait"
    stop_whole ada
    t_check "cyd leads" until_line "$acts" '^begins cyd'
    t_promise "not before the TTL is over: $(gap cyd) ms" [ "$(gap cyd)" -ge 8000 ]
    finish_all
}

t_case "what is refused, before anything is opened"
export TENURE_STORE="sqlite:$t_dir/none.db"
says() { # WORDS OPTION...
    sa_words=$1
    shift
    t_bad "$sa_words" "$tenure" run "$@" job -- true
}
says "soft-limit needs --fence" --soft-limit 9s
t_bad "soft-limit needs --fence" "$tenure" elect --soft-limit 9s job
t_bad "leave one of them out" "$tenure" elect --soft-limit 9s --fence "$fence" --priority 3 job
t_bad "--fence: 'x' is not a fence" "$tenure" elect --fence x job
says "from 8.3s, which one lost renewal may take, to less than the TTL of 15s" \
    --soft-limit 8s --fence "$fence"
says "to less than the TTL of 15s" --soft-limit 15s --fence "$fence"
says "leave one of them out" --soft-limit 9s --fence "$fence" --hold-off 1s
says "leave one of them out" --soft-limit 9s --fence "$fence" --priority 3
says "etcd: knows no soft limit; leave it out, or use a store that does: sqlite, tenured" \
    --soft-limit 9s --fence "$fence" --store etcd://127.0.0.1:1/x
t_refute "a file" [ -e "$t_dir/none.db" ]

story sqlite "sqlite:$t_dir/store.db"
tenured_start
# shellcheck disable=SC2154 # tenured.lib sets it.
story tenured "unix:$socket"

t_done
