"""One device: what it can compute, hold and stream, and the calibration that says how well."""

from dataclasses import dataclass

from clustersim.catalog.records import AcceleratorRecord
from clustersim.errors import CatalogError


@dataclass(frozen=True)
class Tile:
    """Rows and columns of the output that one compute unit works on; `efficiency` at best."""

    rows: int
    columns: int
    efficiency: float


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
    gemm_inner_half : inner dimension whose product runs at half of that
    tiles : output tiles that the library chooses from
    flash_forward, flash_backward : share of peak of fused attention
    flash_head_sizes : head sizes that its kernels were built for, ascending
    gemm_ragged : peak of products whose rows are no whole vectors; that of all others if None
        [FLOP/s]
    passes_limit : share of the bandwidth that its software's elementwise passes reach at most
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
    flash_forward: float
    flash_backward: float
    flash_head_sizes: tuple[int, ...]
    gemm_ragged: float | None = None
    passes_limit: float = 1.0

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
    passes : share of the memory bandwidth that elementwise passes reach at most, where the
        software that runs them is slower than the device
    """
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
        flash_forward=record.flash_attention.forward.value,
        flash_backward=record.flash_attention.backward.value,
        flash_head_sizes=tuple(sorted(record.flash_attention.head_sizes.value)),
        gemm_ragged=None if record.gemm.ragged is None else record.gemm.ragged.value,
        passes_limit=1.0 if passes is None else passes,
    )
