"""A request in time: what it needs, and what has happened to it.

arrival -> queued -> admitted (holds KV blocks) -> first token -> ... -> last token
             ^                   |
             `---- preempted ----'   recomputed, or swapped to the memory of the host
"""

from collections.abc import Callable
from math import nan


class Request:
    """One request of an inference service.

    Attributes
    ----------
    number : of the request, in the order of arrivals
    arrival, reached : when it arrives, and when it reaches a replica [s]
    input, output : tokens of the prompt, and tokens to generate
    prompt : tokens to process before it can decode: the prompt, and after a preemption with
        recomputation the tokens that have been generated
    processed : tokens of `prompt` that are in the KV cache
    emitted : generated tokens when it last began to decode
    swapped : whether its KV cache is in the memory of the host
    transferred : whether its KV cache came from a pool for prefill
    joined : step of its engine from which it decodes
    grows : step from which it needs KV blocks of its own, the first of them then
    context : cached tokens when it began to decode
    blocks : KV blocks that it held when it was admitted, without those of decoding
    admitted, prompted, first, finish : when it was first admitted, had its prompt processed, its
        first token and its last one [s]
    preemptions : number of times that it lost its KV blocks
    callbacks : what is called when it reaches a replica, of which it is the event
    """

    __slots__ = (
        "admitted",
        "arrival",
        "blocks",
        "callbacks",
        "context",
        "emitted",
        "finish",
        "first",
        "grows",
        "input",
        "joined",
        "number",
        "output",
        "preemptions",
        "processed",
        "prompt",
        "prompted",
        "reached",
        "swapped",
        "transferred",
    )

    _ok = True

    def __init__(
        self, number: int, arrival: float, prompt: int, output: int,
        reach: tuple[Callable[["Request"], None]],
    ) -> None:  # fmt: skip
        assert prompt > 0
        assert output > 0
        self.number, self.callbacks = number, reach
        self.arrival = arrival
        self.input = self.prompt = prompt
        self.output = output
        self.processed = self.emitted = self.joined = self.grows = 0
        self.context = self.blocks = self.preemptions = 0
        self.swapped = self.transferred = False
        self.reached = self.admitted = self.prompted = self.first = self.finish = nan
