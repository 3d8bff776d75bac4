# shellcheck shell=sh
# zookeeper.sh - ZooKeeper servers for the live tests; sourced, never run.
#
# zk_need                 skips all that follows, loudly, when a package is missing
# zk_make NAME PORT [LINE...]  a server's folder and configuration; LINEs are added to it
# zk_start NAME           starts it and waits until it serves; its process is $(zk_pid NAME)
# zk_kill NAME            SIGKILL
# zk_ensemble PORT...     three of them, m1 to m3, from nine ports; their URL is $three
# campaign ID URL [TTL]   a candidate for the name job; its lines are in $t_dir/ID
# until_won ID COUNT SECONDS; token_of ID  how often it won, and the last time with which token
# shellcheck source=tests/live/live.lib
. "$TENURE_ROOT/tests/live/live.lib"
zk_py=$TENURE_ROOT/tests/live/zookeeper.py
zk_tick=${zk_tick:-200}

zk_need() {
    for file in /usr/share/java/zookeeper.jar /usr/lib/python3/dist-packages/kazoo/client.py; do
        if [ ! -e "$file" ]; then
            t_case "a ZooKeeper server"
            t_skip "not installed: zookeeper python3-kazoo (tools/deps servers)"
            t_done
        fi
    done
    t_run "$TENURE_BUILD/tenure" elect --store zookeeper://127.0.0.1:1/x --wait 1s x
    if grep -q "not in this build" "$t_err"; then
        t_case "the ZooKeeper store"
        t_skip "not in this build: libzookeeper-st-dev"
        t_done
    fi
}

zk_make() {
    zk_name=$1 zk_port=$2
    shift 2
    mkdir -p "$t_dir/$zk_name/data"
    echo "$zk_port" >"$t_dir/$zk_name/port"
    {
        echo "tickTime=$zk_tick"
        echo "dataDir=$t_dir/$zk_name/data"
        echo "clientPort=$zk_port"
        echo "clientPortAddress=127.0.0.1"
        echo "maxSessionTimeout=60000"
        echo "4lw.commands.whitelist=ruok,mntr,srvr,cons"
        echo "admin.enableServer=false"
        for line in "$@"; do
            echo "$line"
        done
    } >"$t_dir/$zk_name/zoo.cfg"
}

zk_pid() { cat "$t_dir/$1/pid"; }

zk_launch() {
    setsid java -Xmx192m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 \
        -Dorg.slf4j.simpleLogger.defaultLogLevel=warn \
        -cp /usr/share/java/zookeeper.jar:/usr/share/java/slf4j-simple.jar \
        org.apache.zookeeper.server.quorum.QuorumPeerMain "$t_dir/$1/zoo.cfg" \
        >>"$t_dir/$1/log" 2>&1 &
    echo $! >"$t_dir/$1/pid"
}

# It serves: alone, or as a member of a quorum.
zk_serves() {
    "$zk_py" ask "$(cat "$t_dir/$1/port")" srvr 2>/dev/null | grep -q '^Mode:'
}

zk_wait() {
    if ! until_true 60 zk_serves "$1"; then
        echo "zookeeper $1 does not come up:"
        tail -n 20 "$t_dir/$1/log"
        return 1
    fi
}

zk_start() {
    zk_launch "$1"
    zk_wait "$1"
}

zk_kill() {
    kill -KILL "$(zk_pid "$1")" 2>/dev/null
    wait "$(zk_pid "$1")" 2>/dev/null
}

zk_stop_all() {
    for file in "$t_dir"/*/pid; do
        [ -e "$file" ] || continue
        kill -KILL "$(cat "$file")" 2>/dev/null
    done
}
in_finish zk_stop_all

# Whether NAME leads the ensemble.
zk_leads() { "$zk_py" ask "$(cat "$t_dir/$1/port")" srvr 2>/dev/null | grep -q '^Mode: leader'; }

# What faults.lib asks for.
zk_faults_of_one() {
    url() { echo "zookeeper://127.0.0.1:$1/faults"; }
    server_kill() { zk_kill one; }
    server_again() { zk_start one; }
    server_stop() { kill -STOP "$(zk_pid one)"; }
    server_go_on() { kill -CONT "$(zk_pid one)"; }
}

members='m1 m2 m3'
member_kill() { zk_kill "$1"; }
member_again() { zk_start "$1"; }
member_stop() { kill -STOP "$(zk_pid "$1")"; }
member_go_on() { kill -CONT "$(zk_pid "$1")"; }
leading_member() {
    for lm_name in $members; do
        if zk_leads "$lm_name"; then
            echo "$lm_name"
            return
        fi
    done
}

zk_ensemble() {
    en_lines= en_hosts= en_number=0
    for en_member in $members; do
        en_number=$((en_number + 1))
        en_hosts="$en_hosts,127.0.0.1:$1"
        en_lines="$en_lines server.$en_number=127.0.0.1:$2:$3"
        eval "client_$en_member=$1"
        shift 3
    done
    en_number=0
    for en_member in $members; do
        en_number=$((en_number + 1))
        # shellcheck disable=SC2086 # Words.
        eval "zk_make $en_member \$client_$en_member initLimit=50 syncLimit=10 \
            minSessionTimeout=6000 $en_lines"
        echo $en_number >"$t_dir/$en_member/data/myid"
        zk_launch $en_member
    done
    for en_member in $members; do
        zk_wait $en_member || t_fail "no ensemble"
    done
    three=zookeeper://${en_hosts#,}/faults
}

campaign() {
    : >"$t_dir/$1"
    "$TENURE_BUILD/tenure" elect --store "$2" --ttl "${3:-6s}" --id "$1" job \
        >"$t_dir/$1" 2>"$t_dir/$1.err" &
}
won() { grep -c '"event":"won"' "$t_dir/$1"; }
token_of() { sed -n 's/.*"event":"won".*"token":\([0-9]*\).*/\1/p' "$t_dir/$1" | tail -n 1; }
has_won() { [ "$(won "$1")" -ge "$2" ]; }
until_won() { until_true "$3" has_won "$1" "$2"; }
