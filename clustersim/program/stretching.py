"""Blocks that take longer or shorter: the time of their kernels is stretched, not their moves.

| kernels | all-reduce | kernels |    by 2 s    |  kernels  | all-reduce |  kernels  |
"""

from collections.abc import Sequence

from clustersim.program.movement.overlap import Unit, Units
from clustersim.traffic import Traffic


def stretched_segments(
    segments: Sequence[float | Traffic], seconds: float
) -> tuple[float | Traffic, ...]:
    """Return a block in segments whose kernels take some time more in total, evenly [s].

    >>> stretched_segments((1.0, 3.0), 2.0)
    (1.5, 4.5)
    """
    if len(segments) == 1 and not isinstance(segments[0], Traffic):
        return (segments[0] + seconds,)
    total = sum(part for part in segments if not isinstance(part, Traffic))
    if not total:
        return (*segments, seconds)
    factor = (total + seconds) / total
    return tuple(part if isinstance(part, Traffic) else part * factor for part in segments)


def stretched_units(units: Units, seconds: float) -> Units:
    """Return a block in units whose kernels take some time more in total, evenly [s]."""
    total = units.rest + sum(map(_kernels, units.units))
    if not total:
        return units._replace(rest=seconds)
    factor = (total + seconds) / total
    return units._replace(
        units=tuple(
            unit._replace(
                compute=unit.compute * factor,
                segments=tuple(
                    part * factor if isinstance(part, float) else part for part in unit.segments
                ),
            )
            for unit in units.units
        ),
        rest=units.rest * factor,
    )


def _kernels(unit: Unit) -> float:
    """Return the time of a unit without the collectives that share links [s]."""
    if not unit.segments:
        return unit.compute
    return sum(part for part in unit.segments if isinstance(part, float))
