"""What sets two runs apart: what changed in the input, in the answer, and where the time went.

    before, after (what `run --json` prints) --Comparison--> differences, parts, finding

The parts of the step time add up to it in each run, so their differences add up to the difference:
nothing is left over.  Steps of unlike batches are also compared by what a token takes of all
devices, which adds up in the same way.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from clustersim.errors import ScenarioError, SimulationError
from clustersim.metrics.difference import because, claim, difference, times
from clustersim.runs.table import measures
from clustersim.runs.variants import FAILED, Run, Variant
from clustersim.scenario.load import Loaded
from clustersim.studies.compare.inputs import Input, changed

Answer = Mapping[str, Any]
"""What ``clustersim run --json`` prints."""


@dataclass(frozen=True)
class Comparison:
    """Two runs beside each other.

    Attributes
    ----------
    names : of both, as a person tells them apart
    before, after : their answers
    inputs : what differs between their scenarios
    """

    names: tuple[str, str]
    before: Answer
    after: Answer
    inputs: Sequence[Input] = ()

    @property
    def parts(self) -> dict[str, float]:
        """Seconds of a step by part, after less before; their sum is that of the step times [s]."""
        return difference(self.before["attribution"], self.after["attribution"])

    @property
    def parts_per_token(self) -> dict[str, float]:
        """What a token takes of all devices by part, after less before [device-seconds]."""
        return difference(*(per_token(answer) for answer in (self.before, self.after)))

    @property
    def differences(self) -> dict[str, dict[str, float]]:
        """Each number of the answer before and after, and the change."""
        old, new = measures(self.before), measures(self.after)
        return {
            name: {"before": old[name], "after": new[name], "change": new[name] - old[name]}
            for name in old
        }

    @property
    def same_tokens(self) -> bool:
        """Whether both steps train on as many tokens."""
        return tokens(self.before) == tokens(self.after)

    @property
    def speedup(self) -> float:
        """Tokens per second, after over before [unitless]."""
        return float(self.after["tokens_per_s"] / self.before["tokens_per_s"])

    @property
    def finding(self) -> str:
        """What came out, in a sentence: how much faster, and by which parts."""
        old, new = self.names
        said = claim(new, self.speedup)
        by_token = " for a token" if said.endswith("long") and not self.same_tokens else ""
        share = self.speedup * devices(self.before) / devices(self.after)
        alike = devices(self.before) == devices(self.after)
        device = "" if alike else f" ({times(share)} times the tokens of a device)"
        return f"{said}{by_token} as {old}{device}{self._because()}"

    def _because(self) -> str:
        """Return which parts made the difference: of a step, or of a token where steps differ."""
        if self.same_tokens:
            return because(self.parts)
        said = because(self.parts_per_token)
        return f"{said} of device time a token" if said else ""

    def to_json(self) -> dict[str, Any]:
        """Return plain values; the keys are stable and documented."""
        return {
            "before": self.names[0],
            "after": self.names[1],
            "finding": self.finding,
            "speedup": self.speedup,
            "inputs": [each.to_json() for each in self.inputs],
            "differences": self.differences,
            "same_tokens": self.same_tokens,
            "parts": self.parts,
            "parts_per_token": self.parts_per_token,
            "bottleneck": {"before": bottleneck(self.before), "after": bottleneck(self.after)},
            "slowest_stage": {
                "before": self.before["slowest_stage"],
                "after": self.after["slowest_stage"],
            },
            "memory": {"before": _memory(self.before), "after": _memory(self.after)},
        }


def compared(
    names: Sequence[str],
    variants: Sequence[Variant],
    loaded: Sequence[Loaded],
    runs: Sequence[Run],
) -> dict[str, Any]:
    """Return what ``compare --json`` prints: each run against the first.

    Raises
    ------
    ScenarioError, SimulationError
        when a run could not be, or failed.
    """
    answers = [answer_of(name, run) for name, run in zip(names, runs, strict=True)]
    found = [
        Comparison((names[0], name), answers[0], answer, changed(loaded[0], other))
        for name, answer, other in zip(names[1:], answers[1:], loaded[1:], strict=True)
    ]
    return {
        "runs": [
            {
                "name": name,
                "scenario": variant.scenario,
                "settings": list(variant.settings),
                "answer": answer,
            }
            for name, variant, answer in zip(names, variants, answers, strict=True)
        ],
        "comparisons": [each.to_json() for each in found],
    }


def answer_of(name: str, run: Run) -> Answer:
    """Return the answer of a run that must have one."""
    if run.answer is None:
        error = SimulationError if run.verdict == FAILED else ScenarioError
        raise error(f"{name}: {run.why}")
    return run.answer


def tokens(answer: Answer) -> int:
    """Return the tokens of a step."""
    return round(float(answer["tokens_per_s"]) * float(answer["step_time_s"]))


def devices(answer: Answer) -> int:
    """Return the devices of a run."""
    return int(answer["counts"]["devices"])


def per_token(answer: Answer) -> dict[str, float]:
    """Return what a token takes of all devices, by part [device-seconds]."""
    share = devices(answer) / tokens(answer)
    return {part: seconds * share for part, seconds in answer["attribution"].items()}


def bottleneck(answer: Answer) -> dict[str, Any] | None:
    """Return the largest part of exposed communication and the link that sets its pace."""
    found = answer["exposed"]
    return dict(found[0]) if found else None


def _memory(answer: Answer) -> dict[str, Any]:
    memory = answer["memory"]
    return {key: memory[key] for key in ("fits", "stage", "peak_bytes", "verdict")}


def named(variants: Sequence[tuple[str, Sequence[str]]]) -> list[str]:
    """Return what to call runs, each by its scenario and settings: as little as tells them apart.

    >>> named([("a", []), ("b", ["plan.zero=1"])])
    ['a', 'b']
    >>> named([("a", []), ("a", ["plan.zero=1"])])
    ['a', 'a plan.zero=1']
    """
    names = [name for name, _ in variants]
    return [
        " ".join([name, *settings]) if names.count(name) > 1 else name
        for name, settings in variants
    ]


__all__ = [
    "Answer",
    "Comparison",
    "answer_of",
    "bottleneck",
    "compared",
    "devices",
    "named",
    "per_token",
    "tokens",
]
