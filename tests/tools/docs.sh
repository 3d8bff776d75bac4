#!/bin/sh
# docs.sh - the documents name every promise and every plant, and nothing that does not exist.
# shellcheck source=tests/harness/lib.sh
. "${TENURE_ROOT:-$(dirname "$0")/../..}/tests/harness/lib.sh"

promises='P1 P2 P3 P4 P5 P6 P7 P8 P9 W1 R1 Q1 S1'
folders='src|sim|include|tests|tools|docs|man|bench'

# documents ROOT: the Markdown files, relative to ROOT.
documents() { (cd "$1" && find . -maxdepth 1 -name '*.md' && find docs -name '*.md') | sort; }

# plants ROOT: the names in the list of plant.h, which may be broken over two lines.
plants() {
    tr -d '\\\n' <"$1/src/core/plant.h" | grep -Eo 'X\([A-Z_]+, "[a-z-]+"' | cut -d'"' -f2
}

# without_code FILE: the text without indented and fenced blocks and `code`: no links there.
without_code() {
    awk '/^```/ { fenced = !fenced; next } !fenced && !/^    / { gsub(/`[^`]*`/, ""); print }' "$1"
}

# anchors FILE: the fragment that each heading answers to.
anchors() {
    awk '/^```/ { fenced = !fenced } !fenced && /^#+ /' "$1" | sed 's/^#* //' |
        tr '[:upper:]' '[:lower:]' | tr -cd 'a-z0-9 _\n-' | tr ' ' '-'
}

check_promises() {
    for promise in $promises; do
        grep -q "^## $promise " "$1/docs/INVARIANTS.md" ||
            echo "docs/INVARIANTS.md: no heading for $promise"
    done
}

check_plants() {
    plants "$1" >"$t_dir/plants"
    [ -s "$t_dir/plants" ] || echo "src/core/plant.h: no plant found"
    while read -r plant; do
        grep -qF "\`$plant\`" "$1/docs/INVARIANTS.md" ||
            echo "docs/INVARIANTS.md: does not name the plant $plant"
    done <"$t_dir/plants"
}

# check_link ROOT FILE TARGET
check_link() {
    case $3 in
    http://* | https://* | mailto:*) return ;;
    esac
    path=${3%%#*}
    target=$1/$(dirname "$2")/$path
    [ -n "$path" ] || target=$1/$2
    if [ ! -e "$target" ]; then
        echo "$2: broken link to $3"
    elif [ "$3" != "$path" ] && ! anchors "$target" | grep -qxF -e "${3#*#}"; then
        echo "$2: broken link to $3: no such heading"
    fi
}

check_links() {
    {
        documents "$1"
        (cd "$1" && find bindings -name '*.md' 2>/dev/null)
    } | while read -r file; do
        without_code "$1/$file" | grep -Eo '\]\([^) ]+\)' | sed 's/^](//; s/)$//' |
            while read -r target; do check_link "$1" "$file" "$target"; done
    done
}

# Paths as a reader would type them; a pattern like src/core/*.c must match something. What `make
# bench` leaves behind is not here before.
check_paths() {
    documents "$1" | while read -r file; do
        grep -Eo "(^|[^A-Za-z0-9_./-])($folders)/[A-Za-z0-9_./*-]+" "$1/$file" |
            sed 's|^[^a-z]||; s|[.]*$||' | grep -v '^bench/out' | sort -u |
            while read -r path; do
                # shellcheck disable=SC2086 # The pattern is meant to be expanded.
                (cd "$1" && ls -d $path >/dev/null 2>&1) || echo "$file: there is no $path"
            done
    done
}

# code_words FILE: the words in `code` that look like names of ours: shared ones anywhere, and
# static ones in the rows of the tables that say where a promise is kept, asserted and checked.
# shellcheck disable=SC2016 # The backquotes are Markdown's.
code_words() {
    {
        grep -Eo '`(tn|TN|sim|SIM|tenure|TENURE)_[A-Za-z0-9_]+`' "$1"
        grep -E '^\| (kept by|asserted|checked by) ' "$1" | grep -Eo '`[a-z][a-z0-9_]*`'
    } | tr -d '`' | sort -u
}

check_names() {
    documents "$1" | while read -r file; do
        code_words "$1/$file" | while read -r name; do
            (cd "$1" && grep -rqswF -e "$name" --include='*.[ch]' --include='*.lua' \
                --include='*.sql' src sim include) ||
                echo "$file: the code has no $name"
        done
    done
}

# Behind the path of a file come names that are in that file.
# shellcheck disable=SC2016 # The backquotes are Markdown's.
check_places() {
    documents "$1" | while read -r file; do
        grep -Eo '`(src|sim|tests)/[a-z0-9_/]+\.[ch]`[:,] `[a-z][a-z0-9_]*`(, `[a-z][a-z0-9_]*`)*' \
            "$1/$file" | tr -d '`:,' | while read -r path names; do
            for name in $names; do
                grep -qsw -e "$name" "$1/$path" || echo "$file: $path has no $name"
            done
        done
    done
}

check_all() {
    check_places "$1"
    check_promises "$1"
    check_plants "$1"
    check_links "$1"
    check_paths "$1"
    check_names "$1"
}

t_case "the documents are whole"
check_all "$TENURE_ROOT" >"$t_dir/found"
t_refute "$(cat "$t_dir/found")" [ -s "$t_dir/found" ]

# public_functions ROOT: what the public headers export.
public_functions() {
    cat "$1"/include/tenure/*.h | tr '\n' ' ' | grep -Eo 'TENURE_API[^;(]*\(' |
        grep -Eo 'tenure_[a-z_0-9]+\($' | tr -d '(' | sort -u
}

# check_pages ROOT: each public function is named by one page of the manual, which says how it is
# called, and each name there is a function.
check_pages() {
    public_functions "$1" >"$t_dir/functions"
    [ -s "$t_dir/functions" ] || echo "include/tenure: no function found"
    while read -r function; do
        page=$(cd "$1" && grep -lE "^\.Nm $function( ,)?\$" man/*.3)
        if [ -z "$page" ]; then
            echo "man: no page for $function"
        elif ! grep -qE "^\.F[no] $function( |\$)" "$1/$page"; then
            echo "$page: does not say how $function is called"
        fi
    done <"$t_dir/functions"
    grep -hEo '^\.Nm tenure_[a-z_]+' "$1"/man/*.3 | cut -d' ' -f2 | sort |
        comm -23 - "$t_dir/functions" | sed 's/^/man: there is no function /'
}

t_case "every public function has a page of the manual"
check_pages "$TENURE_ROOT" >"$t_dir/found"
t_refute "$(cat "$t_dir/found")" [ -s "$t_dir/found" ]

t_case "a missing page is found"
mkdir -p "$t_dir/pages/man" "$t_dir/pages/include/tenure"
printf 'TENURE_API int tenure_a(void);\nTENURE_API TENURE_MUST_USE int\ntenure_b(int);\n' \
    >"$t_dir/pages/include/tenure/x.h"
printf '.Nm tenure_a ,\n.Nm tenure_c\n.Fn tenure_a void\n' >"$t_dir/pages/man/x.3"
check_pages "$t_dir/pages" >"$t_dir/found"
t_check "no page: $(cat "$t_dir/found")" grep -qx 'man: no page for tenure_b' "$t_dir/found"
t_check "no function" grep -qx 'man: there is no function tenure_c' "$t_dir/found"
t_check "nothing else" [ "$(wc -l <"$t_dir/found")" -eq 2 ]

t_case "the manual is well-formed"
if command -v mandoc >/dev/null; then
    for page in "$TENURE_ROOT"/man/*.[13]; do
        t_run mandoc -T lint -W warning "$page"
        t_check "$(cat "$t_out" "$t_err")" [ "$t_status" -eq 0 ]
    done
    printf '.Dd November 16, 2026\n.Dt X 3\n.Os\n.Sh NAME\n.Nm x\n.Nd y\n.Bl -tag\n' >"$t_dir/bad.3"
    t_run mandoc -T lint -W warning "$t_dir/bad.3"
    t_check "a list without an end is found" [ "$t_status" -ne 0 ]
else
    t_skip "there is no mandoc"
fi

# verbs_of PROGRAM, options_of PROGRAM VERB: what the help says.
verbs_of() { "$1" help | sed -n '/^Verbs:/,/^$/p' | grep -Eo '^  [a-z-]+'; }
options_of() {
    "$1" "$2" --help | sed -n '/^Options:/,/^$/p' | grep -Eo -- '^ *(-[a-z], )?--[a-z-]*[a-z]' |
        grep -Eo -- '--[a-z-]*' | grep -vx -e --help
}

# pages_of ROOT VERB: those that have it in their SYNOPSIS.
pages_of() {
    for po_page in "$1"/man/*.1; do
        sed -n '/^\.Sh SYNOPSIS/,/^\.Sh DESC/p' "$po_page" |
            grep -Eq "^\.Cm ([a-z| -]* )?$2( |\$)" && echo "$po_page"
    done
}

# check_verbs ROOT PROGRAM: the manual has every verb, and each of its options.
check_verbs() {
    for verb in $(verbs_of "$2"); do
        pages=$(pages_of "$1" "$verb")
        [ -n "$pages" ] || echo "man: no page for tenure $verb"
        for option in $(options_of "$2" "$verb"); do
            # shellcheck disable=SC2086 # Words.
            [ -z "$pages" ] || grep -Eq "(Fl|,) ${option#-}( |\$)" $pages ||
                echo "man: tenure $verb: no $option"
        done
    done
}

t_case "the manual has every verb and every option that the help knows"
tenure=$TENURE_BUILD/tenure
check_verbs "$TENURE_ROOT" "$tenure" >"$t_dir/found"
t_check "$(cat "$t_dir/found")" [ ! -s "$t_dir/found" ]
t_check "there are options" [ "$(options_of "$tenure" run | wc -l)" -ge 15 ]

t_case "a verb and an option without a page are found"
cat >"$t_dir/more" <<END
#!/bin/sh
"$tenure" "\$@" | sed -e 's/^  elect /  reign /' -e 's/--grace/--mercy/'
END
chmod +x "$t_dir/more"
check_verbs "$TENURE_ROOT" "$t_dir/more" >"$t_dir/found" 2>/dev/null
t_check "the verb: $(cat "$t_dir/found")" grep -qx 'man: no page for tenure reign' "$t_dir/found"
t_check "the option" grep -qx 'man: tenure run: no --mercy' "$t_dir/found"

# check_daemon ROOT PROGRAM: the manual and docs/tenured.md have every option that -h knows.
check_daemon() {
    "$2" -h | grep -E '^  --' | grep -Eo -- '--[a-z-]+[a-z]' | sort -u >"$t_dir/options"
    while read -r option; do
        grep -Eq "(Fl|,) ${option#-}( |\$)" "$1/man/tenured.1" ||
            echo "man/tenured.1: no $option"
        grep -Eq -e "\`$option[\` ]" "$1/docs/tenured.md" ||
            echo "docs/tenured.md: no $option"
    done <"$t_dir/options"
}

t_case "the manual and the page of tenured have every option that its help knows"
check_daemon "$TENURE_ROOT" "$TENURE_BUILD/tenured" >"$t_dir/found"
t_check "$(cat "$t_dir/found")" [ ! -s "$t_dir/found" ]
t_check "there are options" [ "$(wc -l <"$t_dir/options")" -ge 25 ]
printf '#!/bin/sh\n"%s" "$@" | sed "s/--acl/--who-may/"\n' "$TENURE_BUILD/tenured" >"$t_dir/more"
check_daemon "$TENURE_ROOT" "$t_dir/more" >"$t_dir/found"
t_check "one that is missing is found" grep -qx 'man/tenured.1: no --who-may' "$t_dir/found"
t_check "in both" grep -qx 'docs/tenured.md: no --who-may' "$t_dir/found"

# check_evidence ROOT: each cell of the table of features ends with the mark of its evidence, which
# is below, and every mark below is used.
check_evidence() {
    awk '
        /^## / { on = $0 == "## Feature by feature" }
        on && /^\| [a-z]/ {
            cells = split($0, cell, / *\| */)
            for (i = 3; i < cells; i++) {
                words = split(cell[i], word, " ")
                if (word[words] ~ /^[A-Z][0-9]+$/)
                    used[word[words]] = 1
                else
                    print "docs/comparison.md: no evidence for: " cell[2] ", column " i - 2
            }
        }
        on && /^[A-Z][0-9]+ ./ { given[$1] = 1 }
        END {
            for (mark in used)
                if (!(mark in given))
                    print "docs/comparison.md: " mark " is not there"
            for (mark in given)
                if (!(mark in used))
                    print "docs/comparison.md: no cell leads to " mark
        }' "$1/docs/comparison.md" | sort
}

t_case "every cell of the comparison has its evidence"
check_evidence "$TENURE_ROOT" >"$t_dir/found"
t_refute "$(cat "$t_dir/found")" [ -s "$t_dir/found" ]
t_check "there are cells" [ "$(grep -cE '^\| .* [A-Z][0-9]+ \|$' \
    "$TENURE_ROOT/docs/comparison.md")" -ge 12 ]

t_case "a cell without evidence is found"
mkdir -p "$t_dir/cells/docs"
cat >"$t_dir/cells/docs/comparison.md" <<'END'
## Feature by feature

| | A | B |
|---|---|---|
| x | yes A1 | no |
| y | no A2 | - A1 |

A1 A file.
A3 Another one.
END
check_evidence "$t_dir/cells" >"$t_dir/found"
t_check "a cell" grep -qx 'docs/comparison.md: no evidence for: x, column 2' "$t_dir/found"
t_check "a mark" grep -qx 'docs/comparison.md: A2 is not there' "$t_dir/found"
t_check "evidence of nothing" grep -qx 'docs/comparison.md: no cell leads to A3' "$t_dir/found"
t_check "nothing else" [ "$(wc -l <"$t_dir/found")" -eq 3 ]

# check_place ROOT: the placeholder for the project's place in the net is the same everywhere. It is
# the HOMEPAGE_URL of CMakeLists.txt.
check_place() {
    place=$(sed -n 's|^project(.* HOMEPAGE_URL https://\([^ ]*\).*|\1|p' "$1/CMakeLists.txt")
    [ -n "$place" ] || echo "CMakeLists.txt: no HOMEPAGE_URL"
    (
        cd "$1" || exit
        has() { grep -qF -e "$2" "$1" || echo "$1: does not say $2"; }
        has bindings/go/go.mod "module $place/tenure"
        has docs/go.md "$place/tenure"
        has bindings/python/pyproject.toml "https://$place"
        has packaging/debian/control "<maintainers@$place>"
        has packaging/debian/control "Homepage: https://$place"
        has packaging/debian/changelog "<maintainers@$place>"
    )
}

t_case "the packages name one place"
check_place "$TENURE_ROOT" >"$t_dir/found"
t_refute "$(cat "$t_dir/found")" [ -s "$t_dir/found" ]

t_case "a package that names another place is found"
(cd "$TENURE_ROOT" && tar -cf - CMakeLists.txt bindings/go/go.mod bindings/python/pyproject.toml \
    docs/go.md packaging/debian) | (mkdir "$t_dir/place" && tar -xf - -C "$t_dir/place")
sed -i 's/^module .*/module elsewhere.example\/tenure/' "$t_dir/place/bindings/go/go.mod"
check_place "$t_dir/place" >"$t_dir/found"
t_check "it is named: $(cat "$t_dir/found")" \
    grep -q '^bindings/go/go.mod: does not say' "$t_dir/found"
t_check "nothing else" [ "$(wc -l <"$t_dir/found")" -eq 1 ]

# The reader test: the README's table answers what a newcomer asks, in this order.
t_case "the README leads to an answer to each of the ten questions"
sed -n '/^## Read on/,/^## /p' "$TENURE_ROOT/README.md" | sed -n 's/^| \(.*?\) | .*](.*) |$/\1/p' \
    >"$t_dir/questions"
for words in "What is it" "not use it" "Which store" "What TTL" "process pauses" "hand over" \
    "see who leads" "What does it cost" "fence PostgreSQL" "upgrade"; do
    t_check "$words" grep -qF -e "$words" "$t_dir/questions"
done

t_case "something was looked at"
documents "$TENURE_ROOT" >"$t_dir/documents"
t_check "the README" grep -qx './README.md' "$t_dir/documents"
t_check "the promises" grep -qx 'docs/INVARIANTS.md' "$t_dir/documents"
plants "$TENURE_ROOT" >"$t_dir/plants"
t_check "every plant" [ "$(wc -l <"$t_dir/plants")" -eq \
    "$(grep -c '^    X(' "$TENURE_ROOT/src/core/plant.h")" ]

# A small tree with nothing wrong, to which each case adds one mistake.
fresh() {
    rm -rf "$t_dir/tree"
    mkdir -p "$t_dir/tree/docs" "$t_dir/tree/src/core"
    for promise in $promises; do
        printf '## %s a promise\n\n' "$promise"
    done >"$t_dir/tree/docs/INVARIANTS.md"
    # shellcheck disable=SC2016 # The backquotes are Markdown's.
    echo 'Plants: `no-latch`, `no-poll`. See [P1](#p1-a-promise), `src/core/plant.h`.' \
        >>"$t_dir/tree/docs/INVARIANTS.md"
    echo '[why](docs/INVARIANTS.md#w1-a-promise) [far](https://example.org/x.md)' \
        >"$t_dir/tree/README.md"
    printf '#define TN_PLANT_LIST(X) \\\n    X(NO_LATCH, "no-latch", "P6", "x") \\\n    %s\n' \
        'X(NO_POLL, "no-poll", "P7", "y")' >"$t_dir/tree/src/core/plant.h"
}

# finds MESSAGE: exactly this is wrong with the tree.
finds() {
    check_all "$t_dir/tree" >"$t_dir/found"
    t_check "found: $(cat "$t_dir/found")" [ "$(cat "$t_dir/found")" = "$1" ]
}

t_case "a tree without a mistake passes"
fresh
finds ''

t_case "a missing promise is found"
for promise in $promises; do
    fresh
    sed -i "/^## $promise /s/.*/## Something else/" "$t_dir/tree/docs/INVARIANTS.md"
    check_all "$t_dir/tree" >"$t_dir/found"
    t_check "$promise" grep -qx "docs/INVARIANTS.md: no heading for $promise" "$t_dir/found"
done

t_case "a missing plant is found"
fresh
sed -i 's/no-poll/no-pool/' "$t_dir/tree/docs/INVARIANTS.md"
finds 'docs/INVARIANTS.md: does not name the plant no-poll'

t_case "a list of plants that cannot be read is found"
fresh
echo '#define TN_PLANT_LIST(X)' >"$t_dir/tree/src/core/plant.h"
finds 'src/core/plant.h: no plant found'

t_case "a broken link is found"
fresh
echo 'See [the plan](docs/plan.md).' >>"$t_dir/tree/README.md"
check_links "$t_dir/tree" >"$t_dir/found"
t_check "message" grep -qx './README.md: broken link to docs/plan.md' "$t_dir/found"
fresh
echo 'See [P1](INVARIANTS.md#p1-exclusion).' >>"$t_dir/tree/docs/INVARIANTS.md"
finds 'docs/INVARIANTS.md: broken link to INVARIANTS.md#p1-exclusion: no such heading'

t_case "a path that does not exist is found"
fresh
echo 'It is in src/core/leases.c.' >>"$t_dir/tree/README.md"
finds './README.md: there is no src/core/leases.c'
fresh
# shellcheck disable=SC2016 # The backquotes are Markdown's.
echo '| `sim/*.c` | the simulator |' >>"$t_dir/tree/README.md"
finds './README.md: there is no sim/*.c'

t_case "a name that the code does not have is found"
fresh
# shellcheck disable=SC2016 # The backquotes are Markdown's.
echo 'See `tn_session_begin` and `TN_PLANT_LIST`.' >>"$t_dir/tree/README.md"
finds './README.md: the code has no tn_session_begin'
fresh
# shellcheck disable=SC2016 # The backquotes are Markdown's.
echo '| kept by | `extended` |' >>"$t_dir/tree/docs/INVARIANTS.md"
finds 'docs/INVARIANTS.md: the code has no extended'

t_case "a name that is in another file is found"
fresh
# shellcheck disable=SC2016 # The backquotes are Markdown's.
echo '| what is wrong | `src/core/plant.h`, `x`, `y`, `latch_it` |' \
    >>"$t_dir/tree/docs/ARCHITECTURE.md"
finds 'docs/ARCHITECTURE.md: src/core/plant.h has no latch_it'

t_case "a link inside code is none"
fresh
# shellcheck disable=SC2016 # The backquotes are Markdown's.
printf 'Write `[text](x.md)`.\n\n    [text](y.md)\n\n```\n[text](z.md)\n```\n' \
    >>"$t_dir/tree/README.md"
finds ''

t_done
