#!/bin/sh
# agent_alone.sh - one agent above a file: started again with another session upstream, so that the
# holders of what is recalled must be the first to know; and who may do what through it.
# shellcheck source=tests/harness/lib.sh
. "${TENURE_ROOT:-$(dirname "$0")/../..}/tests/harness/lib.sh"
# shellcheck source=tests/live/live.lib
. "$TENURE_ROOT/tests/live/live.lib"
upstream=sqlite:$t_dir/x.db
# shellcheck source=tests/live/agent.lib
. "$TENURE_ROOT/tests/live/agent.lib"

if ! command -v redis-cli >/dev/null; then
    t_case "an agent"
    t_skip "redis-cli is not installed; install redis-tools"
    t_done
fi

t_case "the same store by another URL"
begins_anew "sqlite:$t_dir/x.db" "sqlite:$t_dir/./x.db"

t_case "an ACL holds at an agent, over HTTP, too"
"$tenured" --new-secret mailer >"$t_dir/mailer"
mailer=mailer:$(sed -n 's/.*shown once: //p' "$t_dir/mailer")
{
    sed -n 's/^for the ACL file: //p' "$t_dir/mailer"
    echo "allow mailer acquire jobs/*"
} >"$t_dir/acl"
chmod 0600 "$t_dir/acl"
# shellcheck disable=SC2046 # Words.
set -- $(t_ports 2)
agent p 30s --acl "$t_dir/acl" --listen "tcp:127.0.0.1:$1" --http "127.0.0.1:$2"
tcp=127.0.0.1:$1 page=http://127.0.0.1:$2/v1
# post USER:SECRET PATH JSON: the body is in $t_out.
post() {
    t_run curl -s -w '\n%{http_code}\n' ${1:+-u "$1"} -H 'Content-Type: application/json' -d "$3" \
        "$page/$2"
    status=$(tail -n 1 "$t_out")
}
opens() {
    post "$mailer" sessions '{"ttl_ms":20000}'
    [ "$status" = 200 ]
}
post '' sessions '{"ttl_ms":20000}'
t_check "nobody opens a session: $status" [ "$status" = 401 ]
t_check "the user does: $(cat "$t_out")" until_true 60 opens
secret=$(sed -n 's/.*"session": *"\([0-9a-f]*\)".*/\1/p' "$t_out")
takes() { post "$mailer" leases/acquire "{\"session\":\"$secret\",\"name\":\"$1\"}"; }
takes jobs/a
t_check "acquires over HTTP: $(cat "$t_out")" [ "$status" = 200 ]
token=$(sed -n 's/.*"token": *"\{0,1\}\([0-9]*\).*/\1/p' "$t_out")
holds() {
    "$tenure" status --store "$upstream" --json jobs/a | grep -q "\"held\".*\"token\":$token,"
}
t_check "under upstream's token: $token" holds
takes other
t_check "only what it may: $status" [ "$status" = 403 ]
t_run "$tenure" acquire --store "tenured://$tcp" --ttl 10s jobs/b
t_check "nobody acquires over TCP: $t_status" [ "$t_status" -eq 77 ]
t_run timeout 30 "$tenure" acquire --store "tenured://$mailer@$tcp" --ttl 10s --json jobs/a
t_check "held for others, over TCP: $t_status $(cat "$t_err")" [ "$t_status" -eq 75 ]
post "$mailer" sessions/close "{\"session\":\"$secret\"}"
t_check "given back upstream" until_true 20 is_free "$upstream" jobs/a
curl -s -u "$mailer" "${page%/v1}/metrics" >"$t_dir/metrics"
for line in 'up 1' 'won_total 1' 'given_back_total 1' 'recalled_total 0' 'observed [01]'; do
    t_check "metrics: $line: $(grep "^tenured_upstream_" "$t_dir/metrics")" \
        grep -qx "tenured_upstream_$line" "$t_dir/metrics"
done
kill -KILL "$agent"

t_case "an application changes one variable"
agent q 30s
t_run env TENURE_STORE="$(at q)" timeout 30 "$tenure" run --ttl 10s variable -- sh -c 'echo led'
t_check "it leads: $(cat "$t_err")" grep -qx led "$t_out"
led() { "$tenure" status --store "$upstream" --json variable | grep -q '"token":[1-9]'; }
t_check "upstream" led
kill -KILL "$agent"

t_case "the packaged agent's configuration, as the document has it"
sed -n 's/^    \(upstream.*\)/\1/p' "$TENURE_ROOT/docs/agent.md" >"$t_dir/agent.conf"
t_check "two lines: $(cat "$t_dir/agent.conf")" [ "$(wc -l <"$t_dir/agent.conf")" -eq 2 ]
t_run "$tenured" --config "$t_dir/agent.conf" --data "$t_dir/packaged" \
    --listen "unix:$t_dir/packaged.sock" --check-config
t_check "is good: $(cat "$t_err")" [ "$t_status" -eq 0 ]

t_case "who only looks does not have an agent observe any number of names"
agent m 30s --max-leases 5
looked() { redis-cli -s "$t_dir/m.sock" LEASE GET "$1" 2>&1 | head -n 1; }
for number in 1 2 3 4 5; do
    t_check "name $number" [ "$(looked "seen-$number")" = name ]
done
t_check "one more: $(looked seen-6)" [ "$(looked seen-6 | cut -d ' ' -f 1)" = FULL ]
t_check "one that is observed" [ "$(looked seen-1)" = name ]
t_check "what nobody asks for any more makes way" until_true 60 \
    eval '[ "$(looked seen-7)" = name ]'
kill -KILL "$agent"

t_case "an agent does not ask itself"
for place in "unix:$t_dir/self.sock" "tcp:127.0.0.1:$(t_ports 1)"; do
    case $place in
    tcp:*) upstream=tenured://${place#tcp:} ;;
    *) upstream=$place ;;
    esac
    t_run timeout 20 "$tenured" --upstream "$upstream" --listen "$place"
    t_check "$place: 64, not $t_status" [ "$t_status" -eq 64 ]
    t_check "$place: says why: $(cat "$t_err")" grep -q 'listens itself' "$t_err"
done
mkdir "$t_dir/home"
XDG_RUNTIME_DIR=$t_dir/home t_run timeout 20 "$tenured" --upstream unix:
t_check "the default socket: 64, not $t_status" [ "$t_status" -eq 64 ]
upstream=unix:
XDG_RUNTIME_DIR=$t_dir/home agent o 30s
t_check "another socket is another daemon" [ -S "$t_dir/o.sock" ]
kill -KILL "$agent"

t_done
