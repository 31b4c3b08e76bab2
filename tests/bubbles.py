"""The pipeline bubble in closed form: the time that ranks wait for other stages."""


def bubble_fraction(stages: int, microbatches: int, chunks: int = 1) -> float:
    r"""Return the idle share of step time of a uniform 1F1B pipeline [unitless].

    .. math:: \frac{p - 1}{v m + p - 1}

    with p = `stages`, m = `microbatches`, v = `chunks` of each stage. Assumes equal stages and
    free transfers. From the bubble time of Narayanan et al. 2021, section 2.2, arXiv:2104.04473,
    which divides by ideal time instead: see `bubble_overhead`.

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


def zero_bubble(
    stages: int, forward: float, inputs: float, weights: float, delay: int = 1
) -> float:
    r"""Return how long a stage of ZB-H1 or ZB-H2 waits in a step [s].

    .. math:: (p - 1) (f + i - d w)

    with f, i, w = `forward`, `inputs` and `weights`, the times of a whole stage for one microbatch
    [s]. With d = `delay` = 1 it is all that a stage of ZB-H1 waits; with d = 2 what one of ZB-H2
    waits between its own first and last step. Holds for w no longer than f and i. Qi et al. 2023,
    Table 2, arXiv:2401.10241.

    >>> zero_bubble(stages=4, forward=1.0, inputs=1.0, weights=1.0)
    3.0
    """
    return (stages - 1) * (forward + inputs - delay * weights)


def controlled_bubble(schedule: str, stages: int, step: float) -> float:
    r"""Return how long a stage of V-Min or V-Half waits in a batch of 2 p - 1 or more [s].

    .. math:: (4 p - 5) f, \quad (4 p - 3) f \ \text{of 3 q stages} \qquad
        \frac{7 p - 4}{2} f, \quad \frac{7 p - 7}{2} f \ \text{of an odd number}

    with f = `step`, the time of each of the three steps of half a stage [s], where 1F1B waits
    6 (p - 1) f.  From the slots of the first microbatch, in which each pass through all stages
    takes p or 2 p of them.

    >>> controlled_bubble("v-min", 4, 1.0), controlled_bubble("v-half", 4, 1.0)
    (11.0, 12.0)
    """
    if schedule == "v-min":
        return (4 * stages - (3 if stages % 3 == 0 else 5)) * step
    return (7 * stages - (7 if stages % 2 else 4)) / 2 * step


def controlled_memory(schedule: str, stages: int) -> int:
    r"""Return the half stages of microbatches that V-Min or V-Half holds in a long batch [count].

    .. math:: 2 \left\lfloor \frac{p + 1}{3} \right\rfloor + 2 \qquad
        2 \left\lfloor \frac{p}{2} \right\rfloor + 2

    where 1F1B holds 2 p.  Qi et al. 2024, section 3, arXiv:2405.15362: about a third and a half.

    >>> controlled_memory("v-min", 8), controlled_memory("v-half", 8)
    (8, 10)
    """
    return 2 * ((stages + 1) // 3 if schedule == "v-min" else stages // 2) + 2


def dualpipe_bubble(stages: int, both: float, backward: float, weights: float) -> float:
    r"""Return how long a stage of DualPipe waits in a step [s].

    .. math:: (p / 2 - 1) (fb + b - 3 w)

    with p parts of the model, fb = `both`, the time of a forward and a concurrent backward, b =
    `backward`, all of it, and w = `weights`, the part of it that can wait [s].  With DualPipe-V p
    is twice the number of stages.  Holds where the rest of b takes as long as a forward.
    DeepSeek-AI 2024, Table 2, arXiv:2412.19437; deepseek-ai/DualPipe, README.

    >>> dualpipe_bubble(stages=8, both=3.0, backward=2.0, weights=1.0)
    6.0
    """
    return (stages / 2 - 1) * (both + backward - 3 * weights)
