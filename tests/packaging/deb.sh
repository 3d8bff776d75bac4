#!/bin/sh
# deb.sh - the Debian packages: two builds give the same bytes, lintian has nothing to say, and in a
# bare Debian 12 they are installed, used and removed again.
# shellcheck source=tests/harness/lib.sh
. "${TENURE_ROOT:-$(dirname "$0")/../..}/tests/harness/lib.sh"
# shellcheck source=tests/packaging/bare.lib
. "$TENURE_ROOT/tests/packaging/bare.lib"

# skip_all REASON
skip_all() {
    t_case "the Debian packages"
    t_skip "$1"
    t_done
}
for tool in dpkg-buildpackage dh lintian apt-get; do
    command -v $tool >/dev/null || skip_all "no $tool: tools/deps deb"
done

t_case "two builds give the same bytes"
# The second from the sources of the first, so that an edit in between does not count; in another
# folder, with another umask, time zone and language. Without git, the sources' time is given.
SOURCE_DATE_EPOCH=$(git -C "$TENURE_ROOT" log -1 --format=%ct 2>/dev/null || echo 1700000000)
export SOURCE_DATE_EPOCH
t_run "$TENURE_ROOT/tools/deb" "$t_dir/packages"
t_check "status $t_status: $(tail -n 20 "$t_err")" [ "$t_status" -eq 0 ]
mkdir "$t_dir/sources"
(umask 027 && tar -xzf "$t_dir"/packages/tenure-*.tar.gz -C "$t_dir/sources" \
    --strip-components=1 && env TZ=Asia/Tokyo LC_ALL=C.UTF-8 "$t_dir/sources/tools/deb" \
    "$t_dir/again/in/another/place") >/dev/null 2>&1
for package in "$t_dir"/packages/*.deb; do
    t_check "same bytes" cmp "$package" "$t_dir/again/in/another/place/${package##*/}"
done
for package in libtenure0 libtenure-dev tenure tenured; do
    set -- "$t_dir/packages/${package}"_*.deb
    t_check "there is $package" [ -f "$1" ]
done

t_case "lintian has nothing to say"
# But for a bug number in the changelog, which only an upload to Debian itself has.
t_run lintian --allow-root --fail-on error,warning --suppress-tags initial-upload-closes-no-bugs \
    "$t_dir"/packages/*.changes
t_check "$(grep -E '^[EW]:' "$t_out")" [ "$t_status" -eq 0 ]

t_case "in a bare Debian 12"
bare_begin
mkdir "$root/build-deb"
cp "$t_dir"/packages/*.deb "$root/build-deb"
t_check "four packages" [ "$(find "$root/build-deb" -name '*.deb' | wc -l)" -eq 4 ]
# The README's words; apt-get is apt for scripts.
t_check "the README says how" grep -qF 'apt install ./build-deb/*.deb' "$TENURE_ROOT/README.md"
inside sh -c 'cd / && apt-get -qq -y --no-install-recommends install ./build-deb/*.deb'
fine "the packages are installed"

t_case "the command leads, with nothing else"
inside tenure run --ttl 2s job -- sh -c 'echo "leads with $TENURE_TOKEN"'
fine "tenure run"
t_prints "leads with 1"
inside sh /usr/share/doc/tenure/examples/demo.sh /usr/bin/tenure
fine "the demo"
t_prints "tokens strictly rising"

t_case "the quick start of the README, in its own words"
sed -n '/^## Quick start: a cron job/,/^## /p' "$TENURE_ROOT/README.md" |
    sed -n '/^```sh$/,/^```$/{ /^```/d; p; }; /^```$/q' >"$root/quick"
# A user of its own: a store numbers the terms of all its names.
inside env HOME=/srv sh -e /quick
fine "the quick start"
t_prints "leads with token 1"
t_prints "nightly-report: free, last token 1"

t_case "the unit names the program that is installed"
unit=$root/lib/systemd/system/tenured.service
start=$(sed -n '/^ExecStart=/,/[^\\]$/p' "$unit" | sed 's/^ExecStart=//; s/\\$//' | tr '\n' ' ')
t_check "$start" [ -x "$root${start%% *}" ]
unit=$root/lib/systemd/system/tenured-agent.service
agent=$(sed -n 's/^ExecStart=\([^ ]*\) .*/\1/p' "$unit")
t_check "the agent's, too: $agent" [ -n "$agent" ]
t_check "the agent's program is there" [ -x "$root$agent" ]

t_case "the daemon runs as its own user, and an application in the group leads there"
cat >"$root/try" <<END
set -e
systemd-tmpfiles --create /usr/lib/tmpfiles.d/tenured.conf
setpriv --reuid tenured --regid tenured --init-groups $start >/ready 2>&1 &
for i in \$(seq 600); do grep -q ready /ready && break; sleep 0.1; done
stat -c '%U:%G %a' /run/tenured /run/tenured/tenured.sock /var/lib/tenured
useradd -m app
usermod -a -G tenure app
useradd -m other
setpriv --reuid app --regid app --init-groups env HOME=/home/app \
    tenure run --store unix:/run/tenured/tenured.sock --ttl 2s job -- \
    sh -c 'echo "app \$TENURE_TOKEN"'
setpriv --reuid other --regid other --init-groups env HOME=/home/other \
    tenure status --store unix:/run/tenured/tenured.sock job 2>&1 || echo "other: \$?"
kill \$!
wait \$!
END
inside sh /try
fine "the daemon: $(cat "$root/ready" 2>/dev/null)"
t_prints "root:tenured 775"
t_prints "tenured:tenure 660"
t_prints "app 1"
t_prints "other: 77"
t_prints "tenured:tenured 700"

t_case "a program is built on the library that is installed, and leads"
# With this machine's compiler, and headers and libraries of the bare system alone.
set -- "$root"/usr/lib/*/pkgconfig/tenure.pc
flags=$(PKG_CONFIG_LIBDIR=${1%/*} PKG_CONFIG_SYSROOT_DIR=$root pkg-config --cflags --libs tenure)
gzip -dc "$root"/usr/share/doc/libtenure-dev/examples/leader.c* >"$t_dir/leader.c" 2>/dev/null ||
    cp "$root/usr/share/doc/libtenure-dev/examples/leader.c" "$t_dir/leader.c"
# shellcheck disable=SC2086 # Words.
t_run cc --sysroot="$root" -std=c11 -D_GNU_SOURCE "$t_dir/leader.c" -o "$root/leader" $flags
t_check "compiles: $(head -n 5 "$t_err")" [ "$t_status" -eq 0 ]
inside sh -c 'timeout -s TERM 3 /leader job sqlite:/leader.db'
t_prints "working, token 1"

t_case "documents, licence and manual are there"
for file in share/doc/tenured/copyright share/doc/tenured/README.Debian share/man/man1/tenure.1.gz \
    share/man/man3/tenure_open.3.gz share/man/man3/tenure_close.3.gz \
    share/bash-completion/completions/tenure share/fish/vendor_completions.d/tenure.fish; do
    t_check "there is /usr/$file" [ -e "$root/usr/$file" ]
done

t_case "the pages lead to each other, and to the examples"
here=$root/usr/share/doc/tenure
# But for the sources and the licence, which are elsewhere.
(cd "$here" && grep -Eo '\]\([A-Za-z0-9./_-]*' README.md docs/*.md docs/stores/*.md) |
    grep -Ev '(\]\(https?$|include/|bench/|bindings/|CONTRIBUTING|CHANGELOG|LICENSE)' |
    sed 's/:\](/ /' | sort -u >"$t_dir/links"
t_check "there are links" [ "$(wc -l <"$t_dir/links")" -gt 50 ]
while read -r page target; do
    [ -z "$target" ] || [ -e "$here/$(dirname "$page")/$target" ] || echo "$page: $target"
done <"$t_dir/links" >"$t_dir/broken"
t_check "broken: $(tr '\n' ' ' <"$t_dir/broken")" [ ! -s "$t_dir/broken" ]

t_case "removed, they leave nothing but the data"
inside apt-get -qq -y purge libtenure0 libtenure-dev tenure tenured
fine "apt-get purge"
left=$(find "$root/usr" "$root/lib" "$root/etc" -name '*tenure*' ! -path '*/systemd/*enabled*')
t_check "left: $left" [ -z "$left" ]
t_check "the tokens are kept" [ -d "$root/var/lib/tenured/data" ]

t_done
