#!/bin/sh
# etcd_access.sh - users, passwords, TLS: who gets in, and what the others are told.
. "$(dirname "$0")/../harness/lib.sh"
. "$(dirname "$0")/etcd.lib"
etcd_need

# told STATUS WORDS ARG...: elect ends so, with one line that has the words and no secret.
told() {
    to_status=$1 to_words=$2
    shift 2
    t_run timeout 30 "$tenure" elect --ttl 3s --wait 2s "$@"
    t_check "exit status is $to_status, not $t_status" [ "$t_status" -eq "$to_status" ]
    t_check "one line" [ "$(wc -l <"$t_err")" -eq 1 ]
    t_check "says '$to_words': $(cat "$t_err")" grep -qF -e "$to_words" "$t_err"
    t_refute "no secret" grep -qF -e hunter2 -e wrongone "$t_err"
}

t_case "nobody there"
told 69 "refused" --store "etcd://127.0.0.1:1/t" job
told 69 "127.0.0.1" --store "etcd://127.0.0.1:1,127.0.0.1:2/t" job

t_case "users and passwords"
etcd_start one --auth-token-ttl 2 || t_done
# shellcheck disable=SC2154 # etcd_start sets it.
endpoints=127.0.0.1:$port_one
{
    ctl user add root:hunter2
    ctl user grant-role root root
    ctl role add app
    ctl role grant-permission app --prefix=true readwrite app/
    ctl user add ada:hunter2
    ctl user grant-role ada app
    ctl auth enable
} >"$t_dir/setup" 2>&1
told 77 "user" --store "etcd://$endpoints/app" job
told 77 "wrong user or password" --store "etcd://ada:wrongone@$endpoints/app" job
told 77 "permission denied" --store "etcd://ada:hunter2@$endpoints/other" job
TENURE_ETCD_USER=ada TENURE_ETCD_PASSWORD=hunter2
export TENURE_ETCD_USER TENURE_ETCD_PASSWORD
elect "$t_dir/a" --store "etcd://$endpoints/app" --id ada --ttl 3s job
ada=$elect_pid
t_check "won" until_true 10 has "$t_dir/a" '"won"'

t_case "a token that has expired is asked for again"
expired=$(($(date +%s) + 5))
is_expired() { [ "$(date +%s)" -gt $expired ]; }
t_check "waits" until_true 10 is_expired
elect "$t_dir/b" --store "etcd://$endpoints/app" --id bob --ttl 3s job
bob=$elect_pid
t_check "sees the leader" until_true 10 has "$t_dir/b" '"leader".*"holder":"ada"'
kill -TERM "$ada"
t_check "released" until_true 5 has "$t_dir/a" '"lost".*"released"'
t_check "takes over" until_true 5 has "$t_dir/b" '"won"'
kill -TERM "$bob"
wait "$ada" "$bob"
unset TENURE_ETCD_USER TENURE_ETCD_PASSWORD
etcd_stop one

if ! command -v openssl >/dev/null 2>&1; then
    t_case "TLS"
    t_skip "no openssl: install openssl"
    t_done
fi

# certificate NAME CA SUBJECT-ALT-NAMES
certificate() {
    openssl req -newkey rsa:2048 -nodes -subj "/CN=$1" -keyout "$t_dir/$1.key" \
        -out "$t_dir/$1.csr" 2>/dev/null
    echo "subjectAltName=$3" >"$t_dir/$1.ext"
    openssl x509 -req -in "$t_dir/$1.csr" -CA "$t_dir/$2.pem" -CAkey "$t_dir/$2.key" \
        -CAcreateserial -days 2 -extfile "$t_dir/$1.ext" -out "$t_dir/$1.pem" 2>/dev/null
}
for ca in ca otherca; do
    openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj "/CN=$ca" \
        -keyout "$t_dir/$ca.key" -out "$t_dir/$ca.pem" 2>/dev/null
done
certificate server ca "DNS:localhost,IP:127.0.0.1"
certificate client ca "DNS:client"
certificate stranger otherca "DNS:client"

t_case "TLS: a certificate that is trusted and for this host"
etcd_scheme=https
etcd_ctl_flags="--cacert $t_dir/ca.pem --cert $t_dir/client.pem --key $t_dir/client.key"
etcd_start two --cert-file "$t_dir/server.pem" --key-file "$t_dir/server.key" || t_done
# shellcheck disable=SC2154 # etcd_start sets it.
at=127.0.0.1:$port_two
elect "$t_dir/t" --store "etcds://$at/t?ca=$t_dir/ca.pem" --id tia --ttl 3s job
tia=$elect_pid
t_check "won" until_true 10 has "$t_dir/t" '"won"'
elect "$t_dir/u" --store "etcds://localhost:$port_two/t?ca=$t_dir/ca.pem" --id uma --ttl 3s job
uma=$elect_pid
t_check "by name" until_true 10 has "$t_dir/u" '"leader".*"holder":"tia"'
kill -TERM "$tia"
t_check "takes over" until_true 10 has "$t_dir/u" '"won"'
kill -TERM "$uma"
wait "$tia" "$uma"

t_case "TLS: one that is not"
told 69 "not trusted" --store "etcds://$at/t?ca=$t_dir/otherca.pem" job
told 69 "not trusted" --store "etcds://$at/t" job
told 69 "not for this host" --store "etcds://$at/t?ca=$t_dir/ca.pem&name=elsewhere" job
told 69 "TLS" --store "etcd://$at/t" job
told 64 "no-such-file" --store "etcds://$at/t?ca=$t_dir/no-such-file" job
etcd_stop two

t_case "TLS: the server asks for a certificate"
etcd_start two --cert-file "$t_dir/server.pem" --key-file "$t_dir/server.key" \
    --client-cert-auth --trusted-ca-file "$t_dir/ca.pem" || t_done
at=127.0.0.1:$port_two
query="ca=$t_dir/ca.pem&cert=$t_dir/client.pem&key=$t_dir/client.key"
elect "$t_dir/v" --store "etcds://$at/t?$query" --id val --ttl 3s job
val=$elect_pid
t_check "won" until_true 10 has "$t_dir/v" '"won"'
kill -TERM "$val"
wait "$val"
told 69 "certificate" --store "etcds://$at/t?ca=$t_dir/ca.pem" job
told 69 "etcd 127.0.0.1" \
    --store "etcds://$at/t?ca=$t_dir/ca.pem&cert=$t_dir/stranger.pem&key=$t_dir/stranger.key" job
etcd_stop two

t_case "TLS on our side only"
etcd_scheme=http etcd_ctl_flags=
etcd_start three || t_done
# shellcheck disable=SC2154 # etcd_start sets it.
told 69 "TLS" --store "etcds://127.0.0.1:$port_three/t?ca=$t_dir/ca.pem" job
etcd_stop three

t_case "URLs that are no URLs"
for bad in "etcd:" "etcd:host" "etcd://" "etcd://h:0" "etcd://h:65536" "etcd://h:x" "etcd://[::1" \
    "etcd://h,,i" "etcd://h/%zz" "etcd://h?ca=x" "etcds://h?what=x" "etcds://h?cert=x" \
    "etcd://:hunter2@h"; do
    told 64 "etcd" --store "$bad" job
done

t_done
