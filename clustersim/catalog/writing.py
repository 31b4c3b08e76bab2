"""Plain values written as a catalogue file: a fact on one line, a long list one item a line."""

import io
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from math import isfinite
from pathlib import Path
from typing import Any, Final

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedSeq
from ruamel.yaml.scalarstring import SingleQuotedScalarString

from clustersim.catalog.files import shown
from clustersim.catalog.tree import is_fact
from clustersim.errors import ClustersimError, ScenarioError

WIDTH: Final = 10_000
"""Width of a line: large, so that a fact and its source stay on one line."""

_SHORT: Final = 16
"""Most items of a list of numbers on one line."""


def to_yaml(data: dict[str, Any], remarks: Sequence[str] = ()) -> str:
    """Return `data` as YAML, with `remarks` as comments above it.

    Words, numbers and quoted texts of ASCII are written at once, as ruamel.yaml would; all other
    values by it.
    """
    comments = (f"# {_printable(line)}" for line in remarks)
    return "".join(f"{line}\n" for line in (*comments, *_block(data, 0)))


def _printable(line: str) -> str:
    """Return a comment as one line, with ? for characters that YAML does not allow there."""
    return "".join(letter if letter.isprintable() else "?" for letter in line)


def _block(value: Any, indent: int) -> Iterator[str]:
    """Yield the lines of a mapping, or of a long list."""
    pad = " " * indent
    if isinstance(value, dict):
        for key, item in value.items():
            name = f"{pad}{_scalar(key)}:"
            if _has_lines(item):
                yield name
                yield from _block(item, indent + (2 if isinstance(item, dict) else 0))
            else:
                yield f"{name} {_flow(item, inside=False)}".rstrip()
        return
    for item in value:
        further = indent + (4 if isinstance(item, dict) else 2)
        first, *rest = _block(item, further) if _has_lines(item) else [_flow(item, inside=False)]
        yield f"{pad}  - {first.lstrip()}"
        yield from rest


def _has_lines(value: Any) -> bool:
    """Whether a value takes several lines."""
    if isinstance(value, dict):
        return bool(value) and not _is_brief(value)
    return isinstance(value, list | tuple) and _is_long(value)


def _flow(value: Any, *, inside: bool = True) -> str:
    """Return a value on one line; texts are quoted that YAML needs quotes for `inside` brackets."""
    if isinstance(value, dict):
        brief = _is_brief(value)
        items = (
            f"{_scalar(key, inside=True)}: {_item(v, brief=brief)}" for key, v in value.items()
        )
        return f"{{{', '.join(items)}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_flow, value))}]"
    return _scalar(value, inside=inside)


def _item(value: Any, *, brief: bool) -> str:
    """Return a value of a mapping on one line, in quotes if it is a text of a fact with a colon."""
    quoted = brief and isinstance(value, str) and ":" in value
    return _scalar(value, inside=True, quoted=True) if quoted else _flow(value)


_PLAIN: Final = re.compile(
    r"(?:[A-Za-z_]|[0-9][0-9.,]* [A-Za-z])(?:[A-Za-z0-9_./()+=%*<>'$;,-]| (?=[A-Za-z0-9_(/<>=+$]))*"
)
"""Texts that need no quotes, unless they are words of YAML, or have commas inside brackets."""

_WORDS: Final = frozenset({"null", "true", "false", "yes", "no", "on", "off"})


@lru_cache(maxsize=4096, typed=True)
def _scalar(value: Any, *, inside: bool = False, quoted: bool = False) -> str:
    """Return a text, number or truth value."""
    if type(value) is int or (type(value) is float and isfinite(value)):
        return repr(value)
    if not isinstance(value, str):
        return _emitted(value, inside=inside)
    plain = _PLAIN.fullmatch(value) and value.lower() not in _WORDS
    if plain and not quoted and not (inside and "," in value):
        return str(value)
    if (plain and "'" not in value) or (quoted and value.isascii() and value.isprintable()):
        return "'{}'".format(value.replace("'", "''"))
    return _emitted(SingleQuotedScalarString(value) if quoted else value, inside=inside)


def _emitted(value: Any, *, inside: bool) -> str:
    """Return a value as ruamel.yaml writes it, in a list on one line or below a key."""
    yaml, text = YAML(), io.StringIO()
    yaml.width = WIDTH
    items: Any = CommentedSeq([value]) if inside else {"k": value}
    if inside:
        items.fa.set_flow_style()
    yaml.dump(items, text)
    written = text.getvalue()
    return written[1:-2] if inside else written[2:].strip("\n").removeprefix(" ")


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
