#!/bin/bash
# operator_examples.sh - every example in the help of the operators' verbs and of acquire does what
# it says, also while another process holds the lease. An example without a row here fails.
# shellcheck source=tests/harness/lib.sh
. "${TENURE_ROOT:-$(dirname "$0")/../..}/tests/harness/lib.sh"
# shellcheck source=tests/live/live.lib
. "$TENURE_ROOT/tests/live/live.lib"

# EXAMPLE | status and words while free | the same while web1 leads and web2 waits. What the shell
# puts in place: web1 is this host, as for its processes; 30s is 1s, to see the end of the wait.
cat >"$t_dir/rows" <<'END'
tenure acquire nightly-report --ttl 10m -- ./report.sh|0 report|75 held
tenure acquire nightly-report --wait 30s --json|0 "granted":true|75 "granted":false
tenure handover nightly-report|80 nobody holds it|0 handed over from web1-4711
tenure handover nightly-report --to web2-712|80 nobody holds it|0 to web2-712
tenure handover nightly-report --wait 2m|80 nobody holds it|0 handed over from web1-4711
tenure stand-down nightly-report|0 stands down for 24h|0 stands down for 24h
tenure stand-down nightly-report --for 2h|0 stands down for 2h|0 stands down for 2h
tenure resume nightly-report|0 did not stand down|0 did not stand down
tenure drain --host web1|0 drained for 24h; 0 given back|0 drained for 24h; 1 given back
tenure drain --id web1-4711 --for 1h|0 drained for 1h; 0|0 drained for 1h; 1
tenure undrain --host web1|0 was not drained|0 was not drained
END

here=$(uname -n)
mkdir "$t_dir/bin"
ln -s "$tenure" "$t_dir/bin/tenure"
printf '#!/bin/sh\necho report\n' >"$t_dir/bin/report.sh"
chmod +x "$t_dir/bin/report.sh"
cd "$t_dir/bin" || exit 1
PATH=$t_dir/bin:$PATH

examples() {
    for verb in acquire handover stand-down resume drain undrain; do
        tenure $verb --help | sed -n '/^Examples:/,/^$/s/^  \(tenure .*\)/\1/p' | sed 's/   *.*//'
    done
}
put() { sed "s/web1/$here/g; s/30s/1s/" <<<"$1"; }
says() { tenure status --json nightly-report | grep -q "$1"; }
hold() {
    for id in "$here-4711" web2-712; do
        tenure run --ttl 5s --id "$id" nightly-report -- sleep 600 2>>"$t_dir/err" &
        candidates="$candidates $!"
        [ "$id" = web2-712 ] ||
            t_check "web1 leads" until_true 20 says "\"holder\":\"$here-4711\""
    done
    t_check "web2 waits" until_true 20 says '"waiting":1'
}

# try STATE EXAMPLE "STATUS WORDS"
number=0
try() {
    number=$((number + 1))
    export TENURE_STORE="sqlite:$t_dir/$number.db"
    tenure run --ttl 2s nightly-report -- true 2>>"$t_dir/err"
    [ "$1" = free ] || hold
    t_run sh -c "$(put "$2")"
    t_check "$1: $2: $t_status: $(cat "$t_out" "$t_err")" [ "$t_status" -eq "${3%% *}" ]
    t_check "$1: $2: ${3#* }: $(cat "$t_out" "$t_err")" \
        grep -qF -e "$(put "${3#* }")" "$t_out" "$t_err"
    end_all
}

while read -r example; do
    t_case "$example"
    row=$(grep -F -e "$example|" "$t_dir/rows")
    t_check "it has one row" [ "$(grep -c . <<<"$row")" -eq 1 ]
    [ -n "$row" ] || continue
    IFS='|' read -r _ free held <<<"$row"
    try free "$example" "$free"
    try held "$example" "$held"
done < <(examples)
t_case "each row is an example"
t_check "as many rows as examples" [ "$(examples | wc -l)" -eq "$(wc -l <"$t_dir/rows")" ]
t_done
