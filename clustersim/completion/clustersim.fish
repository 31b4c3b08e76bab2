# Completion of clustersim in fish: clustersim completion fish | source

function __clustersim_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    $words[1] __complete fish $words[2..] "$current" 2>/dev/null
end

complete --command clustersim --no-files --arguments '(__clustersim_complete)'
