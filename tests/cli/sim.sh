#!/bin/sh
# sim.sh - `tenure sim`: seeds, stories, planted bugs, and how it refuses bad input.
# shellcheck source=tests/harness/lib.sh
. "${TENURE_ROOT:-$(dirname "$0")/../..}/tests/harness/lib.sh"

tenure=$TENURE_BUILD/tenure
transcripts=$TENURE_ROOT/tests/scenario
# Sanitizers make a seed some twenty times slower; CI asks them for fewer.
seeds=${TENURE_SIM_SEEDS:-3000}

sim() { t_run "$tenure" sim "$@"; }
has() { t_check "prints $1" grep -qF -e "$1" "$t_out"; }

ends_with() {
    t_check "exit status is $1, not $t_status" [ "$t_status" -eq "$1" ]
    t_refute "stderr is empty" [ -s "$t_err" ]
}

# bad WORDS ARG...: exit 64, nothing on stdout, one line with WORDS on stderr.
bad() {
    words=$1
    shift
    sim "$@"
    t_check "$*: exit status is 64, not $t_status" [ "$t_status" -eq 64 ]
    t_refute "$*: stdout is empty" [ -s "$t_out" ]
    t_check "$*: one line on stderr" [ "$(wc -l <"$t_err")" -eq 1 ]
    t_check "$*: at most 500 characters" [ "$(wc -c <"$t_err")" -le 501 ]
    t_check "$*: says why" grep -qF -e "$words" "$t_err"
}

t_case "no promise is broken in $seeds seeds, and every kind of fault fires"
sim --seeds "$seeds"
ends_with 0
has '28 of 28 kinds of fault fired'
has 'no promise was broken'
has '0 violations'

t_case "one thread and two find the same"
counts() { sed 's/"seconds":[^,]*,//; s/"threads":[^,]*,//; s/"events_per_second":[^,]*,//'; }
sim --seeds 60 --threads 1 --json
counts <"$t_out" >"$t_dir/one"
sim --seeds 60 --threads 2 --json
counts <"$t_out" >"$t_dir/two"
t_check "the same object" cmp -s "$t_dir/one" "$t_dir/two"

t_case "a seed gives the same bytes again, on every build"
while read -r seed digest; do
    sim --seed "$seed" --trace
    ends_with 0
    got=$(sha256sum <"$t_out" | cut -d ' ' -f 1)
    t_check "seed $seed (tests/scenario/update writes the digests anew)" [ "$got" = "$digest" ]
done <"$transcripts/seeds"

t_case "the seed counts"
sim --seed 1 --trace
mv "$t_out" "$t_dir/first"
sim --seed 2 --trace
t_refute "other bytes" cmp -s "$t_dir/first" "$t_out"

stories=$("$tenure" sim --list --json | sed 's/.*"scenarios":\[\([^]]*\)\].*/\1/; s/[",]/ /g')
t_case "there are the thirteen stories"
for name in renew crash pause-and-fence partition one-way-cut handover slow-start store-restart \
    restored-backup duplicate-id herd drift suspend; do
    case " $stories " in *" $name "*) ;; *) t_fail "$name is not listed" ;; esac
done

for name in $stories; do
    t_case "story $name comes true, word for word"
    sim --scenario "$name"
    ends_with 0
    t_check "as in tests/scenario/$name.txt" cmp -s "$t_out" "$transcripts/$name.txt"
done

t_case "the pause story: the woken leader's write is refused"
sim --scenario pause-and-fence
has 'write with token 1 REFUSED: the fence stands at 2'

t_case "every planted bug is caught by the promise it breaks"
sim --plants
ends_with 0
t_check "at least 30" [ "$(grep -c '^caught' "$t_out")" -ge 30 ]
t_refute "none is missed" grep -q '^MISSED' "$t_out"
has ' 0 missed'

t_case "a violation names promise and seed, and the command that shows it again"
sim --plant no-margin --seeds 100
ends_with 0
t_check "promise and seed" grep -qE '^P1 is broken in seed [0-9]+: ' "$t_out"
replay=$(sed -n 's/^see it again with: tenure //p' "$t_out")
t_check "a command" [ -n "$replay" ]
# shellcheck disable=SC2086 # The command's words are the point.
t_run "$tenure" $replay
t_check "it shows the violation" [ "$t_status" -eq 1 ]
t_check "in the trace" grep -q 'CHECK  P1 is broken' "$t_out"

t_case "without the plant the same seeds are fine"
sim --seeds 100
ends_with 0

t_case "JSON is one line, and has what scripts need"
sim --seeds 20 --json
ends_with 0
t_check "one line" [ "$(wc -l <"$t_out")" -eq 1 ]
for key in seeds events events_per_second lease_years faults violations violation; do
    has "\"$key\":"
done
sim --scenario crash --json
has '"came_true":true'
sim --plant no-latch --seeds 50 --json
has '"promise":"P6"'
has '"replay":"tenure sim --plant no-latch --seed '

t_case "help has examples"
sim --help
ends_with 0
has 'Examples:'
has '--scenario'

t_case "bad input is one clear line and exit 64"
bad "--seeds" --seeds 0
bad "--seeds" --seeds -1
bad "--seeds" --seeds many
bad "--seeds" --seeds 99999999999999999999
bad "--seed" --seed 0
bad "did you mean 'crash'" --scenario crush
bad "does not exist" --scenario "$(printf 'a\033[2Jb\nc')"
bad "did you mean 'no-latch'" --plant no-lach
bad "--trace needs a seed" --trace
bad "give one of" --seed 1 --seeds 2
bad "give one of" --scenario crash --list
bad "--plant goes with" --plant no-latch --list
bad "exclude each other" --seed 1 --trace --json
bad "--from" --from 18446744073709551615 --seeds 5
bad "threads" --threads 0
bad "no-such-option" --no-such-option

t_case "planted bugs without tenure-planted: exit 69 and what to do"
cp "$tenure" "$t_dir/tenure"
t_run "$t_dir/tenure" sim --plants
t_check "exit status is 69, not $t_status" [ "$t_status" -eq 69 ]
t_check "one line" [ "$(wc -l <"$t_err")" -eq 1 ]
t_check "what to do" grep -q "build it with 'make'" "$t_err"

t_done
