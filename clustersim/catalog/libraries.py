"""Collective libraries: the algorithms of each operation, and the cost of each step."""

from typing import Final, Literal, Self

from pydantic import model_validator

from clustersim.catalog.facts import (
    Bandwidth,
    Fact,
    Fraction,
    Line,
    Parts,
    Positive,
    Record,
    Seconds,
    Strict,
)

OPERATIONS: Final = (
    "all-reduce",
    "reduce-scatter",
    "all-gather",
    "broadcast",
    "reduce",
    "all-to-all",
    "send",
    "barrier",
)
"""Operations of a group of ranks."""

ALGORITHMS: Final = (
    "ring",
    "tree",
    "nvls",
    "nvls-tree",
    "sharp",
    "hierarchical",
    "torus",
    "halving-doubling",
    "doubling",
    "binomial",
    "bruck",
    "pairwise",
    "grouped",
    "dissemination",
)
"""Algorithms that a file may name; `program.collectives.algorithms` has a record of each."""

Operation = Literal[OPERATIONS]  # type: ignore[valid-type]
Algorithm = Literal[ALGORITHMS]  # type: ignore[valid-type]


class ProtocolFacts(Strict):
    """One wire protocol of one algorithm.

    `base` is paid once, `device_hop` and `network_hop` for each step between neighbours in a node
    and across the network; `bandwidth` is the share of the link that carries payload. `chunk` is
    added to each step for every chunk of a pipelined buffer. `limit` is the highest bus bandwidth
    of the protocol in a node, and `network_limit` the same over several nodes. `shared_limit` is
    the same for each rank that a group has on a node, where other groups of the same nodes run
    concurrently and share their NICs.
    """

    base: Fact[Seconds]
    device_hop: Fact[Seconds]
    network_hop: Fact[Seconds]
    bandwidth: Fact[Fraction]
    chunk: Fact[Seconds] | None = None
    limit: Fact[Bandwidth] | None = None
    network_limit: Fact[Bandwidth] | None = None
    shared_limit: Fact[Bandwidth] | None = None


class LibraryRecord(Record):
    """``topologies/libraries/*.yaml``: a collective library (NCCL, RCCL, an MPI).

    `call_overhead` is that of a call which is timed alone, as benchmarks do, `queued_overhead` that
    of one which waits on the device behind kernels, so that its launch costs no time of the
    device; `call_overhead` if missing.  `algorithms` gives each algorithm its protocols, `choices`
    the algorithms of each operation, `post` the time of the host to post one message of many, and
    `relay` whether a message to another rail is forwarded by the neighbour on that rail (NCCL's
    PXN). `channels` is the number
    of compute units that a collective occupies while kernels run; 0 if missing. `message` is the
    highest rate of one message to another node, where it has fewer blocks of threads than would
    fill a NIC; that of the NIC if missing. `pairing` is the time of a byte in a ring of two
    devices of a larger node, over that of a larger ring; 1 if missing. `rate` is, for each
    operation, the share of the bandwidth of its measured table (`topologies/kernels`) that training
    reaches in a node, and `skew` the time that a call takes there beyond the table; operations
    without a rate have the closed form in training. `framework` is the profile that new scenarios
    of machines with this library have; that of `clustersim new --framework` if missing. `software`
    is the library without its release and tuning, by which profiles name it.
    """

    kind: Literal["library"]
    software: Line | None = None
    call_overhead: Fact[Seconds]
    queued_overhead: Fact[Seconds] | None = None
    algorithms: dict[Algorithm, dict[str, ProtocolFacts]]
    choices: Fact[dict[Operation, list[Algorithm]]]
    post: Fact[Seconds]
    relay: Fact[bool] | None = None
    channels: Fact[Parts] | None = None
    message: Fact[Bandwidth] | None = None
    pairing: Fact[Positive] | None = None
    rate: Fact[dict[Operation, Fraction]] | None = None
    skew: Fact[Seconds] | None = None
    framework: Fact[Line] | None = None

    @model_validator(mode="after")
    def _choices_exist(self) -> Self:
        for name, protocols in self.algorithms.items():
            if not protocols:
                raise ValueError(f"algorithms.{name}: has no protocol (at least one is needed)")
        if "send" not in self.choices:
            raise ValueError("choices: send is missing (a message between two devices needs it)")
        for operation, algorithms in self.choices.items():
            if not algorithms:
                raise ValueError(f"choices: {operation} has no algorithm (at least one is needed)")
            for algorithm in algorithms:
                if algorithm not in self.algorithms:
                    raise ValueError(
                        f"choices: {operation} may take '{algorithm}', which 'algorithms' lacks"
                    )
        return self
