"""One device: compute rates, memory, and the calibrated efficiency of its kernels.

Spread of clocks: devices of a kind hold different clocks under the same power limit.

    device  0   1   2  ...  n - 1
    clock   |   |  |     |   |        a step runs at the pace of the slowest

Ranks of a step wait for each other at its collectives, so that kernels that are limited by compute
take the time of the slowest device, and those limited by memory are as fast as on any other.

Electrical power by what a device does, and its clock under a power cap:

waiting < communication < memory-bound < compute-bound <= cap <= limit of the board
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from statistics import NormalDist
from typing import Final

from clustersim.answers import in_brief, record
from clustersim.bounded_cache import BoundedCache
from clustersim.catalog.finding import entry_names
from clustersim.catalog.records.accelerators import (
    AcceleratorRecord,
    FlashKernelFacts,
    Kernels,
    find_kernel_fits,
)
from clustersim.errors import CatalogError
from clustersim.records import dataclass

assumed_lowest_voltage_clock: Final = 0.6
"""Share of the clock at which the voltage is lowest; assumed, as usual for GPUs."""


@record
class DevicePower:
    """Electrical power of a device while it runs kernels of a kind [W].

    Attributes
    ----------
    idle : without a process
    waiting, communication, memory, compute : with a process that runs no kernel, exposed
        collectives, kernels that memory limits, and products or attention; none is above `cap`
    training : mean of typical steps
    cap : power that the device does not exceed
    clock : share of its clock at which products run under this cap
    """

    idle: float
    waiting: float
    communication: float
    memory: float
    compute: float
    training: float
    cap: float
    clock: float = 1.0


def device_power(record: AcceleratorRecord) -> DevicePower | None:
    """Return the power of a device, under its power cap; None where its file states none."""
    facts = record.power
    if facts is None:
        return None
    limit, idle = facts.limit, facts.idle
    cap = limit if record.power_cap is None else record.power_cap
    states = ("waiting", "communication", "memory", "compute", "training")
    drawn = {name: limit * getattr(facts, name) for name in states}
    capped = {name: min(cap, watts) for name, watts in drawn.items()}
    return DevicePower(
        idle=idle, cap=cap, clock=clock_under_cap(cap, drawn["compute"], idle), **capped
    )


def clock_under_cap(cap: float, watts: float, idle: float) -> float:
    r"""Return the share of the clock at which a device stays below a power cap [unitless].

    .. math:: f = \left(\frac{P_{cap} - P_0}{P - P_0}\right)^{1/3}, \qquad
              f = \frac{P_{cap} - P_0}{(P - P_0) f_0^2} \text{ below } f_0

    with P = `watts` at full clock and P_0 = `idle`: dynamic power grows with the clock and the
    square of the voltage, which follows the clock down to the share f_0 and is constant below.

    >>> round(clock_under_cap(400, 700, 70), 3), clock_under_cap(700, 700, 70)
    (0.806, 1.0)
    """
    dynamic = (cap - idle) / (watts - idle) if watts > cap else 1.0
    clock = dynamic ** (1 / 3)
    lowest = assumed_lowest_voltage_clock
    return clock if clock >= lowest else dynamic / lowest**2


MEASURED_PRODUCTS: Final = ("training-gemm", "gemm")
"""Kinds of measured kernels that are products of training, the first one preferred."""


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


@dataclass(frozen=True, eq=False, repr=False)
class KernelFits:
    """The fits of measured kernels of an accelerator.

    Attributes
    ----------
    name : of the accelerator
    terms : values in SI units, by kind of kernel and number format or library; terms that
        are missing have the priors of `cost.surfaces`
    links, network : payload bandwidth of a device to others of its node, and of its NIC, in the
        machine on which collectives were measured; None where it is not known [B/s]
    """

    name: str
    terms: Mapping[tuple[str, str], Mapping[str, float]]
    links: float | None = None
    network: float | None = None
    __repr__ = in_brief


@lru_cache(maxsize=64)
def kernel_fits(name: str) -> KernelFits | None:
    """Return the shipped fits of an accelerator; None without any.

    Raises
    ------
    CatalogError
        when its file is not valid.
    """
    record = find_kernel_fits(name)
    if record is None:
        return None
    fits = _kernel_fits(name, record.kernels)
    return replace(fits, links=record.links, network=record.network)


@lru_cache(maxsize=64)
def engine_fits(name: str, engine: str) -> KernelFits | None:
    """Return the shipped fits of an engine's kernels on an accelerator; None without any.

    Raises
    ------
    CatalogError
        when a file is not valid.
    """
    record = find_kernel_fits(name)
    own = None if record is None else record.engines.get(engine)
    if own is None:
        return None
    return _kernel_fits(name, own.kernels) if own.like is None else engine_fits(own.like, engine)


def _kernel_fits(name: str, kernels: Kernels) -> KernelFits:
    return KernelFits(
        name,
        {
            (kind, variant): {term: fitted.value for term, fitted in fit.found.items()}
            for kind, by_variant in kernels.items()
            for variant, fit in by_variant.items()
        },
    )


@dataclass(frozen=True)
class Products:
    """Matrix products in one width of numbers: what the device's file states of them.

    Attributes
    ----------
    best : share of peak on the best shape
    inner_half : inner dimension at which a product runs at half of that
    sustained : share of the rate of a kernel alone that training sustains
    """

    best: float | None = None
    inner_half: float | None = None
    sustained: float | None = None


@record
class Accelerator:
    """A device as the cost model sees it, in SI units.

    Attributes
    ----------
    peak : dense rate of each precision, accumulating in 32 bits [FLOP/s]
    memory_capacity, memory_bandwidth : device memory [B], [B/s]
    memory_achieved : share of the bandwidth that streaming kernels reach
    cache : last level of cache that all compute units share [B]; None where it is not stated
    compute_units : streaming multiprocessors or compute units
    capability : compute capability of CUDA, ``9.0`` of an H100, or Intel's generation, ``xe2``;
        None of other devices
    clock_spread : relative standard deviation over devices of the time of kernels that are limited
        by compute [unitless]
    launch_overhead : time between two kernels on a busy stream [s]
    products, narrow_products : matrix products, and those of 8-bit numbers
    tiles : candidate output tiles of the library, of a roofline of products; none if they are those
        of `fits`
    fits : of measured kernels: its own, then those of the accelerator that it is like; of each,
        those of the scenario's folder first
    flash, cudnn : fused attention, and that of cuDNN where it differs
    flash_head_sizes : head sizes that its kernels support, ascending
    gemm_ragged : peak of products whose rows are not aligned to vectors; the usual peak if None
        [FLOP/s]
    passes_limit : upper limit of the elementwise kernels of its software, as share of bandwidth
    power : electrical power; None where it is not known
    clock : of the compute units relative to that as specified, under a power cap and of a slower
        device; it is part of `peak` and `gemm_ragged`
    """

    name: str
    peak: dict[str, float]
    memory_capacity: float
    memory_bandwidth: float
    memory_achieved: float
    compute_units: int
    launch_overhead: float
    products: Products
    narrow_products: Products
    tiles: tuple[Tile, ...]
    flash: FlashKernel
    flash_head_sizes: tuple[int, ...]
    gemm_ragged: float | None = None
    passes_limit: float = 1.0
    cudnn: FlashKernel | None = None
    fits: tuple[KernelFits, ...] = ()
    power: DevicePower | None = None
    cache: float | None = None
    capability: str | None = None
    clock_spread: float = 0.0
    clock: float = 1.0

    def __hash__(self) -> int:
        """Hash a few of the values that differ between devices; equality compares all of them."""
        return hash((self.name, self.compute_units, self.memory_bandwidth, self.clock))

    @property
    def major_capability(self) -> str | None:
        """Major compute capability, by which libraries choose kernels: ``9`` of an H100."""
        return None if self.capability is None else self.capability.partition(".")[0]

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

    Raises
    ------
    CatalogError
        when the file describes no roofline of products, and none are measured.
    """
    cudnn = record.flash_attention.cudnn
    gemm = record.gemm
    tiles = () if gemm.tiles is None else gemm.tiles
    power = device_power(record)
    clock = 1.0 if power is None else power.clock
    return Accelerator(
        name=record.name,
        peak={precision: clock * fact for precision, fact in record.peak.items()},
        memory_capacity=record.memory.capacity,
        memory_bandwidth=record.memory.bandwidth,
        memory_achieved=record.memory.achieved,
        cache=record.memory.cache,
        compute_units=record.compute_units,
        launch_overhead=record.launch_overhead,
        products=Products(gemm.best, gemm.inner_half, gemm.sustained),
        narrow_products=Products(gemm.narrow_best, gemm.narrow_inner_half, gemm.narrow_sustained),
        tiles=tuple(Tile(t.rows, t.columns, t.efficiency) for t in tiles),
        flash=_flash(record.flash_attention),
        flash_head_sizes=tuple(sorted(record.flash_attention.head_sizes)),
        gemm_ragged=None if gemm.ragged is None else clock * gemm.ragged,
        passes_limit=1.0 if passes is None else passes,
        cudnn=None if cudnn is None else _flash(cudnn),
        fits=_fits(record),
        power=power,
        capability=record.capability,
        clock_spread=record.clock_spread or 0.0,
        clock=clock,
    )


def _fits(record: AcceleratorRecord) -> tuple[KernelFits, ...]:
    """Return the fits of measured kernels, where products need them."""
    if record.gemm.tiles is not None:
        return ()
    like = record.kernels_like
    names = (record.name,) if like is None else (record.name, like)
    fits = tuple(fit for name in names for fit in _named_fits(name, record))
    if not any(kind in MEASURED_PRODUCTS for fit in fits for kind, _ in fit.terms):
        raise CatalogError(
            f"{record.name}: kernels_like: missing, and no products are measured on this"
            " accelerator (add kernels_like: NAME of the most similar one of"
            f" {', '.join(entry_names('kernels'))}; or gemm.best, gemm.inner_half and gemm.tiles)"
        )
    return fits


def _named_fits(name: str, record: AcceleratorRecord) -> Iterator[KernelFits]:
    """Yield the fits of one accelerator: those of the scenario's folder, then the shipped ones."""
    if name in record.fits:
        yield _kernel_fits(name, record.fits[name])
    if (shipped := kernel_fits(name)) is not None:
        yield shipped


def _flash(facts: FlashKernelFacts) -> FlashKernel:
    """Return a fused attention kernel; missing half lengths are zero."""
    ahead, back = (
        [fact or 0.0 for fact in pair]
        for pair in (
            (facts.forward_sequence, facts.forward_head),
            (facts.backward_sequence, facts.backward_head),
        )
    )
    return FlashKernel(FlashRate(facts.forward, *ahead), FlashRate(facts.backward, *back))


def slowest_of(device: Accelerator, devices: int) -> Accelerator:
    """Return the slowest of some devices, as it is expected.

    Parameters
    ----------
    devices : that wait for each other [count]
    """
    clock = slowest_clock(device.clock_spread, devices)
    if clock == 1:
        return device
    return _SLOWEST.get((id(device), clock), 1, lambda: (clocked(device, clock), device))[0]


_SLOWEST: Final = BoundedCache(64, 1)
"""The slowest of the latest devices: kernels that have been priced on one are known on it."""


def slowest_clock(spread: float, devices: int) -> float:
    r"""Return the rate of products on the slowest of some devices, over that on the mean one.

    .. math:: \frac{1}{1 + s\, m(n)}

    with s = `spread` the relative standard deviation of the time of kernels limited by compute,
    normal over devices, and m(n) the expected maximum of n standard normal numbers.
    """
    return 1 / (1 + spread * normal_maximum(devices))


@lru_cache(maxsize=256)
def normal_maximum(count: int) -> float:
    r"""Return the expected maximum of some standard normal numbers [unitless], to 1 %.

    .. math:: m(n) \approx \Phi^{-1}\left(\frac{n - 3/8}{n + 1/4}\right)

    Blom 1958, *Statistical Estimates and Transformed Beta-Variables*.

    >>> round(normal_maximum(1024), 2)
    3.23
    """
    return NormalDist().inv_cdf((count - 0.375) / (count + 0.25))


def clocked(device: Accelerator, clock: float) -> Accelerator:
    """Return a device with another clock of its compute units; its memory is as fast as before."""
    ragged = device.gemm_ragged
    return replace(
        device,
        peak={precision: clock * rate for precision, rate in device.peak.items()},
        clock=clock * device.clock,
        gemm_ragged=None if ragged is None else clock * ragged,
    )
