#!/bin/sh
# rows_answers.sh - what is said when a server of an engine on rows answers wrongly, or not at all:
# one line, with the documented exit status, on each engine. Nothing is written by then.
# shellcheck source=tests/harness/lib.sh
. "${TENURE_ROOT:-$(dirname "$0")/../..}/tests/harness/lib.sh"
# shellcheck source=tests/live/live.lib
. "$TENURE_ROOT/tests/live/live.lib"
# shellcheck source=tests/live/rows.lib
. "$TENURE_ROOT/tests/live/rows.lib"
# shellcheck source=tests/live/certificates.lib
. "$TENURE_ROOT/tests/live/certificates.lib"
engines='consul kubernetes dynamodb s3'
for engine in $engines; do
    rows_need "$engine"
    rows_start "$engine"
done

# ask ENGINE URL: status of a name, in the background; told ENGINE STATUS WORDS: it ended so.
ask() {
    {
        timeout 60 "$tenure" status --store "$2" x >"$t_dir/$1.out" 2>"$t_dir/$1.err"
        echo $? >"$t_dir/$1.status"
    } &
    asked="$asked $!"
}
asked=
told() {
    to_status=$(cat "$t_dir/$1.status")
    t_check "$1: exit status is $2, not $to_status" [ "$to_status" -eq "$2" ]
    t_check "$1: one line: $(cat "$t_dir/$1.err")" [ "$(wc -l <"$t_dir/$1.err")" -eq 1 ]
    t_check "$1: at most 500 characters" [ "$(wc -c <"$t_dir/$1.err")" -le 501 ]
    t_check "$1: says $3: $(cat "$t_dir/$1.err")" grep -qF -e "$3" "$t_dir/$1.err"
    t_refute "$1: no secret" grep -q geheim "$t_dir/$1.err"
    t_refute "$1: no word about who leads" [ -s "$t_dir/$1.out" ]
}
all_told() { # STATUS WORDS-OF-CONSUL WORDS-OF-KUBERNETES ...
    # shellcheck disable=SC2086 # A list of numbers.
    wait $asked
    asked='' at_status=$1
    shift
    for engine in $engines; do
        told "$engine" "$at_status" "$1"
        shift
    done
}

t_case "well, they say that nobody leads"
for engine in $engines; do
    t_run "$tenure" status --store "$(rows_url "$engine")" x
    t_check "$engine: $(cat "$t_err")" [ "$t_status" -eq 0 ]
done

while IFS='|' read -r words status consul kubernetes dynamodb s3; do
    t_case "$words"
    for engine in $engines; do
        # shellcheck disable=SC2086 # Words.
        rows_say "$engine" $words
        ask "$engine" "$(rows_url "$engine")"
    done
    all_told "$status" "$consul" "$kubernetes" "$dynamodb" "$s3"
done <<'END'
throttle|69|rate limit|HTTP 429: too many|ThroughputExceeded|(SlowDown)
throttle 1|69|rate limit|429|ThroughputExceeded|(SlowDown)
denied|77|Permission denied|prints the role|dynamodb:GetItem is not permitted|allow s3:GetObject
expired|77|ACL not found|sign in again|from the environment are expired|unknown or expired
status 400 Odd|69|Odd|HTTP 400|Odd|400 (Odd)
status 401 Odd|77|Odd|sign in again|Odd|(Odd)
status 403 Odd|77|Odd|prints the role|Odd|(Odd)
status 404 Odd|69|Odd|HTTP 404|Odd|404 (Odd)
status 409 Odd|69|Odd|HTTP 409|Odd|409 (Odd)
status 500|69|something is wrong|HTTP 500|InternalServerError|500 (InternalError)
status 502 Odd|69|Odd|HTTP 502|Odd|502 (Odd)
status 503 Odd|69|Odd|HTTP 503|Odd|(Odd)
status 504 Odd|69|Odd|HTTP 504|Odd|504 (Odd)
garbage|69|cannot be read|is this an API server?|not the JSON of DynamoDB|no record of tenure
cat|69|cannot be read|is this an API server?|not the JSON of DynamoDB|no record of tenure
huge|69|longer than|longer than|longer than|longer than
drop|69|connection broke|connection broke|connection broke|connection broke
END

t_case "no TLS where the URL wants it"
for engine in $engines; do
    rows_say "$engine" well
done
rows_kubeconfig "https://$(rows_at kubernetes)"
ask consul "consuls://$(rows_at consul)/t"
ask kubernetes "$(rows_url kubernetes)"
ask dynamodb "dynamodb://locks?endpoint=https://$(rows_at dynamodb)"
ask s3 "s3://leases/t?endpoint=https://$(rows_at s3)"
all_told 69 "no TLS connection" "no TLS connection" "no TLS connection" "no TLS connection"

t_case "nobody there"
rows_kubeconfig http://127.0.0.1:1
ask consul consul://127.0.0.1:1/t
ask kubernetes "$(rows_url kubernetes)"
ask dynamodb "dynamodb://locks?endpoint=http://127.0.0.1:1"
ask s3 "s3://leases/t?endpoint=http://127.0.0.1:1"
all_told 69 "Connection refused" "Connection refused" "Connection refused" "Connection refused"

t_case "no such table or bucket, or in another region"
ask dynamodb "dynamodb://others?endpoint=http://$(rows_at dynamodb)"
ask s3 "s3://others/t?endpoint=http://$(rows_at s3)"
# shellcheck disable=SC2086 # A list of numbers.
wait $asked
asked=
told dynamodb 69 "there is no table 'others' in eu-west-1"
told s3 69 "there is no such bucket"
rows_say s3 status 301 PermanentRedirect
ask s3 "$(rows_url s3)"
wait "${asked# }"
asked=
told s3 69 "region 'eu-west-1' is not the bucket's; add region=eu-west-9"

t_case "a certificate that is not trusted"
for engine in $engines; do
    rows_start "$engine" "$t_dir/server.pem" "$t_dir/server.key" "$t_dir/ca.pem"
done
rows_kubeconfig "https://$(rows_at kubernetes)"
ask consul "consuls://$(rows_at consul)/t"
ask kubernetes "$(rows_url kubernetes)"
ask dynamodb "dynamodb://locks?endpoint=https://$(rows_at dynamodb)"
ask s3 "s3://leases/t?endpoint=https://$(rows_at s3)"
all_told 69 "its certificate is not trusted" "its certificate is not trusted" \
    "its certificate is not trusted" "its certificate is not trusted"

t_case "a server that wants a client's certificate"
ask consul "consuls://$(rows_at consul)/t?ca=$t_dir/ca.pem"
rows_kubeconfig "https://$(rows_at kubernetes)"
sed -i "s,^    server: .*,&\n    certificate-authority: ca.pem," "$t_dir/kube.yaml"
ask kubernetes "$(rows_url kubernetes)"
# shellcheck disable=SC2086 # A list of numbers.
wait $asked
asked=
# What a real server says of it is in tests/engines; this one breaks off.
told consul 69 "connection"
told kubernetes 69 "connection"
t_done
