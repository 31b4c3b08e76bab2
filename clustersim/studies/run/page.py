"""The page of one run: gathered here as plain data, and put together where there is time.

`gather` costs a few milliseconds beside a result; `write` does the rest, in the artist's process.
"""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from clustersim.catalog.tree import Tree
from clustersim.render.page.page import Page, Section, Table, write_page
from clustersim.render.page.page import warm_up as page_warm_up
from clustersim.studies.run.answer_section import (
    answer,
    exposed,
    groups,
    longest_wait,
    published,
    subtitle,
)
from clustersim.studies.run.links_section import LinksPicture, links_picture
from clustersim.studies.run.memory_figure import MemoryPicture
from clustersim.studies.run.pictures import BreakdownPicture, TimelinePicture
from clustersim.studies.run.text import remedies

if TYPE_CHECKING:
    from clustersim.render.diagram import Diagram
    from clustersim.scenario.load import Loaded
    from clustersim.simulation.simulate import Result


@dataclass(frozen=True)
class Pictures:
    """What the figures of a run show; the page shows the same."""

    timeline: TimelinePicture
    breakdown: BreakdownPicture
    memory: MemoryPicture


@dataclass(frozen=True)
class RunPicture:
    """All that a page of a run shows, as plain data.

    Attributes
    ----------
    waits : when ranks wait most
    verdict, advice : whether it fits, and what would make it
    written : the scenario as it stands in its file; empty where there is none
    """

    title: str
    subtitle: str
    command: str
    answer: Section
    groups: Section
    published: Section
    exposed: Table
    pictures: Pictures
    waits: str
    verdict: str
    advice: tuple[str, ...]
    links: LinksPicture
    tree: Tree
    written: str


def gather(result: "Result", loaded: "Loaded", pictures: Pictures, command: str = "") -> RunPicture:
    """Return what the page of a result shows; `command` is what made it."""
    return RunPicture(
        title=result.scenario.title,
        subtitle=subtitle(result),
        command=command,
        answer=answer(result),
        groups=groups(result),
        published=published(result),
        exposed=exposed(result),
        pictures=pictures,
        waits=longest_wait(result),
        verdict=result.memory.reason,
        advice=tuple(remedies(result)),
        links=links_picture(result),
        tree=loaded.tree,
        written=_as_written(loaded),
    )


def _as_written(loaded: "Loaded") -> str:
    """Return the text of the scenario's file, nothing where it did not come from one."""
    try:
        return Path(loaded.place().file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


def command_line(scenario: str, settings: Sequence[str]) -> str:
    """Return the command that runs a scenario with settings.

    >>> command_line("frontier-1t", ["plan.data=4"])
    'clustersim run frontier-1t --set plan.data=4'
    """
    return shlex.join(
        ["clustersim", "run", scenario, *(word for each in settings for word in ("--set", each))]
    )


def page(picture: RunPicture) -> Page:
    """Return the page of a run: the answer first, its proof last."""
    from clustersim.studies.run.breakdown_section import where_time_goes
    from clustersim.studies.run.links_section import links
    from clustersim.studies.run.memory_section import memory
    from clustersim.studies.run.node_section import drawing
    from clustersim.studies.run.pipeline_section import pipeline
    from clustersim.studies.run.sources_section import scenario, sources

    shown = picture.pictures
    return Page(
        title=picture.title,
        subtitle=picture.subtitle,
        sections=(
            picture.answer,
            where_time_goes(shown.breakdown, picture.exposed),
            pipeline(shown.timeline, picture.waits),
            memory(shown.memory, picture.verdict, picture.advice),
            links(picture.links, drawing(picture.links, _node(picture.tree))),
            picture.groups,
            picture.published,
            sources(picture.tree),
            scenario(picture.tree, picture.written),
        ),
        command=picture.command,
    )


def _node(tree: Tree) -> "Diagram":
    """Return the drawing of a node; checked again, because records cannot be handed over."""
    from clustersim.catalog.records import NicFacts, NodeRecord
    from clustersim.render.layouts.node import node

    cluster = tree.data["cluster"]
    return node(NodeRecord.model_validate(cluster["node"]), NicFacts.model_validate(cluster["nic"]))


def write(picture: RunPicture, stem: Path) -> None:
    """Write the page of a run as ``stem.html``."""
    write_page(page(picture), stem)


def warm_up() -> None:
    """Import what a page needs, before there is anything to show."""
    import clustersim.render.layouts.node
    import clustersim.studies.run.node_section
    import clustersim.studies.run.sources_section  # noqa: F401

    page_warm_up()


__all__ = ["Pictures", "RunPicture", "command_line", "gather", "page", "warm_up", "write"]
