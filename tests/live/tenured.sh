#!/bin/sh
# tenured.sh - tenured as a store: conformance, processes that die, restarts, and 10,000 names.
# shellcheck source=tests/harness/lib.sh
. "${TENURE_ROOT:-$(dirname "$0")/../..}/tests/harness/lib.sh"
# shellcheck source=tests/live/tenured.lib
. "$TENURE_ROOT/tests/live/tenured.lib"

store=unix:$socket

# anew: a daemon that knows nothing.
anew() {
    tenured_end
    rm -rf "$data" "$data.witness"
    tenured_start
}

for at in "$store" "$(url "$port")"; do
    t_case "the conformance suite on ${at%%:*}:"
    anew
    TENURE_CONFORMANCE_URL=$at timeout 300 "$TENURE_BUILD/tests/conformance" >"$t_dir/conform" 2>&1
    t_check "passes: $(grep FAIL "$t_dir/conform" | head -n 3)" \
        has "$t_dir/conform" ' passed, 0 failed'
done
anew

t_case "a process that is killed on the Unix socket is followed at once, not after its TTL"
# Each in turn is killed, and the next one's line is waited for: who reads it sees it at once.
cat >"$t_dir/crash.py" <<'END'
import subprocess, sys, time

tenure, store = sys.argv[1:]

def elect(number):
    return subprocess.Popen([tenure, "elect", "--store", store, "--ttl", "60s",
                             "--id", "h%d" % number, "crash"], stdout=subprocess.PIPE, text=True)

def hear(process, word):
    for line in process.stdout:
        if word in line:
            return int(line.split('"token":')[1].split(",")[0])
    sys.exit("it has ended without " + word)

holder, gaps = elect(0), []
token = hear(holder, '"won"')
for number in range(1, 16):
    waiter = elect(number)
    hear(waiter, '"leader"')
    time.sleep(0.05)
    began = time.monotonic()
    holder.kill()
    later = hear(waiter, '"won"')
    gaps.append(1000 * (time.monotonic() - began))
    if later <= token:
        sys.exit("token %d after %d" % (later, token))
    holder.wait()
    holder, token = waiter, later
holder.terminate()
holder.wait()
gaps.sort()
print("kill -9 of a holder to its successor: median %.1f ms, worst %.1f ms of %d; TTL 60 s"
      % (gaps[len(gaps) // 2], gaps[-1], len(gaps)))
sys.exit(0 if gaps[-1] < 10000 else "as if it had waited for the TTL")
END
t_check "each far below the TTL" timeout 200 python3 "$t_dir/crash.py" "$tenure" "$store"

t_case "the supervisor alone is killed: nobody follows before the guardian has ended the command"
cat >"$t_dir/stubborn" <<'END'
#!/bin/sh
trap '' TERM
exec "$1/act" "$2"
END
chmod +x "$t_dir/stubborn"
# stubborn ID: a command that SIGTERM does not end; it acts until SIGKILL, after the grace.
stubborn() {
    setsid "$tenure" run --store "$store" --ttl 60s --grace 2s --id "$1" guarded -- \
        "$t_dir/stubborn" "$t_dir" "$t_dir/guarded.acts" >/dev/null 2>>"$t_dir/guarded.err" &
    stubborn=$!
    candidates="$candidates $!"
}
stubborn ada
ada=$stubborn
until_acted guarded 0
first=$token
stubborn bob
bob=$stubborn
t_check "bob waits" until_true 20 one_waits
killed_at=$(now_ms)
kill -KILL "$ada"
until_acted guarded "$first"
t_promise "one after the other" apart guarded
last=$(grep "^$first " "$t_dir/guarded.acts" | tail -n 1 | cut -d ' ' -f 2)
t_check "the command had its grace: $((last / 1000000 - killed_at)) ms" \
    [ $((last / 1000000 - killed_at)) -ge 1500 ]
t_check "and then nobody waited for the TTL: $(($(now_ms) - killed_at)) ms" \
    [ $(($(now_ms) - killed_at)) -lt 30000 ]

t_case "supervisor and guardian are killed together: the lease passes on at once"
campaign "$t_dir/cyd" --store "$store" --id cyd --ttl 60s guarded
t_check "waits" until_line "$t_dir/cyd" '"leader".*"holder":"bob"'
guardian=$(pgrep -P "$bob")
kill -KILL "$bob" "$guardian"
t_check "won" until_line "$t_dir/cyd" '"won"' 20
end "$campaign"

t_case "the guardian alone is killed: the supervisor ends the term itself"
stubborn dan
dan=$stubborn
until_acted guarded "$token"
kill -KILL "$(pgrep -P "$dan")"
until_acted guarded "$token"
t_promise "one after the other" apart guarded
end_all

t_case "a lease of acquire belongs to no process"
t_run "$tenure" acquire kept --store "$store" --ttl 60s
t_check "granted: $(cat "$t_err")" [ "$t_status" -eq 0 ]
t_run "$tenure" status --json kept --store "$store"
t_check "held: $(cat "$t_out")" has "$t_out" '"state":"held"'

t_case "a daemon that is killed and started again within the TTL: terms and places stay"
campaign "$t_dir/e" --store "$store" --id eve --ttl 20s again
eve=$campaign
t_check "won" until_line "$t_dir/e" '"won"'
campaign "$t_dir/f" --store "$store" --id fay --ttl 20s again
fay=$campaign
t_check "waits" until_line "$t_dir/f" '"leader".*"holder":"eve"'
tenured_end
tenured_again
t_check "the place is taken again" until_true 20 one_waits
began=$(now_ms)
end "$eve"
t_refute "never lost" has "$t_dir/e" '"lost".*"reason":"[^r]'
t_check "won" until_line "$t_dir/f" '"won"' 15
t_check "before its TTL: $(($(now_ms) - began)) ms" [ $(($(now_ms) - began)) -lt 10000 ]
end "$fay"

t_case "a grant that falls into the gap between two connections is found by the next"
proxy_start gap "$port"
campaign "$t_dir/i" --store "$store" --id ivy --ttl 30s gap
ivy=$campaign
t_check "won" until_line "$t_dir/i" '"won"'
campaign "$t_dir/j" --store "$(url "$proxy_port")" --id jon --ttl 30s gap
t_check "waits" until_line "$t_dir/j" '"leader".*"holder":"ivy"'
t_check "in line" until_true 20 one_waits
proxy_say gap refuse
end "$ivy"
is_granted() { "$tenure" status --json --store "$store" gap | grep -q '"holder":"jon"'; }
t_check "granted meanwhile" until_true 20 is_granted
t_refute "and not told" has "$t_dir/j" '"won"'
proxy_say gap pass
t_check "won" until_line "$t_dir/j" '"won"' 15
end "$campaign"

t_case "a holder is not kept alive by somebody who repeats the last good reply"
proxy_start echo "$port"
campaign "$t_dir/k" --store "$(url "$proxy_port")" --id kim --ttl 4s repeated
kim=$campaign
t_check "won" until_line "$t_dir/k" '"won"'
campaign "$t_dir/l" --store "$store" --id lou --ttl 4s repeated
lou=$campaign
t_check "waits" until_line "$t_dir/l" '"leader".*"holder":"kim"'
beats=$(counter renewals)
renewed_since() { [ "$(counter renewals)" -gt $((beats + 3)) ]; }
t_check "renews through it" until_true 30 renewed_since
proxy_say echo echo
t_check "the next one wins" until_line "$t_dir/l" '"won"' 30
t_check "and the last one had lost by then" has "$t_dir/k" '"lost".*"reason":"expired"'
end "$kim"
end "$lou"

t_case "an older copy of the data that is put back is refused"
tenured_end
tenured_start --witness none
cp -r "$data" "$t_dir/older"
campaign "$t_dir/g" --store "$store" --id gus --ttl 5s restored
t_check "won" until_line "$t_dir/g" '"won"'
tenured_end
rm -rf "$data"
mv "$t_dir/older" "$data"
tenured_again
t_check "lost" until_line "$t_dir/g" '"lost"' 30
says_older() { grep -q 'a client has seen token' "$t_dir/daemon.err"; }
t_check "the daemon is told, and says so" until_true 30 says_older
t_check "nobody leads" [ "$(grep -c '"won"' "$t_dir/g")" -eq 1 ]
end_all

t_case "10,000 names of a process cost one renewal; who waits for them costs nothing else"
for who in leads waits; do
    mkfifo "$t_dir/$who.in"
    "$fixtures/many" "$store" 10000 30000 <"$t_dir/$who.in" >"$t_dir/$who" \
        2>"$t_dir/$who.err" 8>&- &
    candidates="$candidates $!"
    if [ $who = leads ]; then
        exec 8>"$t_dir/$who.in"
    else
        exec 9>"$t_dir/$who.in"
    fi
    t_check "$who 10,000" until_line "$t_dir/$who" "^$who 10000" 120
done
settled() {
    before=$(counter total_commands_processed)
    sleep 1
    [ $(($(counter total_commands_processed) - before)) -le 8 ]
}
t_check "settles" until_true 60 settled
renewed=$(counter renewals) asked=$(counter total_commands_processed) began=$(now_ms)
until_ms $((began + 12000))
renewed=$(($(counter renewals) - renewed)) asked=$(($(counter total_commands_processed) - asked))
echo "2 processes, 10,000 names, TTL 30 s, 12 s: $renewed renewals, $asked commands in all"
# Two processes, a renewal every 10 s with jitter each; the rest is asking for the counters.
t_check "renews" [ $renewed -ge 1 ]
t_check "once per process and interval" [ $renewed -le 8 ]
t_check "nothing else" [ $((asked - renewed)) -le 12 ]
exec 8>&-
is_next() { "$tenure" status --json --store "$store" many/9999 | grep -q '"state":"held"'; }
t_check "the others follow" until_true 60 is_next
exec 9>&-

t_done
