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
long=55 short=3

t_case "a server starts"
t_check "it runs" consul_start
faults_one "$port"

t_case "two hosts in the URL: when one hangs or is gone the other keeps the term"
proxy_start host1 "$port"
hosts=127.0.0.1:$proxy_port
proxy_start host2 "$port"
candidate ada hosts "consul://$hosts,127.0.0.1:$proxy_port/t" 9s
until_acted hosts 0
first=$token
for word in "host1 stall" "host1 pass" "host2 refuse"; do
    # shellcheck disable=SC2086 # Words.
    t_check "$word" proxy_say $word
    said_at=$(now_ms)
    [ "$word" = "host1 pass" ] || until_ms $((said_at + 20000))
    t_check "the term goes on: $(tail -n 2 "$t_dir/hosts.err")" [ "$(acted hosts)" -eq "$first" ]
    t_check "now: $(($(now_ms) - $(acted_at hosts))) ms ago" \
        [ "$(acted_at hosts)" -ge $(($(now_ms) - 2000)) ]
done
end_all
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
