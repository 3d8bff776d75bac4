#!/bin/bash
# every_example.sh - every command that the help, the README, docs/ and the manual show does what it
# says; every_example_held.sh does the same while another process holds the lease. every_example.md
# says what is expected of each; an example without a row there fails, and so does a row without an
# example. EXAMPLE=WORDS: only those that have the words.
state=${EXAMPLE_STATE:-free}
# shellcheck source=tests/harness/lib.sh
. "${TENURE_ROOT:-$(dirname "$0")/../..}/tests/harness/lib.sh"
# shellcheck source=tests/live/etcd.lib
. "$TENURE_ROOT/tests/live/etcd.lib"
in_finish etcd_end

rows=$TENURE_ROOT/tests/live/every_example.md
here=$(uname -n)
mkdir "$t_dir/bin"
ln -s "$tenure" "$t_dir/bin/tenure"
ln -s "$TENURE_BUILD/tenured" "$t_dir/bin/tenured"
# What the examples leave to their reader says its own name and words, but for a reader of lines.
for program in report.sh bill sync serve work primary primary.sh leader backup.sh rsync; do
    printf '#!/bin/sh\necho "%s $*"\n' "$program" >"$t_dir/bin/$program"
done
printf '#!/bin/sh\nexec cat\n' >"$t_dir/bin/on-change"
printf '#!/bin/sh\nexit 0\n' >"$t_dir/bin/xdg-open"
chmod +x "$t_dir/bin"/*
cd "$t_dir/bin" || exit 1
PATH=$t_dir/bin:$PATH
export XDG_RUNTIME_DIR="$t_dir/run" TENURE_TOKEN=5
mkdir "$t_dir/run"
touch "$t_out" "$t_err"
tenure fence install --at sqlite:orders.db
tenure fence install --at sqlite:shop.db
if command -v sqlite3 >/dev/null; then
    sqlite3 shop.db "CREATE TABLE orders (id)"
fi

# --- The examples ---------------------------------------------------------------------------------

verbs() { tenure help | sed -n '/^Verbs:/,/^$/s/^  \([a-z][a-z-]*\)  *.*/\1/p'; }
# Lines that end in a backslash go on, and a script that takes a lease is one example.
joined() {
    awk '{ if (sub(/\\e?$/, "")) { printf "%s", $0; next } print }' |
        awk '/^lease=/ { script = $0; next }
             script != "" && /^ |^$/ { print script; script = ""; next }
             script != "" { script = script "; " $0; next }
             { print }
             END { if (script != "") print script }'
}
# Without what is said about it, behind a # or three spaces.
bare() { sed 's/   *#.*//; s/\([^ ]\)   .*/\1/; s/[[:space:]]*$//'; }
# The first line that a daemon prints begins with its name, too.
commands() {
    grep -E '^(lease=|\./.*tenure |([A-Z_]+=[^ ]+ )*tenured? )' | grep -v '^tenured ready '
}
of_help() {
    for verb in $(verbs); do
        tenure "$verb" --help | sed -n '/^Examples\{0,1\}:/,/^$/s/^  //p' | bare | joined | commands
    done
}
# Fenced blocks, and blocks indented by four spaces; without their prompts.
of_pages() {
    for page in "$TENURE_ROOT"/README.md "$TENURE_ROOT"/docs/*.md \
        "$TENURE_ROOT"/docs/stores/*.md; do
        awk '/^ *```/ { on = !on; print ""; next } on || /^    |^$/' "$page" |
            sed 's/^ *//; s/^[a-z0-9]*\$ //' | bare | joined | commands
    done
}
of_manual() {
    for page in "$TENURE_ROOT"/man/*.[13]; do
        {
            sed -n 's/^\.Dl //p' "$page"
            awk '/^\.Bd -literal/ { on = 1; next } /^\.Ed/ { on = 0; print "" } on' "$page"
        } | sed 's/\\-/-/g; s/\\(dq/"/g; s/^ *//; s/^\$ //' | bare | joined | commands
    done
}
{
    of_help
    of_pages
    of_manual
} | awk '!seen[$0]++' >"$t_dir/examples"
sed -n '/^```$/,/^```$/{/^```$/d; p}' "$rows" >"$t_dir/rows"

# --- One of them ----------------------------------------------------------------------------------

# What the shell puts in place: web1 is this host, as for its processes; a wait is a second, to see
# its end; ports are free ones, and etcd is the one that was started.
gate_port=$(t_ports 1)
put() {
    sed "s/web1/$here/g; s/--wait \(30s\|10s\|1m\)/--wait 1s/; s|/var/lib/[a-z/]*|$t_dir/|
        s/127\.0\.0\.1:\(742[23]\|743[12]\|7480\|808[01]\)/127.0.0.1:$gate_port/
        s~etcd://\(10\.0\.0\.[0-9,:.]*\|127\.0\.0\.1:2379\)/~etcd://127.0.0.1:$port_one/~
        s/--seeds 10000/--seeds 20/; s/--time 500ms/--time 100ms/; s/ --for 1m/ --for 1s/" <<<"$1"
}
says() { tenure status --json "$1" | grep -q "$2"; }
elect() { # NAME ID OPTION...
    el_name=$1 el_id=$2
    shift 2
    tenure elect --ttl 5s --id "$el_id" "$@" "$el_name" >"$t_dir/elected.$el_id" 2>>"$t_dir/err" &
    candidates="$candidates $!"
}
hold() { # NAME
    case $1 in
    workers)
        for id in a b c; do
            elect workers "$id" --slots 3
            t_check "$id leads" until_line "$t_dir/elected.$id" '"won"'
        done
        ;;
    *)
        tenure run --ttl 5s --id "$here-4711" "$1" -- sleep 600 2>>"$t_dir/err" &
        candidates="$candidates $!"
        t_check "web1 leads" until_true 20 says "$1" "\"holder\":\"$here-4711\""
        [[ $example == *handover* ]] || return
        elect "$1" web2-712
        t_check "web2 waits" until_true 20 says "$1" '"waiting":1'
        ;;
    esac
}
waits_in_line() { # NAME PID
    tenure status --json "$1" "$1/*" | grep -q "\"id\":\"\($here\|web2\)\(-$2\)\{0,1\}\""
}

# try STATE NAME EXAMPLE EXPECTED. EXPECTED is "STATUS WORDS", "on WORDS" of a command that goes on
# when it has said so, or "waits": it stands in line and its program does not run.
number=0
try() {
    number=$((number + 1))
    export TENURE_STORE="sqlite:$t_dir/$number.db"
    ex_words=$(put "${4#* }")
    [ "$2" = - ] || tenure run --quiet --ttl 2s "$2" -- true 2>>"$t_dir/err"
    [ "$1" = free ] || hold "$2"
    put "$3" >"$t_dir/example"
    case $4 in
    on\ * | waits)
        # exec, but for a pipe: its number is in its id.
        grep -q ' | ' "$t_dir/example" || sed -i 's/^/exec /' "$t_dir/example"
        setsid bash "$t_dir/example" >"$t_out" 2>"$t_err" </dev/null &
        ex_pid=$! # Its group's, too.
        if [ "$4" = waits ]; then
            t_check "$1: it waits: $(cat "$t_out" "$t_err")" until_true 20 \
                waits_in_line "$2" $ex_pid
            t_refute "$1: its program runs" [ -s "$t_out" ]
        else
            t_check "$1: $ex_words: $(cat "$t_out" "$t_err")" until_true 20 \
                grep -qF -e "$ex_words" "$t_out" "$t_err"
        fi
        kill -TERM -- -$ex_pid
        wait $ex_pid
        ;;
    *)
        t_run timeout 60 bash "$t_dir/example" </dev/null
        t_check "$1: $t_status, not ${4%% *}: $(cat "$t_out" "$t_err")" \
            [ "$t_status" -eq "${4%% *}" ]
        [ "$4" = "${4%% *}" ] || t_check "$1: $ex_words: $(cat "$t_out" "$t_err")" \
            grep -qF -e "$ex_words" "$t_out" "$t_err"
        ;;
    esac
    end_all
}

port_one=1
if command -v etcd >/dev/null; then
    etcd_start one || t_fail "etcd does not start"
fi
while read -r example; do
    [ -z "${EXAMPLE:-}" ] || [[ $example == *$EXAMPLE* ]] || continue
    t_case "$example"
    grep -F -e "$example => " "$t_dir/rows" >"$t_dir/row"
    t_check "it has one row in every_example.md" [ "$(wc -l <"$t_dir/row")" -eq 1 ]
    [ "$(wc -l <"$t_dir/row")" -eq 1 ] || continue
    row=$(cat "$t_dir/row")
    IFS='|' read -r name free held <<<"${row#"$example => "}"
    case $name in
    by\ *)
        t_check "${name#by } is there" [ -f "$TENURE_ROOT/${name#by }" ]
        continue
        ;;
    not:*) continue ;;
    esac
    name=${name// /} free=${free# } held=${held# }
    if [[ $example == *etcd://* ]] && [ "$port_one" = 1 ]; then
        t_skip "no etcd: install etcd-server and etcd-client"
        continue
    fi
    if [ "$state" = free ]; then
        try free "$name" "$example" "${free% }"
    elif [ "$name" != - ]; then
        try held "$name" "$example" "$held"
    fi
done <"$t_dir/examples"

# left_behind: the processes of examples that run on.
left_behind() {
    for process in /proc/[0-9]*; do
        [ "$(readlink "$process/cwd")" = "$t_dir/bin" ] || continue
        case $(readlink "$process/exe") in
        "$(realpath "$TENURE_BUILD")"/*) tr '\0' ' ' <"$process/cmdline" ;;
        esac
    done 2>/dev/null
}
nothing_is_left() { [ -z "$(left_behind)" ]; }
t_case "no process is left behind"
t_check "$(left_behind)" until_true 20 nothing_is_left

t_case "each row is an example"
t_check "as many rows as examples: $(sed 's/ => .*//' "$t_dir/rows" | sort |
    comm -13 <(sort "$t_dir/examples") -)" \
    [ "$(wc -l <"$t_dir/rows")" -eq "$(wc -l <"$t_dir/examples")" ]
t_done
