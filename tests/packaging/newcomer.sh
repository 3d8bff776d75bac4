#!/bin/sh
# newcomer.sh - what somebody does who has a bare Debian 12 and this page: clone, make demo, build
# and check; then the wheel for Python and the module for Go, each with its quick start word for
# word. The packages are in deb.sh.
#
# TENURE_NEWCOMER_CHECK: the suites to run there; "all" is make check, which takes an hour or so,
# and is what make check-deb asks for.
# shellcheck source=tests/harness/lib.sh
. "${TENURE_ROOT:-$(dirname "$0")/../..}/tests/harness/lib.sh"
# shellcheck source=tests/packaging/bare.lib
. "$TENURE_ROOT/tests/packaging/bare.lib"

suites=${TENURE_NEWCOMER_CHECK:-build/tests/unit build/tests/conformance tests/cli/main.sh \
    tests/cli/acquire.sh tests/live/readme.sh}

# block PAGE LANGUAGE [NUMBER]: the first, or that, block of the page in the language.
block() {
    awk -v fence="\`\`\`$2" -v want="${3:-1}" '
        $0 == fence && ++n == want { on = 1; next } /^```/ { on = 0 } on' "$TENURE_ROOT/$1"
}

# minutes COMMAND: as inside, in a shell, and it says how long that took.
minutes() {
    mi_began=$(date +%s)
    inside sh -c "$1"
    echo "# $1: $(($(date +%s) - mi_began)) s"
}

t_case "a bare Debian 12"
bare_begin
inside apt-get -qq -y --no-install-recommends install git make
fine "git and make"
git clone -q --bare "$TENURE_ROOT" "$root/srv/tenure.git" || t_fail "no repository to clone"

t_case "git clone; make demo"
minutes 'cd /root && git clone -q /srv/tenure.git tenure && cd tenure && make demo'
fine "make demo"
t_prints "4 terms, tokens strictly rising"
t_prints "REFUSED: the fence stands at 2"

t_case "make, and the tests"
minutes 'cd /root/tenure && make >/tmp/make.log 2>&1 || { tail /tmp/make.log >&2; exit 1; }'
fine "make"
if [ "$suites" = all ]; then
    minutes 'cd /root/tenure && make check'
else
    minutes "cd /root/tenure && tools/deps check servers && ip link set lo up 2>/dev/null
        tests/run -b build $suites"
fi
sed 's/^/# /' "$t_out" | tail -n 12
fine "$suites"

t_case "make install, and the first quick start of the README"
inside sh -c 'cd /root/tenure && make install >/dev/null'
fine "make install"
block README.md sh 2 >"$root/quick.sh"
grep -q "tenure status" "$root/quick.sh" || t_fail "the page has changed"
inside sh -c 'mkdir /root/script && cd /root/script && sh -e /quick.sh'
fine "the script"
t_prints "leads with token 1"
t_prints "nightly-report: free, last token 1"

t_case "pip: the wheel, and the quick start of docs/python.md"
inside apt-get -qq -y --no-install-recommends install python3-pip python3-venv python3-dev
fine "pip"
block docs/python.md sh >"$root/wheel.sh"
block docs/python.md python >"$root/quick.py"
t_check "the page says how" grep -q "^pip wheel " "$root/wheel.sh"
minutes "cd /root/tenure && set -e && . /wheel.sh && mkdir /root/quickpy && cd /root/quickpy &&
    python /quick.py"
fine "the wheel"
t_prints "led with token 1 and gave it back: released"

t_case "go: go get of the module by its path, and the quick start of docs/go.md"
inside apt-get -qq -y --no-install-recommends install golang-go
fine "go"
block docs/go.md sh >"$root/module.sh"
block docs/go.md go >"$root/main.go"
t_check "the page says how" grep -q "^go get " "$root/module.sh"
minutes "cd /root && set -e && . /module.sh && cp /main.go . && go run ."
fine "go run"
t_prints "led with token 1 and gave it back: released"
t_done
