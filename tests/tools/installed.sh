#!/bin/sh
# installed.sh - what `make install` leaves behind is enough to build and run a leader: the headers,
# the shared and the static library, pkg-config, and the examples on top of them.
# shellcheck source=tests/harness/lib.sh
. "${TENURE_ROOT:-$(dirname "$0")/../..}/tests/harness/lib.sh"

# setting NAME: its value in the build's cache.
setting() { sed -n "s/^$1:[^=]*=//p" "$TENURE_BUILD/CMakeCache.txt"; }

prefix=$t_dir/prefix
libdir=$prefix/$(setting CMAKE_INSTALL_LIBDIR)
cc=$(setting CMAKE_C_COMPILER)
case $cc in
*clang*) cxx=clang++ ;;
*) cxx=g++ ;;
esac
strict='-Wall -Wextra -pedantic -Werror'
# A library that is instrumented needs programs that are.
instrument=
[ -z "$(setting TENURE_SANITIZE)" ] || instrument="-fsanitize=$(setting TENURE_SANITIZE)"
[ "$(setting TENURE_COVERAGE)" != ON ] || instrument=--coverage

PKG_CONFIG_PATH=$libdir/pkgconfig
LD_LIBRARY_PATH=$libdir
export PKG_CONFIG_PATH LD_LIBRARY_PATH

t_case "the library is installed"
t_run cmake --install "$TENURE_BUILD" --prefix "$prefix"
t_check "cmake --install: $(cat "$t_err")" [ "$t_status" -eq 0 ]
for file in "$libdir/libtenure.so" "$libdir/libtenure.a" "$prefix/include/tenure/tenure.h" \
    "$prefix/include/tenure/fence.h" "$prefix/bin/tenure"; do
    t_check "installed" [ -e "$file" ]
done
mandir=$prefix/share/man
for page in man1/tenure.1 man3/libtenure.3 man3/tenure_open.3 man3/tenure_close.3 \
    man3/tenure_deadline.3 man3/tenure_fence_file_append.3; do
    t_check "installed" [ -s "$mandir/$page" ]
done
for page in "$TENURE_ROOT"/man/*.1; do
    t_check "installed: ${page##*/}" [ -s "$mandir/man1/${page##*/}" ]
done
unit=$prefix/lib/systemd/system/tenured.service
t_check "the unit names the program that is installed: $(grep ExecStart "$unit")" \
    grep -q "^ExecStart=$prefix/bin/tenured " "$unit"
t_check "the user and the group" grep -q '^g tenure' "$prefix/lib/sysusers.d/tenured.conf"
t_check "a page of several" grep -qx '.so man3/tenure_open.3' "$mandir/man3/tenure_close.3"
version=$(pkg-config --modversion tenure)
t_check "the version of the command" \
    [ "$("$prefix/bin/tenure" --version | head -n 1)" = "tenure $version" ]

t_case "the shared library has a soname and exports nothing but the interface"
major=${version%%.*}
t_check "soname" sh -c "readelf -d '$libdir/libtenure.so' | grep -q 'soname: .libtenure.so.$major.'"
t_check "the soname leads somewhere" [ -e "$libdir/libtenure.so.$major" ]
nm -D --defined-only "$libdir/libtenure.so" | awk '{ print $NF }' |
    grep -Ev '^(__(start|stop|asan|tsan|ubsan|llvm|gcov)|___|_init$|_fini$)' >"$t_dir/exported"
t_check "something is exported" grep -qx tenure_open "$t_dir/exported"
t_check "tenure_* only: $(grep -v '^tenure_' "$t_dir/exported" | head -n 3)" \
    [ -z "$(grep -v '^tenure_' "$t_dir/exported")" ]
# Every function of the headers is there, and nothing that they do not have.
cat "$prefix"/include/tenure/*.h | tr '\n' ' ' | grep -Eo 'TENURE_API[^;(]*\(' |
    grep -Eo 'tenure_[a-z_0-9]+\($' | tr -d '(' | sort >"$t_dir/declared"
sort "$t_dir/exported" >"$t_dir/sorted"
t_check "the headers and the library agree: $(comm -3 "$t_dir/declared" "$t_dir/sorted")" \
    cmp -s "$t_dir/declared" "$t_dir/sorted"

t_case "each header stands alone, in C11 and in C++11"
for header in "$prefix"/include/tenure/*.h; do
    name=tenure/$(basename "$header")
    printf '#include "%s"\n#include "%s"\nextern int unused;\n' "$name" "$name" >"$t_dir/header.c"
    cp "$t_dir/header.c" "$t_dir/header.cpp"
    # shellcheck disable=SC2086,SC2046 # Lists of words, here and below.
    t_run "$cc" -std=c11 $strict $(pkg-config --cflags tenure) -fsyntax-only "$t_dir/header.c"
    t_check "$name in C11: $(head -n 3 "$t_err")" [ "$t_status" -eq 0 ]
    if command -v $cxx >/dev/null; then
        # shellcheck disable=SC2086,SC2046
        t_run $cxx -std=c++11 $strict $(pkg-config --cflags tenure) -fsyntax-only \
            "$t_dir/header.cpp"
        t_check "$name in C++11: $(head -n 3 "$t_err")" [ "$t_status" -eq 0 ]
    fi
done

# names_cpp HEADERS: a program in C++ that uses all of their names: functions and constants, and the
# types without `struct`. A function hides the struct of its name, which needs a second one.
names_cpp() {
    cat "$1"/tenure/*.h | "$cc" -E -P -x c -I"$1" - >"$t_dir/plain.h"
    (cd "$1" && printf '#include "%s"\n' tenure/*.h)
    echo 'typedef void any();'
    echo 'static any *const functions[] = {'
    sed 's/.*/    reinterpret_cast<any *>(\&&),/' "$t_dir/declared"
    printf '};\nstatic const long long constants[] = {\n'
    grep -Eo 'TENURE_[A-Z0-9_]+' "$t_dir/plain.h" | sort -u | sed 's/.*/    &,/'
    printf '};\nint main()\n{\n    int unused = 0;\n'
    grep -Eo '(struct|enum) tenure[a-z_0-9]*' "$t_dir/plain.h" | cut -d' ' -f2 | sort -u |
        while read -r type; do
            if grep -qx "$type" "$t_dir/declared"; then type=${type}_options; fi
            echo "    unused += static_cast<$type *>(nullptr) != nullptr;"
        done
    printf '    for (any *function : functions)\n        unused += function == nullptr;\n'
    printf '    for (long long constant : constants)\n        unused += constant > 1LL << 62;\n'
    printf '    return unused;\n}\n'
}

t_case "a C++ program can use every name of the headers"
if command -v $cxx >/dev/null; then
    names_cpp "$prefix/include" >"$t_dir/names.cpp"
    t_check "there are some" [ "$(wc -l <"$t_dir/names.cpp")" -ge 120 ]
    # shellcheck disable=SC2086,SC2046
    t_run $cxx -std=c++11 $strict $instrument "$t_dir/names.cpp" -o "$t_dir/names" \
        $(pkg-config --cflags --libs tenure)
    t_check "compiles: $(head -n 3 "$t_err")" [ "$t_status" -eq 0 ]
    t_run "$t_dir/names"
    t_ends 0
    # Without its second name the struct is out of reach, and that is seen.
    mkdir "$t_dir/hidden" && cp -R "$prefix/include/tenure" "$t_dir/hidden/"
    sed -i -e '/^typedef struct tenure_campaign /d' \
        -e 's/const tenure_campaign_options/const struct tenure_campaign/' \
        "$t_dir/hidden/tenure/tenure.h"
    names_cpp "$t_dir/hidden" >"$t_dir/names.cpp"
    t_run $cxx -std=c++11 -I"$t_dir/hidden" -fsyntax-only "$t_dir/names.cpp"
    t_check "a hidden name is found" grep -q "tenure_campaign_options" "$t_err"
else
    t_skip "there is no $cxx"
fi

t_case "a C++ program leads"
if command -v $cxx >/dev/null; then
    # shellcheck disable=SC2086,SC2046
    t_run $cxx -std=c++11 $strict $instrument "$TENURE_ROOT/tests/lib/cxx.cpp" -o "$t_dir/cxx" \
        $(pkg-config --cflags --libs tenure)
    t_check "compiles: $(head -n 3 "$t_err")" [ "$t_status" -eq 0 ]
    t_run timeout 60 "$t_dir/cxx"
    t_ends 0
else
    t_skip "there is no $cxx"
fi

# build EXAMPLE KIND: $t_dir/EXAMPLE-KIND from the example, linked as KIND says.
build() {
    # shellcheck disable=SC2086,SC2046
    case $2 in
    shared) set -- "$1" "$2" $(pkg-config --cflags --libs tenure) ;;
    static) set -- "$1" "$2" $(pkg-config --cflags tenure) \
        $(pkg-config --static --libs tenure | sed "s|-ltenure|-l:libtenure.a|") ;;
    esac
    example=$1 kind=$2
    shift 2
    # shellcheck disable=SC2086
    t_run "$cc" -std=c11 -D_GNU_SOURCE $strict $instrument "$TENURE_ROOT/examples/$example.c" \
        ${example_more:-} -o "$t_dir/$example-$kind" "$@"
    t_check "$example, $kind: $(head -n 3 "$t_err")" [ "$t_status" -eq 0 ]
}

t_case "the examples compile, linked either way"
for example in leader fenced-writer event-loop; do
    build $example shared
    build $example static
done
for kind in shared static; do
    example_more=$TENURE_ROOT/examples/dir-store.c build own-store $kind
done
t_check "shared" sh -c "readelf -d '$t_dir/leader-shared' | grep -q 'libtenure.so.$major'"
t_refute "static" sh -c "readelf -d '$t_dir/leader-static' | grep -q libtenure"

has_ended() { ! kill -0 "$1" 2>/dev/null; }

# last_token FILE: of the last line "working, token N".
last_token() { sed -n 's/^working, token //p' "$1" | tail -n 1; }

# takes_over WHAT COMMAND...: two of COMMAND, which get a store at the end; one leads, is asked to
# stop, and the other leads with a larger token.
takes_over() {
    what=$1
    shift
    store=${scheme:-sqlite}:$t_dir/$what.db
    : >"$t_dir/$what.1"
    "$@" "$store" >"$t_dir/$what.1" 2>&1 &
    first=$!
    t_check "$what: the first works: $(cat "$t_dir/$what.1")" \
        until_true 30 grep -q '^working, token ' "$t_dir/$what.1"
    "$@" "$store" >"$t_dir/$what.2" 2>&1 &
    second=$!
    case $what in
    leader-shared | leader-static) ;; # It is silent while it waits.
    *) t_check "$what: the second hears who leads" until_true 9 grep -q ' leads' "$t_dir/$what.2" ;;
    esac
    t_refute "$what: the second waits" grep -q working "$t_dir/$what.2"
    kill -TERM $first
    wait $first
    t_check "$what: ends well when asked to: $?" [ $? -eq 0 ]
    t_check "$what: the second takes over: $(cat "$t_dir/$what.2")" \
        until_true 30 grep -q '^working, token ' "$t_dir/$what.2"
    t_check "$what: with a larger token" \
        [ "$(last_token "$t_dir/$what.2")" -gt "$(last_token "$t_dir/$what.1")" ]
    kill -TERM $second
    wait $second
    t_check "$what: and ends well" [ $? -eq 0 ]
}

t_case "leader: one leads, and the other takes over"
takes_over leader-shared "$t_dir/leader-shared" job
takes_over leader-static "$t_dir/leader-static" job

t_case "event-loop: one leads, and the other takes over"
takes_over event-loop "$t_dir/event-loop-shared" job

t_case "own-store: the same in a store of one's own"
scheme=dir
takes_over own-store-shared "$t_dir/own-store-shared" job
takes_over own-store-static "$t_dir/own-store-static" job
scheme=sqlite

t_case "leader.py: one leads, and the other takes over"
if [ -n "$instrument" ]; then
    : # The interpreter is not instrumented, so it cannot load a library that is.
elif command -v python3 >/dev/null; then
    TENURE_LIBRARY=$libdir/libtenure.so.$major
    export TENURE_LIBRARY
    takes_over leader-py "$TENURE_ROOT/examples/leader.py" job
else
    t_skip "there is no python3"
fi

t_case "fenced-writer: the file keeps the highest token, and refuses an older one"
journal=$t_dir/journal
store=sqlite:$t_dir/fenced.db
"$t_dir/fenced-writer-shared" job "$journal" "$store" 2>"$t_dir/fenced.1" &
first=$!
t_check "the first writes" until_true 30 grep -q " $first\$" "$journal"
"$t_dir/fenced-writer-shared" job "$journal" "$store" 2>"$t_dir/fenced.2" &
second=$!
kill -TERM $first
wait $first
t_check "the first ends well" [ $? -eq 0 ]
t_check "the second writes" until_true 30 grep -q " $second\$" "$journal"
awk 'NR > 1 && $1 < last { exit 1 } NR > 1 { last = $1 }' "$journal"
t_check "tokens never go back" [ $? -eq 0 ]
t_check "the head is the last token" [ "$(head -n 1 "$journal")" = \
    "$(printf %020d "$(tail -n 1 "$journal" | cut -d' ' -f1)")" ]
# Now the file has seen a later leader, of whom the store knows nothing: a backup put back, say.
{ echo 00000000000099999999 && tail -n +2 "$journal"; } >"$journal.new"
cat "$journal.new" >"$journal"
wait $second
t_check "the second is refused" [ $? -eq 80 ]
t_check "and says so: $(cat "$t_dir/fenced.2")" grep -q 'journal' "$t_dir/fenced.2"

t_case "an example without arguments says what it wants"
for example in leader fenced-writer event-loop own-store; do
    t_run "$t_dir/$example-shared"
    t_check "$example: usage" grep -q "^usage: $example NAME" "$t_err"
    t_check "$example: exit status" [ "$t_status" -eq 64 ]
done

t_case "an example says what is wrong with a name"
# says_why NAME COMMAND...
says_why() {
    example=$1
    shift
    t_run env TENURE_STORE="sqlite:$t_dir/words.db" "$@"
    t_check "$example: $(cat "$t_err")" grep -q "^$example: 'a//b' is not a name: " "$t_err"
    t_check "$example: one line" [ "$(wc -l <"$t_err")" -eq 1 ]
    t_refute "$example: it succeeds" [ "$t_status" -eq 0 ]
}
says_why leader "$t_dir/leader-shared" a//b
says_why event-loop "$t_dir/event-loop-shared" a//b
says_why fenced-writer "$t_dir/fenced-writer-shared" a//b "$t_dir/none"
says_why own-store "$t_dir/own-store-shared" a//b "dir:$t_dir/d"
if [ -z "$instrument" ] && command -v python3 >/dev/null; then
    says_why leader.py "$TENURE_ROOT/examples/leader.py" a//b
fi
t_done
