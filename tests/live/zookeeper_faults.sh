#!/bin/sh
# zookeeper_faults.sh - what a ZooKeeper server, a connection to it or an ensemble that fails does
# to a term.
# shellcheck source=tests/harness/lib.sh
. "${TENURE_ROOT:-$(dirname "$0")/../..}/tests/harness/lib.sh"
# shellcheck source=tests/harness/zookeeper.sh
. "$TENURE_ROOT/tests/harness/zookeeper.sh"
# shellcheck source=tests/live/faults.lib
. "$TENURE_ROOT/tests/live/faults.lib"

zk_need
# shellcheck disable=SC2046 # Words.
set -- $(t_ports 10)
zk_make one "$1"
if ! zk_start one; then
    t_case "a server"
    t_fail "it does not start"
    t_done
fi
zk_faults_of_one
# A session lives for 4/3 TTL and a tick, see docs/stores/zookeeper.md.
# shellcheck disable=SC2034 # For faults.lib.
line_late=2500
faults_one "$1"
faults_replay "$1" 30
t_case "an ensemble that has lost its data: who knows better refuses to lead, and says why"
for number in $(seq 8); do
    "$tenure" run --store "$(url "$1")" --ttl 5s "burnt$number" -- true
done
candidate ada gone "$(url "$1")" 3s
until_acted gone 20 # More than a new ensemble's first grant has.
zk_kill one
rm -rf "$t_dir/one/data"
mkdir "$t_dir/one/data"
zk_start one
t_check "ada refuses" \
    until_line "$t_dir/gone.err" "refused to lead with token [0-9]*: token-regressed" 60
t_check "and says what to do: $(cat "$t_dir/gone.err")" \
    grep -q "its tokens rise with every write to the ensemble" "$t_dir/gone.err"
t_promise "and nobody has led with a lower one" apart gone
known=$token
writes() { "$tenure" run --store "$(url "$1")" --ttl 5s burnt -- true && has_acted gone "$known"; }
t_check "and leads again when they have risen" until_true 90 writes "$1"
end_all
t_promise "with a higher one" apart gone

t_case "a server that agrees to less: the deadline follows what was agreed to"
zk_kill one
echo "maxSessionTimeout=4000" >>"$t_dir/one/zoo.cfg"
zk_start one
candidate ada less "$(url "$1")" 20s
until_acted less 0
hurt zk_kill one
until_ms $((hurt_at + 4200))
t_promise "nobody acts beyond it: $(($(acted_at less) - hurt_at)) ms" \
    [ "$(acted_at less)" -le $((hurt_at + 4000)) ]
end_all
shift

zk_ensemble "$@"
t_case "a TTL below the server's least is raised to it"
campaign brief "$three" 1s
brief=$!
t_check "won" until_won brief 1 30
began_at=$(now_ms)
until_ms $((began_at + 4000))
t_refute "kept" grep -q '"event":"lost"' "$t_dir/brief"
end $brief

# A leader that stands still is noticed after syncLimit ticks, two seconds here; then they vote.
three_ttl=15
faults_three "$three"
t_done
