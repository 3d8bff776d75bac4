#!/bin/sh
# etcd_access.sh - users, passwords, TLS: who gets in, and what the others are told.
. "$(dirname "$0")/../harness/lib.sh"
. "$(dirname "$0")/etcd.lib"
etcd_need

t_case "nobody there"
refuses 69 "refused" "etcd://127.0.0.1:1/t"
refuses 69 "127.0.0.1" "etcd://127.0.0.1:1,127.0.0.1:2/t"

t_case "a name service that hangs, and names that are not there"
refuses 69 "no-such-host.invalid" "etcd://no-such-host.invalid/t"
refuses_without_names "etcd://ada:geheim@db.example.com/t"

t_case "a TTL that is too short for etcd"
refuses 64 "etcd: takes a TTL of 2s or more" "etcd://127.0.0.1:1/t" 1s

t_case "users and passwords"
etcd_start one --auth-token-ttl 2 || t_done
# shellcheck disable=SC2154 # etcd_start sets it.
endpoints=127.0.0.1:$port_one
{
    ctl user add root:geheim
    ctl user grant-role root root
    ctl role add app
    ctl role grant-permission app --prefix=true readwrite app/
    ctl user add ada:geheim
    ctl user grant-role ada app
    ctl auth enable
} >"$t_dir/setup" 2>&1
proxy_start silent "$port_one"
proxy_say silent stall
refuses 69 "127.0.0.1:$proxy_port" "etcd://ada:geheim@127.0.0.1:$proxy_port/t"
re_wait=5s # The server hashes passwords slowly, on purpose.
refuses 77 "user" "etcd://$endpoints/app"
refuses 77 "wrong user or password" "etcd://ada:geheimer@$endpoints/app"
refuses 77 "permission denied" "etcd://ada:geheim@$endpoints/other"
re_wait=
TENURE_ETCD_USER=ada TENURE_ETCD_PASSWORD=geheim
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
t_check "takes over" until_true 15 has "$t_dir/b" '"won"'
kill -TERM "$bob"
wait "$ada" "$bob"
unset TENURE_ETCD_USER TENURE_ETCD_PASSWORD
etcd_stop one

if ! command -v openssl >/dev/null 2>&1; then
    t_case "TLS"
    t_skip "no openssl: install openssl"
    t_done
fi

# shellcheck source=tests/live/certificates.lib
. "$TENURE_ROOT/tests/live/certificates.lib"

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
refuses 69 "not trusted" "etcds://$at/t?ca=$t_dir/otherca.pem"
refuses 69 "not trusted" "etcds://$at/t"
refuses 69 "not for this host" "etcds://$at/t?ca=$t_dir/ca.pem&name=elsewhere"
refuses 69 "TLS" "etcd://$at/t"
refuses 64 "no-such-file" "etcds://$at/t?ca=$t_dir/no-such-file"
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
refuses 69 "certificate" "etcds://$at/t?ca=$t_dir/ca.pem"
refuses 69 "etcd 127.0.0.1" \
    "etcds://$at/t?ca=$t_dir/ca.pem&cert=$t_dir/stranger.pem&key=$t_dir/stranger.key"
etcd_stop two

t_case "TLS on our side only"
etcd_scheme=http etcd_ctl_flags=
etcd_start three || t_done
# shellcheck disable=SC2154 # etcd_start sets it.
refuses 69 "TLS" "etcds://127.0.0.1:$port_three/t?ca=$t_dir/ca.pem"

t_case "a server that resets the connection at our first word: is it TLS?"
proxy_start reset "$port_three"
proxy_say reset reset
refuses 69 "does it use TLS?" "etcds://127.0.0.1:$proxy_port/t?ca=$t_dir/ca.pem"
refuses 69 "does it want TLS (etcds:)?" "etcd://127.0.0.1:$proxy_port/t"
etcd_stop three

t_case "URLs that are no URLs"
for bad in "etcd:" "etcd:host" "etcd://" "etcd://h:0" "etcd://h:65536" "etcd://h:x" "etcd://[::1" \
    "etcd://h,,i" "etcd://h/%zz" "etcd://h?ca=x" "etcds://h?what=x" "etcds://h?cert=x" \
    "etcd://:geheim@h"; do
    refuses 64 "etcd" "$bad"
done

t_done
