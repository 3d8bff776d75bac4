#!/bin/sh
# deps.sh - missing packages are named in one line with the command; nothing is said otherwise.
. "$(dirname "$0")/../harness/lib.sh"

deps=$TENURE_ROOT/tools/deps

# A machine on which nothing is installed: not even apt-get, so that root is not helped either.
mkdir "$t_dir/bin"
ln -s "$(command -v sh)" "$(command -v id)" "$t_dir/bin"

t_case "nothing is said when all is there"
t_run "$deps" build
t_check "status" [ "$t_status" -eq 0 ]
t_check "out" [ ! -s "$t_out" ]
t_check "err" [ ! -s "$t_err" ]

t_case "each missing package is named once, in one line with the command"
t_run env PATH="$t_dir/bin" "$deps" build coverage
t_check "status" [ "$t_status" -eq 1 ]
t_check "one line" [ "$(wc -l <"$t_err")" -eq 1 ]
t_check "command" grep -q 'run: sudo apt-get install -y cmake make gcc pkg-config gcovr$' "$t_err"

t_case "what is only wanted by root is silent for others"
t_run env PATH="$t_dir/bin" "$deps" --if-root build
t_check "status" [ "$t_status" -eq 0 ]
t_check "err" [ ! -s "$t_err" ]

t_case "an unknown group is a mistake"
t_run "$deps" no-such-group
t_check "status" [ "$t_status" -eq 64 ]

t_done
