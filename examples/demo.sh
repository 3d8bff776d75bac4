#!/bin/sh
# demo.sh - three candidates for one job on the embedded store: one is killed, one is stopped, one
# is asked to leave, and each time another takes over.
#
# Usage: examples/demo.sh [TENURE]. Ends by itself, in about ten seconds, with a summary; exit
# status 0 only if everything happened as told.
set -eu
tenure=${1:-build/tenure}
dir=$(mktemp -d)
TENURE_STORE=sqlite:$dir/tenure.db
export TENURE_STORE
changes=0

clean_up() {
    for pid in ${a:-} ${b:-} ${c:-}; do
        kill -CONT "$pid" 2>/dev/null || true
        kill -TERM "$pid" 2>/dev/null || true
    done
    wait 2>/dev/null || true
    rm -rf "$dir"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

say() { printf '[%6.2f] %s\n' "$(awk -v a="$(date +%s%N)" -v b="$began" \
    'BEGIN { print (a - b) / 1e9 }')" "$1"; }

# The command only tells that it runs; the work would be yours.
# shellcheck disable=SC2016 # The command's own shell expands these.
candidate() {
    "$tenure" run --ttl 3s --id "$1" report -- sh -c \
        'echo "$TENURE_ID $TENURE_TOKEN" >>"$1"; exec sleep 1000' sh "$dir/terms" 2>>"$dir/errors" &
}

field() { "$tenure" status report --json 2>/dev/null | sed "s/.*\"$1\":\"*\([^\",}]*\).*/\1/"; }

# next_leader OLD SECONDS WHAT: waits until somebody else leads, and tells who and how long it took.
next_leader() {
    from=$(date +%s%N)
    until leader=$(field holder) && [ "$leader" != null ] && [ "$leader" != "$1" ] &&
        grep -q "^$leader $(field token)\$" "$dir/terms" 2>/dev/null; do
        [ $((($(date +%s%N) - from) / 1000000000)) -lt "$2" ] || {
            say "nobody took over within $2 s"
            exit 1
        }
        sleep 0.01
    done
    say "$leader leads with token $(field token), $((($(date +%s%N) - from) / 1000000)) ms after $3"
    changes=$((changes + 1))
}

pid_of() { case $1 in a) echo "$a" ;; b) echo "$b" ;; *) echo "$c" ;; esac; }

began=$(date +%s%N)
say "three candidates for 'report', TTL 3 s, no server"
candidate a
a=$!
candidate b
b=$!
candidate c
c=$!
next_leader nobody 5 "the start"

killed=$leader
say "$killed is killed: SIGKILL; its command must be gone before anyone else leads"
kill -KILL "$(pid_of "$killed")"
next_leader "$killed" 10 "the kill (the TTL has to run out)"

stopped=$leader
say "$stopped is stopped: SIGSTOP; its guardian ends the command in time"
kill -STOP "$(pid_of "$stopped")"
next_leader "$stopped" 10 "the stop"
kill -CONT "$(pid_of "$stopped")"
say "$stopped wakes up, finds that its term is over, and waits in line again"

asked=$leader
say "$asked is asked to leave: SIGTERM; it stops its command and gives the lease back"
kill -TERM "$(pid_of "$asked")"
next_leader "$asked" 5 "the request"

echo
echo "Terms, in order (who, token):"
sed 's/^/  /' "$dir/terms"
sort -k 2 -n -c "$dir/terms" && [ "$(cut -d ' ' -f 2 "$dir/terms" | sort -u | wc -l)" -eq 4 ] || {
    echo "The tokens did not rise strictly."
    exit 1
}
echo "$changes terms; the tokens rose strictly."
