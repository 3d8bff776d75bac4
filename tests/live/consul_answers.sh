#!/bin/sh
# consul_answers.sh - what is said of a key of Consul, by one that only answers. What a real server
# does is in tests/engines/consul.sh.
# shellcheck source=tests/harness/lib.sh
. "${TENURE_ROOT:-$(dirname "$0")/../..}/tests/harness/lib.sh"
# shellcheck source=tests/live/live.lib
. "$TENURE_ROOT/tests/live/live.lib"
unset CONSUL_HTTP_ADDR CONSUL_HTTP_TOKEN CONSUL_HTTP_TOKEN_FILE http_proxy

if ! "$tenure" --version | grep -q '^stores: .*consul'; then
    t_case "consul"
    t_skip "consul: is not in this build"
    t_done
fi
cat >"$t_dir/consul.py" <<'END'
import base64, http.server, json, sys, time
taken = []
class Handler(http.server.BaseHTTPRequestHandler):
    # The first blocking query finds nobody, the third and all later ones a stranger's session. The
    # second one, which is to tell of it, is answered with what is not JSON.
    def taken(self):
        if "index=" in self.path:
            if len(taken) == 1: # The first look is over by then, and has found nobody.
                time.sleep(2)
            taken.append(self.path)
            print(self.path, file=sys.stderr, flush=True)
        if "index=8" in self.path:
            time.sleep(15)
        self.send_response(200)
        self.send_header("X-Consul-Index", "7" if len(taken) < 2 else "8")
        self.end_headers()
        key = {"Key": "t/taken/.lock", "LockIndex": 1, "Flags": 3304740253564472344,
               "CreateIndex": 3, "ModifyIndex": 7 if len(taken) < 2 else 8, "Value": None}
        if len(taken) > 1:
            key["Session"] = "11111111-2222-3333-4444-555555555555"
        garbage = len(taken) == 2 and "index=" in self.path
        self.wfile.write(b"<html>" if garbage else json.dumps([key]).encode())
    def do_GET(self):
        if "/taken/" in self.path:
            return self.taken()
        if "/nowhere/" in self.path:
            return self.send_error(404)
        never = "/never/" in self.path
        value = b'{"tenure":1,"held":false,"token":5}'
        self.send_response(404 if never else 200)
        self.send_header("X-Consul-Index", "7")
        self.end_headers()
        self.wfile.write(b"" if never else json.dumps([{
            "Key": "t/x/.lock", "LockIndex": 1, "Flags": 3304740253564472344, "CreateIndex": 3,
            "ModifyIndex": 7, "Value": base64.b64encode(value).decode()}]).encode())
    def log_message(self, *args):
        pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
END
python3 "$t_dir/consul.py" >"$t_dir/port" 2>"$t_dir/queries" &
in_finish "kill $!"
until_line "$t_dir/port" '^[0-9]' || t_fail "no server"
store=consul://127.0.0.1:$(cat "$t_dir/port")/t

t_case "status tells that a lock-delay may keep a free name back"
t_run "$tenure" status --store "$store" x
t_check "in words: $(cat "$t_out" "$t_err")" \
    grep -q '^x: free, last token 5, a lock-delay of up to 60s may keep it back$' "$t_out"
t_run "$tenure" status --store "$store" never
t_check "not where nobody led: $(cat "$t_out" "$t_err")" \
    grep -q '^never: free, never held$' "$t_out"

t_case "404 of what is not Consul does not mean that nobody leads"
t_run "$tenure" status --store "${store%/t}/nowhere" x
t_check "69, not $t_status: $(cat "$t_out")" [ "$t_status" -eq 69 ]
t_check "one line: $(cat "$t_err")" [ "$(wc -l <"$t_err")" -eq 1 ]
t_run "$tenure" list --store "${store%/t}/nowhere"
t_check "list: 69, not $t_status: $(cat "$t_out")" [ "$t_status" -eq 69 ]

t_case "a blocking query whose answer cannot be read is asked again from the start"
"$tenure" watch --store "$store" taken >"$t_dir/taken" 2>&1 &
in_finish "kill $!"
asked_again() { [ "$(grep -c index= "$t_dir/queries")" -ge 3 ]; }
t_check "asked again: $(cat "$t_dir/queries")" until_true 20 asked_again
t_check "from the start: $(cat "$t_dir/queries")" \
    [ "$(grep index= "$t_dir/queries" | sed -n '3s/.*index=\([0-9]*\).*/\1/p')" = 0 ]
t_check "the change is seen: $(cat "$t_dir/taken")" \
    until_line "$t_dir/taken" 'consul session 11111111' 10

# --- A server of ours that keeps keys and sessions ----------------------------------------------

# shellcheck source=tests/live/rows.lib
. "$TENURE_ROOT/tests/live/rows.lib"
rows_start consul
store=$(rows_url consul)

t_case "one process has one session for all its names, counted by the server"
mkfifo "$t_dir/many.in"
"$fixtures/many" "$store" 20 6000 <>"$t_dir/many.in" >"$t_dir/many" 2>&1 &
many=$!
candidates="$candidates $many"
t_check "it leads all: $(cat "$t_dir/many" 2>&1)" until_line "$t_dir/many" '^leads 20' 30
made=$(rows_asked consul session/create)
t_check "one session, not $made" [ "$made" -eq 1 ]
rows_item consul | python3 -c 'import json, sys
rows = [row for key, row in json.load(sys.stdin).items() if "/many/" in key]
print(len(rows), len({row["session"] for row in rows}))' >"$t_dir/kept"
t_check "which has all keys: $(cat "$t_dir/kept")" [ "$(cat "$t_dir/kept")" = "20 1" ]
renewals=$(rows_asked consul session/renew) writes=$(rows_asked consul v1/txn)
began=$(now_ms)
until_ms $((began + 6000))
renewals=$(($(rows_asked consul session/renew) - renewals))
t_check "in a TTL $renewals renewals" [ $renewals -ge 2 -a $renewals -le 5 ]
t_check "and no write to a key" [ "$(rows_asked consul v1/txn)" -eq "$writes" ]
end "$many"

t_case "namespace, partition and datacenter are in every request"
: >"$t_dir/consul.log"
scoped="$store?ns=team%20a&partition=east&dc=dc2"
t_run timeout 60 "$tenure" run --store "$scoped" --ttl 6s x -- true
t_check "leads: $(cat "$t_err")" [ "$t_status" -eq 0 ]
"$tenure" watch --store "$scoped" x >"$t_dir/watch" 2>&1 &
watch=$!
candidates="$candidates $watch"
t_check "watched" until_line "$t_dir/consul.log" 'index='
end "$watch"
for verb in "list" "status x" "revoke x"; do
    # shellcheck disable=SC2086 # Words.
    t_run timeout 60 "$tenure" ${verb%% *} --store "$scoped" ${verb#"${verb%% *}"}
done
t_run timeout 60 "$tenure" acquire --store "$scoped" --ttl 20s y
t_check "a script's: $(cat "$t_err")" [ "$t_status" -eq 0 ]
eval "$(cat "$t_out")"
export TENURE_SECRET
t_run timeout 60 "$tenure" renew --store "$scoped" --token "$TENURE_TOKEN" y
t_check "renewed: $(cat "$t_err")" [ "$t_status" -eq 0 ]
t_run timeout 60 "$tenure" release --store "$scoped" --token "$TENURE_TOKEN" y
t_check "released: $(cat "$t_err")" [ "$t_status" -eq 0 ]
unset TENURE_SECRET TENURE_TOKEN
t_run timeout 60 "$tenure" doctor --for 100ms "$scoped"
t_check "doctor: $(cat "$t_err")" [ "$t_status" -eq 0 ]
for path in session/create session/renew session/destroy v1/txn 'kv/.*consistent' 'kv/.*index=' \
    'kv/.*recurse' agent/self; do
    t_check "there was a $path" grep -q "$path" "$t_dir/consul.log"
done
grep -v ' [^ ]*[?&]ns=team%20a&partition=east&dc=dc2 -$' "$t_dir/consul.log" >"$t_dir/without"
t_check "all have the three: $(head -n 3 "$t_dir/without")" [ ! -s "$t_dir/without" ]

t_case "Patroni's keys: not seen, not taken for ours, and not touched"
patroni=$(curl -sS -m 10 -X PUT -d '{"TTL":"15s"}' "http://$(rows_at consul)/v1/session/create" |
    sed 's/.*"ID": *"\([^"]*\)".*/\1/')
curl -sS -m 10 -X PUT -d "[{\"KV\":{\"Verb\":\"lock\",\"Key\":\"service/demo/leader\",
    \"Flags\":0,\"Session\":\"$patroni\",\"Value\":\"cGctMQ==\"}}]" \
    "http://$(rows_at consul)/v1/txn" >"$t_dir/put"
rows_item consul service/demo/leader >"$t_dir/before"
t_check "the leader's key is there: $(cat "$t_dir/put")" grep -q "$patroni" "$t_dir/before"
service=consul://$(rows_at consul)/service
t_run timeout 60 "$tenure" list --store "$service" --json
t_check "list: nothing: $(cat "$t_out" "$t_err")" [ "$(grep -c '"name"' "$t_out")" -eq 0 ]
t_run timeout 60 "$tenure" status --store "$service" demo/leader
t_check "status speaks of a name of ours: $(cat "$t_out" "$t_err")" \
    grep -q '^demo/leader: free, never held' "$t_out"
t_run timeout 60 "$tenure" run --store "$service" --ttl 6s --wait 20s demo/leader -- true
t_check "which can be led: $(cat "$t_err")" [ "$t_status" -eq 0 ]
rows_item consul service/demo/leader >"$t_dir/after"
t_check "theirs is as it was: $(cat "$t_dir/after")" python3 -c 'import json, sys
before, after = (json.load(open(name))["service/demo/leader"] for name in sys.argv[1:])
sys.exit(before != after)' "$t_dir/before" "$t_dir/after"
t_done
