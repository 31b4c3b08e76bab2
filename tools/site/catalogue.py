"""Pages of the catalogue: an index of each kind, and what `clustersim show` prints of an entry."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

from clustersim.catalog.finding import FOLDERS, entry_names, find
from clustersim.render.matplotlib.diagram import write_diagram
from clustersim.render.tables import format_value, percent
from clustersim.reports.listing.answer import ListedEntry, list_entries
from clustersim.reports.show.answer import FactRow, Page, machine_page, page
from clustersim.scenario.entries import Entry, entry
from tools.page import markdown_table

Content = Iterator[tuple[str, str]]
"""Paths in the site, and what the files hold."""


class Kind(NamedTuple):
    """A kind of entries: title of its index, what the entries are, and their key in scenarios."""

    title: str
    meaning: str
    key: str


KINDS: Final = {
    "cluster": Kind("Machines", "Clusters, with their nodes and fabrics", "cluster"),
    "accelerator": Kind("Accelerators", "Devices, with their peaks and measured kernels", ""),
    "library": Kind("Collective libraries", "Costs and algorithms of messages", ""),
    "model": Kind("Models", "Shapes of models", "model"),
    "framework": Kind("Training frameworks", "What frameworks run and keep", "framework"),
    "engine": Kind("Inference engines", "What engines run and keep", "engine"),
}
"""Kinds whose entries have a page."""

MY_CASE: Final = Path(__file__).resolve().parents[2] / "docs" / "validation" / "my-case.md"
"""The page with errors by accelerator, framework and engine."""

NAMED: Final = re.compile(r"(?:^|\.)(accelerator|library|kernels_like|extends)$")
"""Keys that name an entry of another kind, or of the same."""

SPECIAL: Final = re.compile(r"([\\`*_{}\[\]$])")


def catalogue_pages() -> Content:
    """Yield all pages and pictures."""
    for kind, about in KINDS.items():
        ((_, listed),) = list_entries(kind).items()
        yield f"catalogue/{kind}/README.md", "\n".join(_index(kind, about, listed))
        for name in entry_names(kind):
            yield from _entry_pages(entry(kind, name))


def plain(text: str) -> str:
    r"""Return a text whose characters mean nothing in Markdown.

    >>> print(plain("a_b <c>"))
    a\_b &lt;c>
    """
    return SPECIAL.sub(r"\\\1", text.replace("&", "&amp;").replace("<", "&lt;"))


def code(text: object) -> str:
    """Return a text as code."""
    return f"`{text}`" if str(text) else ""


def _index(kind: str, about: Kind, listed: Sequence[ListedEntry]) -> Iterator[str]:
    yield f"# {about.title}\n"
    yield f"{about.meaning}, as `clustersim list {kind}` prints them."
    yield f"The files are in `{FOLDERS[kind]}/`; each value has its source or is assumed.\n"
    sizes = [size for size in ("nodes", "devices", "parameters") if getattr(listed[0], size, None)]
    rows = (
        [f"[{one.name}]({one.name}.md)", plain(one.title), *(_size(one, size) for size in sizes)]
        for one in listed
    )
    yield markdown_table(["name", "title", *(f">{size}" for size in sizes)], rows)


def _size(listed: ListedEntry, size: str) -> str:
    value = getattr(listed, size)
    return "" if value is None else f"{value / 1e9:,.3g} billion" if value > 1e8 else f"{value:,}"


# --- one entry ------------------------------------------------------------------------------------


def _entry_pages(one: Entry) -> Content:
    """Yield the page of an entry, and its pictures."""
    shown, pictures = machine_page(one) if one.kind == "cluster" else (page(one), {})
    folder = f"catalogue/{one.kind}"
    yield f"{folder}/{one.name}.md", "\n".join(_entry(one, shown, [*pictures]))
    with TemporaryDirectory() as drawn:
        for stem, diagram in pictures.items():
            write_diagram(diagram, Path(drawn) / stem, ["svg"])
            text = (Path(drawn) / f"{stem}.svg").read_text(encoding="utf-8")
            yield f"{folder}/{one.name}-{stem}.svg", text


def _entry(one: Entry, shown: Page, pictures: list[str]) -> Iterator[str]:
    yield f"# {one.name}\n"
    yield f"{plain(one.title)}.\n"
    file = f"{FOLDERS[one.kind]}/{one.name}.yaml"
    yield f"`clustersim show {one.kind}/{one.name}` prints this page; the file is `{file}`.\n"
    yield from _used(one)
    for stem in pictures:
        yield f"![{stem} of {one.name}]({one.name}-{stem}.svg)\n"
    derived = [(plain(row.label), plain(row.text)) for row in shown.derived if row.label]
    yield from _section("Derived quantities", ("quantity", "value"), derived)
    facts = map(_fact, shown.answer.facts)
    yield from _section(
        "Values and their sources { data-search-exclude }",
        ("key", "value", "confidence", "source"),
        facts,
    )
    kernels = (
        (row.kernel, row.format, str(row.rows), percent(row.median), percent(row.p90),
         plain(row.source))
        for row in shown.answer.kernels
    )  # fmt: skip
    columns = ("kernels", "format", ">rows", ">median error", ">90th percentile", "source")
    yield from _section("Fits of measured kernels", columns, kernels)
    yield from _section(
        "Sources { data-search-exclude }",
        ("title", "where", "read"),
        dict.fromkeys(_sources(one.data)),
    )


def _section(title: str, columns: Iterable[str], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    if made := [[*row] for row in rows]:
        yield f"## {title}\n"
        yield markdown_table([*columns], made)


def _fact(row: FactRow) -> tuple[str, str, str, str]:
    value = "" if row.value is None else format_value(row.value)
    unit = f" {row.unit}" if row.unit else ""
    return code(row.key), _linked(row.key, value) + unit, row.confidence or "", plain(row.proof)


def _linked(key: str, value: str) -> str:
    """Return a value as code, with a link where it names another entry."""
    kinds = [kind for kind in KINDS if value in entry_names(kind)] if NAMED.search(key) else []
    return f"[`{value}`](../{kinds[0]}/{value}.md)" if kinds else code(value)


def _sources(data: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield the sources of a file and of its node."""
    for source in data.get("sources", {}).values():
        title, where, read = (plain(str(source.get(key, ""))) for key in ("title", "where", "read"))
        yield title, where, read
    node = data.get("node")
    if isinstance(node, dict):
        yield from _sources(node)


# --- where an entry is used -----------------------------------------------------------------------


def _used(one: Entry) -> Iterator[str]:
    machines, scenarios = _users()[one.kind, one.name]
    if machines:
        links = ", ".join(f"[`{name}`](../cluster/{name}.md)" for name in machines)
        yield f"Machines with it: {links}.\n"
    if re.search(rf"\| {re.escape(one.name)} \|", MY_CASE.read_text(encoding="utf-8")):
        yield "Errors of measured cases with it: [my case](../../validation/my-case.md).\n"
    if scenarios:
        yield f"Shipped scenarios with it: {', '.join(map(code, scenarios))}.\n"


@cache
def _users() -> Mapping[tuple[str, str], tuple[list[str], list[str]]]:
    """Return the clusters and the scenarios that name an entry, by its kind and name."""
    users = defaultdict[tuple[str, str], tuple[list[str], list[str]]](lambda: ([], []))
    for name in entry_names("cluster"):
        node = entry("cluster", name).data["node"]
        for kind in ("accelerator", "library"):
            users[kind, _name(node[kind])][0].append(name)
    for name in entry_names("scenario"):
        data = find("scenario", name).mapping()
        for kind, about in KINDS.items():
            if about.key in data:
                users[kind, _name(data[about.key])][1].append(name)
    return users


def _name(value: Any) -> str:
    return str(value["name"] if isinstance(value, dict) else value)
