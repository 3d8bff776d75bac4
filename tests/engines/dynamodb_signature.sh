#!/bin/sh
# dynamodb_signature.sh - a server that verifies our signatures with botocore's signer (moto), and
# the least policy that docs/stores/dynamodb.md gives.
# shellcheck source=tests/harness/lib.sh
. "${TENURE_ROOT:-$(dirname "$0")/../..}/tests/harness/lib.sh"
# shellcheck source=tests/engines/dynamodb.lib
. "$TENURE_ROOT/tests/engines/dynamodb.lib"
dynamodb_need
if [ ! -e "$servers/python/.complete" ]; then
    t_case "moto"
    t_skip "no moto: run tools/servers dynamodb"
    t_done
fi

port=$(t_ports 1)
# The first seven calls, which make two users with a key each and the table, are not verified.
INITIAL_NO_AUTH_ACTION_COUNT=7 PYTHONPATH=$servers/python python3 -m moto.server -p "$port" \
    >"$t_dir/moto.log" 2>&1 &
in_finish "kill $!"
iam() {
    curl -s --aws-sigv4 aws:amz:us-east-1:iam -u nobody:nothing "http://127.0.0.1:$port/" \
        -d "Version=2010-05-08&UserName=${user:-ada}" "$@"
}
policy='{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":["dynamodb:GetItem",
    "dynamodb:UpdateItem","dynamodb:TransactWriteItems"],"Resource":"*"}]}'
is_up() { curl -s "http://127.0.0.1:$port/moto-api/" >/dev/null; }
t_case "moto starts"
t_check "it runs" until_true 60 is_up
iam -d Action=CreateUser >/dev/null
iam -d Action=PutUserPolicy -d PolicyName=p --data-urlencode "PolicyDocument=$policy" >/dev/null
iam -d Action=CreateAccessKey >"$t_dir/key"
reads='{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":["dynamodb:GetItem"],
    "Resource":"*"}]}'
user=reader
iam -d Action=CreateUser >/dev/null
iam -d Action=PutUserPolicy -d PolicyName=p --data-urlencode "PolicyDocument=$reads" >/dev/null
iam -d Action=CreateAccessKey >"$t_dir/reader"
make_table "$port"
element() { sed -n "s/.*<$1>\([^<]*\)<.*/\1/p" "${2:-$t_dir/key}"; }
AWS_ACCESS_KEY_ID=$(element AccessKeyId) AWS_SECRET_ACCESS_KEY=$(element SecretAccessKey)
t_check "a key" [ -n "$AWS_SECRET_ACCESS_KEY" ]
store=$(url "$port")

t_case "our signatures are those of botocore"
leads "$store"
t_run "$tenure" fence raise --at "$store" orders 5
t_check "the fence, too: $(cat "$t_err")" [ "$t_status" -eq 0 ]
t_check "verified" grep -q '"POST / HTTP/1.1" 200' "$t_dir/moto.log"

t_case "doctor: the policy is enough, and who may only read hears so: 77"
t_run timeout 60 "$tenure" doctor --for 200ms "$store"
t_check "enough: $t_status $(cat "$t_err")" [ "$t_status" -eq 0 ]
t_run timeout 60 env AWS_ACCESS_KEY_ID="$(element AccessKeyId "$t_dir/reader")" \
    AWS_SECRET_ACCESS_KEY="$(element SecretAccessKey "$t_dir/reader")" \
    "$tenure" doctor --for 200ms "$store"
t_check "77, not $t_status: $(cat "$t_out" "$t_err")" [ "$t_status" -eq 77 ]
t_check "may not write: $(cat "$t_out")" grep -q "may write  *no: .*status 403" "$t_out"

t_case "a wrong secret, and an action that the policy does not have: 77"
t_run "$tenure" list --store "$store"
t_check "list needs Scan: $t_status, $(cat "$t_err")" [ "$t_status" -eq 77 ]
AWS_SECRET_ACCESS_KEY=x$AWS_SECRET_ACCESS_KEY
t_run "$tenure" status --store "$store" x
t_check "refused: $t_status, $(cat "$t_err")" [ "$t_status" -eq 77 ]
t_check "one line" [ "$(wc -l <"$t_err")" -eq 1 ]
t_done
