"""Completion in shells: in bash at its prompt, in zsh and fish where they are installed."""

import os
import pty
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from clustersim.completion import shells
from commands import output, rejected

COMMAND = f'#!/bin/sh\nexec "{sys.executable}" -m clustersim "$@"\n'

SHOWN = """
source <(clustersim completion bash)
while IFS= read -r COMP_LINE; do
    read -r -a COMP_WORDS <<< "$COMP_LINE"
    [[ $COMP_LINE == *" " ]] && COMP_WORDS+=("")
    COMP_CWORD=$(( ${#COMP_WORDS[@]} - 1 ))
    COMP_POINT=${#COMP_LINE}
    _clustersim clustersim "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
    (IFS='|'; echo "${COMPREPLY[*]}")
done
"""
"""Prints the replies to each command line on standard input, as bash calls the function."""


def installed(shell):
    """Return a mark: whether a shell is installed."""
    return pytest.mark.skipif(shutil.which(shell) is None, reason=f"{shell} is not installed")


@pytest.fixture
def command(here, monkeypatch):
    """A folder with a file, and the command `clustersim` on the path."""
    folder = here / "bin"
    folder.mkdir()
    (folder / "clustersim").write_text(COMMAND, encoding="utf-8")
    (folder / "clustersim").chmod(0o755)
    (here / "my job.yaml").touch()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return here


def test_bash_gets_what_replaces_the_part_of_the_word(command):
    """Bash splits words at '=', so the reply has only what comes after it; spaces are escaped."""
    lines = {
        "clustersim se": "serve|search",
        "clustersim run --set cluster.name=dgx-h": "dgx-h100|dgx-h200",
        "clustersim run --set plan.te": "plan.tensor=",
        "clustersim run x --precis": "",
        "clustersim run my": r"my\ job.yaml",
        "clustersim run 'my": "my job.yaml",
        "clustersim compare frontier-22b frontier-17": "frontier-175b",
        "clustersim list measu": "measures",
    }
    result = subprocess.run(
        ["bash", "--norc", "-c", SHOWN],
        input="".join(f"{line}\n" for line in lines), capture_output=True, text=True, check=True,
    )  # fmt: skip

    assert dict(zip(lines, result.stdout.splitlines(), strict=True)) == lines
    assert result.stderr == ""


def typed(shell, *keys):
    """Return what a shell on a terminal shows after some keys, each awaited text after its keys."""
    process, terminal = pty.fork()
    if process == 0:
        os.environ.update(TERM="dumb", PS1="$ ")
        os.execvp(shell[0], shell)
    shown = ""
    for text, awaited in keys:
        os.write(terminal, text.encode())
        end, start = time.monotonic() + 30, len(shown)
        while awaited not in shown[start:] and time.monotonic() < end:
            if select.select([terminal], [], [], 0.1)[0]:
                shown += os.read(terminal, 65536).decode(errors="replace")
        assert awaited in shown[start:], shown[start:]
    os.close(terminal)
    os.waitpid(process, 0)
    return shown


def test_bash_completes_at_its_prompt(command):
    """TAB fills in names and keys, adds no space after a key, and one after a value."""
    typed(
        ["bash", "--norc", "-i"],
        ("source <(clustersim completion bash); echo re''ady\n", "ready"),
        ("clustersim ser\t", "serve "),
        ("--set plan.ten\t", "plan.tensor="),
        ("8 --set cluster.name=dgx-h1\t", "dgx-h100 "),
    )


@installed("zsh")
def test_zsh_completes_at_its_prompt(command):
    """TAB fills in names and keys, adds no space after a key, and one after a value."""
    loaded = "autoload -U compinit; compinit -u -D; source <(clustersim completion zsh)"
    typed(
        ["zsh", "-f", "-i"],
        (f"{loaded}; echo re''ady\n", "ready"),
        ("clustersim ser\t", "ve"),
        ("--set plan.ten\t", "sor="),
        ("8 --set cluster.name=dgx-h1\t", "00"),
    )


@installed("fish")
def test_fish_completes_with_help(command):
    """A candidate is shown with what it means."""
    load = "clustersim completion fish | source"
    lines = ["clustersim ser", "clustersim run --set plan.ten", "clustersim run --cluster=dgx-h1"]
    script = "; ".join([load, *(f'complete -C "{line}"' for line in lines)])
    result = subprocess.run(
        ["fish", "--no-config", "-c", script], capture_output=True, text=True, check=True
    )

    assert result.stdout.splitlines() == [
        "serve\tSimulate inference requests: latency, throughput, goodput.",
        "plan.tensor=\tranks that share each layer",
        "--cluster=dgx-h100",
    ]


@pytest.mark.parametrize(
    ("shell", "check"), [("bash", "-n"), pytest.param("zsh", "-n", marks=installed("zsh")),
                         pytest.param("fish", "--no-execute", marks=installed("fish"))],
)  # fmt: skip
def test_a_script_has_no_error_of_syntax(shell, check, tmp_path):
    """The shell reads its script."""
    file = tmp_path / "script"
    file.write_text(shells.script(shell), encoding="utf-8")

    assert subprocess.run([shell, check, file], capture_output=True).stderr == b""


@pytest.mark.parametrize("shell", shells.SHELLS)
def test_the_verb_prints_the_script(capsys, shell):
    """What is installed is the file of the package, which states how to install it."""
    script = output(capsys, "completion", shell)

    assert script == shells.script(shell)
    assert f"clustersim completion {shell}" in script.partition("\n\n")[0]


def test_another_shell_is_named(capsys):
    """The shells with a script are listed."""
    assert rejected(capsys, "completion", "zhs") == (
        "zhs: no script for this shell (did you mean 'zsh'?) (bash, zsh, fish)\n"
    )


@pytest.mark.parametrize(
    "request_", [[], ["bash"], ["bash", ""], ["zsh"], ["tcsh", "run", ""], ["bash", "run '\\"]]
)
def test_a_request_of_another_form_has_no_candidates(capsys, request_):
    """A script of another version gets no candidates, and no traceback."""
    shells.main(request_)

    assert capsys.readouterr() == ("", "")


def test_the_scripts_are_part_of_the_package():
    """Each shell has one file next to the module that reads it."""
    folder = Path(shells.__file__).parent

    assert {path.suffix[1:] for path in folder.glob("clustersim.*")} == {*shells.SHELLS}
