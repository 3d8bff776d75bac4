#!/bin/sh
# doctor.sh - tenure doctor on real servers: what it says, the conformance suite by its own hand,
# and that nothing stays behind.
. "$(dirname "$0")/../harness/lib.sh"
. "$(dirname "$0")/etcd.lib"
. "$(dirname "$0")/postgres.inc"
. "$(dirname "$0")/../harness/zookeeper.sh"
in_finish etcd_end # Each has begun the list anew.
in_finish pg_clean

# failed STATUS WORDS: that exit status, and one line on stderr with the words.
failed() {
    t_check "exit status is $1, not $t_status" [ "$t_status" -eq "$1" ]
    t_check "one line on stderr: $(cat "$t_err")" [ "$(wc -l <"$t_err")" -eq 1 ]
    t_check "says '$2': $(cat "$t_err")" grep -qF "$2" "$t_err"
}

# says PATTERN...: each is the beginning of a line, behind two blanks.
says() {
    t_check "measures: $(cat "$t_err")" [ "$t_status" -eq 0 ]
    for words in "$@"; do
        t_check "'$words': $(cat "$t_out")" grep -Eq "^  $words" "$t_out"
    done
}

conforms() {
    t_run timeout 400 "$tenure" doctor --conformance "$1"
    t_check "passes: $(grep FAIL "$t_out" | head -n 3)" \
        grep -q "^[1-9][0-9]* passed, 0 failed, 0 skipped" "$t_out"
}

if command -v etcd >/dev/null && etcd_start one; then
    # shellcheck disable=SC2154 # etcd_start sets it.
    endpoints=127.0.0.1:$port_one
    version=$(etcd --version | sed -n 's/^etcd Version: //p')
    t_case "etcd"
    t_run "$tenure" doctor --for 300ms "etcd://$endpoints/t"
    says "reachable   yes" "server      etcd $version" "class       strict" "may write   yes" \
        "reads       p50 .* samples" "renewals    p50" "clock rate  not measured: etcd tells no" \
        "TTL         2s to 24h" "scripts     acquire"
    t_check "nothing is left" [ -z "$(ctl get --prefix '' --keys-only)" ]
    t_check "no lease either" [ "$(ctl lease list)" = "found 0 leases" ]
    t_case "etcd: the suite, by doctor, leaves nothing"
    conforms "etcd://$endpoints/suite"
    t_check "no key: $(ctl get --prefix '' --keys-only | head -n 3)" \
        [ -z "$(ctl get --prefix '' --keys-only)" ]
    t_case "etcd: a server that stands still is given up in time"
    # shellcheck disable=SC2154 # etcd_start sets it.
    kill -STOP "$pid_one"
    t_run timeout 60 "$tenure" doctor "etcd://$endpoints/t"
    failed 69 "$endpoints"
    kill -CONT "$pid_one"
    etcd_stop one
else
    t_case "etcd"
    t_skip "no etcd: install etcd-server and etcd-client"
fi

if pg_find && pg_init && pg_start; then
    t_case "postgres: no schema, and --install"
    t_run "$tenure" doctor "$(at postgres)"
    failed 69 "there is no store yet"
    t_run "$tenure" doctor --install --for 1s "$(at postgres)"
    says "server      postgres [1-9]" "class       strict" "may write   yes" \
        "clock rate  [+-][0-9]+ ppm against ours, give or take [0-9]+" "TTL         1s to 24h"
    # One host, one clock: what is measured is what the round trips leave open.
    t_run "$tenure" doctor --json --for 1s "$(at postgres)"
    t_check "the rate is ours: $(cat "$t_out")" python3 -c '
import json, sys
clock = json.load(open(sys.argv[1]))["clock"]
sys.exit(abs(clock["rate_ppm"]) > clock["error_ppm"] + 1000)' "$t_out"
    for table in lease session waiter; do
        left=$(pg_sql postgres "SELECT count(*) FROM tenure.$table")
        t_check "nothing is left in $table: $left" [ "$left" -eq 0 ]
    done
    t_case "postgres: a role without the right to use the schema"
    pg_sql postgres "CREATE ROLE guest LOGIN PASSWORD 'xyzzy'"
    t_run "$tenure" doctor "postgres://guest:xyzzy@127.0.0.1:$pg_port/postgres?sslmode=disable"
    failed 77 "GRANT USAGE ON SCHEMA tenure"
    t_refute "no password" grep -q xyzzy "$t_err"
    t_run "$tenure" doctor "postgres://guest:wrong@127.0.0.1:$pg_port/postgres?sslmode=disable"
    failed 77 "guest"
    t_case "postgres: the suite, by doctor, leaves nothing"
    conforms "$(at postgres)"
    for table in lease session waiter; do
        left=$(pg_sql postgres "SELECT count(*) FROM tenure.$table")
        t_check "nothing is left in $table: $left" [ "$left" -eq 0 ]
    done
else
    t_case "postgres"
    t_skip "PostgreSQL is not installed"
fi

zk_need
# shellcheck disable=SC2046 # Words.
set -- $(t_ports 11)
port=$1
zk_make one "$port"
t_case "zookeeper"
t_check "starts" zk_start one
t_run "$tenure" doctor --for 300ms "zookeeper://127.0.0.1:$port/t"
says "class       strict" "may write   yes" "renewals    p50" "clock rate  not measured" \
    "TTL         1s to 45s" "scripts     no: a lease ends with the process"
version=$("$zk_py" ask "$port" srvr | sed -n 's/^Zookeeper version: \([0-9.]*\).*/\1/p')
t_check "the version, $version" grep -qx "  server      zookeeper $version" "$t_out"
t_refute "one server alone has nobody to lose anything with" grep -q "^  warning" "$t_out"

t_case "zookeeper: something on the way lets sessions through, but not the word"
cat >"$t_dir/mute" <<'END'
import asyncio, sys
async def carry(source, sink):
    while data := await source.read(65536):
        sink.write(data)
    sink.close()
async def serve(client, reply):
    word = await client.readexactly(4)
    if word == b"srvr":
        print("heard", flush=True)
        if len(sys.argv) == 3:
            await asyncio.sleep(3600)
        reply.write(sys.argv[3].encode())
        reply.close()
        return
    server, ask = await asyncio.open_connection("127.0.0.1", int(sys.argv[2]))
    ask.write(word)
    await asyncio.gather(carry(client, ask), carry(server, reply))
async def main():
    async with await asyncio.start_server(serve, "127.0.0.1", int(sys.argv[1])) as it:
        print("ready", flush=True)
        await it.serve_forever()
asyncio.run(main())
END
/usr/bin/python3 "$t_dir/mute" "$2" "$port" >"$t_dir/mute.out" 2>/dev/null &
mute=$!
in_finish "kill $mute 2>/dev/null"
t_check "listens" until_line "$t_dir/mute.out" ready
t_run timeout 60 "$tenure" doctor --for 300ms "zookeeper://127.0.0.1:$2/t"
says "server      version not known: 127.0.0.1:$2 does not answer srvr" "may write   yes"
t_check "it was asked" grep -q heard "$t_dir/mute.out"
t_run timeout 60 "$tenure" doctor --for 300ms "zookeeper://127.0.0.1:$2,127.0.0.1:$port/t"
says "server      zookeeper $version"
kill "$mute"

t_case "zookeeper: srvr is answered with a refusal"
no="srvr is not executed because it is not in the whitelist."
/usr/bin/python3 "$t_dir/mute" "$2" "$port" "$no" >"$t_dir/mute.out" 2>/dev/null &
mute=$!
in_finish "kill $mute 2>/dev/null"
t_check "listens" until_line "$t_dir/mute.out" ready
t_run timeout 60 "$tenure" doctor --for 300ms "zookeeper://127.0.0.1:$2/t"
says "server      version not known: 127.0.0.1:$2 answers srvr with $no" "may write   yes"
t_run timeout 60 "$tenure" doctor --json --for 300ms "zookeeper://127.0.0.1:$2/t"
t_check "as JSON: $(cat "$t_out")" grep -q '"server":null,"server_why":"127.0.0.1:' "$t_out"
kill "$mute"
zk_kill one

t_case "zookeeper: three servers of a version with a known fault"
shift 2
zk_ensemble "$@"
t_run timeout 60 "$tenure" doctor --for 300ms "$three"
says "server      zookeeper $version"
case $version in
3.[0-7].* | 3.8.[0-3]) fault=ZOOKEEPER-4785 ;;
*) fault= ;;
esac
if [ -n "$fault" ]; then
    t_check "the warning: $(cat "$t_out")" \
        grep -q "^  warning .*$version can lose.*$fault.*use 3.8.5" "$t_out"
fi
t_done
