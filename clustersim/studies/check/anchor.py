"""The anchor of a log: factors on the catalogue's values that explain its time.

    scenario x factors --simulated--> slopes --with earlier logs--> factors --file-->  an anchor

A scenario with an anchor of its own keeps the logs of it, so that logs of several scenarios
determine the factors together.  The same log of the same scenario counts once.
"""

from collections.abc import Mapping
from math import exp, floor, log
from typing import Final

from clustersim import __version__
from clustersim.answers import record
from clustersim.catalog.writing import to_yaml
from clustersim.metrics.anchoring import Observation, Shift, shares_of, shifts_of
from clustersim.records import dataclass
from clustersim.scenario.anchors import AnchoredLog, AnchorFile
from clustersim.scenario.factors import factor_paths, highest, layout_of
from clustersim.scenario.schema import Scenario
from clustersim.simulation.step.answer import RunAnswer
from clustersim.studies.check.measured import LogSummary

STEP: Final = 0.98
"""Factor by which a value is multiplied to simulate the slope: a share cannot rise above 1."""

LEAST: Final = 5e-5
"""Change of a factor below which it is 1: half of the last digit of the file."""

REMARKS: Final = (
    "Factors on the catalogue's values, from logs: written by clustersim check --anchor.",
    "Use it with the line 'anchor: FILE' in a scenario, or --set anchor=FILE.",
)


@record
class FactorAnswer:
    """A factor of an anchor.

    Attributes
    ----------
    name : what it is of: `products`, `attention`, `memory`, `host`, `links` or `network`
    value : by which the catalogue's values are multiplied
    spread : standard deviation of its logarithm
    effect : change of the logarithm of the step time by that of the factor
    paths : values that it multiplies
    """

    name: str
    value: float
    spread: float
    effect: float
    paths: tuple[str, ...]


@record
class AnchorAnswer:
    """What the log determines of the factors.

    Attributes
    ----------
    factors : factors on the catalogue's values
    predicted_s : step time of the scenario with them [s]
    logs : number of logs that they are from
    file : contents of the file of the anchor
    """

    factors: tuple[FactorAnswer, ...]
    predicted_s: float
    logs: int
    file: str


@dataclass(frozen=True)
class Question:
    """The scenario of a log, and its answer.

    Attributes
    ----------
    scenario : the checked scenario, with its own anchor applied
    answer : its prediction
    """

    scenario: Scenario
    answer: RunAnswer

    @property
    def settings(self) -> dict[str, tuple[str, ...]]:
        """The changes by which the slope of each factor is simulated."""
        return {
            name: tuple(f"{path}=x{STEP}" for path in paths)
            for name, paths in factor_paths(self.scenario).items()
        }

    def slopes(self, times: Mapping[tuple[str, ...], float]) -> dict[str, float]:
        """Return the slopes by the step times of the changes."""
        before = self.answer.step_time_s
        return {
            name: log(times[settings] / before) / log(STEP)
            for name, settings in self.settings.items()
            if settings in times
        }

    def logged(
        self, summary: LogSummary, seconds: float, slopes: Mapping[str, float], *, normal: bool
    ) -> AnchoredLog:
        """Return the log next to the prediction with all factors 1."""
        scenario = self.scenario
        own = {} if scenario.anchor is None else {f.name: f.value for f in scenario.anchor.factors}
        known = sum(slope * log(own.get(name, 1.0)) for name, slope in slopes.items())
        return AnchoredLog(
            log=summary.file,
            scenario=self.answer.name,
            nodes=scenario.cluster.nodes,
            steps=summary.steady,
            normal=normal,
            step_time_s=_rounded(seconds),
            predicted_s=_rounded(self.answer.step_time_s * exp(-known)),
            error=_rounded(summary.error or 0.0),
            slopes={name: round(slope, 4) + 0.0 for name, slope in slopes.items()},
            layout=layout_of(scenario),
            shares={
                part: round(share, 4)
                for part, share in shares_of(self.answer.attribution).items()
                if share >= LEAST
            },
        )

    def anchor(self, new: AnchoredLog) -> AnchorFile:
        """Return the anchor of a log and of those that the scenario has already."""
        scenario = self.scenario
        earlier = scenario.anchor.logs if scenario.anchor is not None else []
        place = new.log, new.scenario
        logs = [*(each for each in earlier if (each.log, each.scenario) != place), new]
        paths = self._paths()
        shifts = shifts_of([*paths], [_observation(each) for each in logs])
        factors = [
            {
                "name": name,
                "value": self._value(shifts[name], paths[name]),
                "spread": round(shifts[name].spread, 4),
                "paths": paths[name],
            }
            for name in paths
        ]
        return AnchorFile.model_validate(
            {
                "kind": "anchor",
                "version": __version__,
                "accelerator": scenario.cluster.node.accelerator.name,
                "framework": scenario.framework.name,
                "model": scenario.model.name,
                "factors": factors,
                "logs": logs,
            }
        )

    def _paths(self) -> dict[str, list[str]]:
        """Return what the factors multiply: those of the scenario, and of its own anchor."""
        anchor = self.scenario.anchor
        own = {} if anchor is None else {each.name: each.paths for each in anchor.factors}
        return {**own, **factor_paths(self.scenario)}

    def _value(self, shift: Shift, paths: list[str]) -> float:
        """Return the factor of a shift, with which no share is above 1."""
        value = exp(shift.mean) if abs(shift.mean) >= LEAST else 1.0
        limit = self._own(paths) * highest(self.scenario, paths)
        return round(value, 4) if value < limit else floor(1e4 * limit) / 1e4

    def _own(self, paths: list[str]) -> float:
        """Return the factor that the scenario has on some paths already."""
        anchor = self.scenario.anchor
        factors = [] if anchor is None else anchor.factors
        return next((each.value for each in factors if each.paths == paths), 1.0)

    def changes(self, anchor: AnchorFile) -> tuple[str, ...]:
        """Return the changes that replace the scenario's own factors by those of an anchor."""
        ratios = {each.name: each.value / self._own(each.paths) for each in anchor.factors}
        return tuple(
            f"{path}=x{ratios[each.name]!r}"
            for each in anchor.factors
            for path in each.paths
            if ratios[each.name] != 1
        )


def _rounded(value: float) -> float:
    """Return a number as the file has it."""
    return float(f"{value:.6g}")


def _observation(log_: AnchoredLog) -> Observation:
    return Observation(log(log_.step_time_s / log_.predicted_s), log_.error, log_.slopes)


def answer_of(anchor: AnchorFile, predicted: float) -> AnchorAnswer:
    """Return an anchor, with the predicted step time [s], as an answer."""
    effects = anchor.logs[-1].slopes
    return AnchorAnswer(
        factors=tuple(
            FactorAnswer(f.name, f.value, f.spread, effects.get(f.name, 0.0), tuple(f.paths))
            for f in anchor.factors
        ),
        predicted_s=predicted,
        logs=len(anchor.logs),
        file=to_yaml(anchor.model_dump(mode="json"), REMARKS),
    )
