"""Requests that are complete, as columns: a service has millions, and some are in it at a time."""

from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from operator import attrgetter
from typing import Any, Final, NamedTuple

import numpy as np

from clustersim.answers import in_brief
from clustersim.arrays import Floats, Integers
from clustersim.engine.requests.columns import Columns
from clustersim.engine.requests.request import Request
from clustersim.records import dataclass


class CompletedRequest(NamedTuple):
    """One of them; its fields are those of `Request`."""

    number: int
    preemptions: int
    arrival: float
    reached: float
    admitted: float
    prompted: float
    first: float
    finish: float
    input: int
    output: int


@dataclass(frozen=True, eq=False, repr=False)
class CompletedRequests:
    """Requests with all their tokens.

    Attributes
    ----------
    number : in the order of arrivals
    preemptions : of each [count]
    arrival, reached, admitted, prompted, first, finish : as of `Request` [s]
    inputs, outputs : tokens of all requests of the load, by number
    """

    number: Integers
    preemptions: Integers
    arrival: Floats
    reached: Floats
    admitted: Floats
    prompted: Floats
    first: Floats
    finish: Floats
    inputs: Integers
    outputs: Integers

    __repr__ = in_brief

    def __len__(self) -> int:
        return len(self.number)

    def __getitem__(self, chosen: Any) -> "CompletedRequests":
        """Return the requests of a slice, a mask or an array of places."""
        return replace(self, **{name: getattr(self, name)[chosen] for name in _COLUMNS})

    def __iter__(self) -> Iterator[CompletedRequest]:
        columns = [getattr(self, name).tolist() for name in CompletedRequest._fields]
        return map(CompletedRequest._make, zip(*columns, strict=True))

    @property
    def input(self) -> Integers:
        """Tokens of the prompt of each."""
        return self.inputs[self.number]

    @property
    def output(self) -> Integers:
        """Tokens that each generated."""
        return self.outputs[self.number]

    @property
    def ordered(self) -> "CompletedRequests":
        """The same in the order of their arrivals."""
        return self[np.argsort(self.number)]


_COLUMNS = tuple(field.name for field in fields(CompletedRequests))[:-2]


_values: Final[Callable[[Request], tuple[float | int, ...]]] = attrgetter(*_COLUMNS)

PENDING: Final = 1_024
"""Requests that are recorded together."""


class RequestRecord:
    """Records requests in the order of their ends.

    Parameters
    ----------
    inputs, outputs : tokens of all requests of the load, by number
    """

    def __init__(self, inputs: Integers, outputs: Integers) -> None:
        self._inputs, self._outputs = inputs, outputs
        self._columns = Columns(dict(zip(_COLUMNS, "iidddddd", strict=True)), len(inputs))
        self._pending: list[tuple[float | int, ...]] = []
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def add(self, request: Request) -> int:
        """Record a request with its last token; return how many are recorded."""
        self._pending.append(_values(request))
        self._length += 1
        if len(self._pending) == PENDING:
            self._flush()
        return self._length

    def _flush(self) -> None:
        """Move pending requests to columns."""
        self._columns.extend(zip(_COLUMNS, zip(*self._pending, strict=True), strict=False))
        self._pending.clear()

    def requests(self) -> CompletedRequests:
        """Return the requests so far."""
        self._flush()
        columns = self._columns.filled()
        return CompletedRequests(**columns, inputs=self._inputs, outputs=self._outputs)


NO_REQUESTS: Final = RequestRecord(np.zeros(0, np.int64), np.zeros(0, np.int64)).requests()
"""No requests at all."""
