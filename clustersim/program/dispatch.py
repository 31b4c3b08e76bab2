"""How the host issues the kernels of a framework."""

from dataclasses import dataclass

from clustersim.cost.compute import Seconds


@dataclass(frozen=True)
class Dispatch:
    """How the host issues kernels, as `FrameworkRecord` and `GraphFacts`."""

    dispatch: float
    dispatch_backward: float | None
    launches_wait: bool
    replay: float

    def of(self, chain: Seconds) -> Seconds:
        """Return a chain of kernels as the host issues it: no faster than it can."""
        backward, waits = self.dispatch_backward, self.launches_wait
        return chain.dispatched(self.dispatch, self.replay, backward, waits=waits)

    def issued(self, chain: Seconds, delay: float = 0.0) -> float:
        """Return the time of the host to issue a chain, with a delay of each dispatch [s]."""
        backward = None if self.dispatch_backward is None else self.dispatch_backward + delay
        return chain.issued(self.dispatch + delay, self.replay + delay, backward)
