"""What is on its way through the network: transfers, and the routes that they have in common."""

from collections.abc import Callable, Sequence
from math import ceil, inf

from clustersim.traffic import Traffic

FULL = 2**46
"""A link's capacity in the integer units of claims: sums of integers do not drift."""

ALONE, WAITING, SHARED, DONE = range(4)


class Route:
    """The activities in flight that cross the same links with the same weights and cap.

    Attributes
    ----------
    rate : of one flow with the machine to itself, the smallest of cap and capacity / weight [B/s]
    claims : pairs of link and the share of its capacity that such an activity can take [1 / FULL]
    flying : the transfers in flight, in the order they started
    nbytes : payload of one flow, summed over the transfers completed [B]
    """

    __slots__ = ("claims", "flying", "links", "nbytes", "rate", "weights")

    def __init__(
        self,
        links: tuple[int, ...],
        weights: tuple[float, ...],
        cap: float,
        capacities: Sequence[float],
    ) -> None:
        assert len(links) == len(weights) == len(set(links)), "each link once, with its weight"
        assert cap > 0
        assert all(weight > 0 for weight in weights)
        crossings = list(zip(links, weights, strict=True))
        self.links = links
        self.weights = weights
        self.rate = min([cap, *(capacities[link] / weight for link, weight in crossings)])
        self.claims = tuple(
            (link, ceil(weight * self.rate / capacities[link] * FULL)) for link, weight in crossings
        )
        self.flying: dict[Transfer, None] = {}
        self.nbytes = 0.0


class Transfer:
    """One activity on its way, made by `Network.start`.

    While alone it is itself the event of its completion that SimPy holds: of an event, the
    environment uses `callbacks` and `_ok` only.  One object less is a fifth of a start.

    Attributes
    ----------
    traffic : what was asked
    number : the how-manieth start it was; orders what is equal otherwise
    begin : when its bytes begin to flow [s]
    phase : ALONE, WAITING (for its latency), SHARED or DONE
    rate : of one flow, since `since` [B/s]
    since : up to here `delivered` is counted [s]
    delivered : of the payload of one flow [B]
    end : when it will be through at this rate, while shared [s]
    row : its place in the crowd, which then knows rate, since, delivered and end; else -1
    """

    __slots__ = (
        "begin",
        "callbacks",
        "delivered",
        "done",
        "end",
        "number",
        "phase",
        "rate",
        "route",
        "row",
        "since",
        "traffic",
    )

    _ok = True

    def __init__(
        self,
        traffic: Traffic,
        route: Route,
        done: "Callable[[Transfer], None]",
        number: int,
        begin: float,
        callbacks: "list[Callable[[Transfer], None]]",
    ) -> None:
        self.traffic = traffic
        self.route = route
        self.done = done
        self.number = number
        self.begin = begin
        self.phase = ALONE
        self.rate = route.rate
        self.since = begin
        self.delivered = 0.0
        self.end = inf
        self.row = -1
        self.callbacks = callbacks

    def __repr__(self) -> str:
        phase = ("alone", "waiting", "shared", "done")[self.phase]
        return f"<Transfer {self.number} {self.traffic.name!r} {phase}>"

    def flow_at(self, rate: float, now: float) -> None:
        """Count the bytes that flowed until `now`; flow at another rate from then on."""
        self.delivered += self.rate * (now - self.since)
        self.since = now
        self.rate = rate
        self.end = now + max(0.0, self.traffic.nbytes - self.delivered) / rate


def by_number(transfer: Transfer) -> int:
    """Order transfers by their starts."""
    return transfer.number
