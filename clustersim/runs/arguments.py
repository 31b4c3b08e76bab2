"""Scenarios and settings as the command line takes them.

frontier-1t                                a shipped scenario, or a file
frontier-1t plan.pipeline=32 plan.data=12  the same with settings, separated by spaces
cluster.nic.bandwidth=50 GB/s              one setting: a word without '=' belongs to the last
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic_core import to_jsonable_python

from clustersim.catalog.changes import Change, Settings, changes_of
from clustersim.catalog.files import is_file
from clustersim.catalog.tree import bare
from clustersim.errors import ScenarioError
from clustersim.program.compile import compile_program
from clustersim.runs.store import Study
from clustersim.runs.variants import Variant
from clustersim.scenario.load import (
    LoadedScenario,
    LoadedService,
    LoadedSharing,
    LoadedTrace,
    inner_values,
)
from clustersim.scenario.origins import scenario_text
from clustersim.simulation.service.serve import check_service
from clustersim.simulation.sharing.machine import SharedMachine
from clustersim.simulation.step.build import build_job
from clustersim.simulation.trace.replay import traced_program


def variant_of(scenario: str | Path | Mapping[str, Any], settings: Sequence[str] = ()) -> Variant:
    """Return the scenario of a text such as ``frontier-1t plan.zero=0``, or of a mapping.

    Parameters
    ----------
    settings : settings of every scenario; the settings of the text come after them
    """
    text = scenario_text(scenario)
    words = [] if isinstance(scenario, Mapping) else text.split()
    begin = next((i for i, word in enumerate(words) if "=" in word), None)
    if is_file(Path(text)) or not begin:
        return Variant(text.strip(), tuple(settings))
    rest = " ".join(words[begin:])
    return Variant(" ".join(words[:begin]), (*settings, *settings_in(rest, f"'{text}'")))


def settings_of(settings: Settings) -> tuple[str, ...]:
    """Return changes of a scenario as texts.

    >>> settings_of({"batch.micro": 2, "plan.schedule": "gpipe", "plan.layers": [3, 5]})
    ('batch.micro=2', 'plan.schedule=gpipe', 'plan.layers=[3, 5]')
    >>> settings_of("plan.zero=1 batch.micro=2")
    ('plan.zero=1', 'batch.micro=2')
    """
    return tuple(change.text for change in parse_settings(settings))


def parse_settings(settings: Settings) -> tuple[Change, ...]:
    """Return changes of a scenario; one text may contain several, separated by spaces."""
    texts = settings_in(settings, "settings") if isinstance(settings, str) else settings
    return changes_of(texts)


def settings_in(text: str, where: str) -> tuple[str, ...]:
    """Return the settings of a text, separated by spaces.

    >>> settings_in("plan.data=12 cluster.nic.bandwidth=50 GB/s", "--change")
    ('plan.data=12', 'cluster.nic.bandwidth=50 GB/s')

    Raises
    ------
    ScenarioError
        when the text does not begin with a setting.
    """
    settings: list[str] = []
    for word in text.split():
        if "=" in word:
            settings.append(word)
        elif settings:
            settings[-1] += f" {word}"
        else:
            raise ScenarioError(f"{where}: '{word}' is not of the form key=value")
    if not settings:
        raise ScenarioError(f"{where}: no setting of the form key=value")
    return tuple(settings)


def check(loaded: LoadedScenario) -> None:
    """Check that a scenario can be run, without running it.

    Raises
    ------
    ScenarioError, CatalogError
        the error that a run would end with.
    """
    if isinstance(loaded, LoadedService):
        check_service(loaded)
        return
    if isinstance(loaded, LoadedSharing):
        SharedMachine(loaded).check()
        return
    if isinstance(loaded, LoadedTrace):
        traced_program(loaded)
        return
    job, scenario = build_job(loaded), loaded.scenario
    if scenario.collectives:  # prescribed algorithms are checked when groups form
        compile_program(job, fold_replicas=scenario.fold, fusion_bound=scenario.fusion_bound)


def scenario_value(loaded: LoadedScenario, key: str) -> Any:
    """Return the value of a key in a scenario, defaults included; None if it has none."""
    value: Any = loaded.scenario
    for word in key.replace("[", ".").replace("]", "").split("."):
        number = isinstance(value, list) and word.isdecimal()
        value = inner_values(value).get(int(word) if number else word)
    value = bare(to_jsonable_python(value, by_alias=True))
    return value.get("name", value) if isinstance(value, dict) else value


def without_numbers(problem: str) -> str:
    """Return a problem without its numbers and without advice in parentheses.

    >>> without_numbers("tensor: 5 does not divide 64 heads (divisors: 1, 2)")
    'tensor: # does not divide # heads '
    """
    return re.sub(r"\d[\d,.]*", "#", re.sub(r"\([^()]*\)", "", problem))


def study_of(verb: str, name: str, title: str, variants: Sequence[Variant]) -> Study:
    """Return the study of some scenarios; its name has a digest of them."""
    content = json.dumps(
        [
            [variant.scenario, [*map(str, variant.settings)], dict(variant.point)]
            for variant in variants
        ]
    )
    digest = hashlib.sha256(content.encode()).hexdigest()[:8]
    return Study(f"{verb}-{name}-{digest}", verb, title)
