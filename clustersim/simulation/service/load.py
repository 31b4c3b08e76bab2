"""From the load of a scenario to requests: lengths, arrivals, traces.

Lengths, prompts and arrivals have random numbers of their own, so that the n-th request is the same
whatever the rate.
"""

import csv
import json
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from math import isfinite
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from clustersim.arrays import Floats, Integers
from clustersim.catalog.files import named_file, read_text, shown
from clustersim.engine.requests.front_end import NO_INTAKE, Intake
from clustersim.engine.requests.replay import RequestLoad
from clustersim.errors import ScenarioError
from clustersim.escaping import escaped
from clustersim.scenario.load import LoadedService
from clustersim.scenario.requests import (
    MAX_REQUESTS,
    MAX_SIMULATED,
    MAX_TOKENS,
    HistogramLengths,
    Lengths,
    LoadFile,
    LognormalLengths,
    UniformLengths,
)
from clustersim.scenario.serving import ServingScenario

AT_A_RATE: Final = 65_536
"""Requests of a load with a rate, if the scenario names no number; a replay ends before the last
one when its mean times are known."""

AT_ONCE: Final = 1_000
"""Requests that a static batch is sized for, at a rate at which they have no number."""

OF_A_USER: Final = 8
AT_LEAST: Final = 64
WARM_UP: Final = 2
"""Measured requests of each user, the minimum in all, and requests of each user before them."""

LENGTH: Final[str] = "i"
"""Type of the tokens of a request, of which there are at most `MAX_TOKENS`."""

FIELDS: Final = ("arrival", "input", "output")
"""Fields of a request in a trace."""

MOST_SECONDS: Final = 1e10
"""Latest arrival of a trace [s]: seconds since 1970 are below, milliseconds are above; of later
ones a number has no microseconds."""


def load_of(loaded: LoadedService, *, endless: bool = False) -> RequestLoad:
    """Return the requests of a scenario, some of which take time.

    Raises
    ------
    ScenarioError
        as of `_load_of`, and where all prompts are cached and all outputs have one token.
    """
    load = _load_of(loaded, endless)
    if load.cached and load.outputs.max() == 1:
        raise ScenarioError(
            f"{loaded.where('load', 'cached')}: requests of one token whose prompts are cached take"
            " no time (more load.output, or no load.cached)"
        )
    return load


def _load_of(loaded: LoadedService, endless: bool) -> RequestLoad:
    """Return the requests of a scenario.

    Parameters
    ----------
    endless : whether a load with a rate has many requests, whatever number it states

    Raises
    ------
    ScenarioError
        for a trace that is wrong, one line for each of the first problems, and for too many
        requests.
    """
    given = loaded.scenario.load
    intake = intake_of(loaded.scenario)
    after = loaded.scenario.engine.first
    start = partial(RequestLoad, intake=intake, after=after, cached=given.cached)
    trace = trace_file(loaded)
    if trace is not None:
        rows = np.array(_trace(loaded, trace), dtype=float)
        inputs, outputs = rows[:, 1:].astype(LENGTH).T
        if (given.warm_up or 0) >= len(rows):
            raise ScenarioError(
                f"{loaded.where('load', 'warm_up')}: must be less than the {len(rows):,} requests"
                f" of {shown(trace)}"
            )
        return start(inputs, outputs, rows[:, 0], warm_up=given.warm_up or 0)
    if given.concurrency is not None:
        users = given.concurrency
        warm_up = WARM_UP * users if given.warm_up is None else given.warm_up
        complete = warm_up + (given.requests or max(AT_LEAST, OF_A_USER * users))
        if complete + users > MAX_SIMULATED:
            raise ScenarioError(
                f"{loaded.where('load', 'concurrency')}: {users:,} users make {complete + users:,}"
                f" requests, at most {MAX_SIMULATED:,} are simulated (fewer users, or a smaller"
                " load.requests and load.warm_up)"
            )
        inputs, outputs = _lengths(given, complete + users)
        return start(inputs, outputs, users=users, warm_up=warm_up, complete=complete)
    if given.rate is not None:
        warm_up = given.warm_up or 0
        number = AT_A_RATE if endless or given.requests is None else given.requests
        inputs, outputs = _lengths(given, warm_up + number)
        arrivals = np.cumsum(_gaps(given, given.rate, len(inputs)))
        if not arrivals[-1] and given.requests is None:
            raise ScenarioError(
                f"{loaded.where('load', 'burstiness')}: all requests arrive together (use less)"
            )
        return start(inputs, outputs, arrivals, warm_up=warm_up)
    inputs, outputs = _lengths(given, given.batch or given.offline or 1)
    return start(inputs, outputs, np.zeros(len(inputs)), intake=NO_INTAKE)


def intake_of(scenario: ServingScenario) -> Intake:
    """Return the time of the front ends for a request: each group of attention has one."""
    facts, plan = scenario.engine.intake, scenario.plan.prefill or scenario.plan
    if facts is None or scenario.load.cached:
        return NO_INTAKE
    fronts = plan.replicas * plan.attention_data
    return Intake(facts.request / fronts, facts.token / fronts)


def prompts_of(loaded: LoadedService, load: RequestLoad) -> int:
    """Return the tokens of all prompts, of which a static batch has no more."""
    endless = loaded.scenario.load.rate is not None and loaded.scenario.load.requests is None
    return int(load.inputs[: AT_ONCE if endless else None].sum())


# --- random numbers -------------------------------------------------------------------------------


def _generator(seed: int, cause: int) -> np.random.Generator:
    return np.random.default_rng([seed, cause])


def _lengths(given: LoadFile, count: int) -> tuple[Integers, Integers]:
    """Return the tokens of prompts and outputs."""
    prompts, outputs = given.prompts, given.outputs
    assert prompts is not None
    assert outputs is not None
    drawn = _drawn(prompts, count, _generator(given.seed, 0)).astype(LENGTH)
    return drawn, _drawn(outputs, count, _generator(given.seed, 1)).astype(LENGTH)


def _drawn(lengths: Lengths, count: int, draw: np.random.Generator) -> Integers:
    """Return random lengths."""
    if isinstance(lengths, UniformLengths):
        low, high = lengths.uniform
        return draw.integers(low, high, count, endpoint=True)
    if isinstance(lengths, HistogramLengths):
        tokens, weights = zip(*sorted(lengths.histogram.items()), strict=True)
        shares = np.array(weights) / sum(weights)
        return draw.choice(np.array(tokens, dtype=np.int64), count, p=shares)
    if isinstance(lengths, LognormalLengths):
        spread = np.log1p((lengths.deviation / lengths.mean) ** 2)
        found = draw.lognormal(np.log(lengths.mean) - spread / 2, np.sqrt(spread), count)
        return np.clip(found.round(), 1, lengths.most or MAX_TOKENS).astype(np.int64)
    return np.full(count, lengths, dtype=np.int64)


def _gaps(given: LoadFile, rate: float, count: int) -> Floats:
    """Return the times between arrivals [s]."""
    draw = _generator(given.seed, 2)
    if given.arrivals == "regular":
        return np.full(count, 1 / rate)
    if given.arrivals == "bursty":
        shape = given.burstiness**-2
        return draw.gamma(shape, 1 / (rate * shape), count)
    return draw.exponential(1 / rate, count)


# --- traces ---------------------------------------------------------------------------------------


class Row(NamedTuple):
    """A request of a trace."""

    arrival: float
    input: int
    output: int


def trace_file(loaded: LoadedService) -> Path | None:
    """Return the file of the trace of a load, next to the scenario first; None without one."""
    name = loaded.scenario.load.trace
    return None if name is None else named_file(name, loaded.origin.folder)


def _trace(loaded: LoadedService, path: Path) -> list[Row]:
    """Return the requests of a trace in the order of arrivals, the first one at 0."""
    where = f"{loaded.where('load', 'trace')}: "
    text = read_text(path, ScenarioError, where=where)
    rows, problems = [], []
    for line, fields in _records(path, text, where):
        try:
            rows.append(_row(fields))
        except ValueError as problem:
            problems.append(f"{shown(path)}:{line}: {problem}")
    if problems:
        raise ScenarioError("\n".join(problems[:5]))
    if not 0 < len(rows) <= MAX_REQUESTS:
        raise ScenarioError(
            f"{where}{shown(path)} has {len(rows):,} requests (1 to {MAX_REQUESTS:,})"
        )
    rows.sort()
    return [row._replace(arrival=row.arrival - rows[0].arrival) for row in rows]


def _records(path: Path, text: str, where: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield the line and the fields of each request of a file."""
    if path.suffix == ".jsonl":
        known = False
        for line, entry in enumerate(text.splitlines(), 1):
            if entry.strip():
                fields = _object(entry, f"{shown(path)}:{line}")
                if not known:
                    _check_names("key", fields, f"{shown(path)}:{line}", "each line has")
                known = True
                yield line, fields
        return
    if path.suffix != ".csv":
        raise ScenarioError(f"{where}{shown(path)}: must be a .csv or .jsonl file")
    reader = csv.DictReader(text.splitlines())
    _check_names("column", reader.fieldnames or (), f"{shown(path)}:1", "the first line names")
    try:
        for fields in reader:
            yield reader.line_num, fields
    except csv.Error as problem:
        raise ScenarioError(f"{shown(path)}:{reader.line_num + 1}: {problem}") from None


def _check_names(kind: str, names: Iterable[str], where: str, rule: str) -> None:
    """Check that a trace has the names of all fields, of which others have other words."""
    stated = [*names]
    if missing := [name for name in FIELDS if name not in stated]:
        found = f" (of {', '.join(map(escaped, stated[:6]))})" if stated else ""
        raise ScenarioError(
            f"{where}: no {kind} {missing[0]}{found}: {rule} arrival in seconds, and input and"
            " output in tokens"
        )


def _object(entry: str, where: str) -> Mapping[str, Any]:
    try:
        found = json.loads(entry)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise ScenarioError(f"{where}: must be an object with {', '.join(FIELDS)}, in one line")
    return found


def _row(fields: Mapping[str, Any]) -> Row:
    """Return a request of a trace; ValueError for a value that is not allowed."""
    arrival = _number(fields, "arrival")
    if arrival < 0:
        raise ValueError(f"arrival: {arrival:g} s must not be negative")
    if arrival > MOST_SECONDS:
        raise ValueError(f"arrival: {arrival:g} s is above {MOST_SECONDS:g} (in seconds)")
    prompt, output = (_number(fields, name) for name in ("input", "output"))
    for name, tokens in (("input", prompt), ("output", output)):
        if tokens != int(tokens) or not 1 <= tokens <= MAX_TOKENS:
            raise ValueError(f"{name}: must be a whole number of at least 1, not {tokens:g}")
    return Row(arrival, int(prompt), int(output))


def _number(fields: Mapping[str, Any], name: str) -> float:
    try:
        value = float(fields[name])
    except (KeyError, TypeError, ValueError):
        stated = fields.get(name)
        what = "is missing" if stated in (None, "") else f"must be a number, not {stated!r}"
        raise ValueError(f"{name}: {what}") from None
    if not isfinite(value):
        raise ValueError(f"{name}: must be a finite number")
    return value
