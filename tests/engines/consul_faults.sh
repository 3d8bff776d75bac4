#!/bin/sh
# consul_faults.sh - what a Consul server that crashes, stops or is cut off does to a term; three
# servers that lose their leader; and an agent that dies, with which its sessions end.
# shellcheck source=tests/harness/lib.sh
. "${TENURE_ROOT:-$(dirname "$0")/../..}/tests/harness/lib.sh"
# shellcheck source=tests/engines/consul.lib
. "$TENURE_ROOT/tests/engines/consul.lib"
# shellcheck source=tests/live/faults.lib
. "$TENURE_ROOT/tests/live/faults.lib"
consul_need
# shellcheck disable=SC2034 # For faults.lib. A session ends after two TTLs and its lock-delay.
long=90 short=3

t_case "a server starts"
t_check "it runs" consul_start
faults_one "$port"
server_kill

t_case "three servers and an agent start"
t_check "they run" consul_cluster
store=$(url "$port")
faults_three "$store"

t_case "the agent of the holder's session dies: the lock-delay keeps the name until it is safe"
# shellcheck disable=SC2154 # consul_cluster sets them.
other="consul://127.0.0.1:$http_c1/t"
candidate ada agent "$store" 5s
until_acted agent 0
candidate bob agent "$other" 5s
died_at=$(now_ms)
# shellcheck disable=SC2154 # agent() sets it.
kill -KILL "$pid_beside"
until_acted agent "$token" 90
took=$(($(first_at agent "$(head -n 1 "$t_dir/agent.acts" | cut -d ' ' -f 1)") - died_at))
echo "# the next one leads $took ms after the holder's agent died, TTL 5 s"
end_all
t_promise "one after the other" apart agent
t_done
