#!/bin/sh
# slots.sh - a semaphore: never more holders than slots, each with a token of its own, whoever is
# killed or stopped; a free slot is taken; and operators can name one slot.
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

# The command notes the time again and again, each term in a file of its own: SLOT TOKEN ID, then
# one instant per line. The last one is when it was last alive.
cat >"$t_dir/work" <<'END_OF_WORK'
#!/bin/sh
trap 'exit 0' TERM
file=$ACTS/$TENURE_TOKEN
[ ! -e "$file" ] || echo "$TENURE_TOKEN" >>"$ACTS/twice"
echo "$TENURE_SLOT $TENURE_TOKEN $TENURE_ID" >"$file"
while :; do
    read -r now rest </proc/uptime
    echo "$now" >>"$file"
    sleep 0.03
done
END_OF_WORK
chmod +x "$t_dir/work"

kills=${TENURE_SLOT_KILLS:-3} # One of each kind; more for longer.

start_candidate() { # ID SLOTS
    "$tenure" run --slots "$2" --id "$1" --ttl 2s pool -- "$t_dir/work" 2>"$t_dir/$1.err" &
    echo $! >"$t_dir/pid.$1"
}
holders() { "$tenure" list --json --held pool/ | sed 's/.*"holder":"\([^"]*\)".*/\1/' | sort; }
count_holders() { holders | wc -l; }
# leads COUNT: so many hold a slot, and all of them are different.
leads() { [ "$(count_holders)" -eq "$1" ] && [ "$(holders | uniq | wc -l)" -eq "$1" ]; }
terms() { find "$ACTS" -type f ! -name twice | wc -l; }
begun() { [ "$(terms)" -ge "$1" ]; }

# The most terms at one instant: of each file the first and the last instant.
most() {
    for file in "$ACTS"/[0-9]*; do
        sed -n '2p;$p' "$file" | tr '\n' ' '
        echo
    done | awk 'NF == 2 && $2 > $1 { print $1, 1; print $2, -1 }' | sort -k1,1n -k2,2n |
        awk '{ on += $2; if (on > most) most = on } END { print most + 0 }'
}
at_most() { [ "$(most)" -le "$1" ]; }
# Of each slot, in the order of time, the tokens rise.
rising() {
    for file in "$ACTS"/[0-9]*; do
        echo "$(sed -n 2p "$file") $(sed -n 1p "$file")"
    done | sort -n | awk '{ if ($3 <= last[$2]) exit 1; last[$2] = $3 }'
}

# pick: one that holds a slot.
pick() { holders | sort -R | head -n 1; }
hurt() {
    victim=$(pick)
    t_check "somebody holds a slot" [ -n "$victim" ]
    pid=$(cat "$t_dir/pid.$victim")
    signal=$(echo "KILL TERM STOP" | cut -d ' ' -f $(($1 % 3 + 1)))
    kill -"$signal" "$pid"
}
# mend SLOTS: the one that was hurt is a candidate again.
mend() {
    if [ "$signal" = STOP ]; then
        kill -CONT "$pid"
    else
        wait "$pid" 2>/dev/null
        start_candidate "$victim" "$1"
    fi
}
end_candidates() {
    for file in "$t_dir"/pid.c*; do
        kill -CONT "$(cat "$file")" 2>/dev/null
        kill -TERM "$(cat "$file")" 2>/dev/null
    done
    for file in "$t_dir"/pid.c*; do wait "$(cat "$file")" 2>/dev/null; done
    rm -f "$t_dir"/pid.c*
}

# story ENGINE URL CANDIDATES SLOTS KILLS
story() {
    TENURE_STORE=$2
    ACTS=$t_dir/acts.$1
    export TENURE_STORE ACTS
    mkdir "$ACTS"

    t_case "$1: $3 candidates for $4 slots, $5 of them killed or stopped"
    for number in $(seq "$3"); do start_candidate "c$number" "$4"; done
    t_check "$4 lead: $(holders | tr '\n' ' ')" until_true 30 leads "$4"
    for kill in $(seq "$5"); do
        before=$(terms)
        hurt "$kill"
        t_check "another one takes the slot: $(terms) terms" until_true 30 begun $((before + 1))
        mend "$4"
    done
    t_check "$4 lead again: $(holders | tr '\n' ' ')" until_true 30 leads "$4"
    t_promise "never more than $4, but $(most)" at_most "$4"
    t_promise "each token once: $(cat "$ACTS/twice" 2>/dev/null)" [ ! -e "$ACTS/twice" ]
    t_promise "tokens rise" rising
    end_candidates
    t_check "all are free again" until_true 30 leads 0
}

t_case "the words"
TENURE_STORE=sqlite:$t_dir/none.db
export TENURE_STORE
t_bad "is a slot of a semaphore" "$tenure" run pool/~1 -- true
t_bad "is a slot of a semaphore" "$tenure" elect a/pool/~12
t_bad "is a slot of a semaphore" "$tenure" acquire --json pool/~1
t_bad "is for one leader" "$tenure" run --slots 2 --every 1h pool -- true
t_bad "is for one leader" "$tenure" run --slots 2 --fence file:/x pool -- true
t_bad "is for one leader" "$tenure" run --slots 2 --linger 1s pool -- true
t_bad "too long for --slots" "$tenure" elect --slots 2 "$(printf '%0254d' 0)"
for count in 0 65 -1 x ''; do t_bad "--slots" "$tenure" elect --slots "$count" pool; done
t_refute "no file was made" [ -e "$t_dir/none.db" ]

t_case "elect: a slot each; the third waits, and hears that all are held"
TENURE_STORE=sqlite:$t_dir/elect.db
for id in ada bob eve; do
    "$tenure" elect --slots 2 --id $id pool >"$t_dir/$id" 2>/dev/null &
    echo $! >"$t_dir/pid.c$id"
    [ $id = eve ] || t_check "$id wins" until_line "$t_dir/$id" '"won"'
done
t_check "the slots differ: $(cat "$t_dir/ada" "$t_dir/bob")" [ "$(cat "$t_dir/ada" "$t_dir/bob" |
    sed -n 's/.*"event":"won".*"reason":null,"slot":\([12]\)}$/\1/p' | sort | tr -d '\n')" = 12 ]
t_check "all are held: $(cat "$t_dir/eve")" until_line "$t_dir/eve" '"event":"leader","name":"pool"'
t_refute "eve does not lead" grep -q won "$t_dir/eve"
t_run "$tenure" run --slots 2 --skip-if-held --conflict-exit 9 pool -- true
t_check "--skip-if-held: 9, not $t_status" [ "$t_status" -eq 9 ]
slot=$("$tenure" list --json pool/ | sed -n 's/.*"name":"\([^"]*\)".*"holder":"ada".*/\1/p')
t_run "$tenure" handover "$slot"
t_ends 0
t_check "one slot is handed over: $(cat "$t_out")" grep -q "^$slot: handed over from ada.*to eve" \
    "$t_out"
t_check "eve wins" until_line "$t_dir/eve" '"won"'
t_check "bob was left alone" [ "$(grep -c won "$t_dir/bob")" -eq 1 ]
end_candidates

story sqlite "sqlite:$t_dir/store.db" 20 3 "$kills"
tenured_start
story tenured "unix:$socket" 20 3 "$kills"

if command -v redis-server >/dev/null && command -v redis-cli >/dev/null && rd_start 1; then
    story redis "$(rd_url 1)" 5 2 "$kills"
    rd_clean
else
    t_case "redis"
    t_skip "Redis is not installed; install redis-server and redis-tools"
fi

if pg_find && pg_init && pg_start; then
    story postgres "$(at postgres)" 5 2 "$kills"
else
    t_case "postgres"
    t_skip "PostgreSQL is not installed"
fi

if command -v etcd >/dev/null && etcd_start one; then
    # shellcheck disable=SC2154 # etcd_start sets it.
    story etcd "etcd://127.0.0.1:$port_one/t" 5 2 "$kills"
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
story zookeeper "zookeeper://127.0.0.1:$port/t" 5 2 "$kills"

t_done
