# Completion of clustersim in bash: source <(clustersim completion bash)

_clustersim() {
    local word
    COMPREPLY=()
    while IFS= read -r word; do
        COMPREPLY+=("$word")
    done < <("${1/#\~/$HOME}" __complete bash "${COMP_LINE:0:COMP_POINT}" "$COMP_WORDBREAKS" 2>/dev/null)
    # a key, a table of keys or a folder goes on
    if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *[=./] ]]; then
        compopt -o nospace 2>/dev/null
    fi
}

complete -F _clustersim clustersim
