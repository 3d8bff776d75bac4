#!/bin/sh
# proxies.sh - load balancers send requests to the leader: HAProxy by its /leader page, nginx
# because nobody else listens. Both with the files that examples/ has, while the leader is asked to
# go, ends, is killed, and is stopped in the middle of a write. Writes go through a fence.
# TENURE_HANDOVERS: how many changes (8).
# shellcheck source=tests/harness/lib.sh
. "${TENURE_ROOT:-$(dirname "$0")/../..}/tests/harness/lib.sh"
# shellcheck source=tests/live/live.lib
. "$TENURE_ROOT/tests/live/live.lib"

handovers=${TENURE_HANDOVERS:-8}
TENURE_STORE=sqlite:$t_dir/store.db
export TENURE_STORE

# The leader's work: GET is answered with the token, POST appends "TOKEN BODY" to the file through
# its fence. The body "held" waits between being taken and being written until $2/go is there.
cat >"$t_dir/serve.py" <<'END'
import http.server, os, subprocess, sys, time
token, folder = os.environ["TENURE_TOKEN"], sys.argv[2]
write = [os.environ["TENURE"], "fence", "write", "--at", "file:" + folder + "/writes", "--append",
         token]
class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.reply(200)
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        if body == "held":
            open(folder + "/taken", "w").close()
            while not os.path.exists(folder + "/go"):
                time.sleep(0.01)
        line = token + " " + body + "\n"
        status = subprocess.run(write, input=line.encode(), stderr=subprocess.DEVNULL).returncode
        if status == 80:
            with open(folder + "/refused", "a") as refused:
                refused.write(line)
        self.reply({0: 200, 80: 412}.get(status, 500))
    def reply(self, status):
        body = (token + "\n").encode()
        self.send_response(status)
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
    "$tenure" run --ttl 3s --id "side$1" --http "127.0.0.1:$page" --fence "file:$folder/writes" \
        web -- env TENURE="$tenure" python3 "$t_dir/serve.py" "$port" "$folder" \
        2>>"$t_dir/side$1.err" &
    eval "side_$1=$!"
    candidates="$candidates $!"
}
pid_of() { eval "echo \$side_$1"; }
child_of() { cut -d ' ' -f 1 "/proc/$1/task/$1/children"; }

# ask PORT: the token that answers, or nothing.
ask() { curl -sf --max-time 2 "http://127.0.0.1:$1/"; }
newer() { [ "$(ask "$1" || echo 0)" -gt "$2" ]; }
until_newer() { until_true 20 newer "$1" "$2"; }
holder() { "$tenure" status --json web | sed -n 's/.*"holder":"side\([12]\)".*/\1/p'; }
stands_above() {
    [ "$("$tenure" fence show --at "file:$folder/writes" --json |
        sed 's/.*"token":\([0-9]*\).*/\1/')" -gt "$1" ]
}

# write_on PORT: writes number after number until it is killed: "STATUS TOKEN NUMBER".
write_on() {
    wo_number=0
    while :; do
        wo_number=$((wo_number + 1))
        echo "$(curl -s --max-time 2 -o "$folder/reply" -w '%{http_code}' -d "$wo_number" \
            "http://127.0.0.1:$1/") $(tr -d '\n' <"$folder/reply" | grep '^[0-9]*$') $wo_number"
        : >"$folder/reply"
    done >"$folder/answers"
}
# The effect: tokens in the file never fall, and no number is there twice.
rises() {
    awk '$1 < last || $2 in seen { print "# line " NR ": " $0; bad = 1 }
        { last = $1; if ($2 != "held") seen[$2]; n++ } END { exit bad || n == 0 }' "$1"
}
# What was answered with 200 is written under that token, and nothing that was refused is.
kept_its_word() {
    awk 'FILENAME == ARGV[1] { written[$0]; next }
        FILENAME == ARGV[2] { if ($0 in written) bad = 1; next }
        $1 == 200 && !(($2 " " $3) in written) { print "# lost: " $0; bad = 1 }
        END { exit bad }' "$1/writes" "$1/refused" "$1/answers"
}

# stop SIDE PORT TOKEN: the leader and all that could stop it stand still in the middle of a write;
# another one leads; then the work goes on first.
stop() {
    st_run=$(pid_of "$1")
    st_guard=$(child_of "$st_run")
    st_work=$(child_of "$st_guard")
    rm -f "$folder/taken" "$folder/go"
    curl -s --max-time 2 -d held "http://127.0.0.1:$2/" >/dev/null &
    st_curl=$!
    t_check "the held write is taken" until_true 20 [ -e "$folder/taken" ]
    kill -STOP "$st_guard" "$st_run" "$st_work"
    t_check "the fence is raised by another" until_true 20 stands_above "$3"
    refused=$(wc -l <"$folder/refused")
    : >"$folder/go"
    kill -CONT "$st_work"
    t_check "the late write is refused" until_true 20 more_refused "$refused"
    kill -CONT "$st_guard" "$st_run"
    kill -TERM "$st_run"
    wait "$st_run" "$st_curl" 2>/dev/null
}
more_refused() {
    [ "$(wc -l <"$folder/refused")" -gt "$1" ] && grep -q "^$token held" "$folder/refused"
}

# change HOW SIDE PORT TOKEN: the side that leads does so no more.
change() {
    case $1 in
    handover) "$tenure" handover web --wait 20s >/dev/null 2>"$t_dir/handover.err" ;;
    stop) stop "$2" "$3" "$4" ;;
    *)
        kill -"$1" "$(pid_of "$2")"
        wait "$(pid_of "$2")" 2>/dev/null
        ;;
    esac
}

# through NAME PORT: changes of the leader, of each kind in turn.
through() {
    folder=$t_dir/$1
    mkdir "$folder"
    : >"$folder/reply"
    : >"$folder/refused"
    t_run "$tenure" fence install --at "file:$folder/writes"
    start 1
    t_check "the first is reached" until_newer "$2" 0
    start 2
    write_on "$2" &
    writer=$!
    candidates="$candidates $writer"
    for n in $(seq "$handovers"); do
        t_check "change $n: somebody leads" until_true 20 has_holder
        side=$(holder)
        how=$(echo "TERM stop handover KILL" | cut -d ' ' -f $((n % 4 + 1)))
        token=$(ask "$2" || echo 0)
        change "$how" "$side" "$2" "$token"
        t_check "change $n, $how: the other is reached" until_newer "$2" "$token"
        # Not behind the last one: the end could come before its exec, and be lost in the shell.
        [ "$how" = handover ] || [ "$n" -eq "$handovers" ] || start "$side"
    done
    kill "$writer"
    wait "$writer" 2>/dev/null
    end_all
    t_promise "no stale write: $(rises "$folder/writes")" rises "$folder/writes"
    t_promise "each answer is true: $(kept_its_word "$folder")" kept_its_word "$folder"
    t_check "every stop had a write that the fence refused" \
        [ "$(grep -c ' held$' "$folder/refused")" -ge $((handovers / 4)) ]
    echo "# $1: $handovers changes, $(wc -l <"$folder/writes") writes," \
        "$(wc -l <"$folder/refused") refused by the fence," \
        "$(grep -vc '^[24]' "$folder/answers") answers were another error"
}
has_holder() { [ -n "$(holder)" ]; }

t_case "HAProxy follows the leader"
if ! command -v haproxy >/dev/null; then
    t_skip "HAProxy is not installed; tools/deps servers installs it"
else
    fill "$p1" "$TENURE_ROOT/examples/haproxy.cfg" >"$t_dir/haproxy.cfg"
    haproxy -f "$t_dir/haproxy.cfg" >"$t_dir/haproxy.log" 2>&1 &
    haproxy=$!
    candidates="$candidates $haproxy"
    through haproxy "$p1"
fi

t_case "nginx reaches who listens"
if ! command -v nginx >/dev/null; then
    t_skip "nginx is not installed; tools/deps servers installs it"
else
    mkdir "$t_dir/nginx.d"
    at=$(t_ports 1)
    fill "$at" "$TENURE_ROOT/examples/nginx-leader.conf" |
        sed "s|^pid .*|pid $t_dir/nginx.d/pid; daemon off;|" >"$t_dir/nginx.d/nginx.conf"
    nginx -p "$t_dir/nginx.d" -e "$t_dir/nginx.d/error" -c "$t_dir/nginx.d/nginx.conf" &
    candidates="$candidates $!"
    through nginx "$at"
fi
t_done
