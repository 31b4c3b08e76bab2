"""One device: compute rates, memory, and the calibrated efficiency of its kernels."""

from dataclasses import dataclass

from clustersim.catalog.facts import Fact
from clustersim.catalog.records import AcceleratorRecord, FlashKernelFacts
from clustersim.errors import CatalogError


@dataclass(frozen=True)
class Tile:
    """Rows and columns of the output tile of one compute unit, and its highest `efficiency`."""

    rows: int
    columns: int
    efficiency: float


@dataclass(frozen=True)
class FlashRate:
    """The rate of fused attention in one direction, forward or backward.

    Attributes
    ----------
    share : of peak, on long sequences with heads of 128
    sequence : sequence length at which the rate is half of that
    head : head size at which the rate is half of the limit for infinite head size
    """

    share: float
    sequence: float = 0.0
    head: float = 0.0

    def at(self, sequence: float, head: float) -> float:
        r"""Return the share of peak for a sequence length and head size [unitless].

        .. math:: e \frac{s}{s + s_{1/2}} \frac{d}{d + d_{1/2}} \frac{128 + d_{1/2}}{128}

        Partially masked blocks, and the first and last blocks of a row, cost more in shorter rows;
        the number of exponentials does not depend on the head size. Fits the curves of Shah et al.
        2024, arXiv:2407.08608, Figures 5 and 6, from 1,024 tokens up within 3 %.
        """
        long = sequence / (sequence + self.sequence)
        return self.share * long * head / (head + self.head) * (128 + self.head) / 128


@dataclass(frozen=True)
class FlashKernel:
    """Fused attention of one library, forward and backward."""

    forward: FlashRate
    backward: FlashRate


@dataclass(frozen=True)
class Accelerator:
    """A device as the cost model sees it, in SI units.

    Attributes
    ----------
    peak : dense rate of each precision, accumulating in 32 bits [FLOP/s]
    memory_capacity, memory_bandwidth : device memory [B], [B/s]
    memory_achieved : share of the bandwidth that streaming kernels reach
    compute_units : streaming multiprocessors or compute units
    launch_overhead : time between two kernels on a busy stream [s]
    gemm_best : share of peak on the best shape
    gemm_inner_half : inner dimension at which a product runs at half of that
    narrow_best, narrow_inner_half : the same for 8-bit products, where they differ
    tiles : candidate output tiles of the library
    flash, cudnn : fused attention, and that of cuDNN where it differs
    flash_head_sizes : head sizes that its kernels support, ascending
    gemm_ragged : peak of products whose rows are not aligned to vectors; the usual peak if None
        [FLOP/s]
    passes_limit : upper limit of the elementwise kernels of its software, as share of bandwidth
    """

    name: str
    peak: dict[str, float]
    memory_capacity: float
    memory_bandwidth: float
    memory_achieved: float
    compute_units: int
    launch_overhead: float
    gemm_best: float
    gemm_inner_half: float
    tiles: tuple[Tile, ...]
    flash: FlashKernel
    flash_head_sizes: tuple[int, ...]
    gemm_ragged: float | None = None
    passes_limit: float = 1.0
    cudnn: FlashKernel | None = None
    narrow_best: float | None = None
    narrow_inner_half: float | None = None

    def peak_rate(self, precision: str) -> float:
        """Return the dense peak of a precision [FLOP/s].

        Raises
        ------
        CatalogError
            when the device's file gives none.
        """
        if precision not in self.peak:
            known = ", ".join(sorted(self.peak))
            raise CatalogError(f"{self.name}: has no peak rate for {precision} (known: {known})")
        return self.peak[precision]


def build_accelerator(record: AcceleratorRecord, passes: float | None = None) -> Accelerator:
    """Return the device that a catalogue file describes.

    Parameters
    ----------
    passes : upper limit of elementwise kernels as share of memory bandwidth, where the software is
        slower than the device
    """
    cudnn = record.flash_attention.cudnn
    return Accelerator(
        name=record.name,
        peak={precision: fact.value for precision, fact in record.peak.items()},
        memory_capacity=record.memory.capacity.value,
        memory_bandwidth=record.memory.bandwidth.value,
        memory_achieved=record.memory.achieved.value,
        compute_units=record.compute_units.value,
        launch_overhead=record.launch_overhead.value,
        gemm_best=record.gemm.best.value,
        gemm_inner_half=record.gemm.inner_half.value,
        tiles=tuple(Tile(t.rows, t.columns, t.efficiency) for t in record.gemm.tiles.value),
        flash=_flash(record.flash_attention),
        flash_head_sizes=tuple(sorted(record.flash_attention.head_sizes.value)),
        gemm_ragged=None if record.gemm.ragged is None else record.gemm.ragged.value,
        passes_limit=1.0 if passes is None else passes,
        cudnn=None if cudnn is None else _flash(cudnn),
        narrow_best=_value(record.gemm.narrow_best),
        narrow_inner_half=_value(record.gemm.narrow_inner_half),
    )


def _value(fact: Fact[float] | None) -> float | None:
    return None if fact is None else fact.value


def _flash(facts: FlashKernelFacts) -> FlashKernel:
    """Return a fused attention kernel; missing half lengths are zero."""
    ahead, back = (
        [_value(fact) or 0.0 for fact in pair]
        for pair in (
            (facts.forward_sequence, facts.forward_head),
            (facts.backward_sequence, facts.backward_head),
        )
    )
    return FlashKernel(
        FlashRate(facts.forward.value, *ahead), FlashRate(facts.backward.value, *back)
    )
