#!/bin/sh
# operators.sh - wrong words for the operators' verbs: one line with the remedy, status 64, nothing
# changed. Each line of the table is WORDS of the message, then the arguments.
. "$(dirname "$0")/../harness/lib.sh"

tenure=$TENURE_BUILD/tenure
TENURE_STORE=sqlite:$t_dir/none.db
export TENURE_STORE
long=$(printf '%0256d' 0)
almost=$(printf '%0250d' 0)

wrong() {
    while IFS='|' read -r words arguments; do
        [ -n "$words" ] || continue
        # shellcheck disable=SC2086 # The words of a command line.
        t_bad "$words" "$tenure" $arguments
    done
    t_refute "no file was made" [ -e "$t_dir/none.db" ]
}

t_case "handover"
wrong <<END_OF_TABLE
the name of the lease is missing|handover
one word too many|handover a b
is not a name|handover a//b
is not a name|handover /a
is not a name|handover .
is not a name|handover a,b
is not a name|handover $long
reserved for operators|handover ~tenure/ask/a
--to|handover a --to
--to|handover a --to=
--wait|handover a --wait
--wait|handover a --wait 5
--wait|handover a --wait -5s
--wait|handover a --wait 0s
--wait|handover a --wait 25h
--wait|handover a --wait soon
--token|handover a --token 0
--token|handover a --token -1
--token|handover a --token x
--token|handover a --token 18446744073709551616
--force|handover a --force
--for|handover a --for 2h
--store|handover a --store
nonesuch|handover a --store nonesuch:x
memory: lives in one process|handover a --store memory:
END_OF_TABLE

t_case "stand-down and resume"
wrong <<END_OF_TABLE
the name of the lease is missing|stand-down
one word too many|stand-down a b
is not a name|stand-down a//b
is not a name|stand-down $long
reserved for operators|stand-down ~tenure/x
is too long for an operator's wish|stand-down $almost
--for|stand-down a --for
--for|stand-down a --for 0s
--for|stand-down a --for 25h
--for|stand-down a --for 10
--for|stand-down a --for tomorrow
--wait|stand-down a --wait 1
--wait|stand-down a --wait 25h
--to|stand-down a --to bob
--host|stand-down a --host web1
nonesuch|stand-down a --store nonesuch:x
memory: lives in one process|stand-down a --store memory:
the name of the lease is missing|resume
one word too many|resume a b
is not a name|resume a//b
reserved for operators|resume ~tenure/ask/a
--for|resume a --for 1h
--wait|resume a --wait 1s
memory: lives in one process|resume a --store memory:
END_OF_TABLE

t_case "drain and undrain"
wrong <<END_OF_TABLE
say which node, as in 'tenure drain --host web1'|drain
say which node|drain --id a --host b
one word too many|drain web1
--id|drain --id=
--host|drain --host=
--id: it has 1 to 255 bytes|drain --id $long
is too long for an operator's wish|drain --id $almost
is too long for an operator's wish|drain --host $almost
--id|drain --id
--for|drain --id a --for 0s
--for|drain --id a --for 25h
--wait|drain --id a --wait x
--to|drain --id a --to b
nonesuch|drain --id a --store nonesuch:x
memory: lives in one process|drain --id a --store memory:
say which node, as in 'tenure undrain --host web1'|undrain
say which node|undrain --id a --host b
one word too many|undrain web1
--for|undrain --id a --for 1h
--host|undrain --host=
memory: lives in one process|undrain --host a --store memory:
END_OF_TABLE

t_case "reserved names are not for campaigns, and not for scripts"
wrong <<END_OF_TABLE
reserved for operators|run ~tenure/ask/a -- true
reserved for operators|elect ~tenure/ask/a
reserved for operators|acquire --json ~tenure/ask/a
reserved for operators|acquire --json ~tenure/x
END_OF_TABLE

t_case "verbs that are nearly right"
wrong <<END_OF_TABLE
did you mean 'handover'?|hand-over a
did you mean 'stand-down'?|standdown a
did you mean 'undrain'?|un-drain --id a
END_OF_TABLE

t_case "nobody holds it: 80; nothing to take back: 0; and no store is made for either"
t_run "$tenure" handover a
t_check "80" [ "$t_status" -eq 80 ]
t_check "one line: $(cat "$t_err")" [ "$(wc -l <"$t_err")" -eq 1 ]
t_run "$tenure" resume a
t_ends 0
t_prints "a: did not stand down"
t_run "$tenure" undrain --host web1
t_ends 0
t_prints "'web1': was not drained"
t_refute "no file" [ -e "$t_dir/none.db" ]

t_done
