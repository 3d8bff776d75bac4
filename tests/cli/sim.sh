#!/bin/sh
# sim.sh - `tenure sim`: seeds, stories, planted bugs, and how it refuses bad input.
# shellcheck source=tests/harness/lib.sh
. "${TENURE_ROOT:-$(dirname "$0")/../..}/tests/harness/lib.sh"

tenure=$TENURE_BUILD/tenure
transcripts=$TENURE_ROOT/tests/scenario
# Sanitizers make a seed some twenty times slower; CI asks them for fewer.
seeds=${TENURE_SIM_SEEDS:-3000}

sim() { t_run "$tenure" sim "$@"; }

t_case "no promise is broken in $seeds seeds, and every kind of fault fires"
sim --seeds "$seeds"
t_ends 0
t_prints '53 of 53 kinds of fault fired'
t_prints 'no promise was broken'
t_prints '0 violations'

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
    t_ends 0
    got=$(sha256sum <"$t_out" | cut -d ' ' -f 1)
    t_check "seed $seed (tests/scenario/update writes the digests anew)" [ "$got" = "$digest" ]
done <"$transcripts/seeds"

t_case "seeds that once broke P7: a restored backup brought back the keys of terms that were over"
for seed in 24021 26717 30210; do
    sim --seed "$seed"
    t_ends 0
done

t_case "six hundred seeds add up to the same, on every build"
sim --seeds 600 --json
counts <"$t_out" | tr ',' '\n' >"$t_dir/totals"
t_check "as in tests/scenario/totals" cmp -s "$t_dir/totals" "$transcripts/totals"

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
    t_ends 0
    t_check "as in tests/scenario/$name.txt" cmp -s "$t_out" "$transcripts/$name.txt"
done

t_case "a story as a script tells the same"
for name in $stories; do
    script=$("$tenure" sim --scenario "$name" --as-script)
    sim --script "$script"
    t_ends 0
    sed '1d; /^$/,$d' "$transcripts/$name.txt" >"$t_dir/story"
    grep -v '] end ' "$t_out" >"$t_dir/script"
    t_check "story $name" cmp -s "$t_dir/story" "$t_dir/script"
    printf '%s\n' "$script" | tr '+' '\n' | t_run "$tenure" sim --script -
    grep -v '] end ' "$t_out" >"$t_dir/script"
    t_check "story $name from standard input" cmp -s "$t_dir/story" "$t_dir/script"
done

t_case "a script says what came of it"
sim --script 'nodes=5+9000:crash:a+end=30000'
t_ends 0
t_prints 'a crashes'
t_prints '2 terms, 0 lost; 7 writes, 0 refused, 0 harmful'
t_prints 'longest time without a leader: 10.858453 s'
sim --script 'nodes=5+9000:freeze:a:22000+fence=off+end=40000'
t_prints '0 refused, 1 harmful'
sim --script '9000:crash:a+end=30000' --json
t_prints '{"gap_us":10858453,'

t_case "a script goes on behind a broken promise, and says whose fault it is"
sim --script 'story=drift+plant=no-margin'
t_check "exit status 1, not $t_status" [ "$t_status" -eq 1 ]
t_prints 'CHECK  P1 is broken: nodes 1 (token 2) and 0 (token 1) both lead report'
t_check "it ends with that" [ "$(tail -n 1 "$t_out")" = '[   21.000] end    P1 was broken' ]
sim --script "$("$tenure" sim --scenario drift --as-script)" --plant no-margin
t_check "--plant plants as well, not $t_status" [ "$t_status" -eq 1 ]
sim --script 'nodes=2+0:rate:a:-300000+7000:cutto:a:30000+end=30000'
t_prints 'P1 was broken: a clock ran outside of rho'

t_case "the world of a seed as a script is that of --seed --trace"
sim --script history=42
mv "$t_out" "$t_dir/history"
sim --seed 42 --trace
sed '/^seed 42:/,$d' "$t_out" >"$t_dir/seed"
t_check "the same bytes" cmp -s "$t_dir/history" "$t_dir/seed"

t_case "the pause story: the woken leader's write is refused"
sim --scenario pause-and-fence
t_prints 'write with token 1 REFUSED: the fence stands at 2'

t_case "every planted bug is caught by the promise it breaks"
sim --plants
t_ends 0
t_check "at least 101" [ "$(grep -c '^caught' "$t_out")" -ge 101 ]
t_refute "none is missed" grep -q '^MISSED' "$t_out"
t_prints ' 0 missed'

t_case "agents stand above lease tables, and above stores of every style"
for seed in $(seq 4 4 160); do
    "$tenure" sim --plant agent-grants --seed "$seed" --trace |
        sed -n '/ hosts  /,$s/.*, store style \([a-z]*\).*/\1/p; $s/.*/world/p'
done | sort | uniq -c >"$t_dir/styles"
for style in queue watch observed rows votes line; do
    t_check "$style: $(cat "$t_dir/styles")" grep -qw "$style" "$t_dir/styles"
done
t_check "half are lease tables" awk '/world/ { all = $1; next } { styled += $1 }
    END { exit !(styled >= all / 4 && styled <= all * 3 / 4) }' "$t_dir/styles"

t_case "a violation names promise and seed, and the command that shows it again"
sim --plant no-margin --seeds 100
t_ends 0
t_check "promise and seed" grep -qE '^P1 is broken in seed [0-9]+: ' "$t_out"
replay=$(sed -n 's/^see it again with: tenure //p' "$t_out")
t_check "a command" [ -n "$replay" ]
# shellcheck disable=SC2086 # The command's words are the point.
t_run "$tenure" $replay
t_check "it shows the violation" [ "$t_status" -eq 1 ]
t_check "in the trace" grep -q 'CHECK  P1 is broken' "$t_out"

t_case "without the plant the same seeds are fine"
sim --seeds 100
t_ends 0

t_case "JSON is one line, and t_prints what scripts need"
sim --seeds 20 --json
t_ends 0
t_check "one line" [ "$(wc -l <"$t_out")" -eq 1 ]
for key in seeds events events_per_second lease_years faults violations violation; do
    t_prints "\"$key\":"
done
sim --scenario crash --json
t_prints '"came_true":true'
sim --plant no-latch --seeds 50 --json
t_prints '"promise":"P6"'
t_prints '"replay":"tenure sim --plant no-latch --seed '

t_case "help t_prints examples"
sim --help
t_ends 0
t_prints 'Examples:'
t_prints '--scenario'

t_case "bad input is one clear line and exit 64"
t_bad "--seeds" "$tenure" sim --seeds 0
t_bad "--seeds" "$tenure" sim --seeds -1
t_bad "--seeds" "$tenure" sim --seeds many
t_bad "--seeds" "$tenure" sim --seeds 99999999999999999999
t_bad "--seed" "$tenure" sim --seed 0
t_bad "did you mean 'crash'" "$tenure" sim --scenario crush
t_bad "does not exist" "$tenure" sim --scenario "$(printf 'a\033[2Jb\nc')"
t_bad "did you mean 'no-latch'" "$tenure" sim --plant no-lach
t_bad "--trace needs a seed" "$tenure" sim --trace
t_bad "give one of" "$tenure" sim --seed 1 --seeds 2
t_bad "give one of" "$tenure" sim --scenario crash --list
t_bad "--plant goes with" "$tenure" sim --plant no-latch --list
t_bad "exclude each other" "$tenure" sim --seed 1 --trace --json
t_bad "--from" "$tenure" sim --from 18446744073709551615 --seeds 5
t_bad "did you mean 'crash'" "$tenure" sim --script 9000:crush:a
t_bad "no such candidate" "$tenure" sim --script 9000:crash:d
t_bad "Tenure refuses these numbers" "$tenure" sim --script margin=10
t_bad "give one of" "$tenure" sim --script nodes=2 --seed 1
t_bad "--as-script needs a story" "$tenure" sim --as-script
t_bad "exclude each other" "$tenure" sim --scenario crash --as-script --json
t_bad "\\x1b" "$tenure" sim --script "$(printf 'a\033[2Jb=1')"
t_bad "not a text" sh -c 'printf "a\\0b" | "$0" sim --script -' "$tenure"
t_bad "too long" sh -c 'head -c 9000 /dev/zero | tr "\\0" + | "$0" sim --script -' "$tenure"
t_bad "as an argument" sh -c 'echo plant=no-margin | "$0" sim --script -' "$tenure"
t_bad "threads" "$tenure" sim --threads 0
t_bad "no-such-option" "$tenure" sim --no-such-option

t_case "planted bugs without tenure-planted: exit 69 and what to do"
cp "$tenure" "$t_dir/tenure"
t_run "$t_dir/tenure" sim --plants
t_check "exit status is 69, not $t_status" [ "$t_status" -eq 69 ]
t_check "one line" [ "$(wc -l <"$t_err")" -eq 1 ]
t_check "what to do" grep -q "build it with 'make'" "$t_err"

t_done
