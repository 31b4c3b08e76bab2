"""Reads YAML safely into plain values with the line of each.

A file is composed into nodes and converted here, so no tag can construct an object, a key that is
given twice is an error, and aliases are counted while they are expanded.
"""

import datetime
import math
import re
from collections.abc import Callable, Hashable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from clustersim.answers import record
from clustersim.catalog.disk_cache import kept
from clustersim.catalog.files import read_text, shown
from clustersim.errors import ClustersimError, ScenarioError
from clustersim.escaping import escaped
from clustersim.records import dataclass

if TYPE_CHECKING:
    from ruamel.yaml.nodes import MappingNode, Node

Key = tuple[str | int, ...]
"""Path of a value in a document: ``("plan", "tensor")``."""

MOST_VALUES: Final = 200_000
"""Maximum number of values of a file, with its aliases expanded."""

MOST_DEPTH: Final = 40
"""Maximum number of levels of a file."""

_SAFE_DEPTH: Final = 1_000
"""Levels that the parser, which is recursive, can reach on the stack of any thread."""


@dataclass(frozen=True)
class Place:
    """A line of a file, as an error message names it."""

    file: str
    line: int | None = None

    def __str__(self) -> str:
        file = escaped(self.file)
        return file if self.line is None else f"{file}:{self.line}"

    @property
    def without_folder(self) -> str:
        """The line with the name of its file: an absolute path is private."""
        return (
            str(Place(Path(self.file).name, self.line))
            if Path(self.file).is_absolute()
            else str(self)
        )


@record
class Document:
    """The plain values of one YAML file and the place of each.

    Attributes
    ----------
    file : the path as the user would write it
    data : nested dicts and lists of strings, numbers, booleans and None
    places : for each key path, its line
    """

    file: str
    data: Any
    places: Mapping[Key, Place]

    def part(self, key: str) -> "Document":
        """Return the values below a key of the top, where a file has it."""
        places = {path[1:]: place for path, place in self.places.items() if path[:1] == (key,)}
        return Document(self.file, self.mapping().get(key), places)

    def mapping(self) -> dict[str, Any]:
        """Return the data where a file must be a mapping; else one clear error."""
        if not isinstance(self.data, dict):
            raise ScenarioError(f"{self.file}: holds no keys (expected 'key: value' lines)")
        return self.data


def read_yaml(
    path: Path,
    error: type[ClustersimError] = ScenarioError,
    *,
    finite: bool = True,
    where: str = "",
) -> Document:
    """Read one YAML document.

    Parameters
    ----------
    finite : whether a number that is not finite is an error
    where : what names the file, before the message that it cannot be read

    Raises
    ------
    `error`
        when the file does not exist, is not text, does not parse, repeats a key, is too large, or
        has a number that is not finite.
    """
    return parse_yaml(read_text(path, error, where=where), shown(path), error, finite=finite)


def parse_yaml(
    text: str, file: str, error: type[ClustersimError] = ScenarioError, *, finite: bool = True
) -> Document:
    """Parse `text` as one YAML document named `file`; parameters and errors as of `read_yaml`."""
    document = _parsed(text, file, cast("Hashable", error), finite)
    return Document(file, plain_copy(document.data), document.places)


@lru_cache(maxsize=1024)  # all shipped files, and some hundred of a user
def _parsed(text: str, file: str, error: Any, finite: bool) -> Document:
    """Return a document for `parse_yaml` to copy: a study reads the same files for each run."""
    return kept(lambda: _composed(text, file, error, finite), "YAML", file, finite, text)


def _composed(text: str, file: str, error: Any, finite: bool) -> Document:
    from ruamel.yaml import YAML  # 10 ms that a file need not wait for which was read before
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    try:
        _check_size(text, file, error)
        node = YAML(typ="safe").compose(text)
    except ClustersimError:
        raise
    except MarkedYAMLError as problem:
        mark = problem.problem_mark or problem.context_mark
        line = None if mark is None else mark.line + 1
        hint = _remedy(text.splitlines()[mark.line : mark.line + 1]) if mark else ""
        raise error(f"{Place(file, line)}: is not valid YAML ({problem.problem}{hint})") from None
    except (YAMLError, RecursionError, ValueError) as problem:
        reason = str(problem).splitlines()[0] if str(problem) else "nested too deeply"
        raise error(f"{file}: is not valid YAML ({reason})") from None
    converter = _Converter(file, error, finite)
    data = None if node is None else converter.convert(node, ())
    return Document(file, data, converter.places)


def plain_copy(value: Any) -> Any:
    """Return values of a file with tables and lists of their own; faster than `deepcopy`."""
    if isinstance(value, dict):
        return {key: plain_copy(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain_copy(item) for item in value]
    return value


def _remedy(lines: list[str]) -> str:
    """Return the remedy for a tab, or a limit without quotes: ``>`` begins a text of many lines."""
    if lines and re.match(r"\s*\t", lines[0]):
        return "; a tab begins the line: indent with spaces"
    limit = re.search(r":\s+(>=?\s*[\d.][^#}]*)", lines[0]) if lines else None
    return "" if limit is None else f"; write it in quotes: '{limit[1].strip()}'"


def _check_size(text: str, file: str, error: Callable[[str], ClustersimError]) -> None:
    """Check depth and number of values by the parser's events, which take no recursion or memory.

    A level needs a bracket, or a column, which a list may share with the mapping around it, and a
    value two characters, so that a text with few of these needs no check.
    """
    columns = max(map(len, text.splitlines()), default=0)
    levels = text.count("[") + text.count("{") + 2 * columns
    if levels < _SAFE_DEPTH and len(text) < 2 * MOST_VALUES:
        return
    from ruamel.yaml import YAML
    from ruamel.yaml.events import CollectionEndEvent, CollectionStartEvent, NodeEvent

    depth = values = 0
    for event in YAML(typ="safe").parse(text):
        values += isinstance(event, NodeEvent)
        depth += isinstance(event, CollectionStartEvent) - isinstance(event, CollectionEndEvent)
        if depth > MOST_DEPTH + 1 or values > 2 * MOST_VALUES:
            place = Place(file, event.start_mark.line + 1)
            if depth > MOST_DEPTH + 1:
                raise error(f"{place}: nested more than {MOST_DEPTH} levels deep")
            raise error(f"{place}: more than {MOST_VALUES:,} values")


class _Converter:
    """Converts composed nodes to plain values, up to a number that limits aliases."""

    def __init__(self, file: str, error: Callable[[str], ClustersimError], finite: bool) -> None:
        self.file, self.error, self.finite = file, error, finite
        self.places: dict[Key, Place] = {}
        self.values = 0

    def convert(self, node: "Node", path: Key) -> Any:
        place = Place(self.file, node.start_mark.line + 1)
        self.values += 1
        if self.values > MOST_VALUES:
            raise self.error(
                f"{place}: aliases expand to more than {MOST_VALUES:,} values (write them out)"
            )
        if len(path) > MOST_DEPTH:
            raise self.error(f"{place}: nested more than {MOST_DEPTH} levels deep")
        self.places[path] = place
        if _form(node) == "scalar":
            return self._scalar(node, place, path)
        if str(node.tag).rpartition(":")[2] not in {"map", "seq"}:
            raise self._tagged(node, place)
        if _form(node) == "mapping":
            return self._mapping(cast("MappingNode", node), path)
        return [self.convert(item, (*path, i)) for i, item in enumerate(node.value)]

    def _mapping(self, node: "MappingNode", path: Key) -> dict[str, Any]:
        result: dict[str, Any] = {}
        inherited: dict[str, Any] = {}
        for key_node, value_node in node.value:
            place = Place(self.file, key_node.start_mark.line + 1)
            if _form(key_node) != "scalar":
                raise self.error(f"{place}: a key must be a word, not a list or a mapping")
            if str(key_node.tag).endswith(":merge"):
                inherited |= self._inherited(value_node, path, place)
                continue
            key = key_node.value
            if key in result:
                raise self.error(f"{place}: {dotted((*path, key))}: key given twice")
            result[key] = self.convert(value_node, (*path, key))
            self.places[(*path, key)] = place
        return {**inherited, **result}

    def _inherited(self, node: "Node", path: Key, place: Place) -> dict[str, Any]:
        """Return the keys that ``<<: *other`` includes; keys of the mapping itself win."""
        value = self.convert(node, path)
        several = value if isinstance(value, list) else [value]
        if not all(isinstance(mapping, dict) for mapping in several):
            raise self.error(f"{place}: '<<' takes a mapping or a list of mappings")
        return {key: mapping[key] for mapping in reversed(several) for key in mapping}

    def _scalar(self, node: "Node", place: Place, path: Key) -> Any:
        kind = str(node.tag).rpartition(":")[2]
        text = node.value
        try:
            if kind == "int":
                return int(text.replace("_", ""), 0 if text.startswith(("0x", "0o")) else 10)
            if kind == "float":
                return self._number(text, place, path)
            if kind == "timestamp":
                return datetime.date.fromisoformat(text[:10]).isoformat()
        except ClustersimError:
            raise
        except ValueError:
            return text
        if kind in {"bool", "null"}:
            return None if kind == "null" else text.lower() == "true"
        if kind != "str":
            raise self._tagged(node, place)
        return text

    def _number(self, text: str, place: Place, path: Key) -> float:
        """Return a number, where it may be used one that is not finite; ValueError for text."""
        number = float(text.replace("_", "").lower().replace(".inf", "inf").replace(".nan", "nan"))
        if self.finite and not math.isfinite(number):
            key = f" {dotted(path)}:" if path else ""
            raise self.error(f"{place}:{key} must be a finite number, not {text[:60]}")
        return number

    def _tagged(self, node: "Node", place: Place) -> ClustersimError:
        return self.error(f"{place}: tag '{node.tag}' is not allowed (plain values only)")


def _form(node: Any) -> str:
    """Return whether a node is a scalar, a mapping or a sequence."""
    return str(node.id)


def dotted(path: Key) -> str:
    """Return a key path as a person writes it: ``plan.tensor``, ``published[0].value``."""
    words = ""
    for part in path:
        words += f"[{part}]" if isinstance(part, int) else f".{part}" if words else part
    return escaped(words)
