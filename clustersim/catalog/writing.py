"""Plain values written as a catalogue file: a fact on one line, a long list one item a line."""

import io
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.scalarstring import SingleQuotedScalarString

from clustersim.catalog.files import shown
from clustersim.catalog.tree import is_fact
from clustersim.errors import ClustersimError, ScenarioError

WIDTH: Final = 10_000
"""Width of a line: large, so that a fact and its source stay on one line."""

_SHORT: Final = 16
"""Most items of a list of numbers on one line."""


def to_yaml(data: dict[str, Any], remarks: Sequence[str] = ()) -> str:
    """Return `data` as YAML, with `remarks` as comments above it."""
    yaml = YAML()
    yaml.width = WIDTH
    yaml.indent(mapping=2, sequence=4, offset=2)
    text = io.StringIO()
    yaml.dump(_styled(data), text)
    comments = "".join(f"# {_printable(line)}\n" for line in remarks)
    return comments + text.getvalue()


def _printable(line: str) -> str:
    """Return a comment as one line, with ? for characters that YAML does not allow there."""
    return "".join(letter if letter.isprintable() else "?" for letter in line)


def _styled(value: Any) -> Any:
    """Return `value` in the style of the catalogue files."""
    if isinstance(value, dict):
        mapping = CommentedMap((key, _styled(item)) for key, item in value.items())
        if _is_brief(value):
            mapping.fa.set_flow_style()
            mapping.update({key: _quoted(item) for key, item in mapping.items()})
        return mapping
    if isinstance(value, list | tuple):
        items = CommentedSeq(_styled(item) for item in value)
        if not _is_long(value):
            items.fa.set_flow_style()
        return items
    return value


def _quoted(value: Any) -> Any:
    """Return a text with a colon in quotes, which YAML needs within braces."""
    return SingleQuotedScalarString(value) if isinstance(value, str) and ":" in value else value


def _is_brief(value: dict[str, Any]) -> bool:
    """Whether a mapping is written on one line: a fact, a source, or a value with its error."""
    fact = is_fact(value) and not _is_long(value["value"])
    return fact or value.keys() in ({"title", "where"}, {"value", "error"})


def _is_long(value: Any) -> bool:
    """Whether a list does not fit on a line, as numbers and short tables do."""
    return isinstance(value, list | tuple) and (
        len(value) > _SHORT or any(_is_nested(item) for item in value)
    )


def _is_nested(item: Any) -> bool:
    inside = item.values() if isinstance(item, dict) else ()
    return isinstance(item, list | tuple) or any(isinstance(each, dict | list) for each in inside)


def write_all(texts: Mapping[Path, str], *, force: bool) -> None:
    """Write files, or none if one already exists; make their folders.

    Raises
    ------
    ScenarioError
        when a file exists already, or cannot be written.
    """
    for path in texts:
        check_new(path, force=force)
    for path, text in texts.items():
        _make_folder(path.parent)
        write_new(path, text, force=force)


def write_folder(
    folder: Path, contents: Mapping[str, bytes], *, replaced: str, force: bool
) -> None:
    """Write files into a folder, whole or not at all.

    Parameters
    ----------
    replaced : pattern of the files of an earlier export, which are removed
    force : write into a folder with other files, which are kept

    Raises
    ------
    ScenarioError
        when the path is a file, the folder has other files (unless `force`), or cannot be written.
    """
    check_folder(folder, force=force)
    partial = folder.with_name(f".{folder.name}.{os.getpid()}.part")
    try:
        partial.mkdir(parents=True)
        for name, content in contents.items():
            (partial / name).write_bytes(content)
        folder.mkdir(exist_ok=True)
        for path in folder.glob(replaced):
            path.unlink()
        for name in contents:
            (partial / name).replace(folder / name)
        partial.rmdir()
    except OSError as problem:
        shutil.rmtree(partial, ignore_errors=True)
        raise ScenarioError(f"{shown(folder)}: cannot be written ({problem.strerror})") from None


def check_folder(folder: Path, *, force: bool) -> None:
    """Check that files can be written into a folder: it is new or empty, or `force` keeps others.

    Raises
    ------
    ScenarioError
        when it is a file, or has files that are kept only by `force`.
    """
    if folder.exists() and not folder.is_dir():
        raise ScenarioError(f"{shown(folder)}: is a file, not a folder")
    if folder.is_dir() and not force and any(folder.iterdir()):
        raise ScenarioError(
            f"{shown(folder)}: already exists and has files (use --force to write there)"
        )


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise ScenarioError(f"{shown(folder)}: cannot be made ({problem.strerror})") from None


def write_new(
    path: Path, text: str, *, force: bool, error: type[ClustersimError] = ScenarioError
) -> None:
    """Write `text` to `path` whole or not at all; replace an existing file only with `force`.

    Raises
    ------
    `error`
        when the file exists already, or cannot be written.
    """
    check_new(path, force=force, error=error)
    partial = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        partial.write_text(text, encoding="utf-8")
        partial.replace(path)
    except OSError as problem:
        partial.unlink(missing_ok=True)
        raise error(f"{shown(path)}: cannot be written ({problem.strerror})") from None


def check_new(path: Path, *, force: bool, error: type[ClustersimError] = ScenarioError) -> None:
    """Check that a file can be written: there is none yet, or `force` replaces it.

    Raises
    ------
    `error`
        when the path is a folder, or a file that is not replaced.
    """
    if path.is_dir():
        raise error(f"{shown(path)}: is a folder, not a file")
    if path.exists() and not force:
        raise error(f"{shown(path)}: already exists (use --force to replace it)")
