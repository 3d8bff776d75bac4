# tenure.bash - completion for bash: verbs, options, their values, and the names of leases.
#
# Verbs and options are asked of the program itself, so that a new one needs no edit here. Works
# without the bash-completion package, which loads this file from its directory by its name.
# shellcheck shell=bash

# _tenure_verbs: one per line.
_tenure_verbs() {
    "$tenure" help 2>/dev/null | sed -n '/^Verbs:/,/^$/s/^  \([a-z][a-z-]*\) .*/\1/p'
    echo help
}

# _tenure_options VERB: one line each, "--long META" or "-s META"; no META: it takes no value.
_tenure_options() {
    "$tenure" help "$1" 2>/dev/null | sed -n '/^Options:/,/^$/{
        s/^  \(-[a-zA-Z0-9]\), \(--[a-z0-9-]*\) \([A-Z]\{1,\}\) .*/\1 \3\n\2 \3/p
        t
        s/^  \(-[a-zA-Z0-9]\), \(--[a-z0-9-]*\) .*/\1\n\2/p
        t
        s/^      \(--[a-z0-9-]*\) \([A-Z]\{1,\}\) .*/\1 \2/p
        t
        s/^      \(--[a-z0-9-]*\) .*/\1/p
    }'
}

# _tenure_actions VERB: the words that come first, where the usage line says ACTION.
_tenure_actions() {
    "$tenure" help "$1" 2>/dev/null |
        sed -n '/^Options:/q; s/^  \([a-z][a-z-]*\(, [a-z][a-z-]*\)*\) .*/\1/p' | tr -s ', ' '\n'
}

# _tenure_names: of the store that the line names, or the default one. A store that is busy must not
# keep the shell waiting.
_tenure_names() {
    timeout 1 "$tenure" list --json ${url:+--store "$url"} 2>/dev/null |
        sed -n 's/^{"name":"\([^"]*\)".*/\1/p'
}

# _tenure_listed WORD: scenarios or planted bugs, as `tenure sim --list` has them.
_tenure_listed() {
    "$tenure" sim --list 2>/dev/null | sed -n "/(--$1 NAME)/,/^\$/s/^  \([a-z][a-z-]*\) .*/\1/p"
}

# _tenure_value VERB OPTION META: what may follow.
_tenure_value() {
    case $3 in
    URL)
        case $cur in
        *:*) compgen -P "${cur%%:*}:" -f -- "${cur#*:}" ;;
        *) compgen -W "$([ "$1" = fence ] && echo file:) sqlite:" -- "$cur" ;;
        esac
        ;;
    FILE | PATH) compgen -f -- "$cur" ;;
    HOW) compgen -W "auto cgroup pidns tree" -- "$cur" ;;
    NAME) compgen -W "$(_tenure_listed "${2#--}")" -- "$cur" ;;
    esac
}

# _tenure_words VERB COUNT: what may stand where no option is; COUNT words were there before.
_tenure_words() {
    local usage
    usage=$("$tenure" help "$1" 2>/dev/null | sed -n 1p)
    case $1:$usage in
    help:*) [ "$2" -eq 0 ] && compgen -W "$(_tenure_verbs)" -- "$cur" ;;
    *ACTION*) [ "$2" -eq 0 ] && compgen -W "$(_tenure_actions "$1")" -- "$cur" ;;
    *"[NAME]..."* | *"[PATTERN]..."*) compgen -W "$(_tenure_names)" -- "$cur" ;;
    *NAME* | *PATTERN*) [ "$2" -eq 0 ] && compgen -W "$(_tenure_names)" -- "$cur" ;;
    esac
}

_tenure() {
    local tenure=$1 cur verb='' url='' meta='' option='' word i
    local -a words
    local -i count=0

    # Not COMP_WORDS: bash breaks them at ':' and '=', which URLs and names may contain.
    read -ra words <<<"${COMP_LINE:0:COMP_POINT}"
    case ${COMP_LINE:0:COMP_POINT} in
    *[[:blank:]]) words+=('') ;;
    esac
    cur=${words[${#words[@]} - 1]}
    COMPREPLY=()
    for ((i = 1; i < ${#words[@]} - 1; i++)); do
        word=${words[i]}
        if [ -n "$meta" ]; then
            [ "$meta" != URL ] || url=$word
            meta=
        elif [ -z "$verb" ]; then
            verb=$word
        elif [ "$word" = -- ]; then
            # The command that is to be run, as if it stood alone.
            if ((i == ${#words[@]} - 2)); then
                mapfile -t COMPREPLY < <(compgen -c -- "$cur")
            else
                mapfile -t COMPREPLY < <(compgen -f -- "$cur")
            fi
            compopt -o filenames 2>/dev/null
            return
        elif [[ $word == --*=* ]]; then
            [[ $word != --store=* ]] || url=${word#*=}
        elif [[ $word == -* ]]; then
            option=$word
            meta=$(_tenure_options "$verb" | sed -n "s/^$word \(.*\)/\1/p")
        else
            count+=1
        fi
    done
    if [ -z "$verb" ]; then
        mapfile -t COMPREPLY < <(compgen -W "$(_tenure_verbs) --help --version" -- "$cur")
    elif [ -n "$meta" ]; then
        mapfile -t COMPREPLY < <(_tenure_value "$verb" "$option" "$meta")
    elif [[ $cur == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$(_tenure_options "$verb" | cut -d' ' -f1)" -- "$cur")
    else
        mapfile -t COMPREPLY < <(_tenure_words "$verb" $count)
    fi
    # Bash puts the reply in the place of what follows the last ':' only.
    if [[ $cur == *:* && $COMP_WORDBREAKS == *:* ]]; then
        word=${cur%"${cur##*:}"}
        COMPREPLY=("${COMPREPLY[@]#"$word"}")
    fi
    case ${COMPREPLY[*]} in
    *: | */) compopt -o nospace 2>/dev/null ;;
    esac
}

complete -F _tenure tenure
