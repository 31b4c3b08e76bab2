"""Pages that tests look at."""

from dataclasses import replace

from clustersim.reports.step.page import page
from clustersim.scenario.load import load
from clustersim.simulation.step.simulate import simulate

HOSTILE = (
    "</script><script>alert(1)</script><!-- <img src=x onerror=alert(1)> & <b>bold</b> {{ 7 }}"
)


def page_of(title, scenario="frontier-22b", changes=("batch.global=32",)):
    """Return a result and its page, with a title in place of all texts that users write."""
    text = f'"{title}"'
    settings = [*changes, f"title={text}", f"published[0].source={text}", f"model.title={text}"]
    loaded = load(scenario, settings)
    loaded = replace(loaded, origin=replace(loaded.origin, name=title))
    result = simulate(loaded)
    return result, page(result, command=f"clustersim run {scenario}")
