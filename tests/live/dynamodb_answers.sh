#!/bin/sh
# dynamodb_answers.sh - DynamoDB that answers, but refuses, and the sources of AWS credentials. One
# line says what it said and what to do, with the documented exit status. What a table does is in
# tests/engines/dynamodb.sh, with real servers.
# shellcheck source=tests/harness/lib.sh
. "${TENURE_ROOT:-$(dirname "$0")/../..}/tests/harness/lib.sh"
# shellcheck source=tests/live/live.lib
. "$TENURE_ROOT/tests/live/live.lib"
unset AWS_PROFILE AWS_SESSION_TOKEN AWS_DEFAULT_REGION AWS_ENDPOINT_URL AWS_ROLE_ARN \
    AWS_CONTAINER_CREDENTIALS_RELATIVE_URI AWS_CONTAINER_CREDENTIALS_FULL_URI http_proxy
export HOME="$t_dir" AWS_REGION=eu-west-1 AWS_EC2_METADATA_DISABLED=true
export AWS_ACCESS_KEY_ID=AKIDENV AWS_SECRET_ACCESS_KEY=geheim

if ! "$tenure" --version | grep -q dynamodb; then
    t_case "dynamodb"
    t_skip "dynamodb: is not in this build"
    t_done
fi
python3 "$TENURE_ROOT/tests/live/dynamodb_fake.py" "$t_dir/asked" >"$t_dir/port" &
fake=$!
in_finish "kill $fake"
until_line "$t_dir/port" '^[0-9]' || t_fail "no server"
at=http://127.0.0.1:$(cat "$t_dir/port")
url() { echo "dynamodb://$1?endpoint=$at"; }

# answers STATUS TABLE WORDS
answers() {
    t_run timeout 60 "$tenure" status --store "$(url "$2")" x
    t_check "$2: exit status is $1, not $t_status" [ "$t_status" -eq "$1" ]
    t_check "$2: one line: $(cat "$t_err")" [ "$(wc -l <"$t_err")" -eq 1 ]
    t_check "$2: says so: $(cat "$t_err")" grep -qF -e "$3" "$t_err"
    t_refute "$2: no secret" grep -q geheim "$t_err"
}

t_case "what DynamoDB refuses is told in one line"
answers 77 denied "dynamodb:GetItem is not permitted on table 'denied' in eu-west-1"
answers 77 expired "the credentials from the environment are expired; renew them"
answers 77 skewed "this host's clock is wrong, set it"
answers 77 unknown-key "the credentials from the environment are refused"
answers 77 scoped "should be scoped to a valid region"
answers 69 missing "there is no table 'missing' in eu-west-1"
answers 69 sorted "needs a partition key 'key' of type S and no sort key"
answers 69 throttled "ProvisionedThroughputExceededException: Too fast"
answers 69 ill "InternalServerError"
answers 69 away "ServiceUnavailable"
answers 69 lines 'two\nlines \x1b[31m and a "quote"'

t_case "doctor names the action that is missing"
t_run timeout 60 "$tenure" doctor --for 100ms --store "$(url denied)"
t_check "77, not $t_status" [ "$t_status" -eq 77 ]
t_check "by its name: $(cat "$t_out" "$t_err")" \
    grep -q "dynamodb:GetItem is not permitted" "$t_err"

t_case "doctor tells who may read but not write: 77"
t_run timeout 60 "$tenure" doctor --for 100ms --store "$(url readable)"
t_check "77, not $t_status" [ "$t_status" -eq 77 ]
t_check "by its name: $(cat "$t_out" "$t_err")" \
    grep -q "may write  *no: .*dynamodb:UpdateItem is not permitted" "$t_out"

t_case "what is not DynamoDB is told in one line"
answers 69 garbage "the answer is not the JSON of DynamoDB; is the endpoint right?"
answers 69 cat "the answer is not the JSON of DynamoDB; is the endpoint right?"
answers 69 gateway "status 502, and no error of DynamoDB with it"
answers 69 huge "65536"

t_case "an empty answer to a write is a clear one"
: >"$t_dir/asked"
t_run timeout 60 "$tenure" run --store "$(url gone-wrong)" --ttl 3s --wait 1s x -- false
# The reads find nothing, so that a grant is written. Its answer "{}" says that it was, but without
# TLS that may be an old one, and the item is not there.
t_check "an empty answer is no success: $t_status, $(cat "$t_err")" [ "$t_status" -ne 1 ]
t_check "a grant was tried" grep -q TransactWriteItems "$t_dir/asked"

t_case "a write whose answer was lost is sent again under the same ClientRequestToken"
: >"$t_dir/asked"
t_run timeout 60 "$tenure" run --store "$(url torn)" --ttl 6s --wait 10s x -- true
t_check "it leads: $t_status, $(cat "$t_err")" [ "$t_status" -eq 0 ]
grep "^ClientRequestToken torn" "$t_dir/asked" >"$t_dir/torn"
t_check "the first twice: $(cat "$t_dir/torn")" \
    [ "$(head -n 1 "$t_dir/torn")" = "$(sed -n 2p "$t_dir/torn")" ]
t_check "with a token: $(cat "$t_dir/torn")" \
    grep -Eq '^ClientRequestToken torn .{8,}' "$t_dir/torn"

t_case "a URL that makes no sense: 64, and nobody is asked"
: >"$t_dir/asked"
for bad in dynamodb:locks dynamodb:// dynamodb://a dynamodb://a/b "dynamodb://locks?poll=1ms" \
    "dynamodb://locks?region=" "dynamodb://locks?colour=red" "dynamodb://locks?endpoint=ftp://x" \
    "dynamodb://lo%zzcks" "dynamodb://locks?region=a/b"; do
    t_bad "write dynamodb://TABLE" "$tenure" status --store "$bad" x
done
AWS_REGION='' t_bad "no region; set ?region= or AWS_REGION" \
    "$tenure" status --store dynamodb://locks x
t_check "nobody was asked" [ ! -s "$t_dir/asked" ]

# asks_as KEY [token]: with which credentials the table is asked.
asks_as() {
    : >"$t_dir/asked"
    t_run timeout 60 "$tenure" status --store "$(url locks)" x
    t_check "as $1: $(cat "$t_err" "$t_dir/asked")" \
        grep -q "^GetItem locks $1 ${2:--}$" "$t_dir/asked"
}
refuses_keys() {
    t_run timeout 60 "$tenure" status --store "$(url locks)" x
    t_check "$2: exit status is $1, not $t_status" [ "$t_status" -eq "$1" ]
    t_check "$2: $(cat "$t_err")" grep -qF -e "$2" "$t_err"
    t_check "one line" [ "$(wc -l <"$t_err")" -eq 1 ]
    t_refute "$2: no secret" grep -q geheim "$t_err"
}

t_case "credentials: the environment comes first"
asks_as AKIDENV
AWS_SESSION_TOKEN=geheim-token asks_as AKIDENV token
unset AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY

t_case "credentials: nowhere"
refuses_keys 77 "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE"

t_case "credentials: profile files, by their usual places and by the variables"
mkdir -p "$t_dir/.aws"
cat >"$t_dir/.aws/credentials" <<END
[default]
aws_access_key_id = AKIDDEFAULT
aws_secret_access_key = geheim
[deploy]
aws_access_key_id = AKIDDEPLOY
aws_secret_access_key = geheim
aws_session_token = geheim-token
END
cat >"$t_dir/.aws/config" <<END
[profile role]
role_arn = arn:aws:iam::1:role/r
source_profile = deploy
[profile odd]
credential_process = /bin/true
[profile far]
region = ap-south-1
aws_access_key_id = AKIDFAR
aws_secret_access_key = geheim
END
asks_as AKIDDEFAULT
AWS_PROFILE=deploy asks_as AKIDDEPLOY token
AWS_PROFILE=far asks_as AKIDFAR
AWS_PROFILE=nobody refuses_keys 64 "'nobody' is in none of the AWS files; check AWS_PROFILE"
AWS_PROFILE=odd refuses_keys 64 "'odd' uses credential_process"
AWS_PROFILE=role AWS_ENDPOINT_URL_STS="$at/sts" asks_as AKIDROLE token
t_check "signed by the one that lends it" grep -q "^sts Action=AssumeRole signed$" "$t_dir/asked"
t_run env AWS_REGION= AWS_PROFILE=far timeout 20 "$tenure" status --store "$(url missing)" x
t_check "the profile's region: $(cat "$t_err")" grep -q "in ap-south-1" "$t_err"
mv "$t_dir/.aws/credentials" "$t_dir/moved"
AWS_SHARED_CREDENTIALS_FILE=$t_dir/moved asks_as AKIDDEFAULT
rm -r "$t_dir/.aws"

t_case "credentials: a web identity"
echo geheim-jwt >"$t_dir/jwt"
export AWS_ENDPOINT_URL_STS="$at/sts" AWS_ROLE_ARN=arn:aws:iam::1:role/w
AWS_WEB_IDENTITY_TOKEN_FILE=$t_dir/jwt asks_as AKIDROLE token
t_check "unsigned" grep -q "^sts Action=AssumeRoleWithWebIdentity unsigned$" "$t_dir/asked"
echo bad >"$t_dir/jwt"
AWS_WEB_IDENTITY_TOKEN_FILE=$t_dir/jwt refuses_keys 77 "STS refuses: InvalidIdentityToken"
AWS_WEB_IDENTITY_TOKEN_FILE=$t_dir/none refuses_keys 77 "its token file is empty or cannot be read"
unset AWS_ENDPOINT_URL_STS AWS_ROLE_ARN

t_case "credentials: a container"
export AWS_CONTAINER_CREDENTIALS_FULL_URI="$at/container"
AWS_CONTAINER_AUTHORIZATION_TOKEN=geheim-bearer asks_as AKIDCONTAINER token
echo geheim-bearer >"$t_dir/bearer"
AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE=$t_dir/bearer asks_as AKIDCONTAINER token
refuses_keys 77 "the container's endpoint"
AWS_CONTAINER_CREDENTIALS_FULL_URI=http://db.example.com/x refuses_keys 64 "must be https://"
AWS_CONTAINER_CREDENTIALS_FULL_URI=$at/past refuses_keys 69 "check this host's clock"

t_case "credentials that expire are fetched again before they do"
AWS_CONTAINER_CREDENTIALS_FULL_URI=$at/short
: >"$t_dir/asked"
setsid "$tenure" watch --store "$(url locks)&poll=200ms" x >/dev/null 2>"$t_dir/watch.err" &
watch=$!
candidates="$candidates $watch"
twice() { [ "$(grep -c '^short$' "$t_dir/asked")" -ge 2 ]; }
t_check "twice within the life of the first" until_true 20 twice
t_check "nothing was refused: $(cat "$t_dir/watch.err")" [ ! -s "$t_dir/watch.err" ]
end $watch
unset AWS_CONTAINER_CREDENTIALS_FULL_URI

t_case "credentials: an instance"
unset AWS_EC2_METADATA_DISABLED
AWS_EC2_METADATA_SERVICE_ENDPOINT=$at/ asks_as AKIDINSTANCE token
t_check "by the second version" grep -q "^imds token 21600$" "$t_dir/asked"
AWS_EC2_METADATA_SERVICE_ENDPOINT=http://127.0.0.1:1 refuses_keys 69 "nobody answers there"

# --- A table of ours, whose partition key is not "key" ------------------------------------------

# shellcheck source=tests/live/rows.lib
. "$TENURE_ROOT/tests/live/rows.lib"
rows_start dynamodb
named="dynamodb://named?endpoint=http://$(rows_at dynamodb)&poll=200ms"

t_case "key= names the partition key, for every kind of request"
t_run timeout 60 "$tenure" status --store "$named" x
t_check "without it: 69, not $t_status" [ "$t_status" -eq 69 ]
t_check "the line says so: $(cat "$t_err")" \
    grep -q "needs a partition key 'key' of type S and no sort key, or name it by ?key=" "$t_err"
t_run timeout 60 "$tenure" run --store "$named&key=LockID" --ttl 6s --wait 20s \
    --fence "$named&key=LockID#orders" x -- sh -c 'echo "$TENURE_TOKEN"'
t_check "leads: $(cat "$t_err")" [ "$t_status" -eq 0 ]
t_check "token 1: $(cat "$t_out")" [ "$(cat "$t_out")" = 1 ]
t_run timeout 60 "$tenure" run --store "$named&key=LockID" --ttl 6s --wait 20s x -- \
    sh -c 'echo "$TENURE_TOKEN"'
t_check "and again, with the next one: $(cat "$t_out" "$t_err")" [ "$(cat "$t_out")" = 2 ]
t_run timeout 60 "$tenure" list --store "$named&key=LockID"
t_check "listed: $(cat "$t_out" "$t_err")" grep -q '^x  *free .* 2 ' "$t_out"
t_run timeout 60 "$tenure" fence show --at "$named&key=LockID" orders
t_check "the fence is there: $(cat "$t_out" "$t_err")" grep -q 1 "$t_out"
rows_item dynamodb named >"$t_dir/kept"
for item in "'x'" "'#tenure/x'" "'#fence/orders'"; do
    t_check "$item is kept: $(cat "$t_dir/kept")" grep -q "$item" "$t_dir/kept"
done
t_refute "nothing under another key" grep -q '"key":' "$t_dir/kept"
t_bad "write dynamodb://TABLE" "$tenure" status --store "$named&key=" x
t_done
