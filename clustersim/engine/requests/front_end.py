"""The front end of a service, which takes requests one after another."""

from typing import Final, NamedTuple


class Intake(NamedTuple):
    """Time of the front end for a request, and for each token of its prompt [s].

    One process takes requests one after another, so that those that come together reach a replica
    one by one.
    """

    request: float = 0.0
    token: float = 0.0


NO_INTAKE: Final = Intake()
"""A front end without a time of its own, as for requests that come as one list."""


class FrontEnd:
    """A front end on the clock.

    Attributes
    ----------
    free : when all requests that came have reached a replica [s]
    """

    __slots__ = ("_request", "_token", "free")

    def __init__(self, intake: Intake = NO_INTAKE) -> None:
        self.free = 0.0
        self._request, self._token = intake

    def take(self, now: float, tokens: int) -> float:
        """Return when a request that comes now, with a prompt of some tokens, reaches a replica."""
        begin = self.free if self.free > now else now
        self.free = reached = begin + (self._request + self._token * tokens)
        return reached
