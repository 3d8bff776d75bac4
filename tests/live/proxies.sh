#!/bin/sh
# proxies.sh - load balancers send requests to the leader: HAProxy by its /leader page, nginx
# because nobody else listens. Both with the files that examples/ has, through hand-overs and a
# kill.
# TENURE_HANDOVERS: how many (6).
# shellcheck source=tests/harness/lib.sh
. "${TENURE_ROOT:-$(dirname "$0")/../..}/tests/harness/lib.sh"
# shellcheck source=tests/live/live.lib
. "$TENURE_ROOT/tests/live/live.lib"

handovers=${TENURE_HANDOVERS:-6}
TENURE_STORE=sqlite:$t_dir/store.db
export TENURE_STORE

# The leader's work: every request is answered with the token.
cat >"$t_dir/serve.py" <<'END'
import http.server, os, sys
class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = (os.environ["TENURE_TOKEN"] + "\n").encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *args):
        pass
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Page).serve_forever()
END

# fill PORT FILE: the ports of the examples become those of this test.
eval "$(t_ports 5 | awk '{ print "p" NR "=" $1 }')"
fill() {
    sed -e "s/127.0.0.1:8080/127.0.0.1:$1/; s/:8081/:$p2/; s/:8082/:$p3/" \
        -e "s/port 7431/port $p4/; s/port 7432/port $p5/" "$2"
}

# start SIDE: its candidate; the pid is $side_SIDE.
start() {
    if [ "$1" = 1 ]; then port=$p2 page=$p4; else port=$p3 page=$p5; fi
    "$tenure" run --ttl 3s --id "side$1" --http "127.0.0.1:$page" web -- \
        python3 "$t_dir/serve.py" "$port" 2>>"$t_dir/side$1.err" &
    eval "side_$1=$!"
    candidates="$candidates $!"
}

# ask PORT: the token that answers, or nothing.
ask() { curl -sf --max-time 2 "http://127.0.0.1:$1/"; }
newer() { [ "$(ask "$1" || echo 0)" -gt "$2" ]; }
until_newer() { until_true 20 newer "$1" "$2"; }

# watch_tokens PORT FILE: all that is answered there, until it is killed.
watch_tokens() {
    while :; do
        ask "$1" || echo refused
    done >"$2"
}
# Tokens never go back: an answer of an old leader behind the first of a new one would be one.
rises() {
    awk '/^[0-9]/ { if ($1 < last) bad = 1; last = $1; n++ } END { exit bad || n == 0 }' "$1"
}

# through PORT: hand-overs, each side in turn, and in the end a kill.
through() {
    start 1
    t_check "the first is reached" until_newer "$1" 0
    start 2
    watch_tokens "$1" "$t_dir/tokens$1" &
    watcher=$!
    candidates="$candidates $watcher"
    for n in $(seq "$handovers"); do
        side=$((2 - n % 2))
        token=$(ask "$1" || echo 0)
        if [ "$n" -eq "$handovers" ]; then
            eval "kill -KILL \$side_$side"
        else
            eval "kill -TERM \$side_$side"
        fi
        eval "wait \$side_$side" 2>/dev/null
        t_check "hand-over $n: the other is reached" until_newer "$1" "$token"
        start $side
    done
    kill "$watcher"
    wait "$watcher" 2>/dev/null
    t_promise "never an old leader behind a new one" rises "$t_dir/tokens$1"
    echo "# $(grep -c '^[0-9]' "$t_dir/tokens$1") answers, $(grep -c refused "$t_dir/tokens$1")" \
        "refused, $handovers hand-overs"
    end_all
}

t_case "HAProxy follows the leader"
if ! command -v haproxy >/dev/null; then
    t_skip "HAProxy is not installed; tools/deps servers installs it"
else
    fill "$p1" "$TENURE_ROOT/examples/haproxy.cfg" >"$t_dir/haproxy.cfg"
    haproxy -f "$t_dir/haproxy.cfg" >"$t_dir/haproxy.log" 2>&1 &
    haproxy=$!
    candidates="$candidates $haproxy"
    through "$p1"
fi

t_case "nginx reaches who listens"
if ! command -v nginx >/dev/null; then
    t_skip "nginx is not installed; tools/deps servers installs it"
else
    mkdir "$t_dir/nginx"
    at=$(t_ports 1)
    fill "$at" "$TENURE_ROOT/examples/nginx-leader.conf" |
        sed "s|^pid .*|pid $t_dir/nginx/pid; daemon off;|" >"$t_dir/nginx/nginx.conf"
    nginx -p "$t_dir/nginx" -e "$t_dir/nginx/error" -c "$t_dir/nginx/nginx.conf" &
    candidates="$candidates $!"
    through "$at"
fi
t_done
