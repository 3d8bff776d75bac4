#!/bin/bash
# completions.sh - bash, zsh and fish complete every verb and every option that the help knows.
# shellcheck source=tests/harness/lib.sh
. "${TENURE_ROOT:-$(dirname "$0")/../..}/tests/harness/lib.sh"
# shellcheck source=completions/tenure.bash
. "$TENURE_ROOT/completions/tenure.bash"

tenure=$TENURE_BUILD/tenure
export TENURE_STORE=sqlite:$t_dir/t.db

verbs() { "$tenure" help | sed -n '/^Verbs:/,/^$/p' | grep -Eo '^  [a-z-]+'; }
# options VERB: what its help says, found in another way than the completion does.
options() {
    "$tenure" "$1" --help | sed -n '/^Options:/,/^$/p' | grep -Eo -- '^ *-[a-z, -]*' |
        grep -Eo -- '-[a-z-]*[a-z]'
}

# replies LINE: what bash is offered, one per line, by $program.
program=$tenure
replies() {
    COMP_LINE=$1
    COMP_POINT=${#1}
    COMPREPLY=()
    _tenure "$program"
    printf '%s\n' "${COMPREPLY[@]}"
}

# missing: verbs and options that bash does not complete.
missing() {
    local verb option
    replies 'tenure ' >"$t_dir/verbs"
    for verb in $(verbs); do
        grep -qx -- "$verb" "$t_dir/verbs" || echo "$verb"
        replies "tenure $verb -" >"$t_dir/options"
        for option in $(options "$verb"); do
            grep -qx -- "$option" "$t_dir/options" || echo "$verb $option"
        done
    done
}

offers() { # offers LINE WORD...: exactly these.
    local line=$1
    shift
    replies "$line" >"$t_dir/replies"
    t_check "'$line' offers $*, not $(tr '\n' ' ' <"$t_dir/replies")" \
        [ "$(sort "$t_dir/replies")" = "$(printf '%s\n' "$@" | sort)" ]
}

t_case "bash: every verb and every option"
t_check "there are verbs" [ "$(verbs | wc -l)" -ge 8 ]
t_check "there are options" [ "$(options run | wc -l)" -ge 11 ]
missing >"$t_dir/missing"
t_refute "missing: $(tr '\n' ' ' <"$t_dir/missing")" [ -s "$t_dir/missing" ]

t_case "a missing option is found"
cat >"$t_dir/tenure" <<END
#!/bin/sh
"$tenure" "\$@" | grep -v -e --once -e '^  renew '
END
chmod +x "$t_dir/tenure"
program=$t_dir/tenure
missing >"$t_dir/missing"
t_check "the verb" grep -qx renew "$t_dir/missing"
t_check "the option" grep -qx 'run --once' "$t_dir/missing"
t_refute "no other" grep -qvx -e renew -e '[a-z]* --once' "$t_dir/missing"
program=$tenure

t_case "bash: names, values and the command"
for name in jobs/a jobs/b:1 other; do
    "$tenure" acquire $name >/dev/null
    "$tenure" acquire $name.2 --store "sqlite:$t_dir/second.db" >/dev/null
done
offers 'tenure status jobs/' jobs/a jobs/b:1
offers 'tenure status jobs/b:' 1
offers 'tenure status --json o' other
offers "tenure run --ttl 5s --store sqlite:$t_dir/second.db o" other.2
offers "tenure run --store=sqlite:$t_dir/second.db o" other.2
offers 'tenure run --id o' ''
offers 'tenure run --ttl ' ''
offers 'tenure run -s s' sqlite:
: >"$t_dir/third.db"
offers "tenure run -s sqlite:$t_dir/thi" "$t_dir/third.db"
offers 'tenure re' release renew resume revoke
offers 'tenure help ru' run
offers 'tenure sim --scenario one' one-way-cut
offers 'tenure sim --plant no-pol' no-poll
offers "tenure run other -- $t_dir/tenu" "$t_dir/tenure"
offers "tenure run other -- cat $t_dir/tenu" "$t_dir/tenure"
offers 'tenure status other jobs/' jobs/a jobs/b:1
offers 'tenure list jobs/' jobs/a jobs/b:1
offers 'tenure revoke jobs/' jobs/a jobs/b:1
offers 'tenure revoke other ' ''
offers 'tenure nonsense ' ''
offers 'tenure fence sh' show
rm -f "$t_dir"/t.db*
offers 'tenure status o' ''

# In a terminal of its own, as a user would: type the line and two tabs, and read what comes. The
# words that are to come are given; what is still missing after ten seconds is printed.
cat >"$t_dir/type.zsh" <<'END'
zmodload zsh/zpty zsh/zselect
line=$1 out= part=
shift
zpty z zsh -f -i
zpty -w z "export PATH=$TENURE_BUILD:\$PATH; PS1=; fpath=($TENURE_ROOT/completions \$fpath)
autoload -Uz compinit; compinit -u -D; LISTMAX=1000; stty cols 250; print REA''DY"
while zpty -r z part; do [[ $part == *READY* ]] && break; done
zpty -w -n z "$line"$'\t\t'
for i in {1..500}; do
    while zpty -rt z part; do out+=$part; done
    left=()
    for word in "$@"; do [[ $out == *$word* ]] || left+=("$word"); done
    (( $#left == 0 )) && break
    zselect -t 2
done
zpty -d z
print -r -- "$left"
END

# types LINE WORD...: zsh offers at least these.
types() {
    local left
    left=$(zsh -f "$t_dir/type.zsh" "$@" 2>&1)
    t_check "'$1' does not offer $left" [ -z "$left" ]
}

if ! command -v zsh >/dev/null; then
    t_case "zsh"
    t_skip "zsh is not installed; tools/deps ci installs it"
else
    t_case "zsh: every verb and every option"
    # shellcheck disable=SC2046 # Words are meant to be split.
    types 'tenure ' $(verbs)
    for verb in $(verbs); do
        # shellcheck disable=SC2046 # Words are meant to be split.
        types "tenure $verb -" $(options "$verb")
    done

    t_case "zsh: names, values and the command"
    for name in jobs/a jobs/b:1; do
        "$tenure" acquire $name >/dev/null
    done
    types 'tenure status jobs/' jobs/a jobs/b:1
    types "tenure run --store sqlite:$t_dir/second.db ot" other.2
    types 'tenure run --store ' sqlite:
    types 'tenure sim --scenario r' renew restored-backup
    types 'tenure fence ' admit raise
    types "tenure run job -- $t_dir/type" "$t_dir/type.zsh"
    t_case "zsh: a word that is not offered is found"
    left=$(sed 's/1\.\.500/1..20/' "$t_dir/type.zsh" >"$t_dir/short.zsh" &&
        zsh -f "$t_dir/short.zsh" 'tenure r' renew surrender)
    t_check "found: $left" [ "$left" = surrender ]
fi

# fish_offers LINE: what fish offers, one per line, without what it means.
fish_offers() {
    fish --no-config -c "source '$TENURE_ROOT/completions/tenure.fish'
        complete -C \"$1\"" 2>&1 | cut -f1
}
# fishes LINE WORD...: fish offers exactly these.
fishes() {
    local line=$1
    shift
    fish_offers "$line" >"$t_dir/fished"
    t_check "'$line' offers $*, not $(tr '\n' ' ' <"$t_dir/fished")" \
        [ "$(sort "$t_dir/fished")" = "$(printf '%s\n' "$@" | sort)" ]
}
# fish_misses: verbs and options that fish does not complete.
fish_misses() {
    local verb option
    fish_offers 'tenure ' >"$t_dir/verbs"
    for verb in $(verbs); do
        grep -qx -- "$verb" "$t_dir/verbs" || echo "$verb"
        fish_offers "tenure $verb -" >"$t_dir/options"
        for option in $(options "$verb"); do
            grep -qx -- "$option" "$t_dir/options" || echo "$verb $option"
        done
    done
}

if ! command -v fish >/dev/null; then
    t_case "fish"
    t_skip "fish is not installed; tools/deps ci installs it"
else
    export PATH="$TENURE_BUILD:$PATH" HOME="$t_dir"
    t_case "fish: every verb and every option"
    fish_misses >"$t_dir/missing"
    t_refute "missing: $(tr '\n' ' ' <"$t_dir/missing")" [ -s "$t_dir/missing" ]

    t_case "fish: names, values and the command"
    for name in jobs/a jobs/b:1 other; do
        "$tenure" acquire $name >/dev/null 2>&1
        "$tenure" acquire $name.2 --store "sqlite:$t_dir/second.db" >/dev/null 2>&1
    done
    fishes 'tenure status jobs/' jobs/a jobs/b:1
    fishes 'tenure status other jobs/' jobs/a jobs/b:1
    fishes 'tenure status --json o' other
    fishes "tenure run --ttl 5s --store sqlite:$t_dir/second.db o" other.2
    fishes "tenure run --store=sqlite:$t_dir/second.db o" other.2
    fishes 'tenure run --ttl ' ''
    fishes 'tenure run -s s' sqlite:
    fishes 'tenure run --contain c' cgroup
    fishes 'tenure re' release renew resume revoke
    fishes 'tenure help ru' run
    fishes 'tenure sim --scenario one' one-way-cut
    fishes 'tenure fence sh' show
    fishes 'tenure revoke other ' ''
    fishes "tenure run other -- cat $t_dir/type" "$t_dir/type.zsh"

    t_case "fish: a missing option is found"
    mkdir "$t_dir/few"
    cp "$t_dir/tenure" "$t_dir/few/tenure" # Without renew and --once.
    PATH="$t_dir/few:$PATH" fish_misses >"$t_dir/missing"
    t_check "the verb" grep -qx renew "$t_dir/missing"
    t_check "the option" grep -qx 'run --once' "$t_dir/missing"
fi
t_done
