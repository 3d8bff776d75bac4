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
import base64, http.server, json
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
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
python3 "$t_dir/consul.py" >"$t_dir/port" &
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
t_done
