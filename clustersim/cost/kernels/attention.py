"""Time of fused attention in training, forward and backward.

A device with measured attention of prompts has its surface (`cost.surfaces.prefill`), as engines
have (`cost.kernels.price_list`).  Waves of tiles, memory and cache are those of the table; the
share of peak, the width of heads and the length of sequences that the device's file states of a
library replace the terms of the kernel that was measured.  A backward multiplies more for the same
tiles.  On other devices a library has a share of peak that falls for short sequences and narrow
heads.
"""

from functools import lru_cache

import numpy as np

from clustersim.cost.kernels.products import stream_seconds
from clustersim.cost.kernels.terms import NEAREST, measured_terms
from clustersim.cost.surfaces.prefill import PREFILL, tile_of_length
from clustersim.cost.surfaces.surface import predict
from clustersim.topology.accelerator import Accelerator, FlashRate
from clustersim.workload.kernels import Flash, Head


def flash_seconds(kernel: Flash, device: Accelerator) -> float:
    """Return the time of a fused attention kernel, heads padded to an available size [s]."""
    library = device.cudnn if kernel.cudnn and device.cudnn is not None else device.flash
    rate = library.backward if kernel.backward else library.forward
    sizes = device.flash_head_sizes
    built = next((size for size in sizes if size >= kernel.head_size), kernel.head_size)
    padded = built / kernel.head_size
    pace = None
    if kernel.head is not None:
        head = kernel.head._replace(key=built, value=round(kernel.head.value * padded))
        pace = _measured_pace(device, rate, kernel.peak, head, kernel.sequence)
    if pace is None:
        pace = 1 / (device.peak_rate(kernel.peak) * rate.at(kernel.sequence, built))
    seconds = kernel.flops * padded * pace / kernel.share
    return max(seconds, stream_seconds(kernel.nbytes, device)) + device.launch_overhead


@lru_cache(maxsize=10_000)
def _measured_pace(
    device: Accelerator, rate: FlashRate, peak: str, head: Head, sequence: int
) -> float | None:
    """Return the time of a FLOP of causal attention by measured kernels [s]; None without any."""
    variant = f"{peak}/{peak}"
    nearest = (variant, *NEAREST.get(variant, ()))
    measured = measured_terms(device.fits, ("attention-prefill",), nearest)
    if measured is None:
        return None
    terms = {**measured.terms, "launch": 0.0, "best": rate.share, "head_half": rate.head}
    if rate.sequence:
        terms["tile"] = tile_of_length(device, peak, rate.share, rate.sequence)
    shape = {
        "batch": 1, "heads": head.heads, "kv_heads": head.kv_heads, "key": head.key,
        "value": head.value, "queries": sequence, "keys": sequence, "prepared": 0, "issued": 0,
    }  # fmt: skip
    columns = {name: np.array([float(size)]) for name, size in shape.items()}
    seconds = float(predict(PREFILL, device, columns, variant, terms)[0])
    return seconds / (head.heads * (head.key + head.value) * float(sequence) ** 2)
