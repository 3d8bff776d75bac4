#!/bin/sh
# tidy.sh - each check of tools/tidy finds its deliberate bad file, and a clean one passes.
. "$(dirname "$0")/../harness/lib.sh"

tidy=$TENURE_ROOT/tools/tidy
tree=$t_dir/tree

if ! "$(command -v clang-format-14 || command -v clang-format || echo false)" --version |
    grep -q 'version 14\.'; then
    t_case "tidy"
    t_skip "clang-format 14 is not installed"
    t_done
fi

# fresh: a tree with one clean file of each kind.
fresh() {
    rm -rf "$tree"
    mkdir -p "$tree/src/base" "$tree/src/core" "$tree/src/fence" "$tree/include/tenure"
    cp "$TENURE_ROOT/.clang-format" "$tree"
    printf '/* good.c - nothing wrong here. */\n#include "base/good.h"\n' >"$tree/src/base/good.c"
}

# finds FILE MESSAGE: FILE, from stdin, is added to a clean tree; tidy must fail with MESSAGE.
finds() {
    fresh
    cat >"$tree/$1"
    t_run "$tidy" "$tree"
    t_check "status" [ "$t_status" -eq 1 ]
    t_check "message" grep -q -- "^$1:[0-9:]*: $2" "$t_out"
}

# passes FILE: the same, but tidy must succeed.
passes() {
    fresh
    cat >"$tree/$1"
    t_run "$tidy" "$tree"
    t_check "status" [ "$t_status" -eq 0 ]
    cat "$t_out" "$t_err"
}

# repeat COUNT LINE
repeat() { awk -v n="$1" -v line="$2" 'BEGIN { while (n-- > 0) print line }'; }

# function_of LINES: a file with a function of that many lines, braces included.
function_of() {
    printf '/* f.c - one function. */\nvoid f(void)\n{\n'
    repeat $(($1 - 2)) '    g();'
    echo '}'
}

t_case "a clean tree passes"
fresh
t_run "$tidy" "$tree"
t_check "status" [ "$t_status" -eq 0 ]
t_check "silent" [ ! -s "$t_out" ]

t_case "a tree without C files does not pass"
rm -rf "$tree" && mkdir -p "$tree" && echo text >"$tree/README.md"
t_run "$tidy" "$tree"
t_check "status" [ "$t_status" -eq 1 ]

t_case "long lines"
{ printf '/* ' && repeat 1 "$(printf '%095d' 0) */"; } | finds src/base/bad.h "line of 101 columns"
{ printf '/* ' && repeat 1 "$(printf '%094d' 0) */"; } | passes src/base/good.h

t_case "long functions"
function_of 71 | finds src/base/bad.c "function of 71 lines"
function_of 70 | passes src/base/f.c

t_case "long files"
{ echo '/* x */' && repeat 700 'int x;'; } | finds src/base/bad.c "file of 701 lines, at most 700"
{ echo '/* x */' && repeat 699 'int x;'; } | passes src/base/x.c
repeat 1001 x | finds notes.md "file of 1001 lines, at most 1000"
repeat 1000 x | passes notes.md

t_case "a long file is found before another one"
{ echo '/* x */' && repeat 700 'int x;'; } | finds include/tenure/a.h "file of 701 lines"

t_case "an engine on rows that does more than translate"
# engine COUNT: a clean tree with an engine of that many lines in two files.
engine() {
    fresh
    mkdir -p "$tree/src/stores/s3" "$tree/src/stores/zookeeper"
    for folder in s3 zookeeper; do
        { echo '/* x */' && repeat 399 'int x;'; } >"$tree/src/stores/$folder/a.h"
        { echo '/* x */' && repeat $(($1 - 401)) 'int x;'; } >"$tree/src/stores/$folder/b.c"
    done
    t_run "$tidy" "$tree"
}
engine 800
t_check "800 lines pass: $(cat "$t_out")" [ "$t_status" -eq 0 ]
engine 801
t_check "status" [ "$t_status" -eq 1 ]
t_check "named: $(cat "$t_out")" grep -q '^src/stores/s3: engine of more than 800 lines$' "$t_out"
t_check "and no other kind of store" [ "$(wc -l <"$t_out")" -eq 1 ]

t_case "a static name that says nothing of its module"
# many COUNT: a clean tree with that many files that have a static function of one name.
many() {
    fresh
    for i in $(seq "$1"); do
        printf '/* f.c - one function. */\nstatic int ask(int x)\n{\n    return x;\n}\n' \
            >"$tree/src/core/f$i.c"
    done
    t_run "$tidy" "$tree"
}
many 12
t_check "twelve pass: $(cat "$t_out")" [ "$t_status" -eq 0 ]
many 13
t_check "status" [ "$t_status" -eq 1 ]
t_check "named" grep -q '^src/core/f[0-9]*.c:2: static function ask in more than 12 files' "$t_out"
t_check "once" [ "$(grep -c ask "$t_out")" -eq 1 ]

t_case "a tag that is defined twice"
fresh
printf '/* a.h - one. */\nstruct pair;\nstruct pair {\n    int x;\n};\n' >"$tree/src/core/a.h"
printf '/* b.c - two. */\nstatic struct pair {\n    int y;\n} one;\n' >"$tree/src/base/b.c"
t_run "$tidy" "$tree"
t_check "status" [ "$t_status" -eq 1 ]
t_check "named" grep -q '^src/core/a.h:3: struct pair is defined in src/base/b.c as well' "$t_out"
passes src/core/x.h <<'END'
/* x.h - declared often, defined once; what a comment calls struct pair { } does not count. */
struct pair;
struct pair;
struct pair {
    int x;
};
END

t_case "banned calls"
banned='strcpy strcat sprintf vsprintf atoi strtok time gettimeofday rand srand sleep usleep'
{ echo '/* x */' && for name in $banned; do echo "int x = $name(0);"; done; } |
    finds src/base/bad.c "banned call: strcpy"
for name in $banned; do
    t_check "message" grep -q "banned call: $name\$" "$t_out"
done

t_case "what only looks like a banned call passes"
passes src/base/x.c <<'END'
/* x.c - time(0) in a comment,
 * and atoi(x) in its second line. */
int x = lifetime(0) + io->time(0) + io.time(0) + f("time(0)", 'x', "\"time(");
int uptime(int time);
END

t_case "a call after a comment or a literal is seen"
printf '/* x */\nint x = f("\\"", 0) /* y */ + time(0);\n' |
    finds src/base/bad.c "banned call: time"

t_case "line comments"
printf '/* x */\nint x; // why\n' | finds src/base/bad.c "line comment"
printf '/* x */\nconst char *x = "http://x"; /* http://x */\n' | passes src/base/x.c

t_case "tabs"
printf '/* x */\n/* a\tb */\n' | finds src/base/bad.c "tab"
printf 'a\tb\n' | finds README.md "tab"
printf 'all:\n\ttrue\n' | passes Makefile
printf 'func f() {\n\tg()\n}\n' | passes f.go

t_case "blanks at the end"
printf '/* x */ \n' | finds src/base/bad.h "blank at the end"
printf 'text \n' | finds README.md "blank at the end"

t_case "reminders"
for word in 'DO:TO' 'ME:FIX' 'XX:X'; do
    # Put together here, so that tidy does not find them in this file.
    printf '/* x %s */\n' "${word#*:}${word%:*}" | finds src/base/bad.h "leftover reminder"
done

t_case "a file without a purpose"
printf 'int x;\n' | finds src/base/bad.c "the file does not open with a comment"

t_case "includes against the arrows"
printf '/* x */\n#include "core/x.h"\n' | finds src/base/bad.h "src/base must not include"
printf '/* x */\n#include "sim/x.h"\n' | finds src/core/bad.h "src/core must not include"
printf '/* x */\n#include "base/x.h"\n' | finds src/fence/bad.h "src/fence must not include"
printf '/* x */\n#include "base/x.h"\n' |
    finds include/tenure/bad.h "include/tenure must not include"
printf '/* x */\n#include "x.h"\n' | finds src/base/bad.h "include spelled without its folder"
mkdir -p "$tree/src/new" && printf '/* x */\n#include "base/x.h"\n' >"$tree/src/new/x.h"
t_run "$tidy" "$tree"
t_check "unknown folder" grep -q "no include rule for src/new" "$t_out"
printf '/* x */\n#include "base/x.h"\n#include "core/y.h"\n#include "tenure/z.h"\n' |
    passes src/core/x.h

t_case "formatting"
finds src/base/bad.c "error: code should be clang-formatted" <<'END'
/* bad.c - badly formatted. */
int  x ;
END

t_case "the limits in CONTRIBUTING.md are the checker's"
t_check "quoted" grep -qF "$("$tidy" --limits)" "$TENURE_ROOT/CONTRIBUTING.md"

t_case "its table has every folder, and the arrows that are checked"
folders=$(cd "$TENURE_ROOT" && printf '%s\n' */ src/*/ include/*/ bindings/*/ |
    grep -vE '^(build.*|debian|src|include|bindings)/$')
for folder in $folders; do
    t_check "has $folder" grep -qE '^\|[^|]*`'"${folder%/}"'`' "$TENURE_ROOT/CONTRIBUTING.md"
done
sed -n 's/^    may\["\(.*\)"\] = "\(.*\)"$/\1 \2/p' "$TENURE_ROOT/tools/tidy.awk" >"$t_dir/arrows"
while read -r folder names; do
    set -- # All but its own.
    for name in $names; do [ "${folder##*/}" = "$name" ] || set -- "$@" "\`$name\`"; done
    row="^[|] \`$folder\` [|].*[|] $(echo "${*:-itself}" | sed 's/ /, /g') [|]\$"
    t_check "the arrows of $folder" grep -qE "$row" "$TENURE_ROOT/CONTRIBUTING.md"
done <"$t_dir/arrows"

t_done
