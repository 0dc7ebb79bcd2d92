#compdef redimutex
# Completion of redimutex for zsh. What can follow is what redimutex itself says.

_redimutex() {
    local line="${(j: :)words[1,CURRENT-1]} $QIPREFIX$PREFIX"
    local -a answer described folders
    local entry value text i
    answer=("${(@f)$("${words[1]/#\~/$HOME}" complete "$line" 2>/dev/null)}")

    case ${answer[1]} in
    words)
        for entry in "${(@)answer[2,-1]}"; do
            value=${entry%%$'\t'*}
            text=${entry#*$'\t'}
            if [[ $value == */ ]]; then
                folders+=("$value")
            elif [[ $text == $entry || -z $text ]]; then
                described+=("${value//:/\\:}")
            else
                described+=("${value//:/\\:}:$text")
            fi
        done
        if ((${#folders})); then
            compadd -S '' -a folders
        fi
        if ((${#described})); then
            _describe redimutex described
        fi
        ;;
    command)
        i=${words[(i)--]}
        words=("${(@)words[i+1,-1]}")
        ((CURRENT -= i))
        _normal
        ;;
    esac
}

# The file works from a folder of $fpath as well as by source.
if [[ ${funcstack[1]} == _redimutex ]]; then
    _redimutex "$@"
else
    compdef _redimutex redimutex
fi
