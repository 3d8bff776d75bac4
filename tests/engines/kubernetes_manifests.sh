#!/bin/sh
# kubernetes_manifests.sh - examples/kubernetes is taken by a real API server as it stands, and the
# sidecar's command leads with the rights that it grants.
# shellcheck source=tests/harness/lib.sh
. "${TENURE_ROOT:-$(dirname "$0")/../..}/tests/harness/lib.sh"
# shellcheck source=tests/engines/kubernetes.lib
. "$TENURE_ROOT/tests/engines/kubernetes.lib"

kube_need
kube_start

# place KIND: where objects of the kind are made.
place() {
    case $1 in
    ServiceAccount) echo /api/v1/namespaces/jobs/serviceaccounts ;;
    Service) echo /api/v1/namespaces/jobs/services ;;
    Deployment) echo /apis/apps/v1/namespaces/jobs/deployments ;;
    Role) echo /apis/rbac.authorization.k8s.io/v1/namespaces/jobs/roles ;;
    RoleBinding) echo /apis/rbac.authorization.k8s.io/v1/namespaces/jobs/rolebindings ;;
    esac
}

t_case "every manifest is accepted, with no field that the server does not know"
made=0
for file in "$TENURE_ROOT"/examples/kubernetes/*.yaml; do
    awk -v name="$t_dir/manifest" 'BEGIN { n = 1 } /^---$/ { n++; next } { print >name n }' "$file"
    for part in "$t_dir"/manifest*; do
        kind=$(sed -n 's/^kind: //p' "$part")
        kube_type=application/yaml kube POST "$(place "$kind")?fieldValidation=Strict" \
            "$(cat "$part")"
        t_check "${file##*/}: $kind: $(head -c 400 "$t_dir/kube")" grep -q '^201' "$t_dir/kube.code"
        made=$((made + 1))
        rm "$part"
    done
done
t_check "five of them, not $made" [ "$made" -eq 5 ]

t_case "the README applies this folder, and asks for the sidecar's Lease"
name=$(sed -n '/^        args:/,/^        env:/s/^        - \([a-z]*\)$/\1/p' \
    "$TENURE_ROOT/examples/kubernetes/deployment.yaml" | tail -n 1)
for words in "kubectl apply -f examples/kubernetes/" "kubectl get lease $name"; do
    t_check "$words" grep -qE "^$words( +#.*)?$" "$TENURE_ROOT/README.md"
done

t_case "the sidecar's command leads with these rights"
kube POST /apis/rbac.authorization.k8s.io/v1/namespaces/jobs/rolebindings '{"metadata":{"name":
    "as-user"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":
    "report-leases"},"subjects":[{"kind":"User","name":"none"}]}'
http=$(t_ports 1)
sed -n '/^        args:/,/^        env:/s/^        - //p' \
    "$TENURE_ROOT/examples/kubernetes/deployment.yaml" |
    sed "1d; s,kubernetes://,kubernetes://jobs?kubeconfig=$t_dir/none.yaml,
        s/0.0.0.0:7430/127.0.0.1:$http/; s/\$(POD_NAME)/report-abc/" >"$t_dir/words"
t_check "it is an election: $(head -n 1 "$t_dir/words")" grep -qx elect "$t_dir/words"
set --
while read -r word; do set -- "$@" "$word"; done <"$t_dir/words"
"$tenure" "$@" >"$t_dir/lines" 2>"$t_dir/lines.err" & # Not by xargs, which would leave it behind.
candidates="$candidates $!"
t_check "wins: $(cat "$t_dir/lines.err")" until_line "$t_dir/lines" '"event":"won"' 60
t_run curl -sf "http://127.0.0.1:$http/token"
t_check "the application gets the token: $(cat "$t_out")" \
    has "$t_dir/lines" "\"won\".*\"token\":$(cat "$t_out")[,}]"
t_run curl -sf "http://127.0.0.1:$http/healthz"
t_check "ready" [ "$t_status" -eq 0 ]
t_check "the Lease has the pod's name" \
    [ "$(kube_field report "spec['holderIdentity']")" = report-abc ]
end_all
t_done
