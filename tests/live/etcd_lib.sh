# shellcheck shell=sh
# etcd_lib.sh - real etcd servers for the tests; sourced after tests/harness/lib.sh.
#
# etcd_need             skips everything when the packages are not there
# etcd_start NAME [ARG...]  starts one, waits until it answers; port in $port_NAME
# etcd_stop NAME        SIGKILL, data stays; etcd_again NAME [ARG...] starts it on the same data
# until_true SECONDS CMD...  polls; ctl ARGS... is etcdctl on $endpoints

tenure=$TENURE_BUILD/tenure
export ETCDCTL_API=3
# The default endpoints and users of whoever runs the tests are not ours.
unset ETCDCTL_ENDPOINTS ETCDCTL_USER TENURE_ETCD_USER TENURE_ETCD_PASSWORD TENURE_STORE

etcd_need() {
    for command in etcd etcdctl; do
        if ! command -v $command >/dev/null 2>&1; then
            t_case "etcd"
            t_skip "no $command: install etcd-server and etcd-client"
            t_done
        fi
    done
    if ! "$tenure" elect --store etcd://127.0.0.1:1/x --wait 1ms x 2>&1 | grep -q etcd; then
        t_case "etcd"
        t_skip "etcd: is not in this build"
        t_done
    fi
}

until_true() {
    ut_end=$(($(date +%s) + $1))
    shift
    until "$@"; do
        [ "$(date +%s)" -lt $ut_end ] || return 1
        sleep 0.05
    done
}

# has FILE PATTERN
has() { grep -q "$2" "$1" 2>/dev/null; }

etcd_pids=
etcd_end() {
    # Jobs that were stopped have to be continued to die.
    for pid in $etcd_pids; do
        kill -KILL "$pid" 2>/dev/null
    done
    rm -rf "$t_dir"
}
trap etcd_end EXIT

ctl() { timeout 20 etcdctl --endpoints "$endpoints" "$@"; }

# Ports that were free a moment ago; somebody may be quicker, so who uses them tries again.
random_port() { shuf -i 20000-32000 -n 1; }

etcd_answers() {
    timeout 5 etcdctl ${etcd_ctl_flags:-} --endpoints "${etcd_scheme:-http}://127.0.0.1:$1" \
        endpoint health >/dev/null 2>&1
}

# etcd_spawn NAME CLIENT-PORT PEER-PORT ARG...
etcd_spawn() {
    es_name=$1 es_port=$2 es_peer=$3
    shift 3
    etcd --name "$es_name" --data-dir "$t_dir/$es_name.etcd" \
        --listen-client-urls "${etcd_scheme:-http}://127.0.0.1:$es_port" \
        --advertise-client-urls "${etcd_scheme:-http}://127.0.0.1:$es_port" \
        --listen-peer-urls "http://127.0.0.1:$es_peer" \
        --initial-advertise-peer-urls "http://127.0.0.1:$es_peer" \
        "$@" >>"$t_dir/$es_name.log" 2>&1 &
    eval "pid_$es_name=$!"
    etcd_pids="$etcd_pids $!"
}

etcd_start() {
    ec_name=$1
    shift
    for ec_try in 1 2 3 4 5; do
        ec_port=$(random_port) ec_peer=$(random_port)
        etcd_spawn "$ec_name" "$ec_port" "$ec_peer" \
            --initial-cluster "$ec_name=http://127.0.0.1:$ec_peer" "$@"
        eval "port_$ec_name=$ec_port peer_$ec_name=$ec_peer"
        until_true 20 etcd_up_or_dead "$ec_name"
        if etcd_answers "$ec_port" || [ -n "${etcd_unhealthy_ok:-}" ]; then
            return 0
        fi
        etcd_stop "$ec_name"
        rm -rf "$t_dir/$ec_name.etcd"
    done
    t_fail "etcd does not start: $(tail -n 1 "$t_dir/$ec_name.log")"
    return 1
}

etcd_up_or_dead() {
    eval "eu_port=\$port_$1 eu_pid=\$pid_$1"
    # shellcheck disable=SC2154 # Set by the eval.
    etcd_answers "$eu_port" || ! kill -0 "$eu_pid" 2>/dev/null
}

etcd_stop() {
    eval "es_pid=\$pid_$1"
    # shellcheck disable=SC2154 # Set by the eval.
    kill -KILL "$es_pid" 2>/dev/null
    wait "$es_pid" 2>/dev/null
    return 0
}

etcd_again() {
    ea_name=$1
    shift
    eval "ea_port=\$port_$ea_name ea_peer=\$peer_$ea_name"
    # shellcheck disable=SC2154 # Set by the eval.
    etcd_spawn "$ea_name" "$ea_port" "$ea_peer" \
        --initial-cluster "$ea_name=http://127.0.0.1:$ea_peer" "$@"
    until_true 20 etcd_answers "$ea_port"
}

# Three that know each other: c1, c2, c3; sets $endpoints.
etcd_cluster() {
    cl_list= endpoints=
    for cl_name in c1 c2 c3; do
        eval "port_$cl_name=$(random_port) peer_$cl_name=$(random_port)"
        eval "cl_list=\$cl_list,$cl_name=http://127.0.0.1:\$peer_$cl_name"
        eval "endpoints=\$endpoints,127.0.0.1:\$port_$cl_name"
    done
    endpoints=${endpoints#,}
    for cl_name in c1 c2 c3; do
        eval "etcd_spawn $cl_name \$port_$cl_name \$peer_$cl_name --initial-cluster ${cl_list#,}"
    done
    for cl_name in c1 c2 c3; do
        eval "until_true 30 etcd_answers \$port_$cl_name" || t_fail "no cluster"
    done
}

# The member that leads the cluster.
etcd_leader() {
    for le_name in c1 c2 c3; do
        eval "le_port=\$port_$le_name"
        # ENDPOINT, ID, VERSION, DB SIZE, IS LEADER, ...
        # shellcheck disable=SC2154 # Set by the eval.
        if timeout 5 etcdctl --endpoints "127.0.0.1:$le_port" endpoint status |
            cut -d , -f 5 | grep -q true; then
            echo $le_name
        fi
    done
}

# elect FILE ARG...: a candidate whose events go to FILE, each behind the time in ms.
elect() {
    el_file=$1
    shift
    mkfifo "$el_file.fifo"
    while read -r line; do
        echo "$(($(date +%s%N) / 1000000)) $line"
    done <"$el_file.fifo" >>"$el_file" &
    "$tenure" elect "$@" >"$el_file.fifo" 2>"$el_file.err" &
    elect_pid=$!
    etcd_pids="$etcd_pids $!"
}

# when FILE PATTERN: the time of the first such line.
when() { grep -m 1 "$2" "$1" | cut -d ' ' -f 1; }
token_of() { sed -n 's/.*"won".*"token":\([0-9]*\).*/\1/p' "$1" | tail -n 1; }
# won_times COUNT FILE...: so many terms in all.
won_times() {
    wt_count=$1
    shift
    [ "$(cat "$@" | grep -c '"won"')" -ge "$wt_count" ]
}
# in_turn FILE...: no term begins before the one before it is over, and the tokens rise.
in_turn() {
    sort -n "$@" | awk '
        { token = $0; sub(/.*"token":/, "", token); token = 0 + token }
        /"won"/ { if (leads || token <= last) bad = 1; leads = 1; last = token }
        /"lost"/ { leads = 0 }
        END { exit bad }'
}
