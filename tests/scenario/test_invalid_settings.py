"""Invalid settings of shipped scenarios: the whole message of each, from the golden text."""

import re
from pathlib import Path

import pytest

from clustersim.errors import ClustersimError
from clustersim.scenario.load import load
from clustersim.simulation.service.serve import serve
from clustersim.simulation.step.build import build_job

GOLDEN = Path(__file__).parents[1] / "golden" / "invalid-settings.txt"


def cases():
    """Yield scenario, settings and message of each paragraph; one with a `#` is a heading."""
    for paragraph in GOLDEN.read_text(encoding="utf-8").strip().split("\n\n"):
        if not paragraph.startswith("#"):
            name, *lines = paragraph.split("\n")
            settings = [line[2:] for line in lines if line.startswith("  ")]
            yield pytest.param(name, settings, lines[len(settings) :], id=settings[-1][:60])


@pytest.mark.parametrize(("name", "settings", "message"), [*cases()])
def test_an_invalid_setting_is_reported(name, settings, message):
    """A line has the place, the value, what is wrong, and what is allowed or what to do."""
    build = serve if name.endswith("-serving") else lambda *given: build_job(load(*given))
    with pytest.raises(ClustersimError) as caught:
        build(name, settings)

    assert re.sub(r"\S*/(\S+\.yaml)", r"\1", str(caught.value)).split("\n") == message
