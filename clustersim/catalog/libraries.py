"""Collective libraries as their files state them: who may run what, and what each step costs."""

from typing import Final, Literal, Self

from pydantic import model_validator

from clustersim.catalog.facts import Bandwidth, Count, Fact, Fraction, Record, Seconds, Strict

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
"""What a group of ranks can do together."""

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
"""How they can do it."""

Operation = Literal[OPERATIONS]  # type: ignore[valid-type]
Algorithm = Literal[ALGORITHMS]  # type: ignore[valid-type]


class ProtocolFacts(Strict):
    """One wire protocol of one algorithm.

    `base` is paid once, `device_hop` and `network_hop` for each step between neighbours in a node
    and across the network; `bandwidth` is the share of the link that carries payload. `chunk` is
    paid once more on each step for every piece of a pipelined buffer. `limit` is the most that the
    protocol moves in a node, as bus bandwidth, and `network_limit` the same over several nodes.
    """

    base: Fact[Seconds]
    device_hop: Fact[Seconds]
    network_hop: Fact[Seconds]
    bandwidth: Fact[Fraction]
    chunk: Fact[Seconds] | None = None
    limit: Fact[Bandwidth] | None = None
    network_limit: Fact[Bandwidth] | None = None


class LibraryRecord(Record):
    """``topologies/libraries/*.yaml``: a collective library (NCCL, RCCL, an MPI).

    `algorithms` gives each algorithm its protocols, `choices` the algorithms that an operation may
    take, `post` what the host pays to post one message of many, and `relay` whether a message to
    another rail is first handed to the neighbour on that rail (NCCL's PXN). `channels` is the
    number of compute units that a collective occupies while others compute; none if it is missing.
    `message` is the most that one message to another node moves, where fewer blocks of threads
    carry it than fill a NIC; what the NIC takes if it is missing.
    """

    kind: Literal["library"]
    call_overhead: Fact[Seconds]
    algorithms: dict[Algorithm, dict[str, ProtocolFacts]]
    choices: Fact[dict[Operation, list[Algorithm]]]
    post: Fact[Seconds]
    relay: Fact[bool] | None = None
    channels: Fact[Count] | None = None
    message: Fact[Bandwidth] | None = None

    @model_validator(mode="after")
    def _choices_exist(self) -> Self:
        for operation, algorithms in self.choices.value.items():
            for algorithm in algorithms:
                if algorithm not in self.algorithms:
                    raise ValueError(
                        f"choices: {operation} may take '{algorithm}', which 'algorithms' lacks"
                    )
        return self
