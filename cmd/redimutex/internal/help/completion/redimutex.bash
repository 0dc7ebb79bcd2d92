# Completion of redimutex for bash 3.2 or newer. What can follow is what redimutex itself says.

_redimutex() {
    local line=${COMP_LINE:0:COMP_POINT} program=${COMP_WORDS[0]/#\~/$HOME}
    local kind= value text i

    # Readline replaces $2 only, which begins behind the last : or @ or =, and not at the last space.
    local typed=${line##*[[:space:]]} before=
    if [[ $typed == *"$2" ]]; then
        before=${typed%"$2"}
    fi

    COMPREPLY=()
    while IFS=$'\t' read -r value text; do
        if [[ -z $kind ]]; then
            kind=$value
            continue
        fi
        value=${value#"$before"}
        if [[ -n $value ]]; then
            printf -v value %q "$value"
        fi
        COMPREPLY+=("$value")
    done < <("$program" complete "$line" 2>/dev/null)

    case $kind in
    words)
        if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == */ ]]; then
            compopt -o nospace 2>/dev/null # a folder
        fi
        ;;
    command)
        for ((i = 1; i < COMP_CWORD; i++)); do
            if [[ ${COMP_WORDS[i]} == -- ]]; then
                break
            fi
        done
        if declare -F _command_offset >/dev/null; then
            _command_offset $((i + 1))
        elif ((i + 1 == COMP_CWORD)); then
            while IFS= read -r value; do
                COMPREPLY+=("$value")
            done < <(compgen -c -- "$2")
        else
            compopt -o filenames 2>/dev/null
            while IFS= read -r value; do
                COMPREPLY+=("$value")
            done < <(compgen -f -- "$2")
        fi
        ;;
    esac
}

complete -F _redimutex redimutex
