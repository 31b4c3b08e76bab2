"""The scenario of the best layout as a file."""

from collections.abc import Mapping
from typing import Any

from clustersim.catalog.writing import to_yaml


def scenario_text(scenario: Mapping[str, Any], gap: float | None, command: str) -> str:
    """Return the scenario of the best layout as a file, with the command that found it.

    Parameters
    ----------
    gap : by how much another layout can be better at most, share of the best; None if not known
    """
    proof = "" if gap is None else f", at most {100 * gap:.1f} % from the best"
    return to_yaml(dict(scenario), [f"The best layout of `{command}`{proof}."])
