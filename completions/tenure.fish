# tenure.fish - completion for fish: verbs, options, their values, and the names of leases.
#
# Verbs and options, with what they mean, are asked of the program itself, so that a new one needs
# no edit here.

# The program of the line that is completed.
function __tenure_ask
    set -l program (commandline -opc)[1]
    command $program $argv 2>/dev/null
end

# Verbs, each with what it does.
function __tenure_verbs
    __tenure_ask help | sed -n '/^Verbs:/,/^$/s/^  \([a-z][a-z-]*\)  *\(.*\)/\1\t\2/p'
    printf 'help\ttell about a verb\n'
end

# Options of the verb $argv[1]: "--long META<tab>text", "-s META<tab>text".
function __tenure_options
    __tenure_ask help $argv[1] | sed -n '/^Options:/,/^$/{
        s/^  \(-[a-zA-Z0-9]\), \(--[a-z0-9-]*\) \([A-Z][A-Z:#]*\)  *\(.*\)/\1 \3\t\4\n\2 \3\t\4/p
        t
        s/^  \(-[a-zA-Z0-9]\), \(--[a-z0-9-]*\)  *\(.*\)/\1\t\3\n\2\t\3/p
        t
        s/^      \(--[a-z0-9-]*\) \([A-Z][A-Z:#]*\)  *\(.*\)/\1 \2\t\3/p
        t
        s/^      \(--[a-z0-9-]*\)  *\(.*\)/\1\t\2/p
    }'
end

# What the value of option $argv[2] of the verb $argv[1] stands for, such as URL; nothing: there is
# none.
function __tenure_meta
    __tenure_options $argv[1] | sed -n "s/^$argv[2] \([A-Z:#]*\)\t.*/\1/p"
end

# Names of the store $argv[1], or of the default one. A store that is busy must not keep the shell
# waiting.
function __tenure_names
    set -l program (commandline -opc)[1]
    set -l store
    test -n "$argv[1]"; and set store --store $argv[1]
    timeout 1 $program list --json $store 2>/dev/null | sed -n 's/^{"name":"\([^"]*\)".*/\1/p'
end

# Scenarios or planted bugs, as `tenure sim --list` has them.
function __tenure_listed
    __tenure_ask sim --list |
        sed -n "/($argv[1] NAME)/,/^\$/s/^  \([a-z][a-z-]*\)  *\(.*\)/\1\t\2/p"
end

# Values of an option: verb, option, meta, and what was typed of it.
function __tenure_values
    switch $argv[3]
        case URL
            switch "$argv[4]"
                case '*:*'
                    set -l scheme (string split -m 1 : -- $argv[4])
                    for file in (__fish_complete_path "$scheme[2]")
                        echo "$scheme[1]:$file"
                    end
                case '*'
                    test $argv[1] = fence; and echo file:
                    echo sqlite:
            end
        case FILE PATH
            __fish_complete_path "$argv[4]"
        case HOW
            printf '%s\n' auto cgroup pidns tree
        case NAME
            __tenure_listed $argv[2]
    end
end

# Words that are no options: verb, how many were there before, store.
function __tenure_words
    set -l usage (__tenure_ask help $argv[1] | sed -n 1p)
    if test $argv[1] = help
        test $argv[2] -eq 0; and __tenure_verbs
        return
    end
    switch "$usage"
        case '*ACTION*'
            test $argv[2] -eq 0
            and __tenure_ask help $argv[1] |
                sed -n '/^Options:/q; s/^  \([a-z][a-z-]*\(, [a-z][a-z-]*\)*\) .*/\1/p' |
                tr -s ', ' '\n'
        case '*[NAME]...*' '*[PATTERN]...*'
            __tenure_names $argv[3]
        case '*NAME*' '*PATTERN*'
            test $argv[2] -eq 0; and __tenure_names $argv[3]
    end
end

function __tenure_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l verb
    set -l url ''
    set -l meta
    set -l option
    set -l count 0

    for word in $words[2..-1]
        if test -n "$meta"
            test $meta = URL; and set url $word
            set meta
        else if test -z "$verb"
            set verb $word
        else
            switch $word
                case '--store=*'
                    set url (string split -m 1 = -- $word)[2]
                case '--*=*'
                case '-*'
                    set option $word
                    set meta (__tenure_meta $verb $word)
                case '*'
                    set count (math $count + 1)
            end
        end
    end
    if test -z "$verb"
        __tenure_verbs
        printf '%s\n' --help --version
    else if test -n "$meta"
        __tenure_values $verb $option $meta "$current"
    else if string match -q -- '-*' "$current"
        __tenure_options $verb | sed 's/^\(-[^ \t]*\)[^\t]*/\1/'
    else
        __tenure_words $verb $count $url
    end
end

# Behind "--" there is the command that is to be run, as if it stood alone.
function __tenure_has_command
    contains -- -- (commandline -opc)
end

complete -c tenure -f -n 'not __tenure_has_command' -a '(__tenure_complete)'
complete -c tenure -n __tenure_has_command -a \
    '(__fish_complete_subcommand --fcs-skip=(math 1 + (contains -i -- -- (commandline -opc)) - 1))'
