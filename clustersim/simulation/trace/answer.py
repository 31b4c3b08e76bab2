"""The answer of a replayed trace: its step time, each rank's time, and its communication."""

from collections.abc import Mapping

from clustersim.answers import Presentable, record
from clustersim.simulation.expectations import Expectation
from clustersim.simulation.measures import Account, Kind


@record
class RankTime:
    """Where the time of a rank goes.

    Attributes
    ----------
    rank : its number
    compute_s : while it computes [s]
    communication_s : while any communication of it is in flight [s]
    exposed_s : the part of it in which it does not compute [s]
    waiting_s : while it does neither: for other ranks, or for its host [s]
    """

    rank: int
    compute_s: float
    communication_s: float
    exposed_s: float
    waiting_s: float


@record
class TracedCommunication:
    """The communications of an operation in groups of a size.

    Attributes
    ----------
    operation : of the library, or `send`
    ranks : of a group
    calls : number of them, of all groups
    nbytes : whole buffers, or messages, of all calls [B]
    seconds : time of all calls, latency included [s]
    bus_bandwidth : bytes that each rank must send and receive, in a second [B/s]; null without any
    """

    operation: str
    ranks: int
    calls: int
    nbytes: float
    seconds: float
    bus_bandwidth: float | None


@record
class NotPlacedAnswer:
    """Operations of a trace that have no time on the machine.

    Attributes
    ----------
    type : of the operations, as the trace names it
    count : number of them
    reason : why
    """

    type: str
    count: int
    reason: str


@record
class TraceMemory:
    """The verdict of memory that an answer has.

    Attributes
    ----------
    fits, tight : whether it fits, and with less room than the errors of predictions
    verdict : in words
    """

    fits: bool
    tight: bool
    verdict: str


@record
class TraceAnswer(Presentable):
    """A replayed trace; `run --json` of its scenario prints its keys.

    Attributes
    ----------
    name : of the scenario
    title : its title
    cluster : name of the machine
    nodes : nodes of the machine
    format : of the trace
    operations : of all ranks
    step_time_s : from the first operation to the end of the last one [s]
    compute_s, exposed_s, waiting_s : means over the ranks [s], which add up to the step
    ranks : time of each rank
    slowest : ranks that compute longest, the first one longest
    communications : by operation and size of the group, the longest first
    not_placed : operations without a time, the most first
    assumed : what the trace does not state, with what is taken
    notes : how the trace was read
    expectations : limits of the section `expect` of the scenario, and whether each is held
    """

    name: str
    title: str
    cluster: str
    nodes: int
    format: str
    operations: int
    step_time_s: float
    compute_s: float
    exposed_s: float
    waiting_s: float
    ranks: tuple[RankTime, ...]
    slowest: tuple[int, ...]
    communications: tuple[TracedCommunication, ...]
    not_placed: tuple[NotPlacedAnswer, ...]
    assumed: Mapping[str, str]
    notes: tuple[str, ...]
    expectations: tuple[Expectation, ...] = ()

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """Kinds of its measures."""
        return ("trace",)

    @property
    def memory(self) -> TraceMemory:
        """Its memory, which a trace does not state."""
        return TraceMemory(True, False, "not known: a trace does not state it")

    def measures(self) -> dict[str, float]:
        """Return its measures by name."""
        step = self.step_time_s
        return {
            "step_time_s": step,
            "compute_s": self.compute_s,
            "exposed_s": self.exposed_s,
            "waiting_s": self.waiting_s,
            "exposed_fraction": self.exposed_s / step if step else 0.0,
            "devices": float(len(self.ranks)),
        }

    def accounts(self) -> tuple[Account, ...]:
        """Return the step, as the mean rank spends it."""
        parts = {
            "compute": self.compute_s,
            "exposed communication": self.exposed_s,
            "waiting": self.waiting_s,
        }
        return (Account("step", "step time", "s", parts),)

    def facts(self) -> dict[str, str]:
        """Return the longest communication, the slowest rank, and what is missing."""
        longest = self.communications[0].operation if self.communications else "none"
        missing = sum(each.count for each in self.not_placed)
        return {
            "longest communication": longest,
            "slowest rank": str(self.slowest[0]),
            "not placed": f"{missing:,} operations",
        }

    def why_missing(self, name: str) -> str:
        """Return why a measure is not known."""
        return f"{name} is not known of a trace"
