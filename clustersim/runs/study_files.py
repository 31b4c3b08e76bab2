"""The files that the scenarios of a study are made of, for computers that do not have them."""

from collections.abc import Hashable, Iterable
from contextlib import suppress

from clustersim.catalog.changes import Change, changes_of
from clustersim.catalog.files import CarriedFiles, recorded
from clustersim.errors import CatalogError, ScenarioError
from clustersim.runs.cache_key import key_of
from clustersim.runs.scenario_files import ScenarioFiles
from clustersim.runs.variants import Variant
from clustersim.scenario.references import is_reference


def files_of(variants: Iterable[Variant]) -> CarriedFiles:
    """Return the files of variants, those of the catalogue excepted.

    Of variants that name the same files one is loaded.
    """
    with recorded() as files:
        loader, seen = ScenarioFiles(), set[Hashable]()
        for variant in variants:
            naming = [change.text for change in changes_of(variant.settings) if _names_file(change)]
            if (key := (variant.scenario, *naming)) in seen:
                continue
            seen.add(key)
            with suppress(ScenarioError, CatalogError):  # the run will state why
                key_of(variant.load_any(loader))
    return files


def _names_file(change: Change) -> bool:
    """Return whether a change may name another file."""
    return is_reference(change) or str(change.value).endswith(".txt")
