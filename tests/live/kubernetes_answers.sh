#!/bin/sh
# kubernetes_answers.sh - coordinated leader election, and how a client signs in, on a small API
# server of ours (rows_fake.py). The same on a real one: tests/engines/kubernetes.sh.
# shellcheck source=tests/harness/lib.sh
. "${TENURE_ROOT:-$(dirname "$0")/../..}/tests/harness/lib.sh"
# shellcheck source=tests/live/live.lib
. "$TENURE_ROOT/tests/live/live.lib"
# shellcheck source=tests/live/rows.lib
. "$TENURE_ROOT/tests/live/rows.lib"
# shellcheck source=tests/live/certificates.lib
. "$TENURE_ROOT/tests/live/certificates.lib"
rows_need kubernetes
rows_start kubernetes
url=$(rows_url kubernetes)
leases=http://$(rows_at kubernetes)/apis/coordination.k8s.io/v1/namespaces/jobs/leases
prefer() { # NAME HOLDER: as the coordinating controller writes it; HOLDER null: nobody.
    curl -sS -m 10 -X PATCH --data-binary \
        "{\"spec\":{\"strategy\":\"OldestEmulationVersion\",\"preferredHolder\":$2}}" \
        "$leases/$1" >"$t_dir/lease"
}
spec() { # NAME FIELD
    curl -sS -m 10 "$leases/$1" |
        python3 -c "import json, sys; print(json.load(sys.stdin)['spec'].get('$2'))"
}
elects() { # ID NAME
    setsid "$tenure" elect --store "$url" --id "$1" --ttl 5s "$2" >"$t_dir/$1" 2>"$t_dir/$1.err" &
    elect_pid=$!
    candidates="$candidates $!"
}

t_case "a holder that is not the preferred one stops, and a vacancy is the preferred one's"
elects ada job
t_check "ada leads" until_line "$t_dir/ada" '"won"'
prefer job '"go-1"'
t_check "she stops: $(cat "$t_dir/ada")" until_line "$t_dir/ada" '"lost".*"revoked"'
t_refute "the Lease is not hers" [ "$(spec job holderIdentity)" = ada ]
free_at=$(now_ms)
t_check "the preference is still there" [ "$(spec job preferredHolder)" = go-1 ]
again() { [ "$(grep -c '"won"' "$t_dir/ada")" -ge 2 ]; }
t_check "once the preferred one has not come, ada leads again: $(cat "$t_dir/ada")" \
    until_true 30 again
waited=$(($(now_ms) - free_at))
t_check "after its duration, a second, not $waited ms" [ $waited -ge 1000 ]
t_check "and the preference is over" [ "$(spec job preferredHolder)" = None ]
t_check "the strategy is not ours to change" [ "$(spec job strategy)" = OldestEmulationVersion ]
end_all

t_case "the preferred one takes a vacancy before others"
elects ada turn
t_check "ada leads" until_line "$t_dir/ada" '"won"'
elects bob turn
t_check "bob waits" until_line "$t_dir/bob" '"leader"'
prefer turn '"bob"'
t_check "bob leads: $(cat "$t_dir/bob")" until_line "$t_dir/bob" '"won"' 10
t_check "ada was told to stop" has "$t_dir/ada" '"lost".*"revoked"'
t_check "ada did not lead again in between" [ "$(grep -c '"won"' "$t_dir/ada")" -eq 1 ]
end_all

t_case "a holder that is the preferred one goes on"
elects ada mine
t_check "ada leads" until_line "$t_dir/ada" '"won"'
prefer mine '"ada"'
renewed=$(spec mine renewTime)
is_newer() { [ "$(spec mine renewTime)" != "$renewed" ]; }
t_check "she renews" until_true 20 is_newer
renewed=$(spec mine renewTime)
t_check "again" until_true 20 is_newer
t_refute "and has lost nothing" has "$t_dir/ada" '"lost"'
end_all

t_case "the store asks for Leases alone, with every verb"
for verb in "list" "status job" "doctor --for 100ms"; do
    # shellcheck disable=SC2086 # Words.
    t_run timeout 60 "$tenure" ${verb%% *} --store "$url" ${verb#"${verb%% *}"}
done
grep -v ' /apis/coordination.k8s.io/v1/namespaces/jobs/leases[/?]\| /version \|accessreviews ' \
    "$t_dir/kubernetes.log" | grep -v 'POST .*/leases' >"$t_dir/others"
t_check "nothing else: $(head -n 3 "$t_dir/others")" [ ! -s "$t_dir/others" ]

# --- Signing in -------------------------------------------------------------------------------

rows_start kubernetes "$t_dir/server.pem" "$t_dir/server.key" "$t_dir/ca.pem"
# signs_in LINE...: the user of the kubeconfig.
signs_in() {
    rows_kubeconfig "https://$(rows_at kubernetes)"
    sed -i "s,^    server: .*,&\n    certificate-authority: ca.pem,; /token:/d" "$t_dir/kube.yaml"
    for line in "$@"; do
        echo "    $line" >>"$t_dir/kube.yaml"
    done
}
inline() { base64 -w 0 <"$t_dir/$1"; }

t_case "a client's certificate, as files beside the kubeconfig and in it"
signs_in "client-certificate: client.pem" "client-key: client.key"
leads_here() {
    t_run timeout 60 "$tenure" run --store "$url" --ttl 5s --wait 20s x -- true
    t_check "leads: $(cat "$t_err")" [ "$t_status" -eq 0 ]
}
leads_here
signs_in "client-certificate-data: $(inline client.pem)" "client-key-data: $(inline client.key)"
leads_here
signs_in "client-certificate: client.pem" "client-key-data: $(inline client.key)"
leads_here

t_case "without one, or with a stranger's: 69, one line, and no key in it"
signs_in "token: geheim"
refuses 69 "connection" "$url" 5s
signs_in "client-certificate-data: $(inline stranger.pem)" \
    "client-key-data: $(inline stranger.key)"
refuses 69 "connection" "$url" 5s
t_refute "no key" grep -q "PRIVATE\|$(sed -n 2p "$t_dir/stranger.key")" "$t_err"
signs_in "client-certificate: nowhere.pem" "client-key: client.key"
refuses 64 "nowhere.pem" "$url" 5s
t_done
