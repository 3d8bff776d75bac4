#!/bin/bash
# console.sh - `tenure console` on servers: one that does not answer, one that began anew, and one
# in which nobody has led yet.
# shellcheck source=tests/harness/lib.sh
. "$(dirname "$0")/../harness/lib.sh"
# shellcheck source=tests/live/tenured.lib
. "$(dirname "$0")/tenured.lib"
# shellcheck source=tests/live/postgres.inc
. "$TENURE_ROOT/tests/live/postgres.inc"
# shellcheck source=tests/live/etcd.lib
. "$TENURE_ROOT/tests/live/etcd.lib"
# shellcheck source=tests/harness/zookeeper.sh
. "$TENURE_ROOT/tests/harness/zookeeper.sh"
in_finish tenured_end # Each has begun the list anew.
in_finish etcd_end
in_finish pg_clean
unset TENURE_STORE
export XDG_STATE_HOME="$t_dir/state"

# console URL: its page is $page, its process $console.
console() {
    : >"$t_dir/said"
    : >"$t_dir/err"
    "$tenure" console -s "$1" >"$t_dir/said" 2>"$t_dir/err" &
    console=$!
    candidates="$candidates $console"
    t_check "it serves: $(cat "$t_dir/err")" until_true 20 [ -s "$t_dir/said" ]
    page=$(cat "$t_dir/said")
}
shows() { curl -s -m 10 "${page}v1/leases?names=job" | grep -q "$1"; }

# comes_and_goes URL: of a store whose server runs.
comes_and_goes() {
    console "$1"
    "$tenure" elect --id here -s "$1" --ttl 10s job >"$t_dir/here" 2>&1 &
    leader=$!
    candidates="$candidates $leader"
    t_check "leads" until_line "$t_dir/here" '"won"'
    t_check "the page says so" until_true 20 shows '"state":"held","holder":"here"'
    end "$leader"
    t_check "and that nobody leads" until_true 20 shows '"state":"free"'
    end "$console"
    t_check "exit status 0, not $status" [ "$status" -eq 0 ]
}

t_case "readers that left while the store was away do not keep others out"
tenured_start
if ! "$tenure" console -s "unix:$socket" --listen x 2>&1 | grep -q 'HOST:PORT'; then
    t_skip "this build has no console"
    t_done
fi
console "unix:$socket"
t_check "beats" until_true 20 sh -c "timeout 3 curl -sN '${page}v1/events' | grep -q 'event: beat'"
server_stop
quiet() { ! timeout 3 curl -sN "${page}v1/events" | grep -q 'event: beat'; }
t_check "none while the store is away" until_true 60 quiet
cat >"$t_dir/come_and_go" <<'END'
import socket, sys, urllib.parse
url = urllib.parse.urlparse(sys.argv[1])
for _ in range(3):
    readers = []
    for _ in range(50):
        reader = socket.create_connection((url.hostname, url.port), 20)
        reader.sendall(f"GET {url.path}v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        assert reader.recv(12) == b"HTTP/1.1 200"
        readers.append(reader)
    for reader in readers:
        reader.close()
    # The console looks once a second whether its readers are still there.
    for _ in range(40):
        try:
            probe = socket.create_connection((url.hostname, url.port), 1)
            probe.settimeout(1)
            probe.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            if probe.recv(12) == b"HTTP/1.1 404":
                break
        except OSError:
            pass
    else:
        sys.exit("nobody is let in any more")
END
t_run timeout 120 python3 "$t_dir/come_and_go" "$page"
t_check "all are let in: $(tail -n 1 "$t_err")" [ "$t_status" -eq 0 ]
server_go_on
t_check "beats again" until_true 20 \
    sh -c "timeout 3 curl -sN '${page}v1/events' | grep -q 'event: beat'"
end "$console"
t_check "exit status 0, not $status" [ "$status" -eq 0 ]
tenured_end

t_case "a page that is open hears that nobody has led in this store yet, and then of the first"
if ! pg_find; then
    t_skip "PostgreSQL is not installed; install postgresql"
elif "$tenure" run --store "postgres://x?listen=maybe" x -- true 2>&1 |
    grep -q "not in this build"; then
    t_skip "this build has no postgres:; install libpq-dev and build again"
else
    pg_init "shared_preload_libraries = ''"
    store=$(at postgres)
    console "$store"
    curl -sN "${page}v1/events" >"$t_dir/events" &
    reader=$!
    candidates="$candidates $reader"
    t_check "the page is connected" until_line "$t_dir/events" '^:'
    t_check "the server starts" pg_start
    t_check "synced" until_line "$t_dir/events" 'event: synced'
    "$tenure" acquire -s "$store" --id first --ttl 60s job >/dev/null
    t_check "the first lease" until_line "$t_dir/events" '"holder":"first","token":1'
    end "$reader"
    end "$console"
    pg_stop
fi

t_case "a store that began anew is shown as it is, and its terms are recorded"
if ! command -v redis-server >/dev/null; then
    t_skip "no redis-server: install redis-server"
    t_done
fi
other=$(t_ports 1)
redis-server --port "$other" --save '' --appendonly no --dir "$t_dir" >"$t_dir/redis" 2>&1 &
redis=$!
candidates="$candidates $redis"
t_check "starts" until_line "$t_dir/redis" 'Ready to accept'
store=redis://127.0.0.1:$other
for i in 1 2 3; do
    "$tenure" run -s "$store" --quiet --id "before$i" job -- true 2>/dev/null
done
console "$store"
t_check "the last token" until_true 20 shows '"token":3'
redis-cli -p "$other" flushall >/dev/null
"$tenure" acquire -s "$store" --id anew --ttl 60s job >/dev/null 2>&1
t_check "the new holder" until_true 20 shows '"holder":"anew","token":1'
recorded() { "$tenure" history -s "$store" --json job 2>/dev/null | grep -q '"holder":"anew"'; }
t_check "its term" until_true 20 recorded
end "$console"
end "$redis"

t_case "etcd: a leader comes and goes"
if command -v etcd >/dev/null && etcd_start one; then
    # shellcheck disable=SC2154 # etcd_start sets it.
    comes_and_goes "etcd://127.0.0.1:$port_one/t"
    etcd_stop one
else
    t_skip "no etcd: install etcd-server and etcd-client"
fi

zk_need
port=$(t_ports 1)
zk_make one "$port"
t_case "zookeeper: a leader comes and goes"
t_check "starts" zk_start one
comes_and_goes "zookeeper://127.0.0.1:$port/t"
t_done
