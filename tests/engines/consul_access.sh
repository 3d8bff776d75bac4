#!/bin/sh
# consul_access.sh - Consul with ACLs and with TLS, and what is said when it cannot be used.
# shellcheck source=tests/harness/lib.sh
. "${TENURE_ROOT:-$(dirname "$0")/../..}/tests/harness/lib.sh"
# shellcheck source=tests/engines/consul.lib
. "$TENURE_ROOT/tests/engines/consul.lib"
# shellcheck source=tests/live/certificates.lib
. "$TENURE_ROOT/tests/live/certificates.lib"
consul_need
# A busy server has three seconds to refuse; the TTL is not what is tested here.
# shellcheck disable=SC2034 # For refuses.
re_wait=3s

t_case "a server with ACLs starts"
acl_token=11111111-2222-3333-4444-555555555555
t_check "it runs" consul_start "acl { enabled = true default_policy = \"deny\"
    tokens { initial_management = \"$acl_token\" } }"
store=$(url "$port")

# grant NAME RULES: a token with those, in $granted.
grant() {
    rules=$(printf %s "$2" | sed 's/"/\\"/g' | tr '\n' ' ')
    kv PUT acl/policy "{\"Name\":\"$1\",\"Rules\":\"$rules\"}" >"$t_dir/policy"
    granted=$(kv PUT acl/token "{\"Policies\":[{\"Name\":\"$1\"}]}" |
        sed 's/.*"SecretID":"\([^"]*\)".*/\1/')
}

t_case "the policy of docs/stores/consul.md is enough, by variable and by file"
# As it is in the document, for the prefix "t".
policy=$(sed -n '/^## Permissions/,$s/^    \([a-z_]* .*\)/\1/p' \
    "$TENURE_ROOT/docs/stores/consul.md" | sed 's/PREFIX/t/; s/ *#.*//')
t_check "it is there" [ "$(echo "$policy" | grep -c policy)" -eq 3 ]
grant least "$policy"
least=$granted
CONSUL_HTTP_TOKEN=$least leads "$store"
echo "$least" >"$t_dir/token"
leads "$store?token_file=$t_dir/token"
t_run "$tenure" list --store "$store?token_file=$t_dir/token"
t_check "listed: $(cat "$t_out" "$t_err")" grep -q '^x ' "$t_out"
t_run "$tenure" doctor --for 200ms "$store?token_file=$t_dir/token"
t_check "doctor: $(cat "$t_err")" [ "$t_status" -eq 0 ]
t_prints '1.22.7'

t_case "a token that is missing, wrong or not allowed is said in one line: 77"
refuses 77 "Permission denied" "$store" 30s
export CONSUL_HTTP_TOKEN=99999999-2222-3333-4444-555555555555
refuses 77 "ACL not found" "$store" 30s
grant reader 'key_prefix "t/" { policy = "read" } session_prefix "" { policy = "write" }'
CONSUL_HTTP_TOKEN=$granted
refuses 77 "Permission denied" "$store" 30s
t_run "$tenure" doctor --for 200ms "$store"
t_check "doctor: who may not write the key gets 77, not $t_status" [ "$t_status" -eq 77 ]
t_check "and hears it: $(cat "$t_out" "$t_err")" grep -q "may write  *no: .*ermission" "$t_out"
grant nosession 'key_prefix "t/" { policy = "write" }'
CONSUL_HTTP_TOKEN=$granted
refuses 77 "session:write" "$store" 30s
t_run "$tenure" doctor --for 200ms "$store"
t_check "doctor: 77, not $t_status" [ "$t_status" -eq 77 ]
t_check "doctor names it: $(cat "$t_out" "$t_err")" grep -q "session:write" "$t_out"
CONSUL_HTTP_TOKEN='not a token'
refuses 64 "the ACL token is none" "$store"
unset CONSUL_HTTP_TOKEN
: >"$t_dir/empty"
refuses 64 "cannot read the ACL token" "$store?token_file=$t_dir/empty"

t_case "what Consul does not have: a namespace, a datacenter"
refuses 69 "Enterprise" "$store?token_file=$t_dir/token&ns=team" 30s
refuses 69 "datacenter" "$store?token_file=$t_dir/token&dc=nowhere" 30s
server_kill
acl_token=

t_case "a server that wants certificates starts"
rm -rf "$t_dir/data"
consul_tls="--cacert $t_dir/ca.pem --cert $t_dir/client.pem --key $t_dir/client.key"
t_check "it runs" consul_start "tls { defaults { ca_file = \"$t_dir/ca.pem\"
    cert_file = \"$t_dir/server.pem\" key_file = \"$t_dir/server.key\" verify_incoming = true } }"
tls="consuls://127.0.0.1:$port/t"
mine="cert=$t_dir/client.pem&key=$t_dir/client.key"

t_case "with a certificate, a term; without, or with a stranger's, one line: 69"
leads "$tls?ca=$t_dir/ca.pem&$mine"
refuses 69 "TLS" "$tls?ca=$t_dir/ca.pem" 30s
refuses 69 "TLS" "$tls?ca=$t_dir/ca.pem&cert=$t_dir/stranger.pem&key=$t_dir/stranger.key" 30s
refuses 69 "certificate" "$tls?ca=$t_dir/otherca.pem&$mine" 30s
refuses 69 "HTTPS" "consul://127.0.0.1:$port/t" 30s
refuses 64 "nowhere.pem" "$tls?ca=$t_dir/nowhere.pem&$mine"
server_kill

t_case "a server that is none: garbage, 404, 429, 5xx, 100 MB: one line each"
cat >"$t_dir/none.py" <<'END'
import http.server, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def answer(self):
        word = self.path.split("/kv/")[1].split("/")[0] if "/kv/" in self.path else "ok"
        code = {"missing": 404, "busy": 429, "broken": 500, "gateway": 502}.get(word, 200)
        self.send_response(code)
        self.end_headers()
        try:
            if word == "ok":
                self.wfile.write(b'{"ID":"11111111-2222-3333-4444-555555555555"}')
            elif word == "huge":
                for i in range(100):
                    self.wfile.write(b"x" * 1000000)
            else:
                self.wfile.write(b"<html>\x1b[31mhello " + word.encode())
        except OSError:
            pass
    do_GET = do_PUT = answer
    def log_message(self, *args):
        pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
END
/usr/bin/python3 "$t_dir/none.py" >"$t_dir/none.port" &
candidates="$candidates $!"
until_line "$t_dir/none.port" .
port=$(cat "$t_dir/none.port")
for case in "garbage:cannot be read" "busy:hello busy" "broken:hello broken" \
    "gateway:hello gateway" "missing:hello missing" "huge:longer than"; do
    t_run "$tenure" status --store "consul://127.0.0.1:$port/${case%:*}" x
    t_check "$case: exit status is 69, not $t_status" [ "$t_status" -eq 69 ]
    t_check "$case: says so: $(cat "$t_err")" grep -q "${case#*:}" "$t_err"
    t_check "$case: one line" [ "$(wc -l <"$t_err")" -eq 1 ]
done
t_done
