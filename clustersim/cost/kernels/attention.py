"""Time of fused attention in training, forward and backward.

A library runs at a share of peak that falls for short sequences and narrow heads.  Attention in
engines has the surfaces of measured kernels (`cost.kernels.price_list`).
"""

from clustersim.cost.kernels.products import stream_seconds
from clustersim.topology.accelerator import Accelerator
from clustersim.workload.kernels import Flash


def flash_seconds(kernel: Flash, device: Accelerator) -> float:
    """Return the time of a fused attention kernel, heads padded to an available size [s]."""
    library = device.cudnn if kernel.cudnn and device.cudnn is not None else device.flash
    rate = library.backward if kernel.backward else library.forward
    sizes = device.flash_head_sizes
    built = next((size for size in sizes if size >= kernel.head_size), kernel.head_size)
    share = kernel.share * rate.at(kernel.sequence, built)
    done = kernel.flops * built / kernel.head_size
    seconds = done / (device.peak_rate(kernel.peak) * share)
    return max(seconds, stream_seconds(kernel.nbytes, device)) + device.launch_overhead
