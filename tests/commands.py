"""The end of a command, for tests of the command line."""

import json

import pytest

from clustersim.cli import main


def ending(capsys, *arguments):
    """Return exit code, standard output and standard error of a command."""
    with pytest.raises(SystemExit) as end:
        main([*map(str, arguments)])
    return end.value.code or 0, *capsys.readouterr()


def output(capsys, *arguments):
    """Return the standard output of a command that succeeds without a message."""
    code, out, error = ending(capsys, *arguments)
    assert (code, error) == (0, "")
    return out


def printed(capsys, *arguments):
    """Return the object that a command prints with ``--json``, on one process."""
    return json.loads(output(capsys, *arguments, "--jobs", "1", "--json"))


def rejected(capsys, *arguments):
    """Return the one line that a command with invalid input prints, which ends with code 2."""
    code, out, error = ending(capsys, *arguments)
    assert (code, out, error.count("\n")) == (2, "", 1)
    return error
