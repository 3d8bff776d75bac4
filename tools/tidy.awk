# tidy.awk - the checks of tools/tidy that need no parser. Prints FILE:LINE: what is wrong.
#
# Plain POSIX awk: Debian's default is mawk.

BEGIN {
    # Which folder may include from which; "tenure" is include/tenure. Arrows point one way.
    may["include/tenure"] = "tenure"
    may["src/base"] = "tenure base"
    may["src/core"] = "tenure base core"
    may["src/fence"] = "tenure fence"
    may["src/runtime"] = "tenure base core wire runtime"
    may["src/wire"] = "tenure base wire"
    may["src/net"] = "tenure base wire net"
    may["src/stores"] = "tenure base core wire runtime net stores"
    may["src/runner"] = "tenure base runtime runner"
    may["src/daemon"] = "tenure base core fence runtime wire http lib daemon"
    may["src/receivers"] = "tenure base fence runtime wire net receivers"
    may["src/lib"] = "tenure base core runtime stores receivers lib"
    may["src/http"] = "tenure base wire http"
    may["src/gate"] = "tenure base fence runtime wire http receivers gate"
    may["src/cli"] = "tenure base core runtime stores fence http receivers gate runner sim lib cli"
    may["sim"] = "tenure base core fence sim"
    may["web"] = "tenure base core fence sim"
    may["bench"] = "tenure base core runtime stores wire tests bench"
    may["examples"] = "tenure"
    may["tests"] = "tenure base core runtime wire net stores fence http receivers gate runner sim" \
                   " daemon lib cli tests"

    # Unbounded, unchecked, or a hidden source of time, chance or delay.
    banned = "(strcpy|strcat|sprintf|vsprintf|atoi|strtok|" \
             "time|gettimeofday|rand|srand|sleep|usleep)"
    reminder = "T[O]DO|F[I]XME|X[X]X"
}

function complain(line, what) {
    print FILENAME ":" line ": " what
    bad = 1
}

# The line without comments and without the insides of literals. Sets slashes when it meets a
# line comment.
function code_of(line,    out, token) {
    out = ""
    while (1) {
        if (in_comment) {
            if (!index(line, "*/"))
                return out
            line = substr(line, index(line, "*/") + 2)
            in_comment = 0
        }
        if (!match(line, /["']|\/\*|\/\//))
            return out line
        token = substr(line, RSTART, RLENGTH)
        out = out substr(line, 1, RSTART - 1)
        line = substr(line, RSTART + RLENGTH)
        if (token == "/*") {
            in_comment = 1
        } else if (token == "//") {
            slashes = 1
            return out
        } else {
            if (token == "\"")
                match(line, /^([^"\\]|\\.)*"/)
            else
                match(line, /^([^'\\]|\\.)*'/)
            out = out token token
            line = substr(line, RLENGTH + 1)
        }
    }
}

function folder_of(path,    parts) {
    split(path, parts, "/")
    return parts[1] == "src" || parts[1] == "include" ? parts[1] "/" parts[2] : parts[1]
}

function check_include(line,    path, from) {
    if (line ~ /"[a-z]+\.pb-c\.h"/) # Made from a .proto in the same folder.
        return
    path = line
    sub(/^[ \t]*#[ \t]*include[ \t]*"/, "", path)
    sub(/".*/, "", path)
    from = path
    if (!sub(/\/.*/, "", from)) {
        complain(FNR, "include spelled without its folder: " path)
    } else if (!(folder in may)) {
        complain(FNR, "no include rule for " folder ": add one to tools/tidy.awk")
    } else if (index(" " may[folder] " ", " " from " ") == 0) {
        complain(FNR, folder " must not include " path)
    }
}

# An engine on rows (core/rows.h) only translates: what grows beyond this is a decision that the
# simulator should see, or a client that its receiver can share (src/net).
function end_engine() {
    if (file !~ /^src\/stores\/(consul|dynamodb|kubernetes|s3)\/.*\.[ch]$/)
        return
    sub(/\/[^\/]*$/, "", file)
    engine[file] += lines
    if (engine[file] > engine_lines && engine[file] - lines <= engine_lines) {
        print file ": engine of more than " engine_lines " lines"
        bad = 1
    }
}

function end_file() {
    if (file != "" && lines > most_lines) {
        print file ":" lines ": file of " lines " lines, at most " most_lines
        bad = 1
    }
    end_engine()
}

# A search for a static function should find it, so its name says of which module it is. The line is
# without comments and literals.
function check_static(line,    name) {
    name = line
    if (name ~ /=/ || !sub(/[(].*/, "", name))
        return
    sub(/.*[ *]/, "", name)
    if (name !~ /^[a-z][a-z0-9_]*$/ || (name, FILENAME) in seen_static)
        return
    seen_static[name, FILENAME] = 1
    if (++static_files[name] > name_files)
        complain(FNR, "static function " name " in more than " name_files \
                 " files; give it its module's noun")
}

# A tag is defined in one place, so that a search for it leads there.
function check_tag(line,    tag) {
    while (match(line, /(struct|union|enum) [a-z_0-9]+ \{/)) {
        tag = substr(line, RSTART, RLENGTH - 2)
        line = substr(line, RSTART + RLENGTH)
        if (tag in tag_at)
            complain(FNR, tag " is defined in " tag_at[tag] " as well")
        else
            tag_at[tag] = FILENAME
    }
}

FNR == 1 {
    end_file()
    file = FILENAME
    folder = folder_of(FILENAME)
    is_c = FILENAME ~ /\.[ch]$/
    is_ours = is_c && folder ~ /^(src\/|sim$|include\/)/ # A test is a program of its own.
    most_lines = is_ours ? source_lines : file_lines
    is_prose = FILENAME ~ /\.(md|json|svg)$|\/go\.(mod|sum)$/
    # make wants tabs, and gofmt writes them.
    has_tabs = FILENAME ~ /(^|\/)Makefile$|\/debian\/rules$|\.go$|\/go\.mod$/
    in_comment = 0
    function_start = 0
    if (is_c && $0 !~ /^\/\* /)
        complain(1, "the file does not open with a comment on its purpose")
}

{
    lines = FNR
    if (!is_prose && length($0) > columns)
        complain(FNR, "line of " length($0) " columns, at most " columns)
    if (/[ \t\r]$/)
        complain(FNR, "blank at the end of the line")
    if (!has_tabs && /\t/)
        complain(FNR, "tab")
    if ($0 ~ reminder)
        complain(FNR, "leftover reminder")
}

is_c {
    if (!in_comment && /^[ \t]*#[ \t]*include[ \t]*"/)
        check_include($0)
    slashes = 0
    code = code_of($0)
    if (slashes)
        complain(FNR, "line comment; only /* */ is used")
    if (code ~ ("(^|[^A-Za-z0-9_.>])" banned "[ ]*\\(")) {
        match(code, "(^|[^A-Za-z0-9_.>])" banned "[ ]*\\(")
        call = substr(code, RSTART, RLENGTH)
        gsub(/[^a-z]/, "", call)
        complain(FNR, "banned call: " call)
    }
    if (is_ours && /^static /)
        check_static(code)
    if (is_ours)
        check_tag(code)
    # clang-format puts a function's braces, and only those, alone in the first column.
    if (/^\{$/)
        function_start = FNR
    if (/^\}/ && function_start) {
        if (FNR - function_start + 1 > function_lines)
            complain(function_start, "function of " FNR - function_start + 1 \
                     " lines between its braces, at most " function_lines)
        function_start = 0
    }
}

END {
    end_file()
    exit bad
}
