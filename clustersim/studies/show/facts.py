"""The facts of a catalogue entry, each with its proof: source, reason, confidence, note."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from clustersim.catalog.tree import is_fact

if TYPE_CHECKING:
    pass

_HEAD: Final = {"kind", "name", "title", "extends", "sources", "source", "assumed", "calibration"}
"""Keys of a file that are no facts about the thing itself."""

LONGEST: Final = 120
"""Letters of a value that a table shows; a list of cables may have thousands."""


class FactRow(NamedTuple):
    """One value as it is written, with its proof; `source` is the title of what was read."""

    key: str
    value: Any
    source: str | None = None
    assumed: str | None = None
    confidence: str | None = None
    note: str | None = None

    @property
    def proof(self) -> str:
        """Where the value is from, as the table says it."""
        told = f"assumed: {self.assumed}" if self.assumed else self.source or ""
        return f"{told} ({self.note})" if self.note and told else told or self.note or ""


def fact_rows(data: Mapping[str, Any], key: str = "") -> Iterator[FactRow]:
    """Yield every value of a file in its order; of other files it names only a node is entered."""
    sources = data.get("sources", {})
    for name, value in data.items():
        if name in _HEAD:
            continue
        here = f"{key}.{name}" if key else name
        if isinstance(value, dict) and "kind" in value and "name" in value:
            yield FactRow(here, value["name"], value.get("title"))
            if value["kind"] == "node":
                yield from fact_rows(value, here)
        else:
            yield from _rows_in(value, here, name, data, sources)


def _rows_in(
    value: Any, here: str, key: str, data: Mapping[str, Any], sources: Mapping[str, Any]
) -> Iterator[FactRow]:
    """Yield the values below `here`, whose key in its file is `key`."""
    if is_fact(value):
        source = value.get("source")
        title = None if source is None else str(sources.get(source, {}).get("title", source))
        rest = (value.get(name) for name in ("assumed", "confidence", "note"))
        yield FactRow(here, value["value"], title, *rest)
    elif isinstance(value, dict):
        for name, item in value.items():
            yield from _rows_in(item, f"{here}.{name}", f"{key}.{name}", data, sources)
    elif isinstance(value, list) and any(isinstance(item, dict) for item in value):
        for i, item in enumerate(value):
            yield from _rows_in(item, f"{here}[{i}]", f"{key}[{i}]", data, sources)
    else:
        yield FactRow(here, value, *_proof_of_plain(key, data, sources))


def _proof_of_plain(
    key: str, data: Mapping[str, Any], sources: Mapping[str, Any]
) -> tuple[str | None, str | None]:
    """Return source and reason of a plain value: what its file says of it or of all."""
    told = data.get("assumed")
    reasons = told if isinstance(told, dict) else {}
    parts = key.split(".")
    for length in range(len(parts), 0, -1):
        if (reason := reasons.get(".".join(parts[:length]))) is not None:
            return None, str(reason)
    source = data.get("source")
    return (
        (None, None)
        if source is None
        else (str(sources.get(source, {}).get("title", source)), None)
    )


def written(value: Any) -> str:
    """Return a plain value as a file would have it, cut where it goes on for long.

    >>> written([[0, 1, 4], [0, 2]]), written(True), written("25 GB/s")
    ('[0, 1, 4], [0, 2]', 'true', '25 GB/s')
    """
    text = ", ".join(map(_flow, value)) if isinstance(value, list) else _flow(value)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 4].rpartition(',')[0]}, ..."


def _flow(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_flow(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_flow, value)) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


__all__ = ["FactRow", "fact_rows", "written"]
