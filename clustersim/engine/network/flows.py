"""Explicit flows on explicit links, and when each of them finishes.

The smallest question the network can answer, and the one that other simulators and hand
calculations answer too.  A file holds cases; a case holds directed links and flows:

    {"cases": [{"id": "two",
                "links": [{"id": "a>b", "bandwidth": 1e10, "latency": 1e-6}],
                "flows": [{"id": "f0", "route": ["a>b"], "start": 0.0, "bytes": 2e10}]}]}

bandwidth [B/s] of one direction, latency and start [s], bytes [B].  A flow waits the latencies of
its route, then its bytes share every link of the route at one rate.  Other keys are notes.
"""

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, cast

from simpy import Environment
from simpy.events import Event, Timeout

from clustersim.engine.network.network import Network
from clustersim.engine.network.transfer import Transfer
from clustersim.errors import ScenarioError
from clustersim.traffic import Traffic

Case = Mapping[str, Any]


def finish_times(case: Case) -> dict[str, Any]:
    """Return `{"finish": {flow id: instant [s]}, "makespan": last of them [s]}` of one case.

    >>> link = {"id": "a>b", "bandwidth": 10.0, "latency": 1.0}
    >>> flows = [{"id": f, "route": ["a>b"], "start": 0.0, "bytes": 20.0} for f in "xy"]
    >>> finish_times({"id": "two", "links": [link], "flows": flows})
    {'finish': {'x': 5.0, 'y': 5.0}, 'makespan': 5.0}
    """
    env = Environment()
    network = Network(env, [link["bandwidth"] for link in case["links"]])
    finish: dict[str, float] = {}

    def note(transfer: Transfer) -> None:
        finish[transfer.traffic.name] = float(env.now)

    def start(traffic: Traffic, _: Event) -> None:
        network.start(traffic, note)

    for flow, traffic in zip(case["flows"], _traffics(case), strict=True):
        Timeout(env, float(flow["start"])).callbacks.append(partial(start, traffic))
    env.run()
    network.check()
    in_order = {flow["id"]: finish[flow["id"]] for flow in case["flows"]}
    return {"finish": in_order, "makespan": max(in_order.values(), default=0.0)}


def _traffics(case: Case) -> Iterator[Traffic]:
    """Yield each flow as traffic; a route that crosses a link twice weighs two there."""
    index = {link["id"]: i for i, link in enumerate(case["links"])}
    for flow in case["flows"]:
        crossings = Counter(index[name] for name in flow["route"])
        yield Traffic(
            name=flow["id"],
            links=tuple(crossings),
            weights=tuple(float(times) for times in crossings.values()),
            nbytes=float(flow["bytes"]),
            latency=sum(float(case["links"][index[name]]["latency"]) for name in flow["route"]),
        )


# --- reading a file -------------------------------------------------------------------------------


def read_cases(path: Path) -> list[Case]:
    """Return the cases of a file, or raise a `ScenarioError` with one line for each problem."""
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ScenarioError(f"{path}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise ScenarioError(f"{path}: is not JSON: {error}") from error
    cases = content.get("cases") if isinstance(content, dict) else None
    if not isinstance(cases, list):
        raise ScenarioError(f"{path}: has no list 'cases' (expected {{\"cases\": [...]}})")
    problems = [f"{path}: {problem}" for problem in _problems(cases)]
    if problems:
        raise ScenarioError("\n".join(problems))
    return cases


def _problems(cases: list[Any]) -> Iterator[str]:
    """Yield what is wrong with the cases, in the order of the file."""
    yield from _problems_of_ids("cases", cases)
    for i, case in enumerate(cases):
        name = _name("cases", i, case)
        if not isinstance(case, dict):
            continue  # said above
        lists = [key for key in ("links", "flows") if isinstance(case.get(key), list)]
        for key in ("links", "flows"):
            if key not in lists:
                yield f"{name}: has no list {key!r}"
        for key in lists:
            for problem in _problems_of_ids(key, case[key]):
                yield f"{name}: {problem}"
        if "links" in lists:
            yield from (f"{name}: {p}" for p in _problems_of_links(case["links"]))
        if len(lists) == 2:
            yield from (f"{name}: {p}" for p in _problems_of_flows(case["flows"], case["links"]))


def _problems_of_ids(key: str, items: list[Any]) -> Iterator[str]:
    """Yield items that are no objects, that have no id, or an id that another one has."""
    seen: set[str] = set()
    for i, item in enumerate(items):
        if not isinstance(item, dict):
            yield f"{key}[{i}]: {_shown(item)} is not an object"
        elif not isinstance(item.get("id"), str):
            yield f"{key}[{i}]: missing key 'id' (a text that no other of the {key} has)"
        elif item["id"] in seen:
            yield f"{key}[{i}].id: {item['id']!r} appears twice (each needs an id of its own)"
        else:
            seen.add(item["id"])


def _problems_of_links(links: list[Any]) -> Iterator[str]:
    for i, link in enumerate(links):
        if isinstance(link, dict):
            yield from _problem_of_number(_name("links", i, link), link, "bandwidth", "B/s", _above)
            yield from _problem_of_number(_name("links", i, link), link, "latency", "s", _not_below)


def _problems_of_flows(flows: list[Any], links: list[Any]) -> Iterator[str]:
    known = {link["id"] for link in links if isinstance(link, dict) and _is_text(link.get("id"))}
    for i, flow in enumerate(flows):
        if isinstance(flow, dict):
            name = _name("flows", i, flow)
            yield from _problems_of_route(name, flow, known)
            yield from _problem_of_number(name, flow, "start", "s", _not_below)
            yield from _problem_of_number(name, flow, "bytes", "B", _not_below)


def _problems_of_route(name: str, flow: Mapping[str, Any], known: set[str]) -> Iterator[str]:
    if "route" not in flow:
        yield f"{name}: missing key 'route' (a list of link ids)"
        return
    route = flow["route"]
    if not isinstance(route, list):
        yield f"{name}.route: {_shown(route)} is not a list of link ids"
        return
    for link in route:
        if not _is_text(link) or link not in known:
            some = ", ".join(repr(one) for one in sorted(known)[:5])
            more = f" and {len(known) - 5} more" if len(known) > 5 else ""
            yield f"{name}.route: {_shown(link)} is not a link of this case ({some}{more})"


def _problem_of_number(
    name: str, item: Mapping[str, Any], key: str, unit: str, allowed: Callable[[float], str]
) -> Iterator[str]:
    """Yield what is wrong with a number that must be there, if something is."""
    if key not in item:
        yield f"{name}: missing key {key!r} (a number [{unit}])"
        return
    value = item[key]
    if not _is_number(value):
        yield f"{name}.{key}: {_shown(value)} is not a finite number [{unit}]"
    elif wanted := allowed(value):
        yield f"{name}.{key}: {_shown(value)} {wanted} [{unit}]"


def _above(value: float) -> str:
    return "" if value > 0 else "must be above 0"


def _not_below(value: float) -> str:
    return "" if value >= 0 else "must not be below 0"


def _is_number(value: object) -> bool:
    """Tell whether a value fits a float; JSON also knows true, NaN and integers of any length."""
    limit = sys.float_info.max
    return type(value) in (int, float) and -limit <= cast(float, value) <= limit


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _name(key: str, i: int, item: object) -> str:
    """Call an item by its id where it has one, else by its place in the list."""
    name = item.get("id") if isinstance(item, dict) else None
    kind = key.removesuffix("s")
    return f"{kind} {name!r}" if isinstance(name, str) else f"{key}[{i}]"


def _shown(value: object) -> str:
    """Write a value as JSON does, cut to a readable length."""
    text = json.dumps(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
