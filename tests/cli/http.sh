#!/bin/sh
# http.sh - `tenure run --http` and `tenure elect --http`: who leads, and whether all is well, for
# neighbours.
# shellcheck source=tests/harness/lib.sh
. "${TENURE_ROOT:-$(dirname "$0")/../..}/tests/harness/lib.sh"

tenure=$TENURE_BUILD/tenure
TENURE_STORE=sqlite:$t_dir/tenure.db
export TENURE_STORE

# fetch PORT PATH [METHOD]: the status and the body, in one line each, without a client program.
fetch() {
    bash -c 'exec 3<>"/dev/tcp/127.0.0.1/$1" || exit 1
        printf "%s %s HTTP/1.0\r\n\r\n" "$3" "$2" >&3
        tr -d "\r" <&3 | sed -n "1p;/^\$/,\$p" | grep -v "^\$"' \
        fetch "$1" "$2" "${3:-GET}" 2>/dev/null
}

# until_says PORT PATH PATTERN: within ten seconds.
until_says() {
    left=500
    until fetch "$1" "$2" >"$t_dir/answer" && grep -q "$3" "$t_dir/answer"; do
        left=$((left - 1))
        [ $left -gt 0 ] || return 1
        sleep 0.02
    done
}

port=$(t_ports 1)
other=$(t_ports 1)

t_case "the leader names itself, the follower names the leader, both are well"
"$tenure" run --ttl 3s --id ada --http 127.0.0.1:$port job -- sleep 1000 2>"$t_dir/ada.err" &
ada=$!
t_check "leads" until_says $port / '^{"name":"ada"}$'
t_check "health" until_says $port /healthz '200'
"$tenure" run --ttl 3s --id bob --http :$other job -- sleep 1000 2>"$t_dir/bob.err" &
bob=$!
t_check "follows" until_says $other / '^{"name":"ada"}$'
t_check "health" until_says $other /healthz '200'

t_case "each says which of the two it is, and who leads"
t_check "leader: 200" until_says $port /leader '200'
t_check "and its words" until_says $port /leader \
    '^{"election":"job","leader":"ada","leads":true}$'
t_check "the other: 503" until_says $other /leader '503'
t_check "and who does" until_says $other /leader '^{"election":"job","leader":"ada","leads":false}$'
t_check "follower: 200" until_says $other /follower '200'
t_check "the other: 503" until_says $port /follower '503'
t_check "the token" until_says $port /token '^1$'
t_check "none: 503" until_says $other /token '503'

t_case "metrics, as Prometheus reads them"
metric() { until_says "$1" /metrics "^$2\$"; }
t_check "leading" metric $port 'tenure_leading{election="job"} 1'
t_check "token" metric $port 'tenure_token{election="job"} 1'
t_check "not leading" metric $other 'tenure_leading{election="job"} 0'
t_check "terms" metric $port 'tenure_terms_total{election="job"} 1'
t_check "renewals" metric $port 'tenure_renewals_total{election="job"} [1-9][0-9]*'
t_check "how long they took" metric $port 'tenure_renewal_seconds_count{election="job"} [1-9].*'
t_check "validity" metric $port 'tenure_remaining_seconds{election="job"} [12]\..*'
t_check "the store" metric $other 'tenure_store_up{election="job"} 1'
# Each family has its help and its type, and each sample is of the family above it.
fetch $port /metrics | sed 1d >"$t_dir/metrics"
t_check "well-formed: $(cat "$t_dir/metrics")" awk '
    /^# HELP / { family = $3; next }
    /^# TYPE / { if ($3 != family || $4 !~ /^(gauge|counter|histogram)$/) bad = 1; next }
    !/^tenure_[a-z_]+\{election="job"(,[a-z]+="[^"]*")?\} [0-9.e+-]+$/ { bad = 1 }
    { name = $1; sub(/\{.*/, "", name); if (index(name, family) != 1) bad = 1; seen++ }
    END { exit bad || seen < 28 }' "$t_dir/metrics"

t_case "other pages and methods"
t_check "404" until_says $port /nothing '404'
fetch $port / POST >"$t_dir/answer"
t_check "405" grep -q 405 "$t_dir/answer"

t_case "after a hand-over"
kill -TERM $ada
wait $ada
t_check "leads" until_says $other / '^{"name":"bob"}$'
t_check "for a load balancer, too" until_says $other /leader 200
t_check "with its token" until_says $other /token '^2$'

t_case "who was asked to go is no leader for a load balancer, while its work still ends"
cat >"$t_dir/slow.sh" <<'END'
trap 'touch "$1/asked"; until [ -e "$1/go" ]; do sleep 0.02; done; exit 0' TERM
touch "$1/runs"
while :; do sleep 0.02; done
END
"$tenure" run --ttl 30s --grace 5s --id eve --http :$port slow -- sh "$t_dir/slow.sh" "$t_dir" \
    2>/dev/null &
eve=$!
# until_there FILE: within ten seconds.
until_there() {
    left=500
    until [ -e "$1" ]; do
        left=$((left - 1))
        [ $left -gt 0 ] || return 1
        sleep 0.02
    done
}
t_check "it works" until_there "$t_dir/runs"
t_check "leads" until_says $port /leader 200
kill -TERM $eve
t_check "it is asked" until_there "$t_dir/asked"
t_check "no new work" until_says $port /leader 503
t_check "no token for it" until_says $port /token 503
t_check "the term goes on" until_says $port /metrics '^tenure_leading{election="slow"} 1$'
touch "$t_dir/go"
wait $eve

t_case "elect has the same pages"
"$tenure" elect --ttl 3s --id kim --http :$port chosen >"$t_dir/kim.out" 2>/dev/null &
kim=$!
t_check "leads" until_says $port /leader '^{"election":"chosen","leader":"kim","leads":true}$'
t_check "token" until_says $port /token "^[1-9]"
t_check "renewals" until_says $port /metrics '^tenure_renewals_total{election="chosen"} [1-9]'
kill -TERM $kim
t_check "ends well" wait $kim
t_check "a lost term was told" grep -q '"lost".*"released"' "$t_dir/kim.out"

t_case "an address that is taken"
t_run "$tenure" run --http 127.0.0.1:$other x -- true
t_check "status" [ "$t_status" -eq 69 ]
t_check "one line" [ "$(wc -l <"$t_err")" -eq 1 ]

t_case "whose store does not answer is not well once its term is over"
"$TENURE_BUILD/tests/fixtures/hold" "$t_dir/tenure.db" >"$t_dir/held" &
hold=$!
t_check "503" until_says $other /healthz '503'
t_check "nobody" until_says $other / '^{"name":""}$'
kill $hold
t_check "well again" until_says $other /healthz '200'
kill -TERM $bob
wait $bob 2>/dev/null

t_case "bad input: 64, one line, no file"
TENURE_STORE=sqlite:$t_dir/none.db
t_bad "has no port" "$tenure" run --http localhost x -- true
t_bad "has no port" "$tenure" run --http :65536 x -- true
t_refute "no file" [ -e "$t_dir/none.db" ]
t_done
