"""Fair rates after a change, of the transfers that it concerns: no walk of all that links connect.

Rates are max-min fair where each transfer runs at its cap or has a bottleneck, a full link on which
no other transfer is faster (Bertsekas and Gallager, Data Networks, 1992, section 6.5.2):

    changed --solved with all others fixed--> rates --each checked for its bottleneck--> fair
       ^                                                           |
       '---- others that have none, or that are faster there ------'

They are unique, so that they are those of the whole component.  A gather over hundreds of
replicas connects all of them, and a collective of one replica concerns that replica alone.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from clustersim.engine.network.fairness import Problem, max_min_rates
from clustersim.engine.network.transfer import LIMIT, SHARED, UNCONTENDED, RouteTable, Transfer

ROUNDING: Final = 1e-12
"""Relative difference of rates, or of a load and its capacity, that counts as equal."""

ALMOST: Final = 1 - ROUNDING


class LocalRates:
    """The rates of the transfers that a change concerns.

    Parameters
    ----------
    changed : transfers without rates
    relieved : links that transfers have left
    share : called with each uncontended transfer on a contended link; makes it shared, or has it
        wait for its latency

    Attributes
    ----------
    rates : of the transfers that are concerned [B/s]
    crossings : of them and contended links [count]
    worst : the highest load of these links, as a share of the capacity, and its link
    in_arrays : whether some share links with transfers of the array solver: then there are no rates
    """

    def __init__(
        self,
        routes: RouteTable,
        capacities: Sequence[float],
        changed: Iterable[Transfer],
        relieved: Iterable[int],
        share: Callable[[Transfer], None],
    ) -> None:
        self._routes, self._capacities, self._share = routes, capacities, share
        self._relieved = tuple(relieved)
        self._links: dict[int, None] = {}
        self._loads: dict[int, tuple[float, float]] = {}
        self.rates: dict[Transfer, float] = {}
        self.in_arrays = False
        joining = [*changed]
        joining += [] if joining else self._without_bottleneck()
        while joining and not self.in_arrays:
            self._join(joining)
            self._solve()
            joining = [*dict.fromkeys([*self._without_bottleneck(), *self._faster()])]
        self.crossings = sum(len(self._crossed(transfer)) for transfer in self.rates)
        shares = ((self._load(link)[0] / capacities[link], link) for link in self._links)
        self.worst = max(shares, default=(0.0, -1))

    def _join(self, joining: list[Transfer]) -> None:
        """Add transfers, those that they make shared, and the contended links of all."""
        for transfer in joining:
            self.rates[transfer] = 0.0
            for link in self._crossed(transfer):
                if link not in self._links:
                    self._links[link] = None
                    joining += self._new_on(link)

    def _crossed(self, transfer: Transfer) -> list[int]:
        demands = self._routes.demands
        return [link for link in transfer.route.links if demands[link] > LIMIT]

    def _new_on(self, link: int) -> Iterator[Transfer]:
        """Yield the transfers on a link that have no rate yet."""
        for other in self._routes.on_link[link]:
            if other.phase == UNCONTENDED:
                self._share(other)
            self.in_arrays |= other.row >= 0
            if other.unsolved and other not in self.rates:
                yield other

    def _solve(self) -> None:
        """Set the rates that are fair where all other transfers keep theirs."""
        self._loads.clear()
        index = {link: i for i, link in enumerate(self._links)}
        spare = [self._capacities[link] - self._fixed_load(link) for link in self._links]
        crossed = [[index[link] for link in self._crossed(transfer)] for transfer in self.rates]
        weights = [
            [transfer.route.weight_at[link] for link in self._crossed(transfer)]
            for transfer in self.rates
        ]
        caps = [transfer.route.rate for transfer in self.rates]
        problem = Problem([max(0.0, each) for each in spare], crossed, weights, caps)
        self.rates = dict(zip(self.rates, max_min_rates(problem), strict=True))

    def _fixed_load(self, link: int) -> float:
        return sum(
            transfer.route.weight_at[link] * transfer.rate
            for transfer in self._routes.on_link[link]
            if transfer.phase == SHARED and transfer not in self.rates
        )

    # --- bottlenecks ------------------------------------------------------------------------------

    def _without_bottleneck(self) -> list[Transfer]:
        """Return the other transfers on links that have changed whose rates are no longer fair."""
        others = dict.fromkeys(self._routes.sharing([*self._links, *self._relieved]))
        return [each for each in others if each not in self.rates and not self._is_fair(each)]

    def _faster(self) -> Iterator[Transfer]:
        """Yield the others that are faster on a full link of a transfer without a bottleneck."""
        for transfer, rate in self.rates.items():
            if self._is_fair(transfer):
                continue
            full = (link for link in self._crossed(transfer) if self._is_full(link))
            for other in self._routes.sharing(full):
                if other not in self.rates and other.rate > rate:
                    yield other

    def _is_fair(self, transfer: Transfer) -> bool:
        """Return whether a transfer runs at its cap, or has a bottleneck."""
        rate = self.rates.get(transfer, transfer.rate)
        if rate >= transfer.route.rate * ALMOST:
            return True
        if transfer.bottleneck >= 0 and self._limits(transfer.bottleneck, rate):
            return True
        for link in self._crossed(transfer):
            if self._limits(link, rate):
                transfer.bottleneck = link
                return True
        return False

    def _limits(self, link: int, rate: float) -> bool:
        return self._is_full(link) and rate >= self._load(link)[1] * ALMOST

    def _is_full(self, link: int) -> bool:
        return self._load(link)[0] >= self._capacities[link] * ALMOST

    def _load(self, link: int) -> tuple[float, float]:
        """Return the load of a link, and the rate of its fastest flow [B/s]."""
        if link not in self._loads:
            load = fastest = 0.0
            for transfer in self._routes.on_link[link]:
                if transfer.phase == SHARED:
                    rate = self.rates.get(transfer, transfer.rate)
                    load += transfer.route.weight_at[link] * rate
                    fastest = max(fastest, rate)
            self._loads[link] = load, fastest
        return self._loads[link]
