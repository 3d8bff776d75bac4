#!/bin/sh
# zookeeper_frames.sh - malformed frames from the network end connections, never the process: the
# client library would abort on them, and take the application along.
# TENURE_FRAMES_SECONDS: for how long (8); TENURE_FRAMES_SEED repeats the damage.
# shellcheck source=tests/harness/lib.sh
. "${TENURE_ROOT:-$(dirname "$0")/../..}/tests/harness/lib.sh"
# shellcheck source=tests/harness/zookeeper.sh
. "$TENURE_ROOT/tests/harness/zookeeper.sh"

seconds=${TENURE_FRAMES_SECONDS:-8} seed=${TENURE_FRAMES_SEED:-$(date +%s)}
zk_need
port=$(t_ports 1)
zk_make one "$port"
if ! zk_start one; then
    t_case "a server"
    t_fail "it does not start"
    t_done
fi
direct=zookeeper://127.0.0.1:$port/frames
proxy_start relay "$port"
hurt=zookeeper://127.0.0.1:$proxy_port/frames

t_case "seed $seed: nobody ends by damaged frames"
elects=
for who in 1 2 3 4 5 6; do
    "$tenure" elect --store "$hurt" --ttl 2s --id "ada-$who" "job-$((who % 3))" \
        >/dev/null 2>>"$t_dir/errors" &
    elects="$elects $!"
done
# These take and give back as fast as they can, so all kinds of frames are under way all the time.
latches=
for who in 1 2 3 4; do
    timeout 3600 "$fixtures/latch" "$hurt" "turns-$((who % 2))" "eve-$who" 2000 1000000 0 \
        >"$t_dir/turns.$who" 2>>"$t_dir/errors" &
    latches="$latches $!"
done
in_finish "kill $latches 2>/dev/null"
candidate ada acted "$hurt" 4s
until_acted acted 0
candidate bob acted "$direct" 4s
proxy_say relay "mutate $seed"
began=$(date +%s)
is_over() { [ "$(date +%s)" -ge $((began + seconds)) ]; }
until_true 3600 is_over
proxy_say relay damaged
damaged=$(sed -n 's/^damaged //p' "$t_dir/relay.said" | tail -n 1)
echo "$damaged pieces damaged in $seconds s, seed $seed"
t_check "$damaged damaged pieces" [ "$damaged" -ge 100 ]
for pid in $elects $latches $candidates; do
    t_check "lives on" kill -0 "$pid"
done
t_refute "no assertion failed" grep -q -i assert "$t_dir/errors" "$t_dir/acted.err"

t_case "once frames are whole again, terms are"
proxy_say relay pass
calm_at=$(now_ms)
acts_since() { [ "$(acted_at acted)" -gt "$1" ]; }
t_check "somebody acts" until_true 30 acts_since $((calm_at + 1000))
all_led() {
    for al_job in 0 1 2; do
        "$tenure" status --store "$direct" --json job-$al_job 2>/dev/null |
            grep -q '"state":"held"' || return 1
    done
}
t_check "every name is led" until_true 40 all_led
turns() { cat "$t_dir"/turns.* | grep -c '^end'; }
before=$(turns)
has_turned() { [ "$(turns)" -ge $((before + 20)) ]; }
t_check "turns are taken" until_true 30 has_turned
# shellcheck disable=SC2086 # A list of numbers.
kill $latches
for pid in $elects; do
    end "$pid"
    t_check "ends well, not with $status" [ "$status" -eq 0 ]
done
end_all
t_promise "never two at a time" apart acted

t_done
