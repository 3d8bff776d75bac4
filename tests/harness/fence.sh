# shellcheck shell=sh
# fence.sh - what holds for the fence of every receiver; sourced after lib.sh, with $tenure set.

# failed STATUS WORDS: that exit status, and one line with WORDS on stderr.
failed() {
    t_check "exit status is $1, not $t_status" [ "$t_status" -eq "$1" ]
    t_refute "stdout is empty" [ -s "$t_out" ]
    t_check "one line on stderr" [ "$(wc -l <"$t_err")" -eq 1 ]
    t_check "at most 500 characters" [ "$(wc -c <"$t_err")" -le 501 ]
    t_check "says why" grep -qF -e "$2" "$t_err"
}

# highest URL [RESOURCE]
highest() { "$tenure" fence show --json --at "$@" | sed -n 's/.*"token":\([0-9]*\).*/\1/p'; }

# The same for every receiver: $at is the URL, $resource a word or nothing.
check_contract() {
    t_case "$kind: 34 is admitted, then 33 is not"
    # shellcheck disable=SC2086 # $resource may be no word at all.
    {
        t_run "$tenure" fence show --at "$at" --json $resource
        t_ends 0
        t_prints '"token":0}'
        t_run "$tenure" fence admit --at "$at" $resource 34
        t_ends 0
        t_refute "admit prints nothing" [ -s "$t_out" ]
        t_run "$tenure" fence admit --at "$at" $resource 33
        failed 80 "token 33 is stale, the fence stands at 34"
        t_run "$tenure" fence admit --at "$at" $resource 34
        t_ends 0
        t_run "$tenure" fence raise --at "$at" $resource 36
        t_ends 0
        t_run "$tenure" fence raise --at "$at" $resource 35
        failed 80 "token 35 is stale, the fence stands at 36"
        t_run "$tenure" fence admit --at "$at" $resource 35 --json
        t_check "stale is 80" [ "$t_status" -eq 80 ]
        t_refute "the JSON object says it" [ -s "$t_err" ]
        t_prints '{"admitted":false,"resource":'
        t_prints ',"token":35,"highest":36}'
        t_run "$tenure" fence admit --at "$at" $resource 36 --json
        t_ends 0
        t_prints '{"admitted":true,"resource":'
        t_prints ',"token":36,"highest":36}'

        t_case "$kind: bad tokens are refused, and nothing is written"
        for bad in 0 -1 007 x 36x ' 36' 3.6e1 0x24 18446744073709551616 99999999999999999999 ''; do
            t_run "$tenure" fence admit --at "$at" $resource "$bad"
            failed 64 ""
            t_run "$tenure" fence raise --at "$at" $resource -- "$bad"
            failed 64 "is not a token"
        done
        t_run "$tenure" fence admit --at "$at" $resource
        failed 64 "the token is missing"
        t_run "$tenure" fence admit --at "$at" $resource 37 37
        failed 64 "'37' is one word too many"
        t_check "unchanged" [ "$(highest "$at" $resource)" = 36 ]

        t_case "$kind: large tokens are told apart"
        for token in 9007199254740992 9007199254740993 9223372036854775808 18446744073709551615; do
            t_run "$tenure" fence raise --at "$at" $resource "$token"
            t_ends 0
            t_check "exact" [ "$(highest "$at" $resource)" = "$token" ]
            t_run "$tenure" fence admit --at "$at" $resource "$token"
            t_ends 0
        done
        t_run "$tenure" fence admit --at "$at" $resource 18446744073709551614
        failed 80 "the fence stands at 18446744073709551615"
    }
}

# start_nginx FOLDER: with FOLDER/conf, where PORT stands for a free one; sets $port.
# The process is in FOLDER/pid.
start_nginx() {
    chmod 755 "$t_dir" "$1"
    mkdir -p "$1/logs"
    port=$(t_ports 1)
    sed "s|PORT|$port|" "$1/conf" >"$1/nginx.conf"
    t_run nginx -p "$1" -e "$1/error" -c "$1/nginx.conf" -g "pid $1/pid;"
    t_check "nginx starts: $(cat "$t_err")" [ "$t_status" -eq 0 ]
}
