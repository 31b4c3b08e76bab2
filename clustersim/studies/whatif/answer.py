"""What if: each change of a scenario alone, and all together, by what they save.

    base ---- change 1 ---- change 2 ---- ... ---- all that can be together

What is saved is the time of a step; where a change trains on other tokens in a step, the time for
as many tokens as the base's.  Savings do not add up: two changes may shorten the same wait, or one
may open the way for the other, so what they save together is told beside their sum.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Final

from clustersim.errors import CatalogError, ScenarioError
from clustersim.metrics.difference import leading
from clustersim.runs.arguments import check
from clustersim.runs.variants import RAN, Run, Variant, Verdict, in_a_line
from clustersim.studies.compare.answer import Answer, Comparison, answer_of, bottleneck, tokens

Change = tuple[str, ...]
"""Settings that belong together."""


@dataclass(frozen=True)
class Asked:
    """What is to be run: the base, each change of it, and all together.

    Attributes
    ----------
    joined : the changes that are in `together`, by their place
    apart : why there is no `together`, where there is none
    """

    base: Variant
    changes: tuple[Change, ...]
    variants: tuple[Variant, ...]
    together: Variant | None
    joined: tuple[int, ...]
    apart: str | None

    @property
    def all(self) -> list[Variant]:
        """All that is to be run, the base first, what is together last."""
        last = [] if self.together is None else [self.together]
        return [self.base, *self.variants, *last]


def asked(base: Variant, changes: Sequence[Change]) -> Asked:
    """Return what is to be run for some changes of a scenario.

    Raises
    ------
    ScenarioError, CatalogError
        when the base cannot be run, or a setting makes no sense; a layout that cannot be is told
        in the answer.
    """
    check(base.load())
    variants = tuple(_changed(base, change) for change in changes)
    able = tuple(place for place, each in enumerate(variants) if each.trouble is None)
    if len(changes) < 2:
        return Asked(base, tuple(changes), variants, None, (), None)
    together, joined, apart = _together(base, changes, able)
    return Asked(base, tuple(changes), variants, together, joined, apart)


def _changed(base: Variant, change: Change) -> Variant:
    """Return the base with a change, with what stands against it if it cannot be."""
    varied = replace(base, settings=(*base.settings, *change), point={"change": " ".join(change)})
    loaded = varied.load()  # a setting that makes no sense ends it here
    try:
        check(loaded)
    except (ScenarioError, CatalogError) as problem:
        return replace(varied, trouble=in_a_line(problem))
    return varied


def _together(
    base: Variant, changes: Sequence[Change], able: tuple[int, ...]
) -> tuple[Variant | None, tuple[int, ...], str | None]:
    """Return all changes as one, or else those that can be alone; or why neither can be."""
    why = ""
    for joined in dict.fromkeys([tuple(range(len(changes))), able]):
        settings = [*chain.from_iterable(changes[place] for place in joined)]
        twice = _twice(settings)
        if twice is not None:
            return None, (), f"{twice} is changed twice"
        if len(joined) < 2:
            return None, (), why or "no two of the changes can be"
        try:
            varied = _changed(base, tuple(settings))
        except (ScenarioError, CatalogError) as problem:
            why = in_a_line(problem)
            continue
        if varied.trouble is None:
            return varied, joined, None
        why = varied.trouble
    return None, (), why


def _twice(settings: Sequence[str]) -> str | None:
    """Return a path that two settings are about."""
    counted = Counter(setting.partition("=")[0] for setting in settings)
    return next((path for path, count in counted.items() if count > 1), None)


@dataclass(frozen=True)
class Outcome:
    """What came of a change.

    Attributes
    ----------
    settings : of the change
    comparison : of its run with the base; None unless it ran
    """

    settings: Change
    verdict: Verdict
    why: str | None
    comparison: Comparison | None

    @property
    def saved(self) -> float | None:
        """Seconds that it takes off the base's step, or off the time for as many tokens [s]."""
        if self.comparison is None:
            return None
        before, after = self.comparison.before, self.comparison.after
        steps = tokens(before) / tokens(after)
        return float(before["step_time_s"] - steps * after["step_time_s"])

    def to_json(self) -> dict[str, Any]:
        """Return plain values; the keys are stable and documented."""
        said = {"settings": list(self.settings), "verdict": self.verdict, "why": self.why}
        saved, found = self.saved, self.comparison
        if found is None or saved is None:
            return said | dict.fromkeys(OF_A_RUN)
        step, of_base = found.after["step_time_s"], saved / found.before["step_time_s"]
        values = (step, found.same_tokens, saved, of_base, *_why(found))
        return said | dict(zip(OF_A_RUN, values, strict=True))


OF_A_RUN: Final = (
    "step_time_s",
    "same_tokens",
    "saved_s",
    "saved_fraction",
    "part",
    "parts",
    "bottleneck",
    "fits",
    "memory",
)
"""Keys of a change that are null unless it ran."""


def _why(found: Comparison) -> tuple[Any, ...]:
    """Return the part that changed most, all of them, the link, and whether it fits."""
    most = leading(found.parts if found.same_tokens else found.parts_per_token, 1)
    link = {"before": bottleneck(found.before), "after": bottleneck(found.after)}
    memory = found.after["memory"]
    return most[0][0] if most else None, found.parts, link, memory["fits"], memory["verdict"]


@dataclass(frozen=True)
class WhatIf:
    """The changes of a scenario and what each of them saves.

    Attributes
    ----------
    base : the answer without any
    changes : the best first; those that cannot be come last
    together : all changes that can be together; None where there is nothing to join
    joined : those that are in it
    apart : why there is no `together` of two or more changes
    """

    base: Answer
    changes: tuple[Outcome, ...]
    together: Outcome | None = None
    joined: tuple[Outcome, ...] = ()
    apart: str | None = None

    @property
    def sum(self) -> float | None:
        """What the changes that are together save one by one, added up [s].

        None where one of them cannot be alone.
        """
        saved = [each.saved for each in self.joined if each.saved is not None]
        return sum(saved) if saved and len(saved) == len(self.joined) else None

    @property
    def of_sum(self) -> float | None:
        """What they save together, over the sum of what each saves [unitless].

        None where that sum saves nothing.
        """
        saved = None if self.together is None else self.together.saved
        least = 1e-9 * self.base["step_time_s"]
        return None if saved is None or self.sum is None or self.sum < least else saved / self.sum

    def to_json(self) -> dict[str, Any]:
        """Return plain values; the keys are stable and documented."""
        together = self.together
        return {
            "base": dict(self.base),
            "changes": [change.to_json() for change in self.changes],
            "together": None
            if together is None
            else {
                **together.to_json(),
                "sum_s": self.sum,
                "of_sum": self.of_sum,
            },
            "apart": self.apart,
        }


def answered(question: Asked, runs: Sequence[Run]) -> WhatIf:
    """Return what the runs of `question.all` say.

    Raises
    ------
    ScenarioError, SimulationError
        when the base itself did not run.
    """
    base = answer_of(question.base.scenario, runs[0])
    name = str(base["name"])
    found = [
        _outcome(change, name, base, run)
        for change, run in zip(question.changes, runs[1:], strict=False)
    ]
    ranked = sorted(found, key=lambda each: -each.saved if each.saved is not None else float("inf"))
    together = None
    if question.together is not None:
        settings = tuple(chain.from_iterable(question.changes[i] for i in question.joined))
        together = _outcome(settings, name, base, runs[-1])
    joined = tuple(found[place] for place in question.joined)
    return WhatIf(base, tuple(ranked), together, joined, question.apart)


def _outcome(change: Change, name: str, base: Answer, run: Run) -> Outcome:
    if run.verdict != RAN or run.answer is None:
        return Outcome(change, run.verdict, run.why, None)
    names = name, " ".join(change)
    return Outcome(change, run.verdict, None, Comparison(names, base, run.answer))


__all__ = ["Asked", "Outcome", "WhatIf", "answered", "asked"]
