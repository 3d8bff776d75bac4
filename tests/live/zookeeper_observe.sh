#!/bin/sh
# zookeeper_observe.sh - what Patroni and Vitess keep in ZooKeeper is not taken for ours, and is not
# touched by looking at it.
# shellcheck source=tests/harness/lib.sh
. "${TENURE_ROOT:-$(dirname "$0")/../..}/tests/harness/lib.sh"
# shellcheck source=tests/harness/zookeeper.sh
. "$TENURE_ROOT/tests/harness/zookeeper.sh"

zk_need
port=$(t_ports 1)
zk_make one "$port"
if ! zk_start one; then
    t_case "a server"
    t_fail "it does not start"
    t_done
fi
cat >"$t_dir/theirs.py" <<END
import sys
from kazoo.client import KazooClient
kazoo = KazooClient("127.0.0.1:$port", timeout=60)
kazoo.start(20)
for key in "initialize", "config", "history", "status":
    kazoo.create("/service/demo/" + key, b"{}", makepath=True)
kazoo.create("/service/demo/members/pg-1", b"{}", ephemeral=True, makepath=True)
kazoo.create("/service/demo/leader", b"pg-1", ephemeral=True)
kazoo.create("/vitess/global/cells/zone1/CellInfo", b"x", makepath=True)
kazoo.create("/vitess/global/elections/vtorc/", b"tablet-1", ephemeral=True, sequence=True,
             makepath=True)
def show(path):
    data, stat = kazoo.get(path)
    yield f"{path} {data} {stat.czxid} {stat.mzxid}"
    for child in sorted(kazoo.get_children(path)):
        yield from show(path + "/" + child)
print("ready", flush=True)
for line in sys.stdin:
    with open(line.strip(), "w") as out:
        for top in "/service", "/vitess":
            out.write("\\n".join(show(top)) + "\\n")
    print("shown", line.strip(), flush=True)
END
mkfifo "$t_dir/theirs.in"
/usr/bin/python3 "$t_dir/theirs.py" <>"$t_dir/theirs.in" >"$t_dir/theirs" 2>&1 &
candidates="$candidates $!"
until_line "$t_dir/theirs" ready || t_fail "no keys: $(cat "$t_dir/theirs")"
show() {
    echo "$t_dir/$1" >"$t_dir/theirs.in"
    until_line "$t_dir/theirs" "shown $t_dir/$1" || t_fail "not shown: $(cat "$t_dir/theirs")"
}
show before

for name in service,demo/leader vitess/global,elections/vtorc; do
    url=zookeeper://127.0.0.1:$port/${name%,*} name=${name#*,}
    t_case "$name: not taken for a lease"
    t_run timeout 60 "$tenure" status --store "$url" --json "$name"
    t_check "status: $(cat "$t_out" "$t_err")" grep -q '"state":"free"' "$t_out"
    t_run timeout 60 "$tenure" list --store "$url" --json
    t_check "list: nothing: $(cat "$t_out" "$t_err")" [ "$(grep -c '"name"' "$t_out")" -eq 0 ]
done

t_case "Patroni's: nobody can campaign beside its leader"
t_run timeout 60 "$tenure" run --store "zookeeper://127.0.0.1:$port/service" --ttl 5s --wait 5s \
    demo/leader -- true
t_check "77, not $t_status" [ "$t_status" -eq 77 ]
t_check "says why: $(cat "$t_err")" grep -q "demo/leader is led by another program" "$t_err"

t_case "all is as it was"
show after
t_check "the same: $(diff "$t_dir/before" "$t_dir/after")" cmp "$t_dir/before" "$t_dir/after"
t_done
