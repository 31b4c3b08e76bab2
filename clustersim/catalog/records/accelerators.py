"""Accelerators as their files state them, with their power and the fits of measured kernels.

Records have values with their sources and no physics, which is in the layers above.
"""

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from clustersim.catalog import finding
from clustersim.catalog.checking import checked, shipped_record
from clustersim.catalog.facts import (
    MAX_IN_NODE,
    Bandwidth,
    Bytes,
    Count,
    Fact,
    Fitted,
    FlopsPerSecond,
    Fraction,
    Line,
    NotNegative,
    Record,
    Seconds,
    Strict,
    Watts,
)
from clustersim.catalog.tree import Tree
from clustersim.errors import CatalogError


class PowerFacts(Strict):
    """Electrical power of a device, as shares of its `limit` while it runs kernels of a kind.

    `limit` is the power of the board at which it lowers its clock, `idle` the power without a
    process.  The shares are means: `compute` of matrix products and attention, `memory` of kernels
    that memory limits, `communication` of exposed collectives, `waiting` of a process that runs no
    kernel.  `training` is the mean of typical steps, for estimates without a replay.
    """

    limit: Fact[Watts]
    idle: Fact[Watts]
    compute: Fact[Fraction]
    memory: Fact[Fraction]
    communication: Fact[Fraction]
    waiting: Fact[Fraction]
    training: Fact[Fraction]

    @model_validator(mode="after")
    def _works_above_idle(self) -> Self:
        limit, idle = self.limit, self.idle
        for name in ("waiting", "communication", "memory", "training", "compute"):
            watts = limit * getattr(self, name)
            if watts < idle or (name == "compute" and watts == idle):
                raise ValueError(f"{name}: is {watts:g} W, not above the idle {idle:g} W")
        return self


class DeviceMemoryFacts(Strict):
    """Device memory; `achieved` is the share of `bandwidth` that streaming kernels reach.

    `cache` is the last level of cache that all compute units share; only benchmarks of products,
    which rotate as many copies of their weights as exceed it, depend on it.
    """

    capacity: Fact[Bytes]
    bandwidth: Fact[Bandwidth]
    achieved: Fact[Fraction]
    cache: Fact[Bytes] | None = None


class Tile(Strict):
    """A block of the output that one compute unit computes, and its efficiency."""

    rows: Count
    columns: Count
    efficiency: Fraction


class GemmFacts(Strict):
    """The efficiency of matrix products: measured kernels, or a roofline if `tiles` are given.

    `best` is the share of peak on the best shape; `inner_half` the inner dimension at which half
    of the pipeline's depth is hidden; `tiles` the tiles of the library, with which both others are
    required.  Without tiles, products are those of the fits of measured kernels of this
    accelerator, or of the one that it is like, and `best` and `inner_half` replace theirs.
    `sustained` is the share of a fit's rate that a device sustains in training, by default what
    the fit found for long kernels.  `narrow_best`, `narrow_inner_half` and `narrow_sustained` are
    those of products of 8-bit numbers, the same if missing.  `ragged` is the peak of products whose
    rows are not whole vectors of 16 bytes, where the library has no kernels of tensor cores for
    them; the same peak if missing.
    """

    best: Fact[Fraction] | None = None
    inner_half: Fact[NotNegative] | None = None
    sustained: Fact[Fraction] | None = None
    ragged: Fact[FlopsPerSecond] | None = None
    narrow_best: Fact[Fraction] | None = None
    narrow_inner_half: Fact[NotNegative] | None = None
    narrow_sustained: Fact[Fraction] | None = None
    tiles: Fact[Annotated[list[Tile], Field(min_length=1, max_length=MAX_IN_NODE)]] | None = None

    @model_validator(mode="after")
    def _needs_a_roofline_whole(self) -> Self:
        """Reject tiles without the rest of the roofline, and a share of fits that are not used."""
        if self.tiles is not None:
            missing = [name for name in ("best", "inner_half") if getattr(self, name) is None]
            if missing:
                raise ValueError(f"{missing[0]}: missing, but the file gives tiles (give it too)")
            for name in ("sustained", "narrow_sustained"):
                if getattr(self, name) is not None:
                    raise ValueError(
                        f"{name}: is a share of measured kernels, which tiles replace (give only"
                        " one of both)"
                    )
        return self


class FlashKernelFacts(Strict):
    """Share of peak that a fused attention kernel reaches, forward and backward.

    These are of long sequences with heads of 128.  `forward_sequence` and `backward_sequence` are
    the tokens of a sequence at which it reaches half of that, `forward_head` and `backward_head`
    the width of a head at which it reaches half of the limit of wide heads; 0 if missing, except
    that measured kernels, where there are any, have a length of their own.
    """

    forward: Fact[Fraction]
    backward: Fact[Fraction]
    forward_sequence: Fact[NotNegative] | None = None
    backward_sequence: Fact[NotNegative] | None = None
    forward_head: Fact[NotNegative] | None = None
    backward_head: Fact[NotNegative] | None = None


class FlashFacts(FlashKernelFacts):
    """Fused attention: FlashAttention-2, unless a note names another one, and that of cuDNN.

    `head_sizes` are the widths that kernels were built for; others are padded up to the next.
    `cudnn` is missing where software that could use cuDNN's kernels uses the others.
    """

    head_sizes: Fact[Annotated[list[Count], Field(max_length=MAX_IN_NODE)]]
    cudnn: FlashKernelFacts | None = None


class KernelFit(Strict):
    """The fit of a surface to measured kernels of one kind, in one number format or library.

    `rows` is the number of them and `measured` their source.  `median` and `p90` are of the
    absolute errors of the time, each row by a fit without its shape.  `found` has the terms that
    the rows determined; the others have their priors.
    """

    rows: Count
    measured: Line
    median: NotNegative
    p90: NotNegative
    found: dict[str, Fitted]


Kernels = dict[str, dict[str, KernelFit]]
"""Fits by kind of kernel, and then by number format or library."""


class EngineFits(Strict):
    """Fits of the kernels that an inference engine issues, where they differ from the others.

    `releases` names the releases of the engine that have them.  `like` is the accelerator whose
    kernels of this engine have the same terms, where those of this one are not measured.
    """

    releases: Line
    like: Fact[Line] | None = None
    kernels: Kernels = Field(default_factory=dict)


class KernelsRecord(Record):
    """``topologies/kernels/*.yaml``: fits of measured kernels of the accelerator of that name.

    `kernels` are by kind of kernel, and then by number format or library: those of benchmarks and
    of TensorRT-LLM.  `engines` are the fits of other engines by name, which win for these.  `links`
    and `network` are the payload bandwidth of a device to others of its node, and of its NIC, in
    the machine on which collectives were measured: on other links they take other times.
    """

    kind: Literal["kernels"]
    links: Fact[Bandwidth] | None = None
    network: Fact[Bandwidth] | None = None
    kernels: Kernels
    engines: dict[str, EngineFits] = Field(default_factory=dict)


class CalibrationFacts(Strict):
    """The calibration of a file by `clustersim calibrate`, and whether the file has its values.

    Errors are means of the absolute errors of the time over all rows: `before` with the values of
    the file, `after` with those that were `found`; `held_out` is of each group by a fit without
    it.  `kept` is the reason why the file has other values than those; it has them if missing.
    """

    command: str
    rows: Count
    before: NotNegative
    after: NotNegative
    held_out: Annotated[dict[str, NotNegative], Field(min_length=1)]
    found: Annotated[dict[str, Fitted], Field(min_length=1)]
    kept: str | None = None


class AcceleratorRecord(Record):
    """``topologies/accelerators/*.yaml``: a device and its calibration.

    `measured_as` are its names in tables of measured kernels.  Kernels without a fit of its own
    are predicted by the fits of `kernels_like`, the most similar accelerator that has them.
    `fits` are those of files in the scenario's folder, by accelerator; they win over shipped ones.
    `power` is missing where no power is known; `power_cap` is a limit that the operator sets below
    that of the board. `capability` is the compute capability of CUDA, or Intel's generation
    (``xe2``), by which libraries choose their kernels; other devices have none. `clock_spread` is
    the relative standard deviation, over devices of this kind, of the time of kernels that are
    limited by compute; none if missing.
    """

    kind: Literal["accelerator"]
    peak: dict[str, Fact[FlopsPerSecond]]
    memory: DeviceMemoryFacts
    compute_units: Fact[Count]
    capability: Fact[Line] | None = None
    launch_overhead: Fact[Seconds]
    clock_spread: Fact[NotNegative] | None = None
    gemm: GemmFacts = Field(default_factory=GemmFacts)
    flash_attention: FlashFacts
    calibration: CalibrationFacts | None = None
    measured_as: list[Line] = Field(default_factory=list)
    kernels_like: Fact[Line] | None = None
    fits: dict[str, Kernels] = Field(default_factory=dict)
    power: PowerFacts | None = None
    power_cap: Fact[Watts] | None = None

    @model_validator(mode="after")
    def _cap_is_between_idle_and_limit(self) -> Self:
        cap, power = self.power_cap, self.power
        if cap is None:
            return self
        if power is None:
            raise ValueError(
                "power_cap: needs the power of the device (add power, or remove power_cap)"
            )
        low, high = power.idle, power.limit
        if not low < cap <= high:
            raise ValueError(
                f"power_cap: {cap:g} W is not above the idle power of {low:g} W and at most"
                f" the limit of {high:g} W"
            )
        return self


# --- fits of measured kernels ---------------------------------------------------------------------


def find_kernel_fits(accelerator: str, folder: Path | None = None) -> KernelsRecord | None:
    """Return the fits of an accelerator, from `folder` or the shipped ones; None without any.

    Raises
    ------
    CatalogError
        when the file is not valid.
    """
    own = None if folder is None else kernel_fits_in(folder, accelerator)
    if own is not None or accelerator not in finding.entry_names("kernels"):
        return own
    return shipped_record(KernelsRecord, "kernels", accelerator)


def kernel_fits_in(folder: Path, accelerator: str) -> KernelsRecord | None:
    """Return the fits of an accelerator from a folder; None if it has no such file of this kind."""
    document = finding.find_in(folder, "kernels", accelerator)
    return None if document is None else checked(KernelsRecord, Tree.of(document), CatalogError)
