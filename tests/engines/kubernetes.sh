#!/bin/sh
# kubernetes.sh - Leases of a real API server: the suite, beside client-go, and everything that can
# go wrong. TENURE_HANDOVERS: how many hand-overs between ours and theirs (20; CI time is dear).
. "$(dirname "$0")/../harness/lib.sh"
. "$(dirname "$0")/kubernetes.lib"
. "$(dirname "$0")/scripts.lib"
# shellcheck source=tests/live/hold_off.lib
. "$TENURE_ROOT/tests/live/hold_off.lib"
kube_need
kube_start || t_done

t_case "the suite that every store passes"
conform "$url" # Alone: a renewal has tenths of a second for twenty rows.

t_case "a Lease is as client-go writes it, and others find what they need in it"
elect "$t_dir/shown" --store "$url" --id web-1_abc --ttl 15s web
ada=$elect_pid
t_check "won: $(cat "$t_dir/shown.err" 2>/dev/null)" until_line "$t_dir/shown" '"won"' 60
token=$(sed -n 's/.*"won".*"token":\([0-9]*\).*/\1/p' "$t_dir/shown")
t_check "the holder" [ "$(kube_field web "spec['holderIdentity']")" = web-1_abc ]
t_check "whole seconds" [ "$(kube_field web "spec['leaseDurationSeconds']")" = 15 ]
t_run kubectl --kubeconfig "$t_dir/app.yaml" get lease web
t_check "kubectl get lease: $(cat "$t_out" "$t_err")" grep -Eq '^web +web-1_abc +[0-9]' "$t_out"
t_check "no transition yet" [ "$(kube_field web "spec['leaseTransitions']")" = 0 ]
t_check "six digits" [ "$(kube_field web "len(spec['renewTime'])")" = 27 ]
t_check "the token: $token" [ "$(kube_field web "notes['tenure/token']")" = "$token" ]
t_check "the token is from the cluster's versions" \
    [ "$(kube_field web "$token <= int(lease['metadata']['resourceVersion'])")" = True ]
t_run "$tenure" status --json --store "$url" web
t_check "status: $(cat "$t_out" "$t_err")" grep -q '"state":"held","holder":"web-1_abc"' "$t_out"
kube_type=application/merge-patch+json
kube PATCH "$leases/web" '{"metadata":{"labels":{"team":"x"},"annotations":{"note":"y"}}}'
kube_type=
renewed=$(kube_field web "spec['renewTime']")
is_renewed() { [ "$(kube_field web "spec['renewTime']")" != "$renewed" ]; }
t_check "renewed" until_true 30 is_renewed
t_check "labels and annotations of others stay" \
    [ "$(kube_field web "lease['metadata']['labels']['team'] + notes['note']")" = xy ]
end "$ada"
t_check "released as client-go does" \
    [ "$(kube_field web "spec['holderIdentity'] + str(spec['leaseDurationSeconds'])")" = 1 ]
t_check "the token stays" [ "$(kube_field web "notes['tenure/token']")" = "$token" ]

t_case "names that Kubernetes does not take"
t_run "$tenure" run --store "$url" --ttl 5s Jobs/Nightly_1 -- true
t_check "leads: $(cat "$t_err")" [ "$t_status" -eq 0 ]
t_check "spelled out" kube GET "$leases/tenure--4aobs-2f-4eightly-5f1"
long=$(head -c 255 /dev/zero | tr '\0' a)
t_run "$tenure" run --store "$url" --ttl 5s "$long" -- true
t_check "255 bytes: $(cat "$t_err")" [ "$t_status" -eq 0 ]
t_run "$tenure" list --store "$url"
t_check "list knows both: $(cat "$t_err")" grep -q "Jobs/Nightly_1" "$t_out"
t_check "list knows the long one" grep -q "$long" "$t_out"

t_case "client-go holds: ours sees it, waits for the record's own duration, and takes over"
elector go-1 foreign -stuck -duration 4s -acts "$t_dir/foreign.go"
go=$elector_pid
t_check "it leads: $(tail -n 1 "$t_dir/elector.log")" until_line "$t_dir/foreign.go" go-1 60
t_run "$tenure" status --json --store "$url" foreign
t_check "status: $(cat "$t_out")" grep -q '"state":"held","holder":"go-1"' "$t_out"
t_run "$tenure" revoke --store "$url" foreign
t_check "it cannot be revoked: $(cat "$t_err")" grep -q "cannot be asked" "$t_err"
elect "$t_dir/foreign" --store "$url" --id ada --ttl 15s foreign
ada=$elect_pid
t_check "ours waits" until_line "$t_dir/foreign" '"leader".*"holder":"go-1"' 30
kill -KILL "$go"
killed_at=$(now_ms)
t_check "ours leads" until_line "$t_dir/foreign" '"won"' 30
t_check "not before their 4 s: $(($(now_ms) - killed_at))" [ $(($(now_ms) - killed_at)) -ge 3500 ]
t_check "a transition" [ "$(kube_field foreign "spec['leaseTransitions']")" = 1 ]

t_case "a Lease that is deleted while it is held: the term ends, and the next token is higher"
first=$(sed -n 's/.*"won".*"token":\([0-9]*\).*/\1/p' "$t_dir/foreign" | tail -n 1)
kube DELETE "$leases/foreign"
won_again() { [ "$(grep -c '"won"' "$t_dir/foreign")" -ge 2 ]; }
t_check "lost: $(cat "$t_dir/foreign")" until_line "$t_dir/foreign" '"lost"' 10
t_check "won again" until_true 20 won_again
second=$(sed -n 's/.*"won".*"token":\([0-9]*\).*/\1/p' "$t_dir/foreign" | tail -n 1)
t_check "$second after $first" [ "$second" -gt "$first" ]
end "$ada"

t_case "ours and client-go take turns, and never two at once"
handovers=${TENURE_HANDOVERS:-20}
cat >"$t_dir/turn" <<'END'
#!/bin/sh
for i in 1 2 3 4 5 6; do
    echo "$(date +%s%N) $TENURE_ID $TENURE_TOKEN"
    sleep 0.02
done >>"$1"
END
chmod +x "$t_dir/turn"
: >"$t_dir/mixed"
turns() {
    while ! [ -e "$t_dir/mixed.end" ]; do
        "$tenure" run --store "$url" --ttl 5s --id "$1" mixed -- "$t_dir/turn" "$t_dir/mixed" \
            >/dev/null 2>>"$t_dir/mixed.err"
        sleep 0.1
    done
}
for id in ours-1 ours-2; do
    turns $id &
    candidates="$candidates $!"
done
elector go-1 mixed -hold 150ms -acts "$t_dir/mixed"
elector go-2 mixed -hold 150ms -acts "$t_dir/mixed"
# A hand-over is a change between one of ours and one of theirs.
crossings() {
    awk '{ kind = substr($2, 1, 2); n += NR > 1 && kind != last; last = kind }
        END { print n + 0 }' "$t_dir/mixed"
}
crossed() { [ "$(crossings)" -ge "$handovers" ]; }
t_check "$handovers hand-overs: $(crossings)" until_true $((60 + 6 * handovers)) crossed
touch "$t_dir/mixed.end"
# One file, one order: who acts again after another has acted overlapped with it. The same by time.
never_two() {
    sort -s -k 1n "$1" | awk 'NF == 3 { term = $2 " " $3
        if (term != last && term in seen) { print "again: " term; bad = 1 }
        seen[term] = 1; last = term } END { exit bad || NR == 0 }'
}
t_promise "never two at once" never_two "$t_dir/mixed"
rising() {
    awk '$2 ~ /^ours/ { if ($3 < last) bad = 1; last = $3; n++ } END { exit bad || n == 0 }' "$1"
}
t_promise "our tokens rise" rising "$t_dir/mixed"
echo "# $(crossings) hand-overs between ours and theirs, $(awk '{ print $2, $3 }' "$t_dir/mixed" |
    sort -u | wc -l) terms"
end_all

t_case "a client-go that stops past its TTL: the fence refuses it"
elector go-1 stopped -stuck -duration 4s -acts "$t_dir/stopped"
go=$elector_pid
t_check "theirs leads" until_line "$t_dir/stopped" go-1 60
theirs_token=$(kube_field stopped "lease['metadata']['resourceVersion']")
kill -STOP "$go"
: >"$t_dir/stopped.data"
t_run "$tenure" fence install --at "file:$t_dir/stopped.data"
setsid "$tenure" run --store "$url" --ttl 5s --fence "file:$t_dir/stopped.data" stopped -- \
    sh -c 'echo "$TENURE_TOKEN"; exec sleep 600' >"$t_dir/h" 2>"$t_dir/h.err" &
hal=$!
candidates="$candidates $hal"
t_check "ours leads" until_line "$t_dir/h" '^[0-9]' 60
before=$(wc -l <"$t_dir/stopped")
kill -CONT "$go"
# It ends its term as soon as it looks at its clock. What it had begun by then comes first.
campaigns() { [ "$(kube_field stopped "spec['holderIdentity']")" != go-1 ]; }
t_check "ours holds on" campaigns
t_run "$tenure" fence admit --at "file:$t_dir/stopped.data" "$theirs_token"
t_check "the fence refuses its token: $t_status $(cat "$t_err")" [ "$t_status" -eq 80 ]
t_run "$tenure" fence admit --at "file:$t_dir/stopped.data" "$(cat "$t_dir/h")"
t_check "and takes ours: $(cat "$t_err")" [ "$t_status" -eq 0 ]
echo "# a stopped client-go acted $(($(wc -l <"$t_dir/stopped") - before)) times beside ours"
kill -KILL "$go"
end "$hal"

script_verbs "$url" 12s
hold_off_on kubernetes "$url" 5s 6
hold_off_of_scripts kubernetes "$url" 5s 6

t_case "a leader costs one write an interval, an idle candidate nothing but the slow poll"
elect "$t_dir/cost1" --store "$url" --id a --ttl 30s cost
ada=$elect_pid
t_check "one leads" until_line "$t_dir/cost1" '"won"' 30
elect "$t_dir/cost2" --store "kubernetes://jobs?kubeconfig=$t_dir/other.yaml" --id b --ttl 30s cost
bob=$elect_pid
t_check "one waits" until_line "$t_dir/cost2" '"leader"' 30
began=$(audited app update)
renewed() { [ "$(audited app update)" -gt "$began" ]; }
t_check "and the other renews" until_true 40 renewed
writes=$(audited app update) reads=$(audited app get)
idle=$(audited other get) idle_writes=$(audited other update) from=$(now_ms)
until_ms $((from + 10000))
spent=$((($(now_ms) - from) / 1000))
writes=$(($(audited app update) - writes)) reads=$(($(audited app get) - reads))
idle=$(($(audited other get) - idle)) idle_writes=$(($(audited other update) - idle_writes))
echo "# in $spent s: leader $writes writes, $reads reads; candidate $idle and $idle_writes"
t_check "a write each 10 s: $writes in $spent s" [ "$writes" -le $((spent / 10 + 2)) ]
# Beside the watch each name is read once in half a minute: the Lease and three of operators' notes.
t_check "the leader reads next to nothing: $reads" [ "$reads" -le 4 ]
t_check "the candidate asks next to nothing: $idle" [ "$idle" -le 4 ]
t_check "and writes nothing" [ "$idle_writes" -eq 0 ]
end "$ada"
t_check "the other hears of it" until_line "$t_dir/cost2" '"won"' 20
end "$bob"

t_case "doctor: the version, what the user may not do, and the role"
t_run "$tenure" doctor --for 1s "$url"
t_check "says it all: $(cat "$t_err")" grep -q "server .*kubernetes" "$t_out"
t_check "the role" grep -q "verbs: \[get, list, watch, create, update\]" "$t_out"
t_refute "nothing is missing" grep -q "may not" "$t_out"
t_check "writes were measured, and given back: $(cat "$t_out")" \
    [ "$(kube_field tenure-tenure-2ddoctor-2fprobe "spec['holderIdentity']")" = "" ]
kube POST /apis/rbac.authorization.k8s.io/v1/namespaces/jobs/roles '{"metadata":{"name":"reader"},
    "rules":[{"apiGroups":["coordination.k8s.io"],"resources":["leases"],"verbs":["get"]}]}'
kube POST /apis/rbac.authorization.k8s.io/v1/namespaces/jobs/rolebindings '{"metadata":{"name":
    "reader"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"reader"},
    "subjects":[{"kind":"User","name":"reader"}]}'
kube_config reader.yaml geheim-reader
t_run "$tenure" doctor --for 1s "kubernetes://jobs?kubeconfig=$t_dir/reader.yaml"
t_check "the verbs by name: $(cat "$t_out" "$t_err")" \
    grep -q "may not list, watch, create, update Leases in the namespace 'jobs'" "$t_out"
t_check "77 to who may not write, not $t_status" [ "$t_status" -eq 77 ]
t_check "and why: $(cat "$t_out")" grep -q "may write  *no: .*cannot update" "$t_out"
t_run "$tenure" doctor --for 1s "kubernetes://jobs?kubeconfig=$t_dir/none.yaml"
t_check "denied" [ "$t_status" -eq 77 ]
t_check "with the role" grep -q "kind: Role" "$t_out"

t_case "what is wrong is said in one line"
kube_config bad.yaml geheim-wrong
refuses 77 "sign in again" "kubernetes://jobs?kubeconfig=$t_dir/bad.yaml" 5s
refuses 77 "cannot get resource" "kubernetes://jobs?kubeconfig=$t_dir/none.yaml" 5s
kube_config admin.yaml geheim-admin
elect "$t_dir/nowhere" --store "kubernetes://nowhere?kubeconfig=$t_dir/admin.yaml" --ttl 5s x
until_line "$t_dir/nowhere.err" "make the namespace first" 30 ||
    t_fail "no namespace: $(cat "$t_dir/nowhere" "$t_dir/nowhere.err")"
kill "$elect_pid"
sed 's/ca.pem/otherca.pem/' "$t_dir/app.yaml" >"$t_dir/tls.yaml"
refuses 69 "certificate" "kubernetes://jobs?kubeconfig=$t_dir/tls.yaml" 5s
t_bad "cannot read" "$tenure" status --store "kubernetes://jobs?kubeconfig=/nowhere" x
t_bad "no context 'y'" "$tenure" status --store "$url&context=y" x
t_bad "kubernetes://[NAMESPACE]" "$tenure" status --store "kubernetes://jobs/more" x

t_case "a server that is none: garbage, another's JSON, 100 MB"
cat >"$t_dir/none.py" <<'END'
import http.server
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        word = self.path.split("/namespaces/")[1].split("/")[0]
        code = {"missing": 404, "busy": 429, "broken": 500, "gateway": 502}.get(word, 200)
        self.send_response(code)
        if word == "busy":
            self.send_header("Retry-After", "1")
        self.end_headers()
        try:
            if word == "huge":
                for i in range(100):
                    self.wfile.write(b"x" * 1000000)
            self.wfile.write({"json": b'{"kind":"Cat"}'}.get(word, b"<html>\n\x1b[31mhello"))
        except OSError:
            pass
    def log_message(self, *args):
        pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
END
/usr/bin/python3 "$t_dir/none.py" >"$t_dir/none.port" &
candidates="$candidates $!"
until_line "$t_dir/none.port" .
sed "s,server: .*,server: http://127.0.0.1:$(cat "$t_dir/none.port")," "$t_dir/app.yaml" \
    >"$t_dir/web.yaml"
for case in garbage:API json:API missing:API huge:longer busy:429 broken:500 gateway:502; do
    t_run "$tenure" status --store "kubernetes://${case%:*}?kubeconfig=$t_dir/web.yaml" x
    t_check "$case: exit status is 69, not $t_status" [ "$t_status" -eq 69 ]
    t_check "$case: says so: $(cat "$t_err")" grep -q "${case#*:}" "$t_err"
    t_check "$case: one line" [ "$(wc -l <"$t_err")" -eq 1 ]
done

t_case "429 is obeyed; a watch begins anew with a list after a 410, and goes on after an end"
/usr/bin/python3 "$TENURE_ROOT/tests/engines/kubernetes/fake.py" "$t_dir/fake.log" \
    >"$t_dir/fake.port" &
candidates="$candidates $!"
until_line "$t_dir/fake.port" .
sed "s,server: .*,server: http://127.0.0.1:$(cat "$t_dir/fake.port")," "$t_dir/app.yaml" \
    >"$t_dir/fake.yaml"
"$tenure" watch --store "kubernetes://jobs?kubeconfig=$t_dir/fake.yaml" x >"$t_dir/fake.seen" 2>&1 &
watcher=$!
candidates="$candidates $watcher"
t_check "the holder after the 410 is seen: $(cat "$t_dir/fake.seen")" \
    until_line "$t_dir/fake.seen" 'led by holder-3' 30
watches() { [ "$(grep -c watch "$t_dir/fake.log")" -ge 3 ]; }
t_check "and watched" until_true 20 watches
quiet=$(awk '$2 == "list" { if (n++ == 0) first = $1; else if (!next_at) next_at = $1 }
    END { print next_at - first }' "$t_dir/fake.log")
t_check "2 s of quiet after 429, not $quiet ms" [ "$quiet" -ge 2000 ]
t_check "three lists" [ "$(grep -c list "$t_dir/fake.log")" -eq 3 ]
end "$watcher"

t_case "a token file is read again when it is replaced"
sed "s,token: .*,tokenFile: token," "$t_dir/app.yaml" >"$t_dir/file.yaml"
echo geheim-wrong >"$t_dir/token"
refuses 77 "sign in again" "kubernetes://jobs?kubeconfig=$t_dir/file.yaml" 5s
echo geheim-app >"$t_dir/token"
elect "$t_dir/rotated" --store "kubernetes://jobs?kubeconfig=$t_dir/file.yaml" --ttl 5s rotated
ada=$elect_pid
t_check "leads" until_line "$t_dir/rotated" '"won"' 30
# The server forgets the old token when it starts again; the new one is in the file by then.
sed '/geheim-app/d' "$t_dir/tokens.csv" >"$t_dir/tokens.new"
mv "$t_dir/tokens.new" "$t_dir/tokens.csv"
echo geheim-next >"$t_dir/token.new" && mv "$t_dir/token.new" "$t_dir/token"
kube_type=
kill -KILL "$kube_pid"
kube_again
lines=$(wc -l <"$t_dir/rotated")
from_lease=$(kube_field rotated "spec['renewTime']")
is_newer() { [ "$(kube_field rotated "spec['renewTime']")" != "$from_lease" ]; }
t_check "renews with the new one: $(tail -n +"$lines" "$t_dir/rotated")" until_true 30 is_newer
end "$ada"
echo 'geheim-app,app,2' >>"$t_dir/tokens.csv"
kill -KILL "$kube_pid"
kube_again

t_case "a credential plug-in is run without a shell, and again when its token is refused"
cat >"$t_dir/plugin" <<'END'
#!/bin/sh
echo "$1 $PROFILE $KUBERNETES_EXEC_INFO" >>"${0%/*}/plugin.said"
echo '{"kind":"ExecCredential","status":{"token":"'"$(cat "${0%/*}/plugin.token")"'"}}'
END
chmod +x "$t_dir/plugin"
echo geheim-app >"$t_dir/plugin.token"
sed '/token:/d' "$t_dir/app.yaml" >"$t_dir/exec.yaml"
cat >>"$t_dir/exec.yaml" <<'END'
    exec:
      apiVersion: client.authentication.k8s.io/v1
      interactiveMode: Never
      command: ./plugin
      args: ["$(touch x); a b"]
      env: [{name: PROFILE, value: prod}]
END
t_run "$tenure" run --store "kubernetes://jobs?kubeconfig=$t_dir/exec.yaml" --ttl 5s x -- true
t_check "leads: $(cat "$t_err")" [ "$t_status" -eq 0 ]
t_check "its words are as they are" \
    grep -qF '$(touch x); a b prod {"apiVersion":"client.authentication' "$t_dir/plugin.said"
echo geheim-wrong >"$t_dir/plugin.token"
refuses 77 "sign in again" "kubernetes://jobs?kubeconfig=$t_dir/exec.yaml" 5s
sed 's,\./plugin,./no-such,' "$t_dir/exec.yaml" >"$t_dir/exec2.yaml"
refuses 77 "the credential plug-in" "kubernetes://jobs?kubeconfig=$t_dir/exec2.yaml" 5s

t_case "a client's certificate, as files beside the kubeconfig and in it"
certificate app ca "DNS:app" # The name is the user's.
certificate none ca "DNS:none"
# signs_in LINE...: a kubeconfig with that user.
signs_in() {
    sed '/token:/d' "$t_dir/app.yaml" >"$t_dir/cert.yaml"
    for line in "$@"; do
        echo "    $line" >>"$t_dir/cert.yaml"
    done
}
inline() { base64 -w 0 <"$t_dir/$1"; }
cert_url="kubernetes://jobs?kubeconfig=$t_dir/cert.yaml"
for lines in "client-certificate: app.pem|client-key: app.key" \
    "client-certificate-data: $(inline app.pem)|client-key-data: $(inline app.key)"; do
    signs_in "${lines%|*}" "${lines#*|}"
    t_run timeout 60 "$tenure" run --store "$cert_url" --ttl 5s --wait 20s x -- true
    t_check "leads: $(cat "$t_err")" [ "$t_status" -eq 0 ]
done
signs_in "client-certificate: none.pem" "client-key: none.key"
refuses 77 "cannot get resource" "$cert_url" 5s
signs_in "client-certificate: stranger.pem" "client-key: stranger.key"
refuses 77 "sign in again" "$cert_url" 5s

t_case "in a pod: the service account's token, certificate and namespace"
if [ "$(id -u)" -eq 0 ] && unshare -m true 2>/dev/null; then
    cat >"$t_dir/pod" <<'END'
#!/bin/sh
mount -t tmpfs none /run && mkdir -p /run/secrets/kubernetes.io/serviceaccount &&
    cd /run/secrets/kubernetes.io/serviceaccount && cp "$1/ca.pem" ca.crt &&
    printf %s geheim-app >token && printf %s jobs >namespace || exit 99
cd / && shift && exec "$@"
END
    t_run env HOME=/nonexistent KUBERNETES_SERVICE_HOST=127.0.0.1 \
        KUBERNETES_SERVICE_PORT="$kube_port" unshare -m sh "$t_dir/pod" "$t_dir" \
        "$tenure" run --store kubernetes:// --ttl 5s --wait 20s pod -- true
    t_check "leads: $(cat "$t_err")" [ "$t_status" -eq 0 ]
    t_check "in its namespace" kube GET "$leases/pod"
else
    t_skip "needs root, to mount a service account"
fi
t_case "coordinated leader election: the holder gives way to the preferred one"
kill -KILL "$kube_pid"
kube_flags="--feature-gates=CoordinatedLeaderElection=true"
kube_flags="$kube_flags --runtime-config=coordination.k8s.io/v1beta1=true"
kube_again
prefer() { # NAME HOLDER
    kube_type=application/merge-patch+json
    kube PATCH "$leases/$1" \
        '{"spec":{"strategy":"OldestEmulationVersion","preferredHolder":"'"$2"'"}}'
    kube_type=
}
elect "$t_dir/first" --store "$url" --id ada --ttl 5s preferred
ada=$elect_pid
t_check "ada leads" until_line "$t_dir/first" '"won"' 30
elect "$t_dir/second" --store "$url" --id bob --ttl 5s preferred
bob=$elect_pid
t_check "bob waits" until_line "$t_dir/second" '"leader"' 30
t_check "bob is preferred" prefer preferred bob
t_check "the server keeps it" \
    [ "$(kube_field preferred "spec.get('strategy')")" = OldestEmulationVersion ]
t_check "bob leads: $(cat "$t_dir/second")" until_line "$t_dir/second" '"won"' 20
t_check "ada was told to stop: $(cat "$t_dir/first")" has "$t_dir/first" '"lost".*"revoked"'
t_check "and did not lead in between" [ "$(grep -c '"won"' "$t_dir/first")" -eq 1 ]
t_check "the preference is over" [ "$(kube_field preferred "spec.get('preferredHolder')")" = None ]
end "$bob"
t_check "then ada leads again" until_true 30 eval '[ "$(grep -c "won" "$t_dir/first")" -eq 2 ]'
end "$ada"
kill -KILL "$kube_pid"
kube_flags=
kube_again

t_case "an etcd that was restored from a backup is refused, with the remedy"
elect "$t_dir/early" --store "$url" --ttl 5s restored
ada=$elect_pid
t_check "leads" until_line "$t_dir/early" '"won"' 30
end "$ada"
endpoints=127.0.0.1:$port_kube
t_check "saved" ctl snapshot save "$t_dir/backup" >/dev/null 2>&1
for i in 1 2 3 4 5 6 7 8 9 10; do
    kube POST "$leases" "{\"metadata\":{\"name\":\"filler-$i\"},\"spec\":{}}"
done
elect "$t_dir/later" --store "$url" --ttl 5s restored
ada=$elect_pid
t_check "leads again" until_line "$t_dir/later" '"won"' 30
last=$(sed -n 's/.*"won".*"token":\([0-9]*\).*/\1/p' "$t_dir/later")
kill -KILL "$kube_pid"
etcd_stop kube
rm -rf "$t_dir/kube.etcd"
etcdctl snapshot restore "$t_dir/backup" --name kube --data-dir "$t_dir/kube.etcd" \
    --initial-cluster "kube=http://127.0.0.1:$peer_kube" \
    --initial-advertise-peer-urls "http://127.0.0.1:$peer_kube" >/dev/null 2>&1
t_check "etcd runs on it" etcd_again kube
kube_again
t_check "token-regressed: $(cat "$t_dir/later.err")" \
    until_line "$t_dir/later.err" "token-regressed" 90
t_check "with the remedy" has "$t_dir/later.err" "tenure/floor=$last"
kube_type=application/merge-patch+json
kube PATCH "$leases/restored" "{\"metadata\":{\"annotations\":{\"tenure/floor\":\"$last\"}}}"
kube_type=
won_above() { [ "$(grep -c '"won"' "$t_dir/later")" -ge 2 ]; }
t_check "it leads once the floor is raised: $(cat "$t_dir/later.err")" until_true 60 won_above
end "$ada"
t_done
