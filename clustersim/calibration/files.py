"""A calibration as catalogue files, each fitted value with what it was fitted to and its error.

The accelerator's file is the one that there was with its fitted facts replaced.  A framework's
file has what was fitted of it alone, and extends the one that there was.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from clustersim.calibration.coefficients import FIT
from clustersim.calibration.fit_rows import Answer, Calibration, Errors
from clustersim.catalog.checking import checked
from clustersim.catalog.facts import Record
from clustersim.catalog.reading import Document, parse_yaml
from clustersim.catalog.records import AcceleratorRecord
from clustersim.catalog.tree import Tree, is_fact
from clustersim.catalog.writing import to_yaml
from clustersim.errors import CatalogError

_CONFIDENCE: Final = ((0.05, "high"), (0.2, "medium"), (float("inf"), "low"))
"""Confidence of a value by its standard error, as `coefficients.assumed_spreads` reads it."""


_UNITS: Final[Mapping[str, tuple[str, float]]] = {
    "launch_overhead": ("us", 1e-6),
    "dispatch": ("us", 1e-6),
    "gemm.ragged": ("TFLOP/s", 1e12),
}
"""What facts with a unit are written in."""


@dataclass(frozen=True)
class Told:
    """What a calibration was made of, in words: its files and their rows."""

    title: str
    where: str


def accelerator_text(calibration: Calibration, document: Document, told: Told, name: str) -> str:
    """Return the accelerator's file with what was fitted.

    Parameters
    ----------
    document : the file that there was
    name : of the new one
    """
    data = _copied(document.mapping()) | {"name": name}
    data.pop("calibration", None)  # that was of another fit
    fitted = [each for each in calibration.answers if each.owner == calibration.accelerator]
    for answer in fitted:
        if answer.fitted:
            _put(data, answer, calibration)
    if any(answer.fitted for answer in fitted):
        data["sources"] = {
            **data.get("sources", {}),
            FIT: asdict(told),
        }
    text = to_yaml(data, remarks(calibration, fitted))
    _check(AcceleratorRecord, text, document.file)
    return text


def framework_texts(calibration: Calibration, told: Told) -> dict[str, str]:
    """Return a file for each framework of which something was fitted, by its name."""
    found = {}
    for answer in calibration.answers:
        if answer.owner != calibration.accelerator and answer.fitted:
            data: dict[str, Any] = {
                "kind": "framework",
                "name": answer.owner,
                "title": f"{answer.owner} as it was measured",
                "extends": answer.owner,
                answer.path: _fact(answer),
                "sources": {FIT: asdict(told)},
            }
            found[answer.owner] = to_yaml(data, remarks(calibration, [answer]))
    return found


def remarks(calibration: Calibration, answers: Sequence[Answer]) -> list[str]:
    """Return the lines above a file: the error of the fit, and what was left as it was."""
    whole = calibration.whole
    lines = [
        f"Fitted by clustersim calibrate to {whole.rows} rows.",
        f"Mean absolute error {_percent(whole.before.mean_abs)} before and"
        f" {_percent(whole.after.mean_abs)} after{_held_out(whole.held_out)}.",
    ]
    return lines + [
        f"{answer.path} is left as it was: {answer.why}." for answer in answers if not answer.fitted
    ]


def _held_out(errors: Errors | None) -> str:
    return "" if errors is None else f"; {_percent(errors.mean_abs)} on rows kept from the fit"


def _put(data: dict[str, Any], answer: Answer, calibration: Calibration) -> None:
    """Replace one value of plain data: a fact, or a number in a list of one."""
    *parents, last = answer.path.split(".")
    owner: Any = data
    for part in parents:
        name, _, place = part.partition("[")
        owner = owner[name]
        if place:
            _told_list(owner, calibration)
            owner = owner["value"][int(place.removesuffix("]"))]
    owner[last] = _fact(answer) if is_fact(owner[last]) else rounded(answer.value)


def _told_list(fact: dict[str, Any], calibration: Calibration) -> None:
    """Say of a list of which some numbers are fitted what they were fitted to."""
    fitted = [a for a in calibration.answers if a.path.startswith("gemm.tiles[") and a.fitted]
    places = ", ".join(a.path.partition("[")[2].partition("]")[0] for a in fitted)
    errors = max(answer.error for answer in fitted)
    for key in ("assumed", "note", "confidence"):
        fact.pop(key, None)
    fact |= {
        "source": FIT,
        "confidence": _confidence(errors),
        "note": f"fitted: efficiencies {places} (from 0), give or take {_percent(errors)} at most",
    }


def _fact(answer: Answer) -> dict[str, Any]:
    """Return a fitted value with its proof."""
    unit, scale = _UNITS.get(answer.path, ("", 1.0))
    low, high, prior = (f"{v / scale:.4g}" for v in (answer.low, answer.high, answer.prior))
    folds = "" if low == high else f"; {low} to {high} where parts of the rows are left out"
    value: Any = rounded(answer.value / scale)
    return {
        "value": f"{value:g} {unit}" if unit else value,
        "source": FIT,
        "confidence": _confidence(answer.error),
        "note": f"fitted to {answer.rows} rows, give or take {_percent(answer.error)};"
        f" {prior} before{folds}",
    }


def rounded(value: float) -> float:
    """Return a value to four digits, more than any fit knows.

    >>> rounded(0.812345)
    0.8123
    """
    return float(f"{value:.4g}")


def _confidence(error: float) -> str:
    return next(name for most, name in _CONFIDENCE if error <= most)


def _percent(share: float) -> str:
    return f"{100 * share:.2g} %"


def _copied(value: Any) -> Any:
    """Return plain values that can be changed without changing those that were read."""
    if isinstance(value, Mapping):
        return {key: _copied(item) for key, item in value.items()}
    return [_copied(item) for item in value] if isinstance(value, list) else value


def _check(record: type[Record], text: str, name: str) -> None:
    """Read a file as a run would."""
    checked(record, Tree.of(parse_yaml(text, f"{name}, calibrated", CatalogError)), CatalogError)
