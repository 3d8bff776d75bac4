#!/bin/sh
# s3.sh - the store s3: on MinIO: what every store promises, tokens over deletion, its cost, and
# what is said when it cannot be used. Faults are in s3_faults.sh.
# shellcheck source=tests/harness/lib.sh
. "${TENURE_ROOT:-$(dirname "$0")/../..}/tests/harness/lib.sh"
# shellcheck source=tests/engines/s3.lib
. "$TENURE_ROOT/tests/engines/s3.lib"
# shellcheck source=tests/engines/scripts.lib
. "$TENURE_ROOT/tests/engines/scripts.lib"
# shellcheck source=tests/live/hold_off.lib
. "$TENURE_ROOT/tests/live/hold_off.lib"
s3_need

t_case "a server starts"
t_check "it runs" s3_start
here=$(url "$port")

t_case "what every store promises"
conform "$here"

# token_of NAME [URL]: of a term there.
token_of() {
    t_run timeout 60 "$tenure" run --store "${2:-$here}" --ttl 15s --wait 30s --fence none "$1" -- \
        sh -c 'echo $TENURE_TOKEN'
    t_check "leads: $(cat "$t_err")" [ "$t_status" -eq 0 ]
    token=$(cat "$t_out")
}

t_case "tokens rise over releases, over a silent holder, and over the deletion of the object"
token_of job
first=$token
token_of job
t_check "released: $token after $first" [ "$token" -eq $((first + 1)) ]
"$tenure" elect --store "$here" --ttl 5s job >"$t_dir/silent" 2>&1 &
silent=$!
t_check "somebody leads" until_line "$t_dir/silent" '"event":"won"'
kill -KILL $silent
wait $silent 2>/dev/null
token_of job
t_check "taken over: $token" [ "$token" -eq $((first + 3)) ]
last=$token
s3 GET '/leases/test/job/%21lease' >"$t_dir/object"
t_check "the object is there" grep -q '"held":false' "$t_dir/object"
s3 DELETE '/leases/test/job/%21lease'
t_run "$tenure" status --store "$here" job
t_check "it is gone: $(cat "$t_out")" grep -q "job: free" "$t_out"
token_of job
t_check "deleted: $token is above $last" [ "$token" -gt "$last" ]
t_check "by a whole block" [ "$token" -gt $((1 << 28)) ]

t_case "a holder whose object is deleted stops, and the next token is higher"
candidate ada gone "$here" 5s
until_acted gone 0
s3 DELETE '/leases/test/gone/%21lease'
until_acted gone "$token"
end_all
t_promise "one after the other" apart gone

t_case "a bucket that was put back to an older state is refused, with the remedy"
token_of old
s3 GET '/leases/test/old/%21lease' >"$t_dir/backup"
"$tenure" elect --store "$here" --ttl 5s old >"$t_dir/old" 2>"$t_dir/old.err" &
elector=$!
t_check "leads" until_line "$t_dir/old" '"event":"won"'
sed 's/"token":[0-9]*/"token":0/' "$t_dir/backup" >"$t_dir/older"
s3 PUT '/leases/test/old/%21lease' "$t_dir/older"
t_check "token-regressed: $(cat "$t_dir/old" "$t_dir/old.err")" \
    until_line "$t_dir/old.err" "token-regressed" 30
t_check "names the counter: $(cat "$t_dir/old.err")" grep -q '"next":[0-9]*} to .*!tokens' \
    "$t_dir/old.err"
end $elector

t_case "keys with any character are signed as the server wants it"
odd="s3://leases/a%20b+c%3Dd%C3%A4%26'(x)*~/y?endpoint=http://127.0.0.1:$port"
token_of deep/er:@~name "$odd"
t_run "$tenure" list --store "$odd"
t_check "listed: $(cat "$t_out")" grep -q "^deep/er:@~name " "$t_out"
t_run "$tenure" list --store "$odd" deep/x
t_refute "not another's" grep -q "^deep/er" "$t_out"

t_case "twelve candidates for one name: one at a time"
for number in $(seq 12); do
    candidate "c$number" crowd "$here" 6s
done
for round in 1 2 3; do
    until_acted crowd "$((round > 1 ? token : 0))"
    holder=$("$tenure" status --store "$here" --json crowd | sed 's/.*"holder":"c\([0-9]*\)".*/\1/')
    # shellcheck disable=SC2086 # A list of numbers.
    set -- $candidates
    shift $((holder - 1))
    end "$1"
done
until_acted crowd "$token"
end_all
t_promise "one after the other" apart crowd

t_case "the cost: a leader writes, a candidate reads, and both no more than the documents say"
cost="s3://leases/cost?endpoint=http://127.0.0.1:$port"
"$tenure" elect --store "$cost" --ttl 15s dear >"$t_dir/leader" 2>&1 &
leader=$!
t_check "leads" until_line "$t_dir/leader" '"event":"won"'
"$tenure" elect --store "$cost" --ttl 15s dear >"$t_dir/idle" 2>&1 &
idle=$!
t_check "another waits" until_line "$t_dir/idle" '"event":"leader"'
puts=$(s3_count PutObject) gets=$(s3_count GetObject) began=$(now_ms)
until_ms $((began + 30000))
puts=$(($(s3_count PutObject) - puts)) gets=$(($(s3_count GetObject) - gets))
took=$((($(now_ms) - began) / 1000))
echo "# in $took s: $puts writes and $gets reads of a leader and a candidate"
t_check "a write every 5 s: $puts" [ $puts -ge $((took / 7)) ]
t_check "and no more: $puts" [ $puts -le $((took / 3)) ]
# Each looks at the name every 1 to 2 s, and the candidate asks for it every 5 s.
t_check "both look: $gets" [ $gets -ge $((took / 2)) ]
# And at three operators' notes, every third of the TTL, at most a fifth early; and at what was
# written, without TLS.
most=$((took * 2 + took / 3 + 4 + took * 6 / 4 + 6 + puts))
t_check "and no more often: $gets" [ $gets -le $most ]
end $idle
end $leader

t_case "doctor says what is there"
t_run "$tenure" doctor --for 200ms "$here"
t_check "all is well: $(cat "$t_err")" [ "$t_status" -eq 0 ]
t_check "who it is: $(cat "$t_out")" grep -q "server  *s3 MinIO" "$t_out"
t_check "may write" grep -q "may write  *yes" "$t_out"
t_run "$tenure" status --store "$here" tenure-doctor/probe
t_prints "free, last token"

t_case "a server that ignores conditions: nobody leads there, and doctor says why"
for mode in careless half; do
    fake_start $mode
    what=If-Match
    [ $mode = half ] || what=If-None-Match
    refuses 77 "the server does not honour $what" "$(url "$fake_port")" 60s
    t_run "$tenure" doctor --for 100ms "$(url "$fake_port")"
    t_check "doctor: 77, not $t_status" [ "$t_status" -eq 77 ]
    t_check "doctor says so: $(cat "$t_out")" grep -q "may write  *no: .*not honour $what" "$t_out"
done

t_case "a release counts, although the next one leads before the object is read back"
fake_start taken
t_run "$tenure" acquire --store "$(url "$fake_port")" --ttl 60s job
t_check "acquired: $(cat "$t_err")" [ "$t_status" -eq 0 ]
eval "$(cat "$t_out")"
export TENURE_SECRET
t_run "$tenure" release --store "$(url "$fake_port")" --token "$TENURE_TOKEN" job
t_check "released, not $t_status: $(cat "$t_err")" [ "$t_status" -eq 0 ]
t_run "$tenure" status --store "$(url "$fake_port")" job
t_prints "next"
unset TENURE_SECRET TENURE_TOKEN

t_case "what is wrong is said in one line"
refuses 69 "there is no such bucket" "s3://nothing/x?endpoint=http://127.0.0.1:$port" 60s
refuses 69 "Connection refused" "$(url 1)" 60s
refuses 69 "no TLS connection" "s3://leases/x?endpoint=https://127.0.0.1:$port" 60s
good=$AWS_SECRET_ACCESS_KEY
AWS_SECRET_ACCESS_KEY=geheim-wrong
refuses 77 "the secret key is wrong; the credentials are from the environment" "$here" 60s
AWS_SECRET_ACCESS_KEY=$good AWS_ACCESS_KEY_ID=nobody
refuses 77 "the access key is unknown or expired" "$here" 60s
AWS_ACCESS_KEY_ID=tenure
fake_start 400:ExpiredToken # As S3 does, with 400.
refuses 77 "the access key is unknown or expired; the credentials are from the environment" \
    "$(url "$fake_port")" 60s
fake_start 403:AccessDenied
refuses 77 "not permitted; allow s3:GetObject" "$(url "$fake_port")" 60s
t_run "$tenure" doctor --for 100ms "$(url "$fake_port")"
t_check "doctor: 77, not $t_status" [ "$t_status" -eq 77 ]
t_check "doctor names the actions: $(cat "$t_out" "$t_err")" \
    grep -q "allow s3:GetObject below the prefix and s3:ListBucket" "$t_err"
fake_start 301:PermanentRedirect
refuses 69 "region 'us-east-1' is not the bucket's; add region=eu-west-9" "$(url "$fake_port")" 60s
fake_start 429:TooManyRequests
refuses 69 "the server asks for fewer requests (TooManyRequests)" "$(url "$fake_port")" 60s
fake_start 503:SlowDown
refuses 69 "the server asks for fewer requests (SlowDown)" "$(url "$fake_port")" 60s
fake_start 500:InternalError
refuses 69 "the server answers 500 (InternalError)" "$(url "$fake_port")" 60s
fake_start 409:OperationAborted
refuses 69 "the server answers 409 (OperationAborted)" "$(url "$fake_port")" 60s
fake_start 404: # Any web server.
refuses 69 "the server answers 404, as S3 does not" "$(url "$fake_port")" 60s
fake_start garbage
refuses 69 "the object is no record of tenure" "$(url "$fake_port")" 60s
t_run "$tenure" list --store "$(url "$fake_port")"
t_check "list: 69, not $t_status: $(cat "$t_out")" [ "$t_status" -eq 69 ]
t_check "says so: $(cat "$t_err")" grep -q "no list of objects" "$t_err"
fake_start huge
refuses 69 "the answer is longer than 65536 bytes" "$(url "$fake_port")" 60s

t_case "a URL that is wrong is refused before anything is asked"
while read -r bad words; do
    refuses 64 "$words" "$bad" 60s
done <<END
s3:leases no // behind the scheme
s3://A/x the bucket's name has 3 to 63
s3://key:geheim@leases/x keys do not belong into the URL
s3://leases/x?endpoint=127.0.0.1 the endpoint begins with http://
s3://leases/x?color=red an unknown option; known are region, endpoint, ca, poll
s3://leases/x?poll=1ms poll is from 100ms to 60s
s3://leases/x?ca=/no/such/file cannot read '/no/such/file'
END
AWS_REGION=
refuses 64 "there is no region" "s3://leases/x" 60s
refuses 64 "takes a TTL of 5s or more" "$here" 3s

AWS_REGION=us-east-1
script_verbs "$here" 12s
hold_off_on s3 "$here" 5s 6
hold_off_of_scripts s3 "$here" 5s 6
t_done
