"""Expectations of a scenario: limits that its answer must hold, and whether it does.

    expect:
      step_time_s: "< 12"
      mfu: ">= 40 %"
      memory.fits: true

A limit is missed where the measure has no value, the job does not fit in memory, or the queue of
the service grows; the last two do not concern limits of memory and of the queue.
"""

import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from clustersim.answers import record
from clustersim.errors import ScenarioError
from clustersim.records import dataclass
from clustersim.scenario.load import LoadedScenario
from clustersim.simulation.limits import format_ratio, growing_queue, kinds_of
from clustersim.simulation.measures import QUEUE_GROWTH, Answer, Measure, find_measure, measures_of
from clustersim.units import GIB

VERDICTS: Final[Mapping[str, Callable[[Answer], bool]]] = {
    "memory.fits": lambda answer: answer.memory.fits,
    "memory.tight": lambda answer: answer.memory.tight,
}
"""What is expected to be true or false, by name."""

UNAFFECTED: Final = (
    "memory_peak_bytes",
    "memory_capacity_bytes",
    "devices",
    "sustainable_rate",
    QUEUE_GROWTH,
)
"""Measures that do not depend on whether a job fits in memory and a queue is finite."""

_HOLDS: Final[Mapping[str, Callable[[float, float], bool]]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@record
class Expectation:
    """An expectation of the scenario, and whether the answer holds it.

    Attributes
    ----------
    measure : name of a measure, `memory.fits` or `memory.tight`
    sign : `<`, `<=`, `>` or `>=`; `=` for what is true or false
    limit : expected number; true or false for `memory.fits` and `memory.tight`
    value : the value of the answer; null where it is not known
    held : whether the answer holds it
    why : value and limit in words, and the reason where it is missed
    """

    measure: str
    sign: str
    limit: float | bool
    value: float | bool | None
    held: bool
    why: str


@dataclass(frozen=True)
class Expected:
    """A line of the section `expect`.

    Attributes
    ----------
    name : of the measure or verdict, as the scenario has it
    sign : as in `Expectation`
    limit : as in `Expectation`
    text : sign and limit as the scenario has them
    measure : None of a verdict
    """

    name: str
    sign: str
    limit: float | bool
    text: str
    measure: Measure | None = None


def read_expectations(loaded: LoadedScenario) -> tuple[Expected, ...]:
    """Return the expectations of a scenario.

    Raises
    ------
    ScenarioError
        a line for each that names no measure, or has no limit of it.
    """
    lines, problems = dict[str, Expected](), []
    for path, value in _lines(("expect",), loaded.scenario.expect):
        try:
            line = _expected(loaded, path, value)
            lines[line.name] = line
        except ScenarioError as problem:
            problems.append(str(problem))
    if problems:
        raise ScenarioError("\n".join(problems))
    return tuple(lines.values())


Path = tuple[str, ...]
"""Keys that lead to a value of a scenario."""


def _lines(path: Path, table: Mapping[str, Any]) -> Iterator[tuple[Path, Any]]:
    """Yield the values of a table with their paths; ``memory: {fits: true}`` is a table of one."""
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _lines((*path, key), value)
        else:
            yield (*path, key), value


_LIMIT: Final = re.compile(r"\s*(<=|>=|<|>)?\s*(.*?)\s*", re.DOTALL)


def _expected(loaded: LoadedScenario, path: Path, value: Any) -> Expected:
    name, where = ".".join(path[1:]), loaded.where(*path)
    if name in VERDICTS:
        if not isinstance(value, bool):
            raise ScenarioError(f"{where}: must be true or false, not {value!r}")
        return Expected(name, "=", value, str(value).lower())
    kinds = kinds_of(loaded)
    measure = find_measure(name, measures_of(kinds), kinds, (where, loaded.name), VERDICTS)
    match = _LIMIT.fullmatch("" if isinstance(value, bool) else str(value))
    sign, text = match.groups() if match else (None, "")
    better = {True: ">=", False: "<="}.get(bool(measure.more_is_better), "<=")
    if not text or (sign is None and measure.more_is_better is None):
        raise ScenarioError(
            f"{where}: {value!r} is no limit (a sign and a number: '{better} {_example(measure)}')"
        )
    try:
        limit = measure.read(text, name)
    except ValueError as problem:
        raise ScenarioError(f"{where}: {problem}") from None
    if limit < 0:
        raise ScenarioError(f"{where}: must not be negative")
    sign = sign or better
    return Expected(name, sign, limit, f"{sign} {text}", measure)


def _example(measure: Measure) -> str:
    """Return a value of a measure as an example."""
    return measure.text(64 * GIB if measure.dimension == "bytes" else 0.4)


def compare_with(expected: Sequence[Expected], answer: Answer) -> tuple[Expectation, ...]:
    """Return the expectations that an answer of its kinds can hold, each with its value."""
    numbers, kinds = answer.measures(), answer.kinds
    return tuple(
        _verdict(line, answer)
        if line.measure is None
        else _measured(line, line.measure, numbers, _obstacle(line.measure.name, answer, numbers))
        for line in expected
        if line.measure is None or line.measure.kind in kinds
    )


def _verdict(line: Expected, answer: Answer) -> Expectation:
    value, why = VERDICTS[line.name](answer), f"{answer.memory.verdict}, expected {line.text}"
    return Expectation(line.name, line.sign, line.limit, value, value == line.limit, why)


def _measured(
    line: Expected, measure: Measure, numbers: Mapping[str, float], obstacle: str | None
) -> Expectation:
    limit = f"expected {line.text}"
    value = None if measure.name not in numbers else float(numbers[measure.name])
    held = value is not None and obstacle is None and _HOLDS[line.sign](value, line.limit)
    if value is None:
        text = f"not known, {limit}: {obstacle}"
    elif obstacle is not None:
        text = f"{limit}: {obstacle}"
    else:
        ratio = "" if held else format_ratio(value, line.limit)
        text = f"{measure.text(value)}{ratio}, {limit}"
    return Expectation(line.name, line.sign, line.limit, value, held, text)


def _obstacle(name: str, answer: Answer, numbers: Mapping[str, float]) -> str | None:
    """Return why an answer can hold no limit of a measure; None where it can."""
    if name not in UNAFFECTED and not answer.memory.fits:
        return answer.memory.verdict
    if name not in UNAFFECTED and (unstable := growing_queue(numbers)):
        return unstable
    return None if name in numbers else answer.why_missing(name)
