"""Explicit flows on explicit links, and when each of them finishes.

The smallest question the network can answer, and one that other simulators and hand calculations
answer too.  A file holds cases; a case holds directed links and flows:

    {"cases": [{"id": "two",
                "links": [{"id": "a>b", "bandwidth": 1e10, "latency": 1e-6}],
                "flows": [{"id": "f0", "route": ["a>b"], "start": 0.0, "bytes": 2e10}]}]}

bandwidth [B/s] of one direction, latency and start [s], bytes [B].  A flow waits the latencies of
its route, then its bytes share every link of the route at one rate.  Other keys are ignored.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from simpy import Environment
from simpy.events import Event, Timeout

from clustersim.catalog.facts import MOST, NotNegative
from clustersim.catalog.files import read_text
from clustersim.engine.network.network import Network
from clustersim.engine.network.transfer import Transfer
from clustersim.errors import ScenarioError
from clustersim.records import dataclass
from clustersim.traffic import Traffic

MAX_ITEMS: Final = 100_000
"""Maximum number of links, and of flows, of all cases of a file."""


class _Item(BaseModel):
    """An object of the file with an id; numbers are finite, and are not written as text."""

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True, allow_inf_nan=False)

    id: str


class Link(_Item):
    """A directed link: bandwidth [B/s] and latency [s]."""

    bandwidth: float = Field(gt=0, le=MOST)
    latency: NotNegative


class Flow(_Item):
    """A flow: the ids of the links that it crosses, its start [s] and its size [B]."""

    route: list[str]
    start: NotNegative
    bytes: NotNegative


class FlowCase(_Item):
    """Links, and the flows on them."""

    links: list[Link]
    flows: list[Flow]


class _File(BaseModel):
    cases: list[FlowCase]


@dataclass(frozen=True)
class FinishTimes:
    """The answer for one case.

    Attributes
    ----------
    finish : instant at which each flow finishes, by its id [s]
    makespan : the last of them; 0 without flows [s]
    """

    finish: Mapping[str, float]
    makespan: float


def finish_times(case: FlowCase) -> FinishTimes:
    """Return when each flow of a case finishes if flows share links by max-min fairness.

    >>> link = Link(id="a>b", bandwidth=10.0, latency=1.0)
    >>> flows = [Flow(id=f, route=["a>b"], start=0.0, bytes=20.0) for f in "xy"]
    >>> finish_times(FlowCase(id="two", links=[link], flows=flows))
    FinishTimes(finish={'x': 5.0, 'y': 5.0}, makespan=5.0)
    """
    env = Environment()
    network = Network(env, [link.bandwidth for link in case.links])
    finish: dict[str, float] = {}

    def note(transfer: Transfer) -> None:
        finish[transfer.traffic.name] = float(env.now)

    def start(traffic: Traffic, _: Event) -> None:
        network.start(traffic, note)

    for flow, traffic in zip(case.flows, _traffics(case), strict=True):
        Timeout(env, flow.start).callbacks.append(partial(start, traffic))
    env.run()
    network.check()
    in_order = {flow.id: finish[flow.id] for flow in case.flows}
    return FinishTimes(in_order, max(in_order.values(), default=0.0))


def _traffics(case: FlowCase) -> Iterator[Traffic]:
    """Yield each flow as traffic; a route that crosses a link twice has weight 2 there."""
    index = {link.id: i for i, link in enumerate(case.links)}
    for flow in case.flows:
        crossings = Counter(index[name] for name in flow.route)
        yield Traffic(
            name=flow.id,
            links=tuple(crossings),
            weights=tuple(float(times) for times in crossings.values()),
            nbytes=flow.bytes,
            latency=sum(case.links[index[name]].latency for name in flow.route),
        )


# --- reading a file -------------------------------------------------------------------------------


def read_flow_cases(path: Path) -> list[FlowCase]:
    """Return the cases of a file.

    Raises
    ------
    ScenarioError
        with one line for each problem: first those of single values, then those of ids and routes.
    """
    try:
        content = json.loads(read_text(Path(path)))
    except RecursionError:
        raise ScenarioError(f"{path}: is not a file of flows (nested too deeply)") from None
    except ScenarioError:
        raise
    except json.JSONDecodeError as error:
        keys = '{"cases": [{"id": "a", "links": [...], "flows": [...]}]}'
        place = f"{path}:{error.lineno}"
        raise ScenarioError(f"{place}: is not JSON ({error.msg}; expected {keys})") from None
    except ValueError:
        raise ScenarioError(f"{path}: is not JSON (a number is too long)") from None
    if not isinstance(content, dict) or not isinstance(content.get("cases"), list):
        raise ScenarioError(f"{path}: has no list 'cases' (expected {{\"cases\": [...]}})")
    try:
        cases = _File.model_validate(content).cases
    except ValidationError as error:
        problems = [_problem(content, problem) for problem in error.errors()]
    else:
        problems = [
            *_too_many("links", [len(case.links) for case in cases]),
            *_too_many("flows", [len(case.flows) for case in cases]),
            *_repeated_ids("cases", cases),
            *_problems_between_items(cases),
        ]
    if problems:
        raise ScenarioError("\n".join(f"{path}: {problem}" for problem in problems))
    return cases


def _too_many(key: str, counts: Sequence[int]) -> Iterator[str]:
    if sum(counts) > MAX_ITEMS:
        yield f"{key}: {sum(counts):,} in all cases (at most {MAX_ITEMS:,})"


def _problems_between_items(cases: Sequence[FlowCase]) -> Iterator[str]:
    """Yield ids that are used twice, and routes over links that a case does not have."""
    for case in cases:
        for key, items in (("links", case.links), ("flows", case.flows)):
            yield from (f"case {case.id!r}: {problem}" for problem in _repeated_ids(key, items))
        ids = {link.id for link in case.links}
        known = sorted(ids)
        more = f" and {len(known) - 5} more" if len(known) > 5 else ""
        allowed = f"{', '.join(map(repr, known[:5]))}{more}"
        for flow in case.flows:
            for link in flow.route:
                if link not in ids:
                    where = f"case {case.id!r}: flow {flow.id!r}.route"
                    yield f"{where}: {_shown(link)} is not a link of this case ({allowed})"


def _repeated_ids(key: str, items: Sequence[_Item]) -> Iterator[str]:
    known = set[str]()
    for i, item in enumerate(items):
        if item.id in known:
            yield f"{key}[{i}].id: {item.id!r} appears twice (ids must be unique)"
        known.add(item.id)


UNITS: Final = {"bandwidth": "B/s", "latency": "s", "start": "s", "bytes": "B"}

EXPECTED: Final = {
    "id": "a text",
    "links": "a list of links",
    "flows": "a list of flows",
    "route": "a list of link ids",
    **{key: f"a finite number [{unit}]" for key, unit in UNITS.items()},
}
"""What each key holds."""

ITEMS: Final = ("cases", "links", "flows")
"""Keys of lists of objects."""

LIMITS: Final = {
    "greater_than": "must be above 0",
    "greater_than_equal": "must not be below 0",
    "less_than_equal": f"must be at most {MOST:g}",
}
"""Problems of a number that is outside of its range."""


def _problem(content: Any, error: Any) -> str:
    """Return a problem that pydantic found as a line: case, item, key, value, what is allowed."""
    item, names, path = content, [], error["loc"]
    while len(path) > 1 and path[0] in ITEMS:
        key, i, *path = path
        item = item[key][i]
        names.append(_name(key, i, item))
    where, value = ": ".join(names), _shown(error["input"])
    if not path:
        return f"{where}: {value} is not an object"
    key, *position = path
    if error["type"] == "missing":
        return f"{where}: missing key {key!r} ({EXPECTED[key]})"
    if error["type"] in LIMITS:
        return f"{where}.{key}: {value} {LIMITS[error['type']]} [{UNITS[key]}]"
    return f"{where}.{key}: {value} is not {'a link id' if position else EXPECTED[key]}"


def _name(key: str, i: int, item: object) -> str:
    """Return the id of an item where it has one, else its position in the list."""
    name = item.get("id") if isinstance(item, dict) else None
    return f"{key.removesuffix('s')} {name!r}" if isinstance(name, str) else f"{key}[{i}]"


def _shown(value: object) -> str:
    """Return a value as JSON writes it, cut to a readable length."""
    text = json.dumps(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
