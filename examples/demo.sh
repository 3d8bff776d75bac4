#!/bin/sh
# demo.sh - three candidates for one job on the embedded store, writing through a fence: the leader
# is killed, the next one frozen until it is too late, the last one asked to leave.
#
# usage: examples/demo.sh [TENURE]
#
# Ends by itself in about ten seconds, with a summary; exit status 0 only if all of it happened.
set -eu
tenure=$(realpath "${1:-build/tenure}")
dir=$(mktemp -d)
TENURE_STORE=sqlite:$dir/tenure.db
export TENURE_STORE tenure dir
candidates=
frozen_pids=

clean_up() {
    for pid in $frozen_pids; do kill -s CONT "$pid" 2>/dev/null || true; done
    for pid in $candidates; do kill -s TERM "$pid" 2>/dev/null || true; done
    wait 2>/dev/null || true
    rm -rf "$dir"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

if [ -t 1 ]; then bold=$(printf '\033[1m') dim=$(printf '\033[2m') plain=$(printf '\033[0m')
else bold='' dim='' plain=''; fi

now() { date +%s%N; }
say() {
    awk -v t="$(($(now) - began))" -v text="$1" -v dim="$dim" -v plain="$plain" \
        'BEGIN { printf "%s[%6.2f s]%s %s\n", dim, t / 1e9, plain, text }'
}
fail() {
    say "FAILED: $1"
    sed 's/^/    /' "$dir/errors" >&2
    exit 1
}

# The work: a line into the report, ten times a second, each with the token. The fence admits it, or
# refuses it because a later leader exists.
cat >"$dir/work" <<'WORK'
#!/bin/sh
while printf '%s %s %s\n' "$(date +%s%N)" "$TENURE_TOKEN" "$TENURE_ID" |
    "$tenure" fence write --append --at "file:$dir/report" "$TENURE_TOKEN" 2>>"$dir/errors"; do
    sleep 0.1
done
echo "$TENURE_ID $TENURE_TOKEN" >>"$dir/refused"
exit 80
WORK
chmod +x "$dir/work"
: >"$dir/report"
: >"$dir/refused"

candidate() {
    "$tenure" run --ttl 3s --grace 200ms --id "$1" --fence "file:$dir/report" report -- \
        "$dir/work" 2>>"$dir/errors" &
    candidates="$candidates $!"
    eval "$1=$!"
}

last_token() { tail -n 1 "$dir/report" | cut -d ' ' -f 2; }

# next_leader SECONDS WHAT: waits for the first line under a new token.
next_leader() {
    before=$(last_token)
    from=$(now)
    until after=$(last_token) && [ "$after" != "$before" ]; do
        [ $((($(now) - from) / 1000000000)) -lt "$1" ] || fail "nobody took over within $1 s"
        sleep 0.01
    done
    token=$after
    leader=$(tail -n 1 "$dir/report" | cut -d ' ' -f 3)
    say "$bold$leader leads$plain with token $token, $((($(now) - from) / 1000000)) ms after $2"
}

# children PID
children() {
    for stat in /proc/[0-9]*/stat; do
        # PID (NAME) STATE PARENT: the names here have no blanks.
        { read -r pid _ _ parent _ <"$stat"; } 2>/dev/null || continue
        if [ "$parent" = "$1" ]; then echo "$pid"; fi
    done
}

began=$(now)
say "three candidates for 'report', TTL 3 s, no server; each line goes through a fence"
for id in ada bob cyd; do candidate "$id"; done
next_leader 5 "the start"

say "$leader is killed with SIGKILL: its work must be gone before anyone else leads"
eval "kill -KILL \$$leader"
next_leader 10 "the kill (its TTL has to run out)"

frozen=$leader frozen_token=$token
say "$frozen is frozen with SIGSTOP, work and guardian and all: it cannot know what comes"
eval "supervisor=\$$frozen"
guardian=$(children "$supervisor")
work=$(children "$guardian")
frozen_pids="$work $guardian $supervisor"
for pid in $frozen_pids; do kill -s STOP "$pid"; done
next_leader 10 "the stop"
say "the work of $frozen wakes up before anything that could stop it, and writes on"
kill -s CONT "$work"
from=$(now)
until grep -q "^$frozen $frozen_token\$" "$dir/refused"; do
    [ $((($(now) - from) / 1000000000)) -lt 5 ] || fail "the write of $frozen was not refused"
    sleep 0.01
done
say "${bold}refused:$plain the fence stands at $token, $frozen came with $frozen_token"
for pid in $guardian $supervisor; do kill -s CONT "$pid" 2>/dev/null || true; done

say "$leader is asked to leave with SIGTERM: it stops its work, then gives the lease back"
eval "kill -TERM \$$leader"
next_leader 5 "the request"

# --- The summary, from the report itself ---------------------------------------------------------
echo
awk -v refused="$(wc -l <"$dir/refused")" '
    $2 < token { back = 1 }
    $2 != token {
        if (token) gap[++terms] = ($1 - last) / 1e6
        order[++count] = $2; who[$2] = $3; token = $2
    }
    { lines[$2]++; last = $1 }
    END {
        printf "  %-6s %-6s %6s   %s\n", "token", "leader", "lines", "without a leader before"
        for (i = 1; i <= count; i++)
            printf("  %-6s %-6s %6d   %s\n", order[i], who[order[i]], lines[order[i]],
                i == 1 ? "-" : sprintf("%.0f ms", gap[i - 1]))
        printf "\n%d terms, tokens strictly rising, %d refused write%s, nothing overwritten.\n",
            count, refused, refused == 1 ? "" : "s"
        exit back || count != 4 || refused < 1
    }' "$dir/report" || fail "that is not what had to happen"
