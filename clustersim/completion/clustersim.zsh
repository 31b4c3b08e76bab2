#compdef clustersim
# Completion of clustersim in zsh, after compinit: source <(clustersim completion zsh)

_clustersim() {
    local command=${~words[1]} line
    local -a whole begun
    for line in "${(@f)$("$command" __complete zsh "${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null)}"; do
        local word=${line%%$'\t'*}
        [[ -n $word ]] || continue
        line=${word//:/\\:}${${line#"$word"}/#$'\t'/:}
        # a key, a table of keys or a folder goes on
        if [[ $word == *[=./] ]]; then begun+=("$line"); else whole+=("$line"); fi
    done
    (( $#whole )) && _describe clustersim whole
    (( $#begun )) && _describe clustersim begun -S ''
}

if [[ $funcstack[1] == _clustersim ]]; then
    _clustersim "$@"
else
    compdef _clustersim clustersim
fi
