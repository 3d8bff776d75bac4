#!/bin/sh
# sandbox.sh - `tenure sandbox`: what it serves, where it listens, how it ends.
# shellcheck source=tests/harness/lib.sh
. "${TENURE_ROOT:-$(dirname "$0")/../..}/tests/harness/lib.sh"

tenure=$TENURE_BUILD/tenure

if ! "$tenure" sandbox --listen x 2>&1 | grep -q 'HOST:PORT'; then
    t_case "without what the page needs, it says so"
    t_run "$tenure" sandbox
    t_check "exit status is 69, not $t_status" [ "$t_status" -eq 69 ]
    t_check "and why: $(cat "$t_err")" \
        grep -Eq 'no sandbox page: it (needs .*(clang|gzip)|is switched off)' "$t_err"
    t_done
fi

# ask PATH [METHOD]: the answer, headers and all, without a client program.
ask() {
    port=${url##*:}
    bash -c 'exec 3<>"/dev/tcp/127.0.0.1/$1" || exit 1
        printf "%s %s HTTP/1.0\r\n\r\n" "$3" "$2" >&3
        tr -d "\r" <&3' ask "${port%/}" "$1" "${2:-GET}" >"$t_dir/answer" 2>/dev/null
}
says() { grep -aq "$1" "$t_dir/answer"; }

t_case "the address is printed, and the page is there"
mkfifo "$t_dir/said"
"$tenure" sandbox >"$t_dir/said" 2>"$t_dir/err" &
pid=$!
read -r url <"$t_dir/said"
t_check "a loopback address, not $url" expr "$url" : 'http://127\.0\.0\.1:[0-9]*/$' >/dev/null
for file in / /main.js /style.css /sandbox.bin; do
    ask "$file"
    t_check "$file is served" says '^HTTP/1.[01] 200'
    t_check "$file is compressed" says '^Content-Encoding: gzip$'
    if [ "$file" = / ]; then
        t_check "it has a policy" says "^Content-Security-Policy: default-src 'none'; script-src"
    fi
done

t_case "anything else is refused"
ask /../../etc/passwd
t_check "404" says '^HTTP/1.[01] 404'
ask /sandbox.html.gz
t_check "404 for what lies beside it in the build" says '^HTTP/1.[01] 404'
ask / POST
t_check "405" says '^HTTP/1.[01] 405'
ask / HEAD
t_check "HEAD is answered" says '^HTTP/1.[01] 200'

t_case "a port that is taken: exit 69"
port=${url##*:}
t_run "$tenure" sandbox --listen "127.0.0.1:${port%/}"
t_check "exit status is 69, not $t_status" [ "$t_status" -eq 69 ]
t_check "one line" [ "$(wc -l <"$t_err")" -eq 1 ]

t_case "SIGTERM ends it with 0"
kill "$pid"
wait "$pid"
status=$?
t_check "exit status is 0, not $status" [ "$status" -eq 0 ]
t_refute "nothing on stderr" [ -s "$t_dir/err" ]

t_case "--open opens the address; without xdg-open it says so and goes on"
mkdir "$t_dir/bin"
printf '#!/bin/sh\necho "$1" >"%s"\n' "$t_dir/opened" >"$t_dir/bin/xdg-open"
chmod +x "$t_dir/bin/xdg-open"
PATH=$t_dir/bin:$PATH "$tenure" sandbox --open >"$t_dir/said" &
pid=$!
read -r url <"$t_dir/said"
left=500
until [ -s "$t_dir/opened" ] || [ $left -eq 0 ]; do
    left=$((left - 1))
    sleep 0.02
done
kill "$pid"
wait "$pid"
t_check "the browser got it" [ "$(cat "$t_dir/opened")" = "$url" ]
PATH=/nowhere "$tenure" sandbox --open >"$t_dir/said" 2>"$t_dir/err" &
pid=$!
read -r url <"$t_dir/said"
left=500
until [ -s "$t_dir/err" ] || [ $left -eq 0 ]; do
    left=$((left - 1))
    sleep 0.02
done
kill "$pid"
wait "$pid"
t_check "one line" grep -q "xdg-open: .*; open $url by hand" "$t_dir/err"

t_case "bad input is one clear line and exit 64"
t_bad "loopback" "$tenure" sandbox --listen 0.0.0.0:0
t_bad "loopback" "$tenure" sandbox --listen '[::]:0'
t_bad "port" "$tenure" sandbox --listen 127.0.0.1
t_bad "port" "$tenure" sandbox --listen 127.0.0.1:70000
t_bad "extra" "$tenure" sandbox extra
t_done
