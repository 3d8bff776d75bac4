#!/bin/sh
# compare.sh - make compare still runs, on our own client, and its oracle sees two leaders.
. "$(dirname "$0")/../harness/lib.sh"

if ! command -v redis-server >/dev/null 2>&1; then
    t_case "make compare"
    t_skip "no redis-server: tools/deps servers"
    t_done
fi

t_case "a moment of everything, on Redis, without the other client"
COMPARE_TTL=2 COMPARE_CALM_TTL=6 COMPARE_ROUNDS=1 COMPARE_WINDOW=3 COMPARE_OUT="$t_dir/out" \
    XDG_CACHE_HOME="$t_dir" \
    timeout 400 "$TENURE_ROOT/bench/compare/run" -b "$TENURE_BUILD" --alone redis \
    >"$t_out" 2>"$t_err" || t_status=$?
t_check "exit status is 0: $(tail -n 3 "$t_err")" [ "$t_status" -eq 0 ]
t_check "a row: $(cat "$t_out")" \
    grep -Eq '^\| Redis [0-9.]+ \| tenure \| [0-9]+ \([0-9]+\) \|' "$t_out"
for trial in stop replies cut; do
    t_check "$trial was tried" grep -q "tenure: $trial \[{'acts'" "$t_err"
    t_promise "$trial: what the fence let in of a past leader: $(grep "$trial" "$t_err")" \
        grep -q "tenure: $trial .*'fenced': 0" "$t_err"
done
t_check "somebody took over from the one that was stopped" \
    grep -q "tenure: stop .*'changed': True" "$t_err"
t_check "the picture is XML" python3 -c \
    'import sys, xml.dom.minidom as x; x.parse(sys.argv[1])' "$t_dir/out/compare.svg"

t_case "the oracle counts the acts of a past leader, and what the fence lets through"
cat >"$t_dir/oracle.py" <<'END'
import importlib.machinery, importlib.util, sys
loader = importlib.machinery.SourceFileLoader("compare", sys.argv[1])
sys.dont_write_bytecode = True
compare = importlib.util.module_from_spec(importlib.util.spec_from_loader("compare", loader))
loader.exec_module(compare)
def act(who, token, at, admitted): return ("act", who, token, float(at), admitted)
apart = [act("old", 1, 0, True), act("old", 1, 5, True), act("new", 2, 9000, True),
         act("new", 2, 9005, True), act("new", 2, 9010, True)]
print(compare.overlaps(apart, "old", "new"))
print(compare.overlaps(apart + [act("old", 1, 9002, False), act("old", 1, 9007, True)],
                       "old", "new"))
print(compare.overlap_text([compare.overlaps(apart + [act("old", 1, 9002, False)], "old", "new")]))
print(compare.overlap_text([compare.overlaps(apart[:2], "old", "new")]))
END
t_run python3 "$t_dir/oracle.py" "$TENURE_ROOT/bench/compare/run"
t_check "ran: $(cat "$t_err")" [ "$t_status" -eq 0 ]
t_prints "{'acts': 0, 'ms': 0.0, 'fenced': 0, 'token': True, 'changed': True}"
t_prints "{'acts': 2, 'ms': 5.0, 'fenced': 1, 'token': True, 'changed': True}"
t_prints "**1**, up to 0 ms; 0 with the fence"
t_prints "nobody took over in 4 TTLs"

t_case "an engine that it does not know"
t_run "$TENURE_ROOT/bench/compare/run" -b "$TENURE_BUILD" nothing
t_check "says so: $(cat "$t_err")" grep -q "no such engine: nothing; known are etcd" "$t_err"
t_done
