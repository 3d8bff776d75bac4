#!/bin/sh
# tenured_access.sh - users, TLS, other people's sockets: who gets in, and what the others are told.
# shellcheck source=tests/harness/lib.sh
. "${TENURE_ROOT:-$(dirname "$0")/../..}/tests/harness/lib.sh"
# shellcheck source=tests/live/tenured.lib
. "$TENURE_ROOT/tests/live/tenured.lib"

t_case "nobody there"
told 69 "refused" elect --store tenured://127.0.0.1:1 --ttl 3s --wait 1s job
told 69 "no such socket" elect --store "unix:$t_dir/nothing" --ttl 3s --wait 1s job
told 69 "no such socket" status --store "unix:$t_dir/nothing" job

t_case "users and passwords"
"$TENURE_BUILD/tenured" --new-secret ada >"$t_dir/ada"
secret=$(sed -n 's/.*shown once: //p' "$t_dir/ada")
{
    sed -n 's/^for the ACL file: //p' "$t_dir/ada"
    echo "allow ada acquire app/*"
    echo "allow client acquire app/*"
} >"$t_dir/acl"
chmod 0600 "$t_dir/acl"
tenured_start --acl "$t_dir/acl"
at=127.0.0.1:$port
told 77 "NOAUTH" elect --store "tenured://$at" --ttl 3s --wait 1s app/job
told 77 "wrong user or secret" elect --store "tenured://ada:hunter2@$at" --ttl 3s --wait 1s app/job
told 77 "no right" elect --store "tenured://ada:$secret@$at" --ttl 3s --wait 1s other/job
TENURE_TENURED_USER=ada TENURE_TENURED_PASSWORD=$secret
export TENURE_TENURED_USER TENURE_TENURED_PASSWORD
campaign "$t_dir/a" --store "tenured://$at" --id ada --ttl 3s app/job
t_check "won" until_line "$t_dir/a" '"won"'
end "$campaign"
t_run "$tenure" run --store "tenured://$at" --ttl 3s app/job -- env
t_check "the command does not get the secret" [ "$(grep -c "$secret" "$t_out")" -eq 0 ]
t_check "it ran" has "$t_out" '^TENURE_TOKEN='

t_case "the right to acquire a name is enough for --every of that name"
t_run "$tenure" run --store "tenured://$at" --every 1h app/nightly -- echo ran
t_ends 0
t_prints ran
t_run "$tenure" run --store "tenured://$at" --every 1h app/nightly -- echo ran
t_ends 0
t_refute "not again" [ -s "$t_out" ]
unset TENURE_TENURED_USER TENURE_TENURED_PASSWORD

t_case "the Unix socket is its owner's, who needs no password"
t_run "$tenure" status --json other/job --store "unix:$socket"
t_ends 0
tenured_end

t_case "a secret for a daemon that has no users"
tenured_start
told 69 "no ACL is configured" elect --store "tenured://ada:hunter2@$at" --ttl 3s --wait 1s job

t_case "the default socket"
XDG_RUNTIME_DIR=$t_dir/xdg
export XDG_RUNTIME_DIR
default=$XDG_RUNTIME_DIR/tenured/tenured.sock
[ "$(id -u)" -ne 0 ] || default=/run/tenured/tenured.sock
if [ -e "$default" ]; then
    t_skip "somebody's daemon has it"
else
    told 69 "$default" status --store unix: job
fi

t_case "the group of the socket is let in, and cannot administer"
if [ "$(id -u)" -ne 0 ] || ! command -v setpriv >/dev/null 2>&1; then
    t_skip "needs root, and setpriv"
else
    mkdir -m 0755 "$t_dir/group"
    cp "$tenure" "$t_dir/group/tenure"
    chmod 0755 "$t_dir"
    "$TENURE_BUILD/tenured" --data "$t_dir/group/data" --socket-group 4242 \
        --listen "unix:$t_dir/group/socket" >"$t_dir/group.out" 2>&1 &
    group_pid=$!
    t_check "it serves" until_line "$t_dir/group.out" 'ready'
    t_check "mode and group" [ "$(stat -c '%a %g' "$t_dir/group/socket")" = "660 4242" ]
    # As the second group of a process, as the first one, and not at all.
    for groups in "--regid 65534 --groups 7,4242" "--regid 4242 --clear-groups"; do
        # shellcheck disable=SC2086 # Words.
        t_run setpriv --reuid 65534 $groups "$t_dir/group/tenure" \
            run --store "unix:$t_dir/group/socket" --ttl 3s job -- true
        t_check "$groups: status $t_status: $(cat "$t_err")" [ "$t_status" -eq 0 ]
    done
    for said in ran ''; do
        t_run setpriv --reuid 65534 --regid 4242 --clear-groups "$t_dir/group/tenure" \
            run --store "unix:$t_dir/group/socket" --quiet --every 1h nightly -- echo ran
        t_check "status 0, not $t_status" [ "$t_status" -eq 0 ]
        t_check "nothing said: $(cat "$t_err")" [ ! -s "$t_err" ]
        t_check "--every, once: $(cat "$t_out")" [ "$(cat "$t_out")" = "$said" ]
    done
    t_run setpriv --reuid 65534 --regid 65534 --groups 7 "$t_dir/group/tenure" \
        status --store "unix:$t_dir/group/socket" job
    t_check "77 without the group, not $t_status: $(cat "$t_err")" [ "$t_status" -eq 77 ]
    "$tenure" acquire --store "unix:$t_dir/group/socket" --ttl 1h held >/dev/null
    t_run setpriv --reuid 65534 --regid 4242 --clear-groups "$t_dir/group/tenure" \
        revoke --store "unix:$t_dir/group/socket" held
    t_check "77 for a member's revoke, not $t_status: $(cat "$t_err")" [ "$t_status" -eq 77 ]
    t_run "$tenure" status --store "unix:$t_dir/group/socket" held
    t_prints "held by"
    t_run "$tenure" revoke --store "unix:$t_dir/group/socket" held
    t_check "root revokes: $(cat "$t_err")" [ "$t_status" -eq 0 ]
    end "$group_pid"
    chmod 0700 "$t_dir"
fi

t_case "a group that there is not"
t_run "$TENURE_BUILD/tenured" --data "$t_dir/none" --socket-group no-such-group
t_check "64, not $t_status" [ "$t_status" -eq 64 ]
t_check "one line" [ "$(wc -l <"$t_err")" -eq 1 ]
t_refute "nothing was made" [ -e "$t_dir/none" ]

t_case "somebody else's socket"
if [ "$(id -u)" -ne 0 ] || ! command -v setpriv >/dev/null 2>&1; then
    t_skip "needs root, and setpriv"
else
    # Not let in by the directory; let through it, not by the socket; by the socket, not by us.
    as_nobody() { setpriv --reuid 65534 --regid 65534 --clear-groups "$@"; }
    mkdir "$t_dir/program"
    cp "$tenure" "$TENURE_BUILD/tenured" "$t_dir/program"
    chmod 0755 "$t_dir" "$t_dir/program"
    t_run as_nobody "$t_dir/program/tenure" status job --store "unix:$socket"
    t_check "77, not $t_status: $(cat "$t_err")" [ "$t_status" -eq 77 ]
    chmod 0755 "$t_dir/run"
    t_run as_nobody "$t_dir/program/tenure" status job --store "unix:$socket"
    t_check "77, not $t_status: $(cat "$t_err")" [ "$t_status" -eq 77 ]
    mkdir -m 0700 "$t_dir/nobody"
    chown 65534 "$t_dir/nobody"
    setpriv --reuid 65534 --regid 65534 --clear-groups "$t_dir/program/tenured" \
        --data "$t_dir/nobody/data" --listen "unix:$t_dir/nobody/socket" >"$t_dir/nobody.out" 2>&1 &
    nobody=$!
    candidates="$candidates $!"
    t_check "starts" until_line "$t_dir/nobody.out" '^tenured ready'
    told 77 "another user (uid 65534)" status job --store "unix:$t_dir/nobody/socket"
    told 77 "another user" elect --ttl 3s --wait 1s job --store "unix:$t_dir/nobody/socket"
    end "$nobody"
fi

# Two real users: the daemon's, 4301, and the application's, 4302; 4303 is neither.
t_case "a daemon of another user is believed in a directory of root's, and nowhere else"
if [ "$(id -u)" -ne 0 ] || ! command -v setpriv >/dev/null 2>&1; then
    t_skip "needs root, and setpriv"
else
    # serve USER DIRECTORY: a daemon of USER there, for the group 4242.
    serve() {
        mkdir -p -m 0755 "$t_dir/data.$1" && chown "$1" "$t_dir/data.$1"
        setpriv --reuid "$1" --regid "$1" --groups 4242 "$t_dir/program/tenured" --socket-group \
            4242 --data "$t_dir/data.$1/x" --listen "unix:$2/socket" >"$t_dir/served" 2>&1 &
        served=$!
        candidates="$candidates $!"
        t_check "$2: serves: $(cat "$t_dir/served")" until_line "$t_dir/served" '^tenured ready'
    }
    # uses STATUS DIRECTORY: how the application fares.
    uses() {
        t_run setpriv --reuid 4302 --regid 4302 --groups 4242 "$t_dir/program/tenure" run \
            --store "unix:$2/socket" --ttl 3s --wait 5s job -- true
        t_check "$2: status $t_status: $(cat "$t_err")" [ "$t_status" -eq "$1" ]
    }
    chmod 0755 "$t_dir"
    install -d -o root -g 4301 -m 0775 "$t_dir/roots"
    install -d -o root -g 4301 -m 0777 "$t_dir/everybodys"
    install -d -o root -g 4301 -m 1777 "$t_dir/sticky"
    install -d -o 4303 -g 4301 -m 0775 "$t_dir/strangers"
    install -d -o 4301 -g 4301 -m 0755 "$t_dir/daemons"
    serve 4301 "$t_dir/roots"
    uses 0 "$t_dir/roots"
    end "$served"
    for place in everybodys sticky strangers daemons; do
        serve 4301 "$t_dir/$place"
        uses 77 "$t_dir/$place"
        t_check "says why: $(cat "$t_err")" grep -qE "another user|every user" "$t_err"
        end "$served"
    done
    # A forger, to whom root's directory is closed, links to its own socket or takes over another's.
    serve 4303 "$t_dir/strangers"
    install -d -o root -g 4301 -m 0775 "$t_dir/linked"
    setpriv --reuid 4301 --regid 4301 --clear-groups \
        ln -s "$t_dir/strangers/socket" "$t_dir/linked/socket"
    uses 77 "$t_dir/linked"
    ln -f "$t_dir/strangers/socket" "$t_dir/roots/socket"
    chown 4301 "$t_dir/roots/socket"
    uses 77 "$t_dir/roots"
    end "$served"
    t_run setpriv --reuid 4303 --regid 4303 --clear-groups touch "$t_dir/roots/forged"
    t_check "a stranger makes nothing there" [ "$t_status" -ne 0 ]
fi

t_case "another server at that address"
if command -v redis-server >/dev/null 2>&1; then
    other=$(t_ports 1)
    redis-server --port "$other" --save '' --appendonly no --dir "$t_dir" >"$t_dir/redis" 2>&1 &
    redis=$!
    candidates="$candidates $!"
    t_check "starts" until_line "$t_dir/redis" 'Ready to accept'
    told 69 "no tenured" elect --store "tenured://127.0.0.1:$other" --ttl 3s --wait 1s job
    end "$redis"
else
    t_skip "no redis-server: install redis-server"
fi

t_case "URLs that are no URLs"
for bad in tenured: tenured:host tenured:// tenured://h:0 tenured://h,i tenured://h/x \
    "tenured://h?ca=x" "tenureds://h?what=x" "tenureds://h?cert=x" tenured://:p@h \
    "unix:$(printf '%0108d' 7)"; do
    told 64 ":" status --store "$bad" job
done

tenured_end
if ! command -v openssl >/dev/null 2>&1; then
    t_case "TLS"
    t_skip "no openssl: install openssl"
    t_done
fi
# shellcheck source=tests/live/certificates.lib
. "$TENURE_ROOT/tests/live/certificates.lib"

t_case "TLS, with certificates on both sides"
tenured_start --tls-cert "$t_dir/server.pem" --tls-key "$t_dir/server.key" \
    --tls-ca "$t_dir/ca.pem" --acl "$t_dir/acl"
if grep -q "built without TLS" "$t_dir/daemon.err"; then
    t_skip "this build has no TLS"
    t_done
fi
query="ca=$t_dir/ca.pem&cert=$t_dir/client.pem&key=$t_dir/client.key"
campaign "$t_dir/t" --store "tenureds://$at?$query" --id tia --ttl 3s app/tls
t_check "won" until_line "$t_dir/t" '"won"'
first=$campaign
campaign "$t_dir/u" --store "tenureds://localhost:$port?$query" --id uma --ttl 3s app/tls
t_check "by name" until_line "$t_dir/u" '"leader".*"holder":"tia"'
end "$first"
t_check "takes over" until_line "$t_dir/u" '"won"'
end "$campaign"

t_case "TLS: what is not right is refused, and said"
who="cert=$t_dir/client.pem&key=$t_dir/client.key"
set -- --ttl 3s --wait 1s app/job
told 69 "not trusted" elect --store "tenureds://$at?ca=$t_dir/otherca.pem&$who" "$@"
told 69 "not for this host" elect --store "tenureds://$at?$query&name=elsewhere" "$@"
told 69 "tenured 127.0.0.1" elect --store "tenureds://$at?ca=$t_dir/ca.pem" "$@"
told 69 "tenured 127.0.0.1" elect --store \
    "tenureds://$at?ca=$t_dir/ca.pem&cert=$t_dir/stranger.pem&key=$t_dir/stranger.key" "$@"
told 69 "TLS" elect --store "tenured://$at" "$@"
told 64 "no-such-file" elect --store "tenureds://$at?ca=$t_dir/no-such-file" "$@"
t_done
