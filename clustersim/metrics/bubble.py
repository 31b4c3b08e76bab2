"""The pipeline bubble: how much time ranks wait for others, and what theory says of it."""


def bubble_fraction(stages: int, microbatches: int, chunks: int = 1) -> float:
    r"""Return the idle share of step time of a uniform 1F1B pipeline [unitless].

    .. math:: \frac{p - 1}{v m + p - 1}

    with p = `stages`, m = `microbatches`, v = `chunks` of each stage. Assumes equal stages and
    free transfers. From the bubble time of Narayanan et al. 2021, section 2.2, arXiv:2104.04473,
    who divide by ideal time instead: see `bubble_overhead`.

    >>> bubble_fraction(stages=4, microbatches=12)
    0.2
    """
    return (stages - 1) / (chunks * microbatches + stages - 1)


def bubble_overhead(stages: int, microbatches: int, chunks: int = 1) -> float:
    r"""Return idle time over ideal time of a uniform 1F1B pipeline [unitless].

    .. math:: \frac{p - 1}{v m}

    Narayanan et al. 2021, section 2.2.2, arXiv:2104.04473; letters as in `bubble_fraction`.

    >>> bubble_overhead(stages=4, microbatches=12)
    0.25
    """
    return (stages - 1) / (chunks * microbatches)


def uniform_step(
    stages: int, microbatches: int, forward: float, backward: float, chunks: int = 1
) -> float:
    r"""Return the time of a uniform pipeline with free transfers [s].

    .. math:: \left(m + \frac{p - 1}{v}\right) (f + b)

    with f = `forward` and b = `backward`, the time of a whole stage for one microbatch [s].

    >>> uniform_step(stages=4, microbatches=8, forward=1.0, backward=2.0)
    33.0
    """
    return (microbatches + (stages - 1) / chunks) * (forward + backward)
