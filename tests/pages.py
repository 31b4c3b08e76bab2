"""Pages that tests look at."""

from dataclasses import replace

from clustersim.scenario.load import load
from clustersim.simulation.simulate import simulate
from clustersim.studies.run.memory_figure import memory_picture
from clustersim.studies.run.page import Pictures, command_line, gather, page
from clustersim.studies.run.pictures import breakdown_picture, timeline_picture

HOSTILE = (
    "</script><script>alert(1)</script><!-- <img src=x onerror=alert(1)> & <b>bold</b> {{ 7 }}"
)


def page_of(title, scenario="frontier-22b", changes=("batch.global=32",)):
    """Return a result and its page, with a title that stands for all that is written by others."""
    told = f'"{title}"'
    said = [*changes, f"title={told}", f"published[0].source={told}", f"model.title={told}"]
    loaded = load(scenario, said)
    loaded = replace(loaded, source=replace(loaded.source, name=title))
    result = simulate(loaded)
    pictures = Pictures(timeline_picture(result), breakdown_picture(result), memory_picture(result))
    return result, page(gather(result, loaded, pictures, command_line(scenario, said)))
