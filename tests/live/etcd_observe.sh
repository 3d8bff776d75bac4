#!/bin/sh
# etcd_observe.sh - leaders that Patroni and Vitess elect, in the layouts that they have: status,
# watch and list show them, nobody of ours can campaign there. With the real Patroni:
# tests/engines/patroni.sh.
. "$(dirname "$0")/../harness/lib.sh"
. "$(dirname "$0")/etcd.lib"
etcd_need

etcd_start one || t_done
# shellcheck disable=SC2154 # etcd_start sets it.
endpoints=127.0.0.1:$port_one

new_lease() { ctl lease grant "$1" | sed -n 's/^lease \([0-9a-f]*\) .*/\1/p'; }
# put KEY VALUE [LEASE]
put() { ctl put ${3:+--lease "$3"} -- "$1" "$2" >/dev/null; }
# created KEY: its create revision.
created() { ctl get "$1" -w fields | sed -n 's/^"CreateRevision" : //p'; }
revisions() { ctl get "$1" --prefix --keys-only | sort; }

# refused VERB ARG...: status 77, one line, and no key of ours.
refused() {
    t_run "$tenure" "$@"
    t_check "$1 ends with 77, not $t_status: $(cat "$t_err")" [ "$t_status" -eq 77 ]
    t_check "$1 says one line" [ "$(grep -vc "has known lease faults" "$t_err")" -eq 1 ]
    t_check "$1 says why: $(cat "$t_err")" grep -q "led by another program" "$t_err"
}

# --- Patroni --------------------------------------------------------------------------------------

patroni=etcd://$endpoints//service
for key in initialize config history status failover; do
    put /service/demo/$key '{"ttl":30}'
done
ada=$(new_lease 600)
bob=$(new_lease 600)
put /service/demo/members/pg-1 '{"role":"primary"}' "$ada"
put /service/demo/members/pg-2 '{"role":"replica"}' "$bob"

t_case "Patroni: while nobody leads the name is free, and still nobody else's"
"$tenure" watch --json --store "$patroni" demo/leader >"$t_dir/watch" 2>"$t_dir/watch.err" &
watcher=$!
t_check "the watch says vacant" until_line "$t_dir/watch" '"vacant"'
t_run "$tenure" status --json --store "$patroni" demo/leader
t_check "free: $(cat "$t_out" "$t_err")" grep -q '"state":"free"' "$t_out"
refused acquire --store "$patroni" --ttl 5s demo/leader

t_case "Patroni: the leader is shown, with its create revision for a token"
put /service/demo/leader pg-1 "$ada"
first=$(created /service/demo/leader)
t_check "the watch: $(cat "$t_dir/watch")" \
    until_line "$t_dir/watch" "\"leader\".*\"holder\":\"pg-1\",\"token\":$first[,}]"
t_run "$tenure" status --json --store "$patroni" demo/leader
t_check "status: $(cat "$t_out" "$t_err")" \
    grep -q "\"state\":\"held\",\"holder\":\"pg-1\",\"token\":$first,\"ttl_ms\":600000" "$t_out"
t_run "$tenure" list --json --store "$patroni"
t_check "list names it and nothing else: $(cat "$t_out")" [ "$(grep -c '"name"' "$t_out")" -eq 1 ]
t_check "with its holder" grep -q '"name":"demo/leader".*"holder":"pg-1"' "$t_out"

t_case "Patroni: nobody can campaign there, and no key is touched"
revisions /service >"$t_dir/before"
refused acquire --store "$patroni" --ttl 5s demo/leader
refused run --store "$patroni" --ttl 5s --wait 1s demo/leader -- true
refused elect --store "$patroni" --ttl 5s --wait 1s demo/leader
t_run "$tenure" revoke --store "$patroni" demo/leader
t_check "a revocation is refused: $t_status $(cat "$t_err")" [ "$t_status" -eq 77 ]
revisions /service >"$t_dir/after"
t_check "the keys are those of before" cmp "$t_dir/before" "$t_dir/after"
t_check "the leader's is untouched" [ "$(created /service/demo/leader)" -eq "$first" ]

t_case "Patroni: a switchover is followed, with a higher token"
ctl del /service/demo/leader >/dev/null
put /service/demo/leader pg-2 "$bob"
second=$(created /service/demo/leader)
t_check "the watch: $(cat "$t_dir/watch")" \
    until_line "$t_dir/watch" "\"holder\":\"pg-2\",\"token\":$second[,}]"
t_check "the token rises" [ "$second" -gt "$first" ]

t_case "Patroni: a leader whose lease ends leaves the name vacant"
ctl lease revoke "$bob" >/dev/null
vacancies() { [ "$(grep -c '"vacant"' "$t_dir/watch")" -ge "$1" ]; }
t_check "the watch: $(cat "$t_dir/watch")" until_true 20 vacancies 2
kill -TERM "$watcher"
wait "$watcher"

# --- Vitess ---------------------------------------------------------------------------------------

vitess=etcd://$endpoints/vitess/global
put vitess/global/cells/zone1/CellInfo x
# candidate_key LEASE: Vitess writes the lease's number in decimal.
candidate_key() { echo "vitess/global/elections/vtorc/locks/$((0x$1))"; }

t_case "Vitess: the oldest candidate leads"
"$tenure" watch --json --store "$vitess" elections/vtorc >"$t_dir/vitess" 2>&1 &
watcher=$!
t_check "vacant at first" until_line "$t_dir/vitess" '"vacant"'
refused acquire --store "$vitess" --ttl 5s elections/vtorc
ada=$(new_lease 600)
bob=$(new_lease 600)
put "$(candidate_key "$bob")" bob "$bob"
put "$(candidate_key "$ada")" ada "$ada"
token=$(created "$(candidate_key "$bob")")
t_check "the watch: $(cat "$t_dir/vitess")" \
    until_line "$t_dir/vitess" "\"leader\".*\"holder\":\"bob\",\"token\":$token[,}]"
t_run "$tenure" status --json --store "$vitess" elections/vtorc
t_check "status: $(cat "$t_out" "$t_err")" grep -q "\"holder\":\"bob\",\"token\":$token," "$t_out"
t_run "$tenure" list --json --store "$vitess"
t_check "list: $(cat "$t_out")" grep -q '"name":"elections/vtorc".*"holder":"bob"' "$t_out"
t_check "and nothing else" [ "$(grep -c '"name"' "$t_out")" -eq 1 ]
refused run --store "$vitess" --ttl 5s --wait 1s elections/vtorc -- true

t_case "Vitess: then the next, with a higher token"
ctl lease revoke "$bob" >/dev/null
t_check "the watch: $(cat "$t_dir/vitess")" until_line "$t_dir/vitess" '"holder":"ada"'
t_check "tokens rise" [ "$(created "$(candidate_key "$ada")")" -gt "$token" ]
kill -TERM "$watcher"
wait "$watcher"

# --- Ours -----------------------------------------------------------------------------------------

t_case "names of such a form that nobody else uses are ours as any other"
for name in app/leader leader elections/mine; do
    t_run "$tenure" run --store "etcd://$endpoints/ours" --ttl 5s --wait 10s $name -- true
    t_check "$name leads: $(cat "$t_err")" [ "$t_status" -eq 0 ]
done

t_done
