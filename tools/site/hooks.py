"""What `mkdocs build` does in addition to its configuration, `mkdocs.yml`.

Pages of the repository outside `docs/` become pages of the site, the index of a folder becomes its
navigation, and formulas become MathML.
"""

import re
from collections.abc import Iterator
from html import unescape
from itertools import chain
from pathlib import Path
from typing import Any, Final

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from tools.site.catalogue import KINDS, catalogue_pages
from tools.site.mathml import to_mathml
from tools.site.reference import reference_pages

ROOT: Final = Path(__file__).resolve().parents[2]

OUTSIDE: Final = ("CHANGELOG.md", "CONTRIBUTING.md")
"""Pages of the repository that are not in `docs/`."""

MADE: Final = {
    "guides/README.md": "\nOptions of all verbs: [commands](../commands/README.md).\n",
    "answers/README.md": "\nOptions are on the pages of [commands](../commands/README.md).\n",
    "api.md": "\n[Public names](api/README.md) lists the arguments and the fields of all.\n",
    "catalogue/README.md": "\n## Entries\n\n"
    + "\n".join(f"- [{about.title}]({kind}/README.md)" for kind, about in KINDS.items()),
    "scenario/README.md": "\n[Sections](keys/README.md) has a page for each, with examples.\n",
}
"""Links to the pages that exist in the site only, at the end of the pages of the repository."""

BOOSTS: Final = {"guides/": 4, "quick-start": 4, "catalogue/": 0.5, "api/": 0.5, "": 1}
"""Weight of pages in a search by the beginning of their path: guides first."""

OWN_LINK: Final = re.compile(r"\]\(([\w.-]+\.md)\)")
FORMULA: Final = re.compile(
    r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</(?:span|div)>', re.DOTALL
)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are not in `docs/`, and the navigation of all."""
    for name in OUTSIDE:
        files.append(File.generated(config, name, abs_src_path=str(ROOT / name)))
    for name, content in chain(catalogue_pages(), reference_pages()):
        files.append(File.generated(config, name, content=content))
    config.nav = [*_expanded(config.nav or [], files)]
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Let links between `docs/` and pages outside lead to their place in the site."""
    if page.file.src_uri in OUTSIDE:
        return markdown.replace("](docs/", "](")
    page.meta["search"] = {
        "boost": next(BOOSTS[p] for p in BOOSTS if page.file.src_uri.startswith(p))
    }
    markdown += MADE.get(page.file.src_uri, "")
    return re.sub(rf"\]\(\.\./({'|'.join(OUTSIDE)})\)", r"](\1)", markdown)


def on_page_content(html: str, **_: Any) -> str:
    """Draw formulas."""
    return FORMULA.sub(
        lambda found: to_mathml(unescape(found[2]).strip(), block=found[1] == "div"), html
    )


# --- navigation -----------------------------------------------------------------------------------


def _expanded(entries: list[Any], files: Files) -> Iterator[Any]:
    """Yield entries of the navigation, an index as the section of the pages that it links."""
    for entry in entries:
        ((title, target),) = entry.items()
        if isinstance(target, list):
            yield {title: [*_expanded(target, files)]}
        elif target.endswith("/README.md"):
            yield {title: [target, *_sections(target, files)]}
        else:
            yield entry


def _sections(index: str, files: Files) -> Iterator[Any]:
    """Yield the pages that an index links, under its headings where several have some."""
    file = files.get_file_from_path(index)
    assert file is not None, index
    folder, sections = index.removesuffix("README.md"), dict[str, list[str]]()
    for part in re.split(r"^## ", file.content_string, flags=re.MULTILINE):
        pages = dict.fromkeys(folder + name for name in OWN_LINK.findall(part))
        if new := [*pages.keys() - {name for names in sections.values() for name in names}]:
            sections[part.partition("\n")[0]] = sorted(new, key=[*pages].index)
    if len(sections) == 1:
        yield from next(iter(sections.values()))
    else:
        yield from ({heading: pages} for heading, pages in sections.items())
