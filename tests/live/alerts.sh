#!/bin/sh
# alerts.sh - the leader gap as a metric, and the alert rules and the board that use it: they are
# well-formed, and each metric that they name is one that a daemon tells.
# shellcheck source=tests/harness/lib.sh
. "${TENURE_ROOT:-$(dirname "$0")/../..}/tests/harness/lib.sh"
# shellcheck source=tests/live/tenured.lib
. "$TENURE_ROOT/tests/live/tenured.lib"
tenure=$TENURE_BUILD/tenure
http=$(t_ports 1)
rules=$TENURE_ROOT/examples/prometheus-alerts.yaml
board=$TENURE_ROOT/examples/grafana-leader-gap.json

metrics() { curl -s "http://127.0.0.1:$http/metrics" >"$t_dir/metrics"; }
value() { metrics && sed -n "s/^$1 //p" "$t_dir/metrics"; }
# exceeds METRIC NUMBER
exceeds() { python3 -c "import sys; sys.exit(not float('$(value "$1")' or 0) > $2)"; }

tenured_start --http "127.0.0.1:$http"

t_case "each metric of the rules and of the board is one that the daemon tells"
metrics
names=$(grep -oh 'tenured_[a-z_]*' "$rules" "$board" | sort -u)
t_check "there are some" [ "$(echo "$names" | wc -l)" -ge 4 ]
for name in $names; do
    t_check "$name" grep -q "^$name[ {]" "$t_dir/metrics"
done

t_case "the board is JSON, and the rules are YAML with an expression each"
t_check "JSON" python3 -c "import json; json.load(open('$board'))['panels'][3]"
cat >"$t_dir/rules.py" <<'END'
import sys
sys.path.insert(0, sys.argv[2])
import yaml_subset
for group in yaml_subset.load(sys.argv[1])["groups"]:
    for rule in group["rules"]:
        assert rule["alert"] and rule["expr"] and rule["labels"]["severity"], rule
END
t_check "YAML" python3 "$t_dir/rules.py" "$rules" "$TENURE_ROOT/tests/live"

t_case "a gap after a crash is told while it goes on, and stays the longest of the day"
t_check "none yet: $(value tenured_leader_gap_current_seconds)" \
    [ "$(value tenured_leader_gap_current_seconds)" = 0 ]
"$tenure" run -s "unix:$socket" --fence none --id done job -- true
t_check "a job that is done needs no leader" [ "$(value tenured_leader_gap_current_seconds)" = 0 ]
"$tenure" acquire -s "unix:$socket" --ttl 1s --id dies job >/dev/null
t_check "it goes on" until_true 20 exceeds tenured_leader_gap_current_seconds 1
"$tenure" acquire -s "unix:$socket" --ttl 60s --id next job >/dev/null
t_check "it is over" [ "$(value tenured_leader_gap_current_seconds)" = 0 ]
t_check "the longest" exceeds tenured_leader_gap_longest_seconds 1

t_case "an operator's note that ends is no gap"
"$tenure" acquire -s "unix:$socket" --ttl 60s --id asked noted >/dev/null
curl -s -H 'Content-Type: application/json' -d '{"name":"noted","for_ms":1000}' \
    "http://127.0.0.1:$http/v1/leases/handover" >"$t_dir/asked"
t_check "it was left: $(cat "$t_dir/asked")" grep -q '"token"' "$t_dir/asked"
ended() { "$tenure" status -s "unix:$socket" --json '~tenure/ask/noted' | grep -q '"free"'; }
t_check "it ends" until_true 20 ended
t_check "no gap: $(value tenured_leader_gap_current_seconds)" \
    [ "$(value tenured_leader_gap_current_seconds)" = 0 ]
t_done
