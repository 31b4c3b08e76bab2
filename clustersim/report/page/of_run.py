"""The page of one run: gathered here as plain data, and put together where there is time.

`gather` costs a few milliseconds beside a result; `write` does the rest, in the artist's process.
"""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from clustersim.catalog.tree import Tree
from clustersim.report.answer import remedies
from clustersim.report.memory import MemoryPicture
from clustersim.report.page.answer import (
    answer,
    exposed,
    groups,
    longest_wait,
    published,
    subtitle,
)
from clustersim.report.page.links import LinksPicture, links_picture
from clustersim.report.page.page import Page, Section, Table, write_page
from clustersim.report.page.page import warm_up as page_warm_up
from clustersim.report.pictures import BreakdownPicture, TimelinePicture

if TYPE_CHECKING:
    from clustersim.report.diagram import Diagram
    from clustersim.scenario.load import Loaded
    from clustersim.simulate import Result


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
    from clustersim.report.page.breakdown import where_time_goes
    from clustersim.report.page.links import links
    from clustersim.report.page.memory import memory
    from clustersim.report.page.node import drawing
    from clustersim.report.page.pipeline import pipeline
    from clustersim.report.page.sources import scenario, sources

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
    from clustersim.report.layouts.node import node

    cluster = tree.data["cluster"]
    return node(NodeRecord.model_validate(cluster["node"]), NicFacts.model_validate(cluster["nic"]))


def write(picture: RunPicture, stem: Path) -> None:
    """Write the page of a run as ``stem.html``."""
    write_page(page(picture), stem)


def warm_up() -> None:
    """Import what a page needs, before there is anything to show."""
    import clustersim.report.layouts.node
    import clustersim.report.page.node
    import clustersim.report.page.sources  # noqa: F401

    page_warm_up()


__all__ = ["Pictures", "RunPicture", "command_line", "gather", "page", "warm_up", "write"]
