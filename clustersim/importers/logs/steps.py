"""The steps of a log: of interleaved ranks, with colours, bars, restarts and missing lines.

text --colours, carriage returns--> lines --pattern of the format--> records of ranks
--records of one number joined--> steps; a number that goes back begins another attempt
"""

import re
from collections.abc import Iterator
from dataclasses import field
from math import inf
from pathlib import Path
from statistics import median
from typing import Final

from clustersim.catalog.files import read_bytes, shown
from clustersim.errors import CatalogError
from clustersim.importers.logs.formats import INTERRUPTED, LOGS, LogFormat
from clustersim.importers.source import MOST_BYTES, Source, as_source
from clustersim.records import dataclass

COLOUR: Final = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
"""A code of a terminal: of a colour, or of the place of the cursor."""

INTERLEAVED: Final = 2
"""Numbers by which a rank's line may be behind that of another rank; one that is further behind is
of another attempt; assumed."""


@dataclass(frozen=True)
class LoggedStep:
    """A step of a log.

    Attributes
    ----------
    number : as the program counts; None of a summary
    line : of the file
    values : by quantity of `formats.QUANTITIES`, in SI units; the median of the ranks, and the
        largest memory
    attempt : counts restarts, from 0
    interrupted : whether a checkpoint or an evaluation is next to it
    """

    number: int | None
    line: int
    values: dict[str, float]
    attempt: int = 0
    interrupted: bool = False


@dataclass(frozen=True)
class Log:
    """The steps of a file.

    Attributes
    ----------
    file : as messages name it
    format : name of its format in `formats.LOGS`
    steps : in the order of the file
    """

    file: str
    format: str
    steps: tuple[LoggedStep, ...]

    @property
    def restarts(self) -> int:
        """How often the numbers go back."""
        return self.steps[-1].attempt


@dataclass
class _Record:
    """Lines of one number in one attempt, of several ranks."""

    number: int | None
    line: int
    attempt: int
    seen: list[dict[str, float]] = field(default_factory=list)
    interrupted: bool = False

    def step(self) -> LoggedStep:
        """Return the step of all ranks."""
        names = dict.fromkeys(name for values in self.seen for name in values)
        values = {
            name: (max if name == MEMORY else median)(v[name] for v in self.seen if name in v)
            for name in names
        }
        return LoggedStep(self.number, self.line, values, self.attempt, self.interrupted)


MEMORY: Final = "memory_peak_bytes"


def read_log(path: Path) -> Source:
    """Return the text of a log; bytes that are not UTF-8 are replaced, as of a line that is cut.

    Raises
    ------
    CatalogError
        when it is missing, too large, empty or binary.
    """
    if path.is_file() and path.stat().st_size > MOST_BYTES:
        raise CatalogError(
            f"{shown(path)}: is larger than {MOST_BYTES // 1000**2} MB (give a part of it:"
            " tail -n 20000 LOG > part.log)"
        )
    content = read_bytes(path, CatalogError, most=MOST_BYTES)
    return as_source(shown(path), content.decode("utf-8", "replace").encode("utf-8"))


def steps_of(source: Source) -> Log | None:
    """Return the steps of a log; None where no line is one of a known format.

    Raises
    ------
    CatalogError
        when the format is known and no step has a line that is complete.
    """
    plain = COLOUR.sub("", source.text)
    name = next((name for name, format in LOGS.items() if format.sign.search(plain)), None)
    if name is None:
        return None
    records = [record for record in _records(source, LOGS[name]) if any(record.seen)]
    if not records:
        raise source.wrong(None, f"has lines of {name} and no complete line of a step")
    return Log(source.file, name, tuple(record.step() for record in records))


def _lines(source: Source) -> Iterator[tuple[int, str]]:
    """Yield lines without colours, and each state of a progress bar as a line."""
    for number, line in source.lines:
        for state in COLOUR.sub("", line).split("\r"):
            yield number, state


def _records(source: Source, format: LogFormat) -> list[_Record]:
    """Return the records of the steps, those of several ranks joined."""
    records: list[_Record] = []
    ahead: dict[str, float] = {}
    event = False
    for number, line in _lines(source):
        if INTERRUPTED.search(line):
            event = True
            if records:
                records[-1].interrupted = True
        elif (ended := format.step.search(line)) is not None:
            count = next((int(group) for group in ended.groups() if group), None)
            record = _of_number(records, count, number)
            record.seen.append(ahead | _values(format, line, ("line", "before", "after")))
            record.interrupted |= event
            ahead, event = {}, False
        else:
            ahead |= _values(format, line, ("before",))
            if records and (after := _values(format, line, ("after",))):
                records[-1].seen[-1] = _joined(records[-1].seen[-1], after)
    return records


def _of_number(records: list[_Record], number: int | None, line: int) -> _Record:
    """Return the record of a number: an earlier one of another rank, or a new one."""
    attempt = records[-1].attempt if records else 0
    last = [record for record in records[-1 - INTERLEAVED :] if record.attempt == attempt]
    for record in last:
        if number is not None and record.number == number:
            return record
    back = number is not None and any((record.number or 0) > number for record in last)
    records.append(_Record(number, line, attempt + back))
    return records[-1]


def _joined(values: dict[str, float], after: dict[str, float]) -> dict[str, float]:
    """Return the values of a step with those of a later line: of memory, that of any rank."""
    peak = max(values.get(MEMORY, 0.0), after.get(MEMORY, 0.0))
    return values | after | ({MEMORY: peak} if peak else {})


def _values(format: LogFormat, line: str, places: tuple[str, ...]) -> dict[str, float]:
    """Return the values of a line; of two patterns of a quantity the first that matches."""
    values: dict[str, float] = {}
    for each in format.fields:
        if each.where in places and each.name not in values:
            found = each.pattern.search(line)
            value = float(found[1].replace(",", "")) * each.factor if found else 0.0
            if 0 < value < inf:
                values[each.name] = value
    return values
