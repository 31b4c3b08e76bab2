"""What a scenario is made of: a file, a launch file, standard input, or keys and values.

path --read once--> document with its places --> `load`
"""

import json
import os.path
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from clustersim.answers import record
from clustersim.catalog import finding
from clustersim.catalog.changes import Change, without_numpy
from clustersim.catalog.files import file_hint, is_file, read_text, shown, standard_input
from clustersim.catalog.reading import Document, Place, parse_yaml
from clustersim.errors import ScenarioError
from clustersim.escaping import escaped
from clustersim.suggestions import nearest

if TYPE_CHECKING:
    from clustersim.scenario.launch_files import LaunchFile

UNTITLED: Final = {"title": "A scenario without a title"}
"""What a scenario of keys and values has where it has no title; a file needs one."""

KINDS: Final = {"sharing": "jobs", "service": "load"}
"""Keys by which a scenario is of a kind; without any it is of a training step."""

INLINE: Final = "scenario"
"""Name of a scenario that is no file: its keys and values are given."""


@record
class Origin:
    """What a scenario is made of.

    Attributes
    ----------
    name : stem of its file, which names the folder of a run
    document : the file as it is written
    folder : where its names are looked up first, of a shipped scenario and of keys and values the
        working folder; None for the shipped files only
    remarks : lines about a launch file that it was imported from
    """

    name: str
    document: Document
    folder: Path | None = None
    remarks: tuple[str, ...] = ()


class _Text(NamedTuple):
    """The text of a scenario, and how messages name it."""

    text: str
    where: str
    name: str
    file: Path | None = None


def origin_of(path: str | Path, changes: tuple[Change, ...] = ()) -> Origin:
    """Return what the scenario of a path is made of, a launch file for the machine of changes."""
    given = _text_of(path)
    launch = _launch_file(given)
    if launch is not None:
        draft = launch.scenario(changes)
        return Origin(given.name, draft.document(given.where), launch.file.parent, draft.summary)
    document = parse_yaml(given.text, given.where)
    if given.where == INLINE:
        return Origin(INLINE, replace(document, places={(): Place(INLINE)}), Path())
    folder = Path() if given.file is None else given.file.parent
    shipped = folder == finding.shipped("scenario")
    return Origin(given.name, document, Path() if shipped else folder)


def kind_of(path: str | Path) -> str:
    """Return the kind of a scenario by its keys, unchecked: one of `KINDS`, or ``step``."""
    given = _text_of(path)
    launch = _launch_file(given)
    if launch is not None:
        return "service" if launch.service else "step"
    data = parse_yaml(given.text, given.where).data
    keys = data if isinstance(data, dict) else {}
    return next((kind for kind, key in KINDS.items() if key in keys), "step")


def _text_of(path: str | Path) -> _Text:
    """Return the text of standard input, of keys and values, or of a file."""
    if str(path) == "-":
        return _Text(standard_input(), "(standard input)", "stdin")
    if str(path).startswith("{"):
        return _Text(str(path), INLINE, INLINE)
    file = _file(Path(path))
    return _Text(read_text(file), shown(file), file.stem, file)


def _launch_file(given: _Text) -> "LaunchFile | None":
    """Return what is no scenario, by its ending or its keys, but a launch file."""
    file = given.file
    if file is None or (file.suffix in {".yaml", ".yml"} and _SCENARIO.search(given.text)):
        return None
    from clustersim.scenario.launch_files import FORMATS, launch_file  # few scenarios need it

    launch = launch_file(file, given.text)
    if launch is None and file.suffix in _SCRIPTS:
        raise ScenarioError(
            f"{given.where}: is in no format of launch files that is read ({', '.join(FORMATS)})"
        )
    return launch


_SCRIPTS: Final = frozenset({".sh", ".bash", ".slurm", ".sbatch", ".py", ".toml"})
"""Endings of files that are no scenarios."""


_SCENARIO: Final = re.compile(r"^[\"']?(?:cluster|title)[\"']?[ \t]*:", re.MULTILINE)
"""A key at the top that every scenario has one of, and launch files do not."""


def name_of(path: str | Path) -> str:
    """Return the name that the scenario of a file has, or the shipped one of that name.

    >>> name_of("folder/mine.yaml"), name_of("frontier-1t")
    ('mine', 'frontier-1t')
    """
    return INLINE if str(path).startswith("{") else _file(Path(path)).stem


def scenario_text(scenario: str | Path | Mapping[str, Any]) -> str:
    """Return a scenario as a text that `load_any` reads, keys and values as JSON.

    >>> scenario_text("frontier-22b"), scenario_text({"title": "Mine"})
    ('frontier-22b', '{"title": "Mine"}')

    Raises
    ------
    ScenarioError
        when a value is no number, text, list or mapping.
    """
    if not isinstance(scenario, Mapping):
        return str(scenario)
    try:
        return json.dumps({**UNTITLED, **without_numpy(scenario)})
    except (TypeError, ValueError, RecursionError):
        raise ScenarioError(
            f"{INLINE}: holds a value that is no number, text, list or table (plain values only)"
        ) from None


def _file(path: Path) -> Path:
    if is_file(path) or path.suffix in {".yaml", ".yml"} or len(path.parts) > 1:
        return path
    shipped = finding.shipped("scenario") / f"{path.name}.yaml"
    if not is_file(shipped):
        if os.path.lexists(path):
            return path  # a folder, a pipe or a loop of links, which reading rejects
        hint = file_hint(path.name)
        if not hint and path.name in finding.entry_names("model"):
            hint = f" (a model: clustersim new --model {path.name} writes a scenario with it)"
        hint = hint or nearest(path.name, finding.entry_names("scenario"))
        raise ScenarioError(
            f"{escaped(str(path))}: no such file, and no shipped scenario of that name{hint}"
        )
    return shipped
