#!/bin/sh
# dynamodb.sh - the DynamoDB store and fence on servers, beside Amazon's own lock client.
#
# TENURE_HANDOVERS=100 makes the mixed election longer (12).
# shellcheck source=tests/harness/lib.sh
. "${TENURE_ROOT:-$(dirname "$0")/../..}/tests/harness/lib.sh"
# shellcheck source=tests/engines/dynamodb.lib
. "$TENURE_ROOT/tests/engines/dynamodb.lib"
# shellcheck source=tests/engines/scripts.lib
. "$TENURE_ROOT/tests/engines/scripts.lib"
# shellcheck source=tests/live/hold_off.lib
. "$TENURE_ROOT/tests/live/hold_off.lib"
dynamodb_need

t_case "dynoxide starts"
t_check "it runs" dynamodb_start
store=$(url "$port")

t_case "the conformance suite"
conform "$store"

t_case "a term, and what is on record of it"
leads "$store"
t_run "$tenure" status --store "$store" --json x
t_prints '{"name":"x","state":"free","holder":null,"token":1,"ttl_ms":0,"remaining_ms":0}'
ask "$port" GetItem '{"TableName":"locks","Key":{"key":{"S":"x"}}}' >"$t_out"
for word in ownerName leaseDuration recordVersionNumber isReleased; do
    t_check "$word" grep -q "\"$word\"" "$t_out"
done
t_check "the lease in milliseconds" grep -q '"leaseDuration":{"S":"3000"}' "$t_out"

t_case "tokens rise over a deleted item, and over a restored one"
item=$(sed 's/^{"Item"://; s/}$//' "$t_out")
ask "$port" DeleteItem '{"TableName":"locks","Key":{"key":{"S":"x"}}}' >/dev/null
t_run "$tenure" status --store "$store" --json x
t_check "still known: $(cat "$t_out")" grep -q '"state":"free".*"token":1' "$t_out"
last=1
# The next term's token is higher; by how much depends on answers that were lost.
rises() {
    next=$(timeout 30 "$tenure" run --store "$store" --ttl 15s --wait 20s x -- \
        sh -c 'echo "$TENURE_TOKEN"' 2>/dev/null)
    [ "$next" -gt "$last" ] && last=$next
}
t_check "the next term" rises
t_check "and the next" rises
ask "$port" PutItem "{\"TableName\":\"locks\",\"Item\":$item}" >/dev/null
t_check "an old item was put back" rises

t_case "a table that was restored from a backup is refused, with the remedy"
# saved KEY: the item as it is now.
saved() {
    ask "$port" GetItem '{"TableName":"locks","Key":{"key":{"S":"'"$1"'"}}}' |
        sed 's/^{"Item"://; s/}$//'
}
leads "$store"
lock=$(saved x) counter=$(saved '#tenure/x')
"$tenure" elect --store "$store" --ttl 3s x >"$t_dir/old" 2>"$t_dir/old.err" &
elector=$!
candidates="$candidates $elector"
t_check "leads" until_line "$t_dir/old" '"won"'
last=$(sed -n 's/.*"won".*"token":\([0-9]*\).*/\1/p' "$t_dir/old")
for item in "$counter" "$lock"; do
    ask "$port" PutItem "{\"TableName\":\"locks\",\"Item\":$item}" >/dev/null
done
t_check "token-regressed: $(cat "$t_dir/old" "$t_dir/old.err")" \
    until_line "$t_dir/old.err" "token-regressed" 30
t_check "with the remedy: $(cat "$t_dir/old.err")" grep -q "tenureToken.*$last" "$t_dir/old.err"
ask "$port" UpdateItem '{"TableName":"locks","Key":{"key":{"S":"#tenure/x"}},
    "UpdateExpression":"SET tenureToken = :t",
    "ExpressionAttributeValues":{":t":{"N":"'"$last"'"}}}' >/dev/null
won_above() {
    next=$(sed -n 's/.*"won".*"token":\([0-9]*\).*/\1/p' "$t_dir/old" | tail -n 1)
    [ "$next" -gt "$last" ]
}
t_check "leads again once the counter is raised: $(cat "$t_dir/old.err")" until_true 30 won_above
end $elector

# lost_reply PORT: the reply to a grant is lost behind a proxy; the token after it is $lost_token.
lost_reply() {
    : >"$t_dir/lost"
    python3 "$TENURE_ROOT/tests/engines/dynamodb/count.py" "$1" "$t_dir/lost" lose \
        >"$t_dir/lose.port" &
    lr_pid=$!
    in_finish "kill $lr_pid 2>/dev/null"
    until_line "$t_dir/lose.port" '^[0-9]'
    lr_port=$(cat "$t_dir/lose.port")
    t_run timeout 60 "$tenure" run --store "$(url "$lr_port")" --ttl 15s --wait 20s lost -- \
        sh -c 'echo "$TENURE_TOKEN"'
    t_check "leads: $t_status $(cat "$t_err")" [ "$t_status" -eq 0 ]
    t_check "token 1, and once: $(cat "$t_out")" [ "$(cat "$t_out")" = 1 ]
    grep '^TransactWriteItems' "$t_dir/lost" | cut -d ' ' -f 2 >"$t_dir/numbers"
    t_check "sent twice under one number: $(cat "$t_dir/numbers")" \
        [ "$(wc -l <"$t_dir/numbers")" -eq 2 -a "$(sort -u "$t_dir/numbers" | wc -l)" -eq 1 ]
    ask "$1" GetItem '{"TableName":"locks","Key":{"key":{"S":"#tenure/lost"}}}' >"$t_dir/counter"
    t_check "counted once: $(cat "$t_dir/counter")" \
        grep -q '"tenureToken":{"N":"1"}' "$t_dir/counter"
    kill "$lr_pid"
}

t_case "a grant whose reply is lost counts once"
lost_reply "$port"

t_case "another partition key"
ask "$port" CreateTable '{"TableName":"named","BillingMode":"PAY_PER_REQUEST","KeySchema":[
    {"AttributeName":"LockID","KeyType":"HASH"}],"AttributeDefinitions":[
    {"AttributeName":"LockID","AttributeType":"S"}]}' >/dev/null
named="dynamodb://named?endpoint=http://127.0.0.1:$port&poll=200ms"
t_run timeout 60 "$tenure" status --store "$named" x
t_check "without key=: 69, not $t_status" [ "$t_status" -eq 69 ]
t_check "names the option: $(cat "$t_err")" grep -q "or name it by ?key=" "$t_err"
leads "$named&key=LockID"
t_run timeout 60 "$tenure" list --store "$named&key=LockID"
t_check "listed: $(cat "$t_out" "$t_err")" grep -q '^x  *free' "$t_out"
t_run "$tenure" fence raise --at "$named&key=LockID" orders 5
t_check "a fence there: $(cat "$t_err")" [ "$t_status" -eq 0 ]
ask "$port" GetItem '{"TableName":"named","Key":{"LockID":{"S":"#fence/orders"}}}' >"$t_out"
t_prints '"fenceToken":{"N":"5"}'

t_case "an item that is no lock item is left alone"
ask "$port" PutItem '{"TableName":"locks","Item":{"key":{"S":"alien"},"colour":{"S":"red"}}}' \
    >/dev/null
t_run "$tenure" status --store "$store" alien
t_check "69, not $t_status" [ "$t_status" -eq 69 ]
t_check "says so: $(cat "$t_err")" grep -q "the item 'alien' is no lock item" "$t_err"
t_run "$tenure" list --store "$store"
t_refute "not listed" grep -q alien "$t_out"

t_case "the fence refuses lower tokens, here and in an application's own write"
for step in "raise 5 0" "raise 5 0" "admit 4 80" "raise 18446744073709551615 0" "raise 6 80"; do
    # shellcheck disable=SC2086 # Words.
    set -- $step
    t_run "$tenure" fence "$1" --at "$store" orders "$2"
    t_check "$step: $t_status $(cat "$t_err")" [ "$t_status" -eq "$3" ]
done
t_run "$tenure" fence show --at "$store" --json
t_prints '{"resource":"orders","token":18446744073709551615}'
t_run "$tenure" fence raise --at "$store" app 7
# What docs/stores/dynamodb.md tells an application to write: the fence's item is checked in the
# same transaction; and the item that carries its own token.
guarded() {
    ask "$port" TransactWriteItems '{"TransactItems":[
        {"ConditionCheck":{"TableName":"locks","Key":{"key":{"S":"#fence/app"}},
         "ConditionExpression":"fenceToken = :t",
         "ExpressionAttributeValues":{":t":{"N":"'"$1"'"}}}},
        {"Put":{"TableName":"locks","Item":{"key":{"S":"data"},"by":{"N":"'"$1"'"}}}}]}' >"$t_out"
}
t_check "the current token writes" guarded 7
t_refute "an old one does not" guarded 6
t_check "by the condition" grep -q ConditionalCheckFailed "$t_out"
t_run "$tenure" fence raise --at "$store" app 8
t_refute "nor the last one, once the fence was raised" guarded 7
carries() {
    ask "$port" UpdateItem '{"TableName":"locks","Key":{"key":{"S":"own"}},
        "UpdateExpression":"SET fenceToken = :t","ConditionExpression":
        "attribute_not_exists(fenceToken) OR fenceToken <= :t",
        "ExpressionAttributeValues":{":t":{"N":"'"$1"'"}}}' >"$t_out"
}
t_check "the first writes" carries 3
t_check "again" carries 3
t_check "a later one" carries 4
t_refute "not the one before" carries 3
t_run timeout 30 "$tenure" run --store "$store" --fence "$store#led" --ttl 15s led -- \
    sh -c 'echo "$TENURE_TOKEN"'
t_check "a campaign raises it: $(cat "$t_err")" [ "$t_status" -eq 0 ]
led=$(tail -n 1 "$t_out")
t_run "$tenure" fence show --at "$store" led
t_prints "led: highest token $led"

t_case "an operator hands over to the one that is named, though notes are only polled"
for id in ada bob eve; do
    candidate $id asked "$store" 6s
    [ $id != ada ] || until_acted asked 0
done
t_run timeout 60 "$tenure" handover --store "$store" asked --to eve
t_check "done: $t_status $(cat "$t_err")" [ "$t_status" -eq 0 ]
t_run "$tenure" status --store "$store" --json asked
t_check "eve leads: $(cat "$t_out")" grep -q '"holder":"eve"' "$t_out"
end_all
t_promise "one after the other" apart asked

script_verbs "$store" 12s
hold_off_on dynamodb "$store" 3s 6
hold_off_of_scripts dynamodb "$store" 3s 6

t_case "doctor"
t_run timeout 60 "$tenure" doctor --store "$store"
t_check "safe: $(cat "$t_err")" grep -q "^safe:" "$t_out"
t_check "strict" grep -q "class  *strict: DynamoDB" "$t_out"
t_check "up to ten writes a second: $(cat "$t_out")" \
    grep -Eq 'renewals .*, ([5-9]|1[0-9]|20) samples' "$t_out"
t_run "$tenure" status --store "$store" tenure-doctor/probe
t_prints "free, last token 1"
"$tenure" doctor --for 1m "$store" >/dev/null 2>&1 &
killed=$!
probed() { "$tenure" status --store "$store" tenure-doctor/probe | grep -q 'held by'; }
t_check "another measures" until_true 10 probed
kill -KILL $killed
t_run timeout 60 "$tenure" doctor --for 200ms "$store"
t_check "one that was killed delays the next, no more: $(cat "$t_err")" [ "$t_status" -eq 0 ]

t_case "what it costs, counted by a proxy"
python3 "$TENURE_ROOT/tests/engines/dynamodb/count.py" "$port" "$t_dir/counted" \
    >"$t_dir/count.port" &
in_finish "kill $!"
until_line "$t_dir/count.port" '^[0-9]'
counted="dynamodb://locks?endpoint=http://127.0.0.1:$(cat "$t_dir/count.port")"
candidate ada cost "$counted" 6s
until_acted cost 0
ada_at=$(now_ms)
: >"$t_dir/counted"
until_ms $((ada_at + 12000))
renewals=$(grep -c '^UpdateItem' "$t_dir/counted")
reads=$(grep '^GetItem' "$t_dir/counted" | grep -vc '~tenure/')
notes=$(grep -c '^GetItem ~tenure/' "$t_dir/counted")
# Renewals come every third of the TTL at most a fifth early.
t_check "a leader: one write per interval, $renewals in 12 s" \
    [ "$renewals" -ge 5 -a "$renewals" -le 10 ]
t_check "and nothing else: $reads reads" [ "$reads" -le 2 ]
# Three of them, each every third of the TTL, at most a fifth early.
t_check "but for operators' notes: $notes" [ "$notes" -ge 12 -a "$notes" -le 26 ]
t_check "not twice: $(grep -c '^GetItem #tenure/~' "$t_dir/counted")" \
    [ "$(grep -c '^GetItem #tenure/~' "$t_dir/counted")" -le 3 ]
candidate bob cost "$counted" 6s
until_line "$t_dir/counted" '^GetItem'
bob_at=$(now_ms)
: >"$t_dir/counted"
until_ms $((bob_at + 12000))
t_check "an idle candidate only reads" \
    [ "$(grep -vc '^GetItem' "$t_dir/counted")" -le $((renewals + 4)) ]
both=$(grep '^GetItem' "$t_dir/counted" | grep -vc '~tenure/')
t_check "at most two reads a second: $both with the leader's" [ "$both" -le 60 ]
echo "# leader: $renewals writes, $reads reads, $notes of notes; with one candidate $both reads" \
    "and $(grep -c '^GetItem ~tenure/' "$t_dir/counted") of notes; in 12 s"
end_all

t_case "DynamoDB Local starts"
local_start
# shellcheck disable=SC2154 # local_start sets it.
store=$(url "$port_local")

t_case "a grant whose reply is lost counts once there, too"
lost_reply "$port_local"

t_case "ours and Amazon's lock client take turns"
handovers=${TENURE_HANDOVERS:-12}
cat >"$t_dir/work" <<'END'
#!/bin/sh
echo "begin $(date +%s%3N) tenure$TENURE_TOKEN"
sleep 0.2
echo "end $(date +%s%3N) tenure$TENURE_TOKEN"
END
chmod +x "$t_dir/work"
: >"$t_dir/turns"
for kind in delete keep; do
    "$t_dir/dynamo" contend "$port_local" locks turns "java-$kind" "$t_dir/turns" 3000 150 1000000 \
        $kind >>"$t_dir/java.out" 2>&1 &
    candidates="$candidates $!"
done
# A hand-over is a change between one of ours and one of theirs.
crossings() {
    sort -s -k 2n "$t_dir/turns" | awk '$1 == "begin" { ours = $3 ~ /^tenure/
        n += seen++ && ours != last; last = ours } END { print n + 0 }'
}
for kind in delete keep; do
    t_check "java-$kind has terms: $(tail -n 2 "$t_dir/java.out")" \
        until_line "$t_dir/turns" "^end .* java-$kind" 90
done
terms=0
while [ "$(crossings)" -lt "$handovers" ] && [ $terms -lt $((4 * handovers)) ]; do
    timeout 120 "$tenure" run --store "$store" --ttl 15s turns -- "$t_dir/work" >>"$t_dir/turns" \
        2>>"$t_dir/turns.err"
    terms=$((terms + 1))
done
# shellcheck disable=SC2086 # A list of numbers.
kill -KILL $candidates
candidates=
t_check "$handovers hand-overs: $(tail -n 2 "$t_dir/java.out" "$t_dir/turns.err")" \
    [ "$(crossings)" -ge "$handovers" ]
echo "# $(crossings) hand-overs between ours and theirs, $(grep -c begin "$t_dir/turns") terms"
# In the order of time each begin is followed by its own end.
one_at_a_time() {
    sort -s -k 2n "$1" | awk '
        $1 == "begin" { if (who != "") exit 1; who = $3 }
        $1 == "end" { if (who != $3) exit 1; who = "" }'
}
t_promise "never two at once" one_at_a_time "$t_dir/turns"
t_promise "our tokens rise" sh -c "grep -o 'begin.*tenure[0-9]*' '$t_dir/turns' |
    sed 's/.*tenure//' | sort -c -n -u"

t_case "a holder of theirs that dies is replaced, and so is one of ours"
"$t_dir/dynamo" contend "$port_local" locks dies java3 "$t_dir/dies" 3000 60000 1 keep \
    >/dev/null 2>&1 &
java3=$!
t_check "theirs leads" until_line "$t_dir/dies" '^begin' 90
t_run "$tenure" status --store "$store" --json dies
t_check "known by its name: $(cat "$t_out")" grep -q '"state":"held","holder":"java3"' "$t_out"
kill -KILL $java3
died_at=$(now_ms)
candidate ada dies "$store" 3s
until_acted dies 0
t_check "not before its lease ends: $(($(acted_at dies) - died_at)) ms" \
    [ "$(acted_at dies)" -ge $((died_at + 2000)) ]
: >"$t_dir/dies"
java_contends "$port_local" dies java4 "$t_dir/dies" 3000 100 1 keep &
java4=$!
for victim in $candidates; do
    kill -KILL "$victim"
done
t_check "theirs follows ours" wait $java4
theirs=$(awk '$1 == "begin" { print $2 }' "$t_dir/dies")
t_check "and ours had stopped: $((theirs - $(acted_at dies))) ms before" \
    [ "$(acted_at dies)" -lt "$theirs" ]
candidates=

t_case "a client of theirs that stops past its TTL acts beside ours: the fence refuses it"
# The token of their term is that of the counter: they do not raise it.
t_run timeout 60 "$tenure" run --store "$store" --ttl 15s stuck -- true
"$t_dir/dynamo" stuck "$port_local" locks stuck java6 "$t_dir/stuck" 3000 >/dev/null 2>&1 &
stuck=$!
candidates="$candidates $stuck"
t_check "theirs leads" until_line "$t_dir/stuck" '^act' 90
kill -STOP $stuck
setsid "$tenure" run --store "$store" --ttl 15s --fence "$store#stuck" stuck -- \
    sh -c 'echo "$TENURE_TOKEN"; exec sleep 600' >"$t_dir/ours" 2>"$t_dir/ours.err" &
ours=$!
candidates="$candidates $ours"
t_check "ours leads" until_line "$t_dir/ours" '^[0-9]' 30
before=$(wc -l <"$t_dir/stuck")
kill -CONT $stuck
acts_on() { [ "$(wc -l <"$t_dir/stuck")" -gt $((before + 5)) ]; }
t_check "it acts on, beside ours" until_true 20 acts_on
echo "# a stopped lock client acted $(($(wc -l <"$t_dir/stuck") - before)) times beside ours"
t_run "$tenure" fence admit --at "$store" stuck 1
t_check "the fence refuses its token: $t_status $(cat "$t_err")" [ "$t_status" -eq 80 ]
t_run "$tenure" fence admit --at "$store" stuck "$(cat "$t_dir/ours")"
t_check "and takes ours: $(cat "$t_err")" [ "$t_status" -eq 0 ]
kill -KILL $stuck
end_all

t_case "their listing works with what is ours in the table"
t_run "$t_dir/dynamo" list "$port_local" locks
t_check "no exception: $(grep -v SLF4J "$t_err" | head -n 2)" [ "$t_status" -eq 0 ]

t_case "a revoked holder of theirs loses its lock"
"$t_dir/dynamo" contend "$port_local" locks taken java5 "$t_dir/taken" 3000 60000 1 keep \
    >/dev/null 2>&1 &
java5=$!
t_check "theirs leads" until_line "$t_dir/taken" '^begin' 90
t_run "$tenure" revoke --store "$store" taken
t_check "revoked: $(cat "$t_err")" [ "$t_status" -eq 0 ]
candidate ada taken "$store" 3s
until_acted taken 0
kill -KILL $java5
end_all
t_done
