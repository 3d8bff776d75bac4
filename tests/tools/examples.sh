#!/bin/sh
# examples.sh - the programs that the documents show compile, lead and write: taken out of the
# header, the README, docs/library.md and the manual as they stand there.
# shellcheck source=tests/harness/lib.sh
. "${TENURE_ROOT:-$(dirname "$0")/../..}/tests/harness/lib.sh"

setting() { sed -n "s/^$1:[^=]*=//p" "$TENURE_BUILD/CMakeCache.txt"; }
cc=$(setting CMAKE_C_COMPILER)
instrument=
[ -z "$(setting TENURE_SANITIZE)" ] || instrument="-fsanitize=$(setting TENURE_SANITIZE)"
[ "$(setting TENURE_COVERAGE)" != ON ] || instrument=--coverage
LD_LIBRARY_PATH=$TENURE_BUILD
export LD_LIBRARY_PATH

# block FILE WORD: the piece of C in FILE that contains WORD; the first of them.
block() {
    awk -v word="$2" '
        function end() { if (index(text, word)) { printf "%s", text; found = 1; exit }; text = "" }
        FILENAME ~ /\.h$/ && /^ \*     / { text = text substr($0, 8) "\n"; next }
        FILENAME ~ /\.h$/ && /^ \*$/ && text != "" { text = text "\n"; next }
        FILENAME ~ /\.h$/ { end(); next }
        /^```c$/ || /^\.Bd -literal/ { inside = 1; next }
        inside && (/^```$/ || /^\.Ed$/) { inside = 0; end(); next }
        inside { text = text $0 "\n" }
        END { exit !found }' "$TENURE_ROOT/$1" | sed "s|sqlite:/var/lib/[a-z]*/|sqlite:$t_dir/|"
}

# What the examples leave to their reader. Three writes are enough; without one, a minute is.
cat >"$t_dir/reader.h" <<'END'
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "tenure/tenure.h"

static volatile int stopping, started = WITHOUT_CALLBACK;

static inline void wait_a_moment(void)
{
    static int moments;
    struct timespec moment = { .tv_nsec = 10000000 };

    if (++moments == 6000)
        abort();
    (void)nanosleep(&moment, NULL);
}

static inline void write_something(uint64_t token)
{
    static int written;

    printf("wrote with %" PRIu64 "\n", token);
    if (getenv("STOP_AT") != NULL) { /* A long write, to hand over in its middle. */
        struct timespec write = { .tv_sec = 1 };
        (void)fflush(stdout);
        (void)nanosleep(&write, NULL);
        printf("written with %" PRIu64 "\n", token);
        (void)fflush(stdout);
        stopping = access(getenv("STOP_AT"), F_OK) == 0;
        return;
    }
    if (++written >= 3 && started) /* The callback is on a thread of its own. */
        stopping = 1;
    wait_a_moment();
}

struct worker {
    struct tenure_election *election;
};

static inline void worker_start(struct worker *worker, struct tenure_election *election,
                                uint64_t token)
{
    (void)worker;
    (void)election;
    printf("started with %" PRIu64 "\n", token);
    started = 1;
    if (getenv("STOP_WHEN_STARTED") != NULL)
        stopping = 1;
}

static inline void worker_stop_and_join(struct worker *worker)
{
    (void)worker;
    printf("stopped\n");
}
END

# leads WHAT PIECES...: main of these pieces, behind what is in $before, ends and has written.
leads() {
    what=$1
    shift
    {
        echo "#define WITHOUT_CALLBACK $([ -n "$before" ] && echo 0 || echo 1)"
        printf '#include "reader.h"\n%s\nint main(void)\n{\n' "$before"
        printf '%s\n' "$@"
        printf '    puts("ended");\n    return rc == 0 ? EXIT_SUCCESS : EXIT_FAILURE;\n}\n'
    } >"$t_dir/example.c"
    # shellcheck disable=SC2086 # Words.
    t_run "$cc" -std=c11 -D_GNU_SOURCE -Wall -Wextra -Werror $instrument -I"$TENURE_ROOT/include" \
        "$t_dir/example.c" -o "$t_dir/example" -L"$TENURE_BUILD" -ltenure
    t_check "$what compiles: $(head -n 5 "$t_err")" [ "$t_status" -eq 0 ]
    t_run timeout 90 "$t_dir/example"
    t_check "$what: status $t_status: $(cat "$t_err")" [ "$t_status" -eq 0 ]
    t_prints "${expect:-wrote with }"
}

end='if (rc == 0) rc = tenure_close(tenure);'
TENURE_STORE=sqlite:$t_dir/example.db
export TENURE_STORE
before=

t_case "tenure.h"
leads tenure.h "$(block include/tenure/tenure.h tenure_open)" "$end"

t_case "README.md"
leads README.md "$(block README.md tenure_open)" "$end"

# The next one prints what was written by the time it leads: no write is open.
hand_over() { # OF STORE
    leads "$1" "$(block "$1" tenure_open)" "$end"
    TENURE_STORE=$2
    rm -f "$t_dir/stop" "$t_dir/old"
    : >"$t_dir/old"
    STOP_AT=$t_dir/stop "$t_dir/example" >>"$t_dir/old" 2>&1 &
    old=$!
    timeout 30 sh -c 'until grep -q "^wrote" "$1"; do sleep 0.01; done' - "$t_dir/old"
    "$TENURE_BUILD/tenure" run nightly-report -- cat "$t_dir/old" >"$t_dir/seen" \
        2>"$t_dir/next.err" &
    next=$!
    # More than once, if the next one did not wait yet.
    timeout 60 sh -c 'until [ -s "$2" ]; do "$1" handover --wait 5s nightly-report; done; true' \
        - "$TENURE_BUILD/tenure" "$t_dir/seen" >"$t_dir/handover" 2>&1
    status=$?
    t_check "$1: handed over: $(cat "$t_dir/handover" "$t_dir/next.err")" [ "$status" -eq 0 ]
    wait "$next"
    t_check "$1: the next one leads between writes: $(cat "$t_dir/seen")" \
        sh -c "tail -n 1 '$t_dir/seen' | grep -q '^written'"
    : >"$t_dir/stop"
    wait "$old"
    t_check "$1 ends well: $(tail -n 2 "$t_dir/old")" grep -q '^ended' "$t_dir/old"
}
t_case "a hand-over in the middle of a write waits for its end"
hand_over include/tenure/tenure.h "$TENURE_STORE"
hand_over README.md "sqlite:$t_dir/tenure.db"
TENURE_STORE=sqlite:$t_dir/example.db

t_case "docs/library.md: open, campaign, work, close"
leads library.md "$(block docs/library.md tenure_open)" "$(block docs/library.md write_something)" \
    "$(block docs/library.md 'tenure_close(')"

t_case "docs/library.md: work on a thread of its own"
before=$(block docs/library.md worker_start)
callback=$(block docs/library.md 'callback = hear')
STOP_WHEN_STARTED=yes expect="started with " leads "callback" "$callback" \
    "$(block docs/library.md tenure_open | grep -v '^struct tenure_campaign ')" \
    'while (!stopping) wait_a_moment();' "$end"

t_case "docs/library.md: a loop of one's own"
STOP_WHEN_STARTED=yes expect="started with " leads "own loop" "$callback" \
    "struct tenure_election *election;" "struct tenure_error error;" \
    "$(block docs/library.md TENURE_OWN_LOOP)" "$end"

t_case "the manual"
before=
leads "tenure_token.3" "$(block docs/library.md tenure_open)" "uint64_t token;" \
    "$(block man/tenure_token.3 tenure_token)" "$end"
before=$(block man/tenure_campaign.3 worker_start)
STOP_WHEN_STARTED=yes expect="started with " leads "tenure_campaign.3" "$callback" \
    "$(block docs/library.md tenure_open | grep -v '^struct tenure_campaign ')" \
    'while (!stopping) wait_a_moment();' "$end"

t_case "an example that does not wait is found: it writes nothing"
before=
# Held by another, so that it cannot lead by luck.
"$TENURE_BUILD/tenure" acquire nightly-report --ttl 1h >/dev/null
printf '%s\n' "$(block include/tenure/tenure.h tenure_open)" |
    sed '/^while/,$d' >"$t_dir/hasty"
# shellcheck disable=SC2016
echo 'while (rc == 0 && (token = tenure_token(election)) != 0 && !stopping) {' \
    'write_something(token); wait_a_moment(); }' >>"$t_dir/hasty"
expect=ended leads hasty "$(cat "$t_dir/hasty")" "$end"
t_refute "nothing was written" grep -q wrote "$t_out"
t_done
