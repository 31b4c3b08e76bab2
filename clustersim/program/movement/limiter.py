"""A limit of two units in flight, where the factors of adapters are units of their own.

    forward of a layer    ... | up | A | B |   activation | down | A |   B |    next layer
                                           ^ its copy from the host    ^ its gather

PyTorch's FSDP keeps two units in flight: the host waits for the release of an earlier unit before
it gathers another one (``_limiter_utils.py``, ``_FreeEventQueue``).  With layers alone a layer is
gathered while the previous one is computed.  Factors of adapters that are wrapped as units count as
much as layers, so that a layer is gathered when the last factors of the previous one are done.  Its
copy from the host precedes the wait (``_runtime_utils.py``, ``_unshard``), but the host has waited
for the factor before.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from clustersim.program.job import Job
from clustersim.timeline import FORWARD
from clustersim.workload.kernels import Gemm, Kernel, flat
from clustersim.workload.model import Layer
from clustersim.workload.ops import forward


class Tails(NamedTuple):
    """The kernels of a layer that follow the request of the next one.

    Attributes
    ----------
    gather, copy : after that of its gather, and of its copy from the host
    """

    gather: Sequence[Kernel]
    copy: Sequence[Kernel]


def limited(job: Job) -> bool:
    """Return whether factors of adapters are units that delay the gather of the next layer."""
    sharding, finetune = job.software.sharding, job.finetune
    apart = sharding is not None and sharding.adapters_apart
    return apart and finetune is not None and job.plan.zero >= 3


def factors(job: Job, layer: Layer) -> int:
    """Return the factors of the adapters of a layer."""
    return len(_last_uses([*flat(forward(job.layers.ops(layer)))]))


def tails(kernels: Iterable[Kernel], kind: str) -> Tails:
    """Return what follows the requests of the next layer: all where there are few adapters.

    In the forward the host requests the next layer after this one, and waits for the last factor
    but one.  In the backward it requests it with the last factor, whose predecessor in the forward
    is that layer (``_exec_order_utils.py``, ``get_handle_to_backward_prefetch``), and waits for the
    last but two.

    Parameters
    ----------
    kernels : of the layer, with recomputed ones first
    """
    chain = [*kernels]
    used = _last_uses(chain)
    waits = 2 if kind == FORWARD else 3

    def after(place: int) -> Sequence[Kernel]:
        return chain[used[-place] + 1 :] if place <= len(used) else chain

    return Tails(after(waits), after(waits + 1))


def _last_uses(kernels: Sequence[Kernel]) -> list[int]:
    """Return the places of the last uses of factors in a chain of kernels."""
    return [
        place for place, kernel in enumerate(kernels) if isinstance(kernel, Gemm) and kernel.factor
    ]
