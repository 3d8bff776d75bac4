#!/bin/sh
# words.sh - wrong input, a line each: exit 64, one line on stderr that names the remedy, nothing on
# stdout but what is for eval, and nothing made. Each line of the table: arguments|words.
# shellcheck source=tests/harness/lib.sh
. "${TENURE_ROOT:-$(dirname "$0")/../..}/tests/harness/lib.sh"

tenure=$TENURE_BUILD/tenure
mkdir "$t_dir/here"
cd "$t_dir/here" || exit 1
export TENURE_STORE=sqlite:none.db HOME="$t_dir/here" XDG_STATE_HOME="$t_dir/here"

cat >"$t_dir/table" <<'END'
nosuchverb|'nosuchverb' is not a verb; 'tenure --help' lists them
help nosuchverb|'nosuchverb' is not a verb; 'tenure --help' lists them
run|the name of the lease is missing, as in 'tenure run nightly-report'
run x true|put the command behind --, as in 'tenure run x -- ./report.sh'
run -- true|the name of the lease is missing before --, as in
run a//b -- true|'a//b' is not a name: a name has no empty segment: no '/' at its ends
run --ttl 5 x -- true|--ttl: '5' has no unit; write 5s, 500ms, 2m or 1h
run --ttl 0s x -- true|--ttl: '0s' is too short; give at least 1s
run --ttl 25h x -- true|--ttl: '25h' is too long; give at most 24h
run --ttl 10s --grace 9s x -- true|what works: a TTL of 26.6s, or a grace of 3.2s (P8:
run --grace 20s x -- true|what works: a TTL of 55.5s, or a grace of 4.8s (P8:
run --ttl 2m -s consul://h:1/p x -- true|back for 60s at most; what works: a TTL of 60s (P1:
elect --ttl 50s --hold-off 30s -s consul://h:1/p x|for 60s at most; what works: a TTL of
acquire --ttl 2m -s consul://h:1/p x|--ttl: consul: takes 60s or less
run --rho 0.6 x -- true|what works: a rho of 0.18 (P8:
run --rho 2 x -- true|--rho: '2' is not a rate; write a number from 0 up to
run --wait -1s x -- true|--wait: '-1s' is negative; write 5s, 500ms, 2m or 1h
run --http 80 x -- true|--http: '80' has no port from 1 to 65535; write HOST:PORT, as in
run --http host:99999 x -- true|--http: 'host:99999' has no port from 1 to 65535; write HOST:PORT
run --fence nosuch:x x -- true|is not a fence that this tenure knows; write sqlite:PATH, file:PATH
run --fence file: x -- true|--fence: file:: the path is missing
run --contain jail x -- true|--contain: 'jail' is none of auto, cgroup, pidns, tree
run --conflict-exit 75 x -- true|--conflict-exit is the exit status of --skip-if-held; give both
run --skip-if-held --wait 3s x -- true|leave --wait out, or --skip-if-held
run --hold 0s x -- true|--hold: '0s' is too short
run --every 25h x -- true|for a longer period let cron start it less often
run --every 1h -s memory: x -- true|use --skip-if-held with --hold, or another store
run --linger 0s x -- true|--linger: '0s' is too short; give more than zero
run --priority 0 x -- true|--priority: '0' is too small; give at least 1
run --priority 10 x -- true|--priority: '10' is too large; give at most 9
run --yield x -- true|--yield is to a higher priority; give this one a --priority, 1 to 9
run --priority 3 --slots 2 x -- true|--priority is for one leader, and --slots 2 has several
run --priority 3 -s s3://bucket/x x -- true|--priority: s3: keeps no line of those who wait
elect --priority 3 -s redlock://a,b,c x|--priority: redlock: keeps no line of those who wait
run --hold-off 5 x -- true|--hold-off: '5' has no unit; write 5s, 500ms, 2m or 1h
run --hold-off 24h x -- true|and stores take 24h at most; make one of them shorter
run -s nosuch:x x -- true|'nosuch:x' names no store; known are sqlite:, memory:
run -s tenured:// x -- true|an endpoint without a host; write tenured://HOST[:PORT]
run -s etcd:// x -- true|an endpoint without a host; write etcd://HOST[:PORT]
run --no-such-option x -- true|unknown option '--no-such-option'; 'tenure help run' lists
run --ttl|--ttl lacks its value; write --ttl 5s
elect|the name of the lease is missing, as in 'tenure elect nightly-report'
elect a//b|'a//b' is not a name:
elect --http 80 x|'80' has no port from 1 to 65535; write HOST:PORT
acquire|the name of the lease is missing, as in 'tenure acquire nightly-report'
acquire a b|a command goes behind --, as in 'tenure acquire a -- ./report.sh'
acquire --ttl 1ms x|--ttl: '1ms' is too short; give at least 1s
acquire x --|there is no command behind x --
acquire x --json -- true|leave one of them out
renew x|--token is missing; give acquire's
renew x --token 0|--token: '0' is too small; give at least 1
renew x --token 7|the secret is missing; put what acquire gave into TENURE_SECRET
renew x --token 7 --secret abc|the secret is malformed; give the 64 digits that acquire gave
release|the name of the lease is missing, as in 'tenure release nightly-report'
release x --token abc|--token: 'abc' is not a whole number; write digits only
revoke|the name of the lease is missing, as in 'tenure revoke nightly-report'
revoke a//b|'a//b' is not a name:
revoke x --token 0|--token: '0' is too small; give at least 1
status a//b|'a//b' is not a name:
status jobs*|'jobs*' is not a pattern: a star stands alone or for all that is below a name, as in
list jobs*|'jobs*' is not a pattern: a star stands alone
list --held --free|give one of them, or none for all names
list --free --holder a|--holder: a free name has no holder; leave --free out
list a//b|'a//b' is not a name:
list a b|'b' is one word too many; 'tenure help list' shows the usage
watch a b|'b' is one word too many; 'tenure help watch' shows the usage
watch --live|--live needs a terminal; without one use 'tenure watch'
watch --live --json|leave one of them out
watch jobs*|'jobs*' is not a pattern: a star stands alone
fence|an action is missing; write admit, raise, show, write, install or remove
fence frobnicate|'frobnicate' is not an action; write admit, raise, show
fence admit|--at is missing: where the fence is, as in --at sqlite:shop.db
fence admit --at file:/x 0|'0' is not a token: a whole number from 1 to
fence raise --at nosuch:x r 1|is not a fence that this tenure knows; write sqlite:PATH
gate|--fences is missing: the file in which the tokens are kept
gate --fences f.db --listen 80|--listen: '80' has no port up to 65535; write HOST:PORT, as in
gate --fences f.db --listen h:99999|'h:99999' has no port up to 65535; write HOST:PORT, as in
gate --fences f.db --upstream ftp://x|--upstream: write http://HOST[:PORT]
gate --fences f.db --by smell|--by: 'smell' is none of path, header
gate --fences f.db --resource a//b|--resource: a name has no empty segment
plan --ttl 5|--ttl: '5' has no unit; write 5s, 500ms, 2m or 1h
plan --nosuch|unknown option '--nosuch'; 'tenure help plan' lists the options
plan --processes 0|--processes: '0' is too small; give at least 1
doctor nosuch:x|'nosuch:x' names no store; known are sqlite:
sim --seeds 0|--seeds: '0' is too small; give at least 1
sim --scenario nosuch|'nosuch' does not exist; 'tenure sim --list' shows what does
sim --plant nosuch|'nosuch' does not exist; 'tenure sim --list' shows what does
bench --time 0s|--time: '0s' is too short; give at least 10ms
sandbox --listen 80|--listen: '80' has no port from 1 to 65535; write HOST:PORT
sandbox a|'a' is one word too many; 'tenure help sandbox' shows the usage
history|the name of the lease is missing, as in 'tenure history nightly-report'
history a//b|'a//b' is not a name:
history a b|'b' is one word too many; 'tenure help history' shows the usage
move|--from URL and --to URL are both needed
move --from sqlite:a.db x|--from URL and --to URL are both needed
move --from sqlite:a.db --to sqlite:b.db|which NAME? 'tenure list --store URL' shows them
move --from sqlite:a.db --to sqlite:b.db a//b|'a//b' is not a name:
move --from nosuch:x --to sqlite:b.db x|'nosuch:x' names no store; known are sqlite:
move --from sqlite:a.db --to sqlite:a.db x|--from and --to are the same store
move --from sqlite:a.db --to sqlite:b.db --wait 5 x|--wait: '5' has no unit; write 5s, 500ms
console a|'a' is one word too many; 'tenure help console' shows the usage
console --listen 80|--listen: '80' has no port from 1 to 65535; write HOST:PORT
console --listen h:99999|--listen: 'h:99999' has no port from 1 to 65535; write HOST:PORT
console --store nosuch:x|'nosuch:x' names no store; known are sqlite:
acquire --hold-off 5 x|--hold-off: '5' has no unit; write 5s, 500ms, 2m or 1h
acquire --hold-off 24h x|and stores take 24h at most; make one of them shorter
acquire --ttl 50s --hold-off 30s -s consul://h:1/p x|takes 60s or less for both together
elect --fence nosuch:x x|is not a fence that this tenure knows; write sqlite:PATH, file:PATH
elect --fence file: x|--fence: file:: the path is missing
elect --soft-limit 9s x|--soft-limit needs --fence
elect --soft-limit 9s --fence file:f --priority 2 x|do not go together; leave one of them out
elect --slots 2 --fence file:f x|--fence is for one leader, and --slots 2 has several
elect --slots 65 x|--slots: '65' is too large; give at most 64
elect x/~2|x/~2 is a slot of a semaphore; campaign for all of its slots, as in
run x/~2 -- true|x/~2 is a slot of a semaphore; campaign for all of its slots, as in
bench --clients 0|--clients: '0' is too small; give at least 2
bench --store nosuch:x|'nosuch:x' names no store; known are sqlite:
doctor a b|'b' is one word too many; 'tenure help doctor' shows the usage
doctor --plugin x|--plugin is for --conformance
doctor --rho 3|--rho: '3' is not a rate; write a number from 0 up to
END
# The daemon's own, which has no verbs.
cat >"$t_dir/daemon" <<'END'
--nosuch|there is no option '--nosuch'; see tenured --help
--listen|--listen needs a value; see tenured --help
--listen foo|'foo' is neither unix:/PATH nor tcp:HOST:PORT; see tenured --help
--listen unix:|'unix:' is neither unix:/PATH nor tcp:HOST:PORT; see tenured --help
--data|--data needs a value; see tenured --help
--max-leases 0|'0' is not a number from 1 to 2147483647; see tenured --help
--max-leases x|'x' is not a number from 1 to 2147483647; see tenured --help
--config /nonexistent|there is no file '/nonexistent'; see tenured --help
--log-format yaml|--log-format: 'yaml' is neither text nor json; see tenured --help
--socket-group nosuchgroup|there is no group 'nosuchgroup'; see tenured --help
--upstream nosuch:x|--upstream: 'nosuch:x' names no store; known are sqlite:
--upstream memory:|memory: is gone with its process; name a store that outlives the agent
--http 80|'80' has no address and port, as 127.0.0.1:7420 has; see tenured --help
--metrics-names a//b|--metrics-names: 'a//b' is not a pattern, as 'jobs/*' is; see tenured
extra|'extra' is no option, and nothing else is taken; see tenured --help
--check-config extra|'extra' is no option, and nothing else is taken; see tenured --help
--new-secret|--new-secret needs a value; see tenured --help
END

t_case "every line of the table"
lines=0
while IFS='|' read -r arguments words; do
    lines=$((lines + 1))
    # shellcheck disable=SC2086 # Words; a star finds no file here.
    t_run timeout 30 "$tenure" $arguments </dev/null
    t_check "$arguments: exit status is 64, not $t_status" [ "$t_status" -eq 64 ]
    t_check "$arguments: one line" [ "$(wc -l <"$t_err")" -eq 1 ]
    t_check "$arguments: at most 500 characters" [ "$(wc -c <"$t_err")" -le 501 ]
    t_check "$arguments: $(cat "$t_err")" grep -qF -e "$words" "$t_err"
    t_check "$arguments: by its verb" grep -q '^tenure[a-z ]*: ' "$t_err"
    case $arguments in
    acquire*) ;; # Its output is for eval, and fails there.
    *) t_refute "$arguments: stdout is empty" [ -s "$t_out" ] ;;
    esac
done <"$t_dir/table"
t_check "60 and more: $lines" [ $lines -ge 60 ]
t_case "every verb is among them"
for verb in $("$tenure" help | sed -n '/^Verbs:/,/^$/s/^  \([a-z][a-z-]*\)  *.*/\1/p'); do
    case $verb in # operators.sh has a table of its own.
    handover | stand-down | resume | drain | undrain) continue ;;
    esac
    t_check "$verb" grep -q "^$verb[ |]" "$t_dir/table"
done

t_case "every line of the daemon's table"
while IFS='|' read -r arguments words; do
    # shellcheck disable=SC2086 # Words.
    t_run timeout 30 "$TENURE_BUILD/tenured" $arguments </dev/null
    t_check "$arguments: exit status is 64, not $t_status" [ "$t_status" -eq 64 ]
    t_check "$arguments: one line" [ "$(wc -l <"$t_err")" -eq 1 ]
    t_check "$arguments: $(cat "$t_err")" grep -qF -e "$words" "$t_err"
    t_refute "$arguments: stdout is empty" [ -s "$t_out" ]
done <"$t_dir/daemon"

t_case "nothing was made"
t_refute "a file: $(ls -A)" [ -n "$(ls -A)" ]

t_case "a TTL, a grace and a rho that the line names do work"
for numbers in "--ttl 26.6s --grace 9s" "--ttl 10s --grace 3.2s" "--grace 4.8s" "--rho 0.18"; do
    # shellcheck disable=SC2086 # Words.
    t_run "$tenure" run $numbers x -- true
    t_check "$numbers: $(cat "$t_err")" [ "$t_status" -eq 0 ]
done
t_done
