#!/bin/sh
# readme.sh - what the README shows does what it says, on real servers: the comparison, and the
# three quick starts. C is in tests/tools/examples.sh, Go in tests/bindings/go.sh.
# shellcheck source=tests/harness/lib.sh
. "${TENURE_ROOT:-$(dirname "$0")/../..}/tests/harness/lib.sh"
# shellcheck source=tests/live/etcd.lib
. "$TENURE_ROOT/tests/live/etcd.lib"
# shellcheck source=tests/live/redis.inc
. "$TENURE_ROOT/tests/live/redis.inc"

etcd_need
rd_begin
etcd_start one
rd_start 1
# shellcheck disable=SC2154 # By etcd_start.
ETCDCTL_ENDPOINTS=127.0.0.1:$port_one
HOME=$t_dir/home
unset XDG_STATE_HOME
export ETCDCTL_ENDPOINTS HOME
mkdir -p "$t_dir/bin" "$t_dir/work" "$HOME"
ln -s "$tenure" "$t_dir/bin/tenure"
printf '#!/bin/sh\nexec %s -p %s "$@"\n' "$(command -v redis-cli)" "$(rd_port 1)" \
    >"$t_dir/bin/redis-cli"
printf '#!/bin/sh\necho "report with token $TENURE_TOKEN"\n' >"$t_dir/work/report.sh"
chmod +x "$t_dir/bin/redis-cli" "$t_dir/work/report.sh"
PATH=$t_dir/bin:$PATH

# block LANGUAGE WORD: the block of the README in that language that has the word.
block() {
    awk -v fence="\`\`\`$1" -v word="$2" '
        $0 == fence { inside = 1; text = ""; next }
        inside && /^```$/ { inside = 0; if (index(text, word)) printf "%s", text }
        inside { text = text $0 "\n" }' "$TENURE_ROOT/README.md"
}

# part WORD: the part of the comparison that begins with the comment about WORD.
part() {
    block sh flock | awk -v word="# $1:" 'index($0, word) { on = 1 } on && /^$/ { exit } on' \
        >"$t_dir/part"
    t_check "the README has it" [ -s "$t_dir/part" ]
    wanted=$(sed -n 's/^#.*"\(.*\)"$/\1/p' "$t_dir/part")
    t_check "it says what is printed" [ -n "$wanted" ]
    t_run bash -c 'cd "$1" && . "$2"' bash "$t_dir/work" "$t_dir/part"
    t_check "the last line is $wanted: $(cat "$t_out" "$t_err")" \
        [ "$(grep -c -xF -e "$wanted" "$t_out")" -eq 1 ]
}

t_case "flock: a stopped holder keeps the lock"
part flock

t_case "etcdctl lock: two commands at once"
part "etcdctl lock"

t_case "Redis: no number tells the holders apart"
part Redis

t_case "a script"
block sh "tenure status" >"$t_dir/script"
t_run sh -c 'cd "$1" && sh -e "$2"' sh "$t_dir/work" "$t_dir/script"
t_check "status $t_status: $(cat "$t_err")" [ "$t_status" -eq 0 ]
t_prints "leads with token 1"
t_prints "nightly-report: free, last token 1"
t_check "the page shows it" grep -qx "nightly-report: free, last token 1" "$TENURE_ROOT/README.md"

t_case "a service in Python"
{
    printf 'written = []\ndef write_something(token):\n    written.append(token)\n'
    printf '    if len(written) == 3:\n        term.resign()\n'
    block python tenure.open
    echo 'print("wrote", len(written), "times with token", written[0])'
} >"$t_dir/service.py"
python=/usr/bin/python3
[ -x $python ] || python=python3
if [ -n "$(sed -n 's/^TENURE_SANITIZE:[^=]*=//p' "$TENURE_BUILD/CMakeCache.txt")" ]; then
    : # The interpreter cannot load a library that is instrumented.
else
    t_run sh -c 'cd "$1" && PYTHONPATH=$2 PYTHONDONTWRITEBYTECODE=1 LD_LIBRARY_PATH=$3 "$4" "$5"' \
        sh "$t_dir/work" "$TENURE_ROOT/bindings/python" "$TENURE_BUILD" $python "$t_dir/service.py"
    t_check "status $t_status: $(cat "$t_err")" [ "$t_status" -eq 0 ]
    t_prints "wrote 3 times with token 1"
fi

t_case "an operator with etcd"
block sh "tenure doctor" | sed "s/10\.0\.0\.1:2379/127.0.0.1:$port_one/" >"$t_dir/operator"
t_check "three commands" [ "$(grep -c "127.0.0.1:$port_one" "$t_dir/operator")" -eq 3 ]
t_run sh -c 'cd "$1" && sh -e "$2"' sh "$t_dir/work" "$t_dir/operator"
t_check "status $t_status: $(cat "$t_err")" [ "$t_status" -eq 0 ]
t_prints "report with token "
t_prints "nightly-report"

# Root's socket and data are the machine's own: another user runs it, whose are below its home.
t_case "an operator without any server"
user=$t_dir/user as_user=
mkdir -m 0700 "$user" "$user/bin"
cp "$tenure" "$TENURE_BUILD/tenured" "$user/bin/"
cp "$t_dir/work/report.sh" "$user/"
block sh "tenured &" >"$user/commands"
t_check "two commands" [ "$(wc -l <"$user/commands")" -eq 2 ]
if [ "$(id -u)" -eq 0 ]; then
    as_user="setpriv --reuid 65534 --regid 65534 --clear-groups"
    command -v setpriv >/dev/null || t_skip "needs setpriv, or a user who is not root"
    chmod 0755 "$t_dir"
    chown -R 65534 "$user"
fi
# The daemon ends with the commands.
# shellcheck disable=SC2016,SC2086 # For the inner shell; words.
t_run timeout 60 $as_user env HOME="$user" XDG_RUNTIME_DIR="$user" PATH="$user/bin:$PATH" \
    sh -c 'cd && trap "kill \$!" EXIT && set -e && . ./commands' 3>&-
t_check "status $t_status: $(cat "$t_err")" [ "$t_status" -eq 0 ]
t_prints "tenured ready on unix:$user/tenured/tenured.sock"
t_prints "report with token 1"

t_done
