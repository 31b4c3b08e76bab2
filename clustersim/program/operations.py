"""A graph of operations: the program of anything that computes and communicates.

Each operation begins when all those that it follows have ended.  It computes for a time, or it is
traffic on links: a send, or a collective that all its ranks take part in.  A stream that runs one
operation after another is a chain of the graph; an operation without time joins others.

    compute a --> send a to b --> compute b --> all-reduce of a and b
        '------> compute a' ----------------------'

A pipeline's `Program` is written out into such a graph by `engine.program_operations`.
"""

from collections.abc import Hashable, Iterable
from functools import cached_property

from clustersim.errors import ProgramError
from clustersim.traffic import Traffic

SHOWN = 5
"""Operations of a cycle that are listed."""


class Operations:
    """Operations by number, in the order in which they are added.

    Attributes
    ----------
    names : what each of them is
    seconds : time of those that compute [s]
    traffic : of those that communicate; None of others
    after : the operations that each of them follows
    ranks : that run each of them, by number
    units : what runs each of them, one at a time; None where nothing limits it

    >>> graph = Operations()
    >>> first = graph.add("forward", seconds=1.0)
    >>> graph.add("backward", [first], seconds=2.0)
    1
    >>> graph.followers
    [[1], []]
    """

    def __init__(self) -> None:
        self.names: list[str] = []
        self.seconds: list[float] = []
        self.traffic: list[Traffic | None] = []
        self.after: list[list[int]] = []
        self.ranks: list[list[int]] = []
        self.units: list[Hashable] = []

    def __len__(self) -> int:
        return len(self.names)

    def add(
        self,
        name: str,
        after: Iterable[int] = (),
        *,
        seconds: float = 0.0,
        traffic: Traffic | None = None,
        ranks: Iterable[int] = (),
        unit: Hashable = None,
    ) -> int:
        """Add an operation that follows others; return its number."""
        self.names.append(name)
        self.seconds.append(seconds)
        self.traffic.append(traffic)
        self.after.append([*after])
        self.ranks.append([*ranks])
        self.units.append(unit)
        return len(self.names) - 1

    def append(self, other: "Operations", after: Iterable[int] = ()) -> int:
        """Add the operations of another graph after some of this one; return what ends them all."""
        first, begins = len(self), [*after]
        for number, before in enumerate(other.after):
            self.add(
                other.names[number],
                [first + each for each in before] or begins,
                seconds=other.seconds[number],
                traffic=other.traffic[number],
                ranks=other.ranks[number],
                unit=other.units[number],
            )
        ends = [first + number for number, each in enumerate(other.followers) if not each]
        return self.add("end", ends or begins)

    def follow(self, number: int, *others: int) -> None:
        """Let an operation follow others as well."""
        self.after[number] += others

    @cached_property
    def followers(self) -> list[list[int]]:
        """For each operation those that follow it; the graph is complete when this is read."""
        followers: list[list[int]] = [[] for _ in self.after]
        for number, before in enumerate(self.after):
            for other in before:
                followers[other].append(number)
        return followers

    def check(self) -> None:
        """Check that every operation can begin.

        Raises
        ------
        ProgramError
            naming operations that wait for each other.
        """
        missing = [len(before) for before in self.after]
        ready = [number for number, count in enumerate(missing) if not count]
        for number in ready:  # which grows
            for follower in self.followers[number]:
                missing[follower] -= 1
                if not missing[follower]:
                    ready.append(follower)
        if len(ready) < len(self):
            raise ProgramError(f"operations wait for each other: {self._cycle(missing)}")

    def _cycle(self, missing: list[int]) -> str:
        """Return the names along a cycle of operations that cannot begin."""
        at = next(number for number, count in enumerate(missing) if count)
        path: dict[int, None] = {}
        while at not in path:
            path[at] = None
            at = next(other for other in self.after[at] if missing[other])
        cycle = [*path][[*path].index(at) :]
        more = f" and {len(cycle) - SHOWN} more" if len(cycle) > SHOWN else ""
        return " <- ".join(self.names[number] for number in cycle[:SHOWN]) + more
