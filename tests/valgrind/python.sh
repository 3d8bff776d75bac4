#!/bin/sh
# python.sh - the Python package under valgrind: elections one after the other, a fence, and the
# library has no error and loses nothing. The interpreter's own findings do not count.
# shellcheck source=tests/harness/lib.sh
. "${TENURE_ROOT:-$(dirname "$0")/../..}/tests/harness/lib.sh"

package=$TENURE_ROOT/bindings/python
TENURE_LIBRARY=$TENURE_BUILD/libtenure.so
PYTHONPATH=$package
PYTHONDONTWRITEBYTECODE=1
PYTHONMALLOC=malloc # valgrind does not see into Python's own pools.
export TENURE_LIBRARY PYTHONPATH PYTHONDONTWRITEBYTECODE PYTHONMALLOC

# checked WORD...: Python runs these under valgrind.
checked() {
    rm -f "$t_dir/log"
    t_run timeout 500 valgrind --leak-check=full --show-leak-kinds=definite,indirect \
        --num-callers=30 --log-file="$t_dir/log" /usr/bin/python3 "$@"
}

# findings: the records of the log in which the library has a part.
findings() {
    sed 's/^==[0-9]*== \{0,1\}//' "$t_dir/log" | awk -v RS= '
        /libtenure\.so|: (tenure|tn)_[a-z0-9_]+ \(/ &&
            /Invalid|Conditional|Use of|Syscall|are (definitely|indirectly) lost/'
}

t_case "something is found when there is something to find"
if ! command -v valgrind >/dev/null; then
    t_skip "valgrind is not installed; tools/deps valgrind installs it"
    t_done
fi
cat >"$t_dir/wrong.py" <<'END'
import ctypes
import tenure._native

libc, library = ctypes.CDLL(None), ctypes.CDLL(tenure._native.load().path)
libc.malloc.restype = ctypes.c_void_p
# A fence behind the end of a block.
library.tenure_fence_highest(ctypes.c_void_p(libc.malloc(8) + 8))
END
checked "$t_dir/wrong.py"
t_check "exit status $t_status" [ "$t_status" -eq 0 ]
t_check "the read is found" sh -c "echo '$(findings | head -n 1)' | grep -q 'Invalid read'"

t_case "elections one after the other, with fences"
cat >"$t_dir/elections.py" <<'END'
import sqlite3
import sys
import tenure

folder = sys.argv[1]
fence, file = tenure.Fence.sqlite(f"{folder}/shop.db", "orders"), tenure.Fence.file(f"{folder}/x")
open(file.path, "w").close()
shop = sqlite3.connect(f"{folder}/shop.db")
shop.execute("CREATE TABLE work (token INTEGER)")
shop.commit()
with tenure.open(f"sqlite:{folder}/store.db", ttl=60) as t:
    for _ in range(20):
        with t.lead("report", fences=[fence, file], wait=120) as term:
            with fence.transaction(shop, term.token):
                shop.execute("INSERT INTO work VALUES (?)", (term.token,))
            file.append("line\n", term.token)
    try:
        file.append("late\n", 1)
    except tenure.Stale:
        print("refused")
END
checked "$t_dir/elections.py" "$t_dir"
t_check "exit status $t_status: $(tail -n 3 "$t_err")" [ "$t_status" -eq 0 ]
t_prints "refused"
t_check "$(findings | head -n 40)" [ -z "$(findings)" ]
t_done
