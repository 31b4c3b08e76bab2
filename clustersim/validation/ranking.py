"""Whether the best layout would have been found: runs that differ in nothing else, ranked.

    outcomes --layout_sets--> LayoutSet --kendall--> are pairs in their measured order?
                                        --regret---> throughput lost by taking our first choice

Runs are *alike* where machine, devices, model, batch and software are the same; what may differ is
how the job is laid out: degrees, schedule, sharding, microbatch, recomputation, offload.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from math import sqrt
from statistics import fmean
from typing import Any, Final, NamedTuple

from clustersim.validation.cases.cases import Case
from clustersim.validation.cases.finetuning import told
from clustersim.validation.cases.settings import Settings
from clustersim.validation.outcomes import Outcome

LAYOUT: Final = (
    "tensor", "pipeline", "data", "context", "expert", "chunks", "schedule", "zero", "shard",
    "reshard", "micro", "sequence_parallel", "recompute",
)  # fmt: skip
"""Settings that lay a job out; all others make it another job."""


def layout_of(case: Case, settings: Settings) -> dict[str, Any]:
    """Return how the job of a case is laid out."""
    given = asdict(settings)
    kept = {"offload": case.offload if told(case.offload) else None}
    return {name: given[name] for name in LAYOUT} | kept


def job_of(case: Case, settings: Settings) -> str:
    """Return what a job is but for its layout, as a text that is the same for the same job."""
    model = case.model.model_dump(exclude={"name", "params_b", "seq"})
    parts = {
        "system": case.system.model_dump(exclude={"gpus"}),
        "devices": settings.devices,
        "model": model | {"vocab": settings.vocab, "sequence": settings.sequence},
        "batch": settings.sequences,
        "precision": [settings.precision, case.parallel.mp_mode],
        "finetune": case.finetune if told(case.finetune) else None,
        "attention": settings.attention,
    }
    return json.dumps(parts, sort_keys=True, default=str)


class Ranked(NamedTuple):
    """A run by its rates [FLOP/s] and its layout."""

    id: str
    layout: str
    measured: float
    predicted: float


@dataclass(frozen=True)
class LayoutSet:
    """Runs of one job in at least two layouts."""

    group: str
    runs: tuple[Ranked, ...]

    @property
    def layouts(self) -> list[Ranked]:
        """Each layout once, with the means of its runs."""
        found: defaultdict[str, list[Ranked]] = defaultdict(list)
        for run in self.runs:
            found[run.layout].append(run)
        return [
            first._replace(
                measured=fmean(run.measured for run in runs),
                predicted=fmean(run.predicted for run in runs),
            )
            for runs in found.values()
            for first in runs[:1]
        ]

    @property
    def fastest(self) -> Ranked:
        """The layout that was measured fastest."""
        return max(self.layouts, key=lambda run: run.measured)

    @property
    def chosen(self) -> Ranked:
        """The layout that is predicted fastest; of several the one that was measured slowest."""
        return max(self.layouts, key=lambda run: (run.predicted, -run.measured))

    @property
    def regret(self) -> float:
        """Share of the measured throughput that our choice loses [unitless]."""
        return 1 - self.chosen.measured / self.fastest.measured

    @property
    def blind_regret(self) -> float:
        """What a choice without looking loses on average [unitless]."""
        return 1 - fmean(run.measured for run in self.layouts) / self.fastest.measured

    def to_json(self) -> dict[str, Any]:
        """Return plain values; the keys are stable and documented."""
        return {
            "group": self.group,
            "cases": [run.id for run in self.runs],
            "kendall_tau": kendall(self.pairs()),
            "fastest": self.fastest.id,
            "chosen": self.chosen.id,
            "regret": self.regret,
            "blind_regret": self.blind_regret,
        }

    def pairs(self) -> Iterator[tuple[float, float]]:
        """Yield how far two layouts are apart: measured, and predicted."""
        return differences((run.measured, run.predicted) for run in self.layouts)


def layout_sets(outcomes: Sequence[Outcome]) -> list[LayoutSet]:
    """Return the jobs that were measured in at least two layouts, in the order of their file."""
    jobs: defaultdict[tuple[str, str], list[Ranked]] = defaultdict(list)
    for outcome in outcomes:
        measured = outcome.measured_rate("model")
        if measured is None or outcome.rates is None or outcome.job is None:
            continue
        layout = json.dumps(dict(outcome.layout), sort_keys=True, default=str)
        run = Ranked(outcome.id, layout, measured, outcome.rates["model"])
        jobs[outcome.group, outcome.job].append(run)
    return [
        LayoutSet(group, tuple(runs))
        for (group, _), runs in jobs.items()
        if len({run.layout for run in runs}) > 1
    ]


def differences(points: Iterable[tuple[float, float]]) -> Iterator[tuple[float, float]]:
    """Yield for each two points how far apart they are, in both numbers."""
    for (one, other), (one_, other_) in combinations(list(points), 2):
        yield one - one_, other - other_


def kendall(pairs: Iterable[tuple[float, float]]) -> float | None:
    r"""Return Kendall's rank correlation of pairs, 1 where all are in order, -1 where none is.

    .. math:: \tau_b = \frac{C - D}{\sqrt{(n - t_m) (n - t_p)}}

    with C pairs in order and D the other way round, of n; t are those that are equal when measured,
    or when predicted (Kendall 1945).  None where nothing can be ranked.

    >>> kendall(differences([(1.0, 10.0), (2.0, 20.0), (3.0, 15.0)]))
    0.3333333333333333
    """
    found = list(pairs)
    order = sum((m * p > 0) - (m * p < 0) for m, p in found)
    ranked = sum(m != 0 for m, _ in found) * sum(p != 0 for _, p in found)
    return order / sqrt(ranked) if ranked else None
