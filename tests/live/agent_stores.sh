#!/bin/sh
# agent_stores.sh - agents above ZooKeeper, PostgreSQL and Redis: another host's process leads when
# the leading one is killed, and an agent that is started again goes on, or ends its terms cleanly.
# shellcheck source=tests/harness/lib.sh
. "${TENURE_ROOT:-$(dirname "$0")/../..}/tests/harness/lib.sh"
# shellcheck source=tests/harness/zookeeper.sh
. "$TENURE_ROOT/tests/harness/zookeeper.sh"
# shellcheck source=tests/live/postgres.inc
. "$TENURE_ROOT/tests/live/postgres.inc"
# shellcheck source=tests/live/redis.inc
. "$TENURE_ROOT/tests/live/redis.inc"
# shellcheck source=tests/live/agent.lib
. "$TENURE_ROOT/tests/live/agent.lib"
rd_begin

# both_act_on NAME CRASH...: two agents above $upstream, whose server crashes and is back in time.
both_act_on() {
    on_name=$1
    shift
    agent a 30s
    on_a=$agent
    agent b 30s
    candidate a-1 "$on_name" "$(at a)" 15s
    until_acted "$on_name" 0
    candidate b-1 "$on_name" "$(at b)" 15s
    t_check "the server is back" "$@"
    last=$(now_ms)
    t_check "somebody acts on" until_true 60 acts_on
    end_all
    t_promise "one after the other" apart "$on_name"
    end "$on_a"
    end "$agent"
}
acts_on() { [ "$(acted_at "$on_name")" -gt $((last + 4000)) ]; }

t_case "redis: a process is killed, and an agent is started again"
t_check "a server" rd_start 1
upstream=$(rd_url 1)
fails_over
goes_on "$upstream"

t_case "redis: the server is started again within the TTL, and the agents go on"
redis_again() { rd_kill 1 KILL && rd_start 1; }
both_act_on redis-server redis_again

pg_begin
pg_init || t_fail "no cluster"
pg_start || t_fail "no server"
t_case "postgres: a process is killed, and an agent is started again"
upstream="postgres://tester@127.0.0.1:$pg_port/postgres?sslmode=disable"
fails_over
goes_on "$upstream"

t_case "postgres: the server crashes and is back within the TTL, and the agents go on"
postgres_again() { pg_stop immediate && pg_start; }
both_act_on postgres-server postgres_again
pg_stop

zk_need
port=$(t_ports 1)
zk_make one "$port"
t_case "zookeeper: a process is killed; an agent that is started again begins anew"
t_check "a server" zk_start one
upstream=zookeeper://127.0.0.1:$port/up
fails_over
begins_anew "$upstream" "$upstream"

t_case "zookeeper: terms end cleanly, and somebody leads when the old session has run out"
agent c 8s --data "$t_dir/clean"
c=$agent
agent d 8s
candidate c-1 clean "$(at c)" 4s
until_acted clean 0
candidate d-1 clean "$(at d)" 4s
kill -KILL "$c"
wait "$c" 2>/dev/null
agent c 8s --data "$t_dir/clean"
until_acted clean "$token" 60
end_all
t_promise "one after the other" apart clean

t_done
