#!/bin/sh
# zookeeper_foreign.sh - znodes of other programs below our names: they neither end a process nor
# stand in line, whatever they are called and whatever they hold.
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
url=zookeeper://127.0.0.1:$port/foreign

cat >"$t_dir/strangers.py" <<END
import sys
from kazoo.client import KazooClient
kazoo = KazooClient("127.0.0.1:$port")
kazoo.start(20)
name = "/foreign/" + sys.argv[1]
big = b"v" * 900000
children = ["x", "x" * 900, "latch-", "latch-1", "latch-123456789", "latch-" + "9" * 19,
            "latch-000000000x", "_c_" + "f" * 200 + "-latch-0000000001",
            "_c_0-lock-0000000000", "0123456789abcdef__lock__0000000000", "deep/er/and/deeper",
            "\\u00e9\\u4e2d", " ", "a b", "x-latch--000000001"]
for child in children:
    kazoo.create(name + "/" + child, b"\\xff\\xfe\\x00token=1", makepath=True)
kazoo.create(name + "/big", big)
kazoo.create(name + "/seq-", b"", sequence=True)
kazoo.set(name, {"bytes": b"\\xff\\x00", "big": big, "note": b"token=" + b"9" * 20}[sys.argv[1]])
kazoo.stop()
END

for data in bytes big note; do
    t_case "$data: a name with nothing but strangers below it is free, and is taken in turn"
    t_run timeout 60 /usr/bin/python3 "$t_dir/strangers.py" "$data"
    t_check "made: $(cat "$t_err")" [ "$t_status" -eq 0 ]
    "$tenure" watch --json --store "$url" "$data" >"$t_dir/watch" 2>"$t_dir/watch.err" &
    watcher=$!
    t_check "a watcher sees it vacant" until_line "$t_dir/watch" '"vacant"'
    "$tenure" elect --store "$url" --ttl 20s --id ada "$data" >"$t_dir/ada" 2>"$t_dir/ada.err" &
    ada=$!
    t_check "won: $(cat "$t_dir/ada.err")" until_line "$t_dir/ada" '"won"'
    "$tenure" elect --store "$url" --ttl 20s --id bob "$data" >"$t_dir/bob" 2>"$t_dir/bob.err" &
    bob=$!
    t_check "the other waits" until_line "$t_dir/bob" '"leader".*"holder":"ada"'
    end $ada
    t_check "the next has it" until_line "$t_dir/bob" '"won"'
    t_check "the watcher sees him" until_line "$t_dir/watch" '"leader".*"holder":"bob"'
    t_run "$tenure" list --store "$url" --json
    t_check "listed: $(cat "$t_err")" grep -q "\"name\":\"$data\"" "$t_out"
    t_refute "nothing below it" grep -q "\"name\":\"$data/" "$t_out"
    end $bob
    t_check "ends well" [ "$status" -eq 0 ]
    end $watcher
done

t_case "nodes that were made by hand with the number of ours are not taken for ours"
cat >"$t_dir/twin.py" <<END
from kazoo.client import KazooClient
kazoo = KazooClient("127.0.0.1:$port")
kazoo.start(20)
for twin in range(40): # The server lists children in any order. The next number here is 40.
    kazoo.create(f"/foreign/twin/{twin}-latch-0000000040", makepath=True)
kazoo.stop()
END
t_run timeout 60 /usr/bin/python3 "$t_dir/twin.py"
t_check "made: $(cat "$t_err")" [ "$t_status" -eq 0 ]
"$tenure" elect --store "$url" --ttl 20s --id ada twin >"$t_dir/ada" 2>"$t_dir/ada.err" &
ada=$!
t_check "won: $(cat "$t_dir/ada.err")" until_line "$t_dir/ada" '"won"'
end $ada
t_check "ends well" [ "$status" -eq 0 ]
cat >"$t_dir/left.py" <<END
from kazoo.client import KazooClient
kazoo = KazooClient("127.0.0.1:$port")
kazoo.start(20)
print(len(kazoo.get_children("/foreign/twin")))
kazoo.stop()
END
t_run timeout 60 /usr/bin/python3 "$t_dir/left.py"
t_check "only theirs are left: $(cat "$t_out")" [ "$(cat "$t_out")" -eq 40 ]
t_done
