# Completion of redimutex for fish. What can follow is what redimutex itself says.

function __redimutex_complete
    set -l line (commandline -cp | string collect)
    set -l program (commandline -opc)[1]
    set -l answer ($program complete "$line" 2>/dev/null)
    switch "$answer[1]"
        case words
            printf '%s\n' $answer[2..]
        case command
            complete -C (string replace -r '^.*?\s--\s' '' -- "$line")
    end
end

complete -c redimutex -f -a '(__redimutex_complete)'
