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
from clustersim.engine.network.transfer import (
    LIMIT,
    NEARLY,
    SHARED,
    UNCONTENDED,
    RouteTable,
    Transfer,
)

ROUNDING: Final = 1e-12
"""Relative difference of rates, or of a load and its capacity, that counts as equal."""

ALMOST: Final = 1 - ROUNDING


class LocalRates:
    """The rates of the transfers that a change concerns.

    Parameters
    ----------
    changed : transfers without rates
    relieved : full links that transfers have left
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
        self._on_link = routes.on_link
        self._crossed: dict[Transfer, list[int]] = {}
        self._loads: dict[int, tuple[float, float]] = {}
        self._relieved, self._were_full = tuple(relieved), list[int]()
        # Links by their places in lists: load and fastest flow of others, and those to sum again.
        self._places: dict[int, int] = {}
        self._spare: list[float] = []
        self._load: list[float] = []
        self._fastest: list[float] = []
        self._crossings: dict[Transfer, tuple[list[int], list[float]]] = {}
        self._joined: dict[int, None] = {}
        self.rates: dict[Transfer, float] = {}
        self.in_arrays = False
        joining = [*changed]
        joining += [] if joining else self._without_bottleneck()
        while joining and not self.in_arrays:
            self._join(joining)
            self._solve()
            joining = [*dict.fromkeys([*self._without_bottleneck(), *self._faster()])]
        self.crossings = sum([len(places) for places, _ in self._crossings.values()])
        shares = [(self._loads[link][0] / capacities[link], link) for link in self._places]
        self.worst = max(shares, default=(0.0, -1))

    def _join(self, joining: list[Transfer]) -> None:
        """Add transfers, those that they make shared, and the contended links of all."""
        for transfer in joining:
            self.rates[transfer] = 0.0
            crossed, weight_at = self._contended(transfer), transfer.route.weight_at
            for link in crossed:
                self._joined[link] = None
                if link not in self._places:
                    self._places[link] = len(self._places)
                    joining += self._new_on(link)
            places = [self._places[link] for link in crossed]
            self._crossings[transfer] = places, [weight_at[link] for link in crossed]

    def _contended(self, transfer: Transfer) -> list[int]:
        """Return the contended links of a transfer, which may have hundreds of others."""
        crossed = self._crossed.get(transfer)
        if crossed is None:
            demands = self._routes.demands
            crossed = [link for link in transfer.route.links if demands[link] > LIMIT]
            self._crossed[transfer] = crossed
        return crossed

    def _new_on(self, link: int) -> Iterator[Transfer]:
        """Yield the transfers on a link that have no rate yet."""
        for other in self._on_link[link]:
            if other.phase == UNCONTENDED:
                self._share(other)
            self.in_arrays |= other.row >= 0
            if other.unsolved and other not in self.rates:
                yield other

    def _solve(self) -> None:
        """Set the rates that are fair where all other transfers keep theirs, and the loads."""
        for each in self._spare, self._load, self._fastest:
            each += [0.0] * (len(self._places) - len(each))
        for link in self._joined:
            i = self._places[link]
            self._load[i], self._fastest[i] = load, _ = self._load_without(link)
            self._spare[i] = max(0.0, self._capacities[link] - load)
        self._joined.clear()
        places, weights = zip(*self._crossings.values(), strict=True)
        caps = [transfer.route.rate for transfer in self._crossings]
        rates = max_min_rates(Problem(self._spare, places, weights, caps))
        self.rates = dict(zip(self._crossings, rates, strict=True))
        self._add_loads()

    def _add_loads(self) -> None:
        """Set the loads of links with the new rates; note which links were full with the old."""
        load, before, fastest = self._load[:], self._load[:], self._fastest[:]
        for transfer, rate in self.rates.items():
            for i, weight in zip(*self._crossings[transfer], strict=True):
                load[i] += weight * rate
                before[i] += weight * transfer.rate
                if rate > fastest[i]:
                    fastest[i] = rate
        self._loads.update(zip(self._places, zip(load, fastest, strict=True), strict=True))
        filled = zip(self._places, before, strict=True)
        self._were_full = [link for link, each in filled if each >= self._capacities[link] * NEARLY]

    def _load_without(self, link: int) -> tuple[float, float]:
        """Return the load of a link by others than `rates`, and their fastest flow [B/s]."""
        load = fastest = 0.0
        for transfer in self._on_link[link]:
            if transfer.phase == SHARED and transfer not in self.rates:
                rate = transfer.rate
                load += transfer.route.weight_at[link] * rate
                if rate > fastest:
                    fastest = rate
        return load, fastest

    # --- bottlenecks ------------------------------------------------------------------------------

    def _without_bottleneck(self) -> list[Transfer]:
        """Return the others whose rates are no longer fair: on links that were full, if any."""
        others = dict.fromkeys(self._routes.sharing([*self._were_full, *self._relieved]))
        return [
            each for each in others if each not in self.rates and not self._is_fair(each, each.rate)
        ]

    def _faster(self) -> Iterator[Transfer]:
        """Yield the others that are faster on a full link of a transfer without a bottleneck."""
        for transfer, rate in self.rates.items():
            if self._is_fair(transfer, rate):
                continue
            full = (link for link in self._crossed[transfer] if self._is_full(link))
            for other in self._routes.sharing(full):
                if other not in self.rates and other.rate > rate:
                    yield other

    def _is_fair(self, transfer: Transfer, rate: float) -> bool:
        """Return whether a transfer runs at its cap, or has a bottleneck."""
        if rate >= transfer.route.rate * ALMOST:
            return True
        if transfer.bottleneck >= 0 and self._limits(transfer.bottleneck, rate):
            return True
        for link in self._contended(transfer):
            if self._limits(link, rate):
                transfer.bottleneck = link
                return True
        return False

    def _limits(self, link: int, rate: float) -> bool:
        """Return whether a link is full, and no flow on it is faster than a rate."""
        return self._is_full(link) and rate >= self._loads[link][1] * ALMOST

    def _is_full(self, link: int) -> bool:
        if link not in self._loads:
            self._loads[link] = self._load_without(link)
        return self._loads[link][0] >= self._capacities[link] * ALMOST
