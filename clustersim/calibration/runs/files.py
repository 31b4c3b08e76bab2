"""A calibration as catalogue files, each fitted value with its data and its error.

The accelerator's file is the previous one with the fitted facts replaced.  A framework's file has
its fitted facts alone, and extends the previous one.  The script that measures a device is a
template next to this module.
"""

from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from clustersim.calibration.runs.answer import Calibration, FittedCoefficient
from clustersim.calibration.runs.coefficients import FIT
from clustersim.catalog.checking import checked
from clustersim.catalog.facts import Record
from clustersim.catalog.reading import Document, parse_yaml
from clustersim.catalog.records.accelerators import AcceleratorRecord
from clustersim.catalog.tree import Tree, is_fact
from clustersim.catalog.writing import to_yaml
from clustersim.errors import CatalogError
from clustersim.topology.accelerator import kernel_fits

_CONFIDENCE: Final = ((0.05, "high"), (0.2, "medium"), (float("inf"), "low"))
"""Confidence of a value by its standard error, as in `coefficients.assumed_spreads`."""

_UNITS: Final[Mapping[str, tuple[str, float]]] = {
    "launch_overhead": ("us", 1e-6),
    "dispatch": ("us", 1e-6),
    "gemm.ragged": ("TFLOP/s", 1e12),
}
"""Units of facts."""


TEMPLATE: Final = "measure.py.txt"
"""The script that measures a device: stand-alone PyTorch, which clustersim does not import."""


def measuring_script() -> str:
    """Return the text of the script that measures a device."""
    return files(__package__).joinpath(TEMPLATE).read_text(encoding="utf-8")


def catalogue_files(calibration: Calibration, document: Document, out: Path) -> dict[Path, str]:
    """Return the texts of all files, by path: the accelerator's, and frameworks' in its folder.

    Parameters
    ----------
    document : the previous file of the accelerator
    out : its new file
    """
    texts = {out: accelerator_text(calibration, document, out.stem)}
    for name, text in framework_texts(calibration).items():
        texts[out.parent / f"{name}.yaml"] = text
    return texts


def accelerator_text(calibration: Calibration, document: Document, name: str) -> str:
    """Return the accelerator's file with the fitted values, under a new name."""
    data = _copied(document.mapping()) | {"name": name}
    data.pop("calibration", None)  # that was of another fit
    if name != calibration.accelerator and kernel_fits(calibration.accelerator) is not None:
        data["kernels_like"] = {"value": calibration.accelerator, "assumed": "calibrated from it"}
    own = [c for c in calibration.coefficients if c.owner == calibration.accelerator]
    for coefficient in own:
        if coefficient.fitted:
            _put(data, coefficient, calibration)
    if any(coefficient.fitted for coefficient in own):
        data["sources"] = {**data.get("sources", {}), FIT: _source(calibration)}
    text = to_yaml(data, remarks(calibration, own))
    _check(AcceleratorRecord, text, document.file)
    return text


def framework_texts(calibration: Calibration) -> dict[str, str]:
    """Return a file for each framework with a fitted coefficient, by its name."""
    texts = {}
    for coefficient in calibration.coefficients:
        if coefficient.owner != calibration.accelerator and coefficient.fitted:
            data: dict[str, Any] = {
                "kind": "framework",
                "name": coefficient.owner,
                "title": f"{coefficient.owner} as it was measured",
                "extends": coefficient.owner,
                coefficient.path: _fact(coefficient),
                "sources": {FIT: _source(calibration)},
            }
            texts[coefficient.owner] = to_yaml(data, remarks(calibration, [coefficient]))
    return texts


def _source(calibration: Calibration) -> dict[str, str]:
    return {"title": "Fit by clustersim calibrate", "where": calibration.rows_of}


def remarks(calibration: Calibration, coefficients: Sequence[FittedCoefficient]) -> list[str]:
    """Return the lines above a file: the error of the fit, and coefficients that are not fitted."""
    whole, errors = calibration.all, calibration.all.held_out
    held_out = f"; {_percent(errors.mean_abs)} on rows held out of the fit" if errors else ""
    lines = [
        f"Fitted by clustersim calibrate to {whole.rows} rows.",
        f"Mean absolute error {_percent(whole.before.mean_abs)} before and"
        f" {_percent(whole.after.mean_abs)} after{held_out}.",
    ]
    return lines + [f"{c.path} is not fitted: {c.why}." for c in coefficients if not c.fitted]


def _put(data: dict[str, Any], coefficient: FittedCoefficient, calibration: Calibration) -> None:
    """Replace one value of plain data: a fact, or a number in a list of one."""
    *parents, last = coefficient.path.split(".")
    owner: Any = data
    for parent in parents:
        name, _, index = parent.partition("[")
        owner = owner.setdefault(name, {})
        if index:
            _describe_list(owner, calibration)
            owner = owner["value"][int(index.removesuffix("]"))]
    single = last in owner and not is_fact(owner[last])
    owner[last] = four_digits(coefficient.value) if single else _fact(coefficient)


def _describe_list(fact: dict[str, Any], calibration: Calibration) -> None:
    """Replace the proof of a list of which some numbers are fitted."""
    fitted = [c for c in calibration.coefficients if c.path.startswith("gemm.tiles[") and c.fitted]
    places = ", ".join(c.path.partition("[")[2].partition("]")[0] for c in fitted)
    errors = max(coefficient.error for coefficient in fitted)
    for key in ("assumed", "note", "confidence"):
        fact.pop(key, None)
    fact |= {
        "source": FIT,
        "confidence": _confidence(errors),
        "note": f"fitted: efficiencies {places} (from 0), standard errors up to {_percent(errors)}",
    }


def _fact(coefficient: FittedCoefficient) -> dict[str, Any]:
    """Return a fitted value with its proof."""
    unit, scale = _UNITS.get(coefficient.path, ("", 1.0))
    ends = coefficient.low, coefficient.high, coefficient.prior
    low, high, prior = (f"{value / scale:.4g}" for value in ends)
    folds = "" if low == high else f"; {low} to {high} over the folds"
    value: Any = four_digits(coefficient.value / scale)
    return {
        "value": f"{value:g} {unit}" if unit else value,
        "source": FIT,
        "confidence": _confidence(coefficient.error),
        "note": f"fitted to {coefficient.rows} rows, standard error"
        f" {_percent(coefficient.error)}; {prior} before{folds}",
    }


def four_digits(value: float) -> float:
    """Return a value to four digits, more than any fit determines.

    >>> four_digits(0.812345)
    0.8123
    """
    return float(f"{value:.4g}")


def _confidence(error: float) -> str:
    return next(name for most, name in _CONFIDENCE if error <= most)


def _percent(share: float) -> str:
    return f"{100 * share:.2g} %"


def _copied(value: Any) -> Any:
    """Return a deep copy of plain values."""
    if isinstance(value, Mapping):
        return {key: _copied(item) for key, item in value.items()}
    return [_copied(item) for item in value] if isinstance(value, list) else value


def _check(record: type[Record], text: str, name: str) -> None:
    """Read a text as a run reads it."""
    checked(record, Tree.of(parse_yaml(text, f"{name}, calibrated", CatalogError)), CatalogError)
