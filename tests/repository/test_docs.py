"""The documentation tells the truth: its examples run, its links lead somewhere, its tables fit.

How examples are found and compared stands in `docs/make_examples.py`.
"""

import re
import sys
from importlib.util import module_from_spec, spec_from_file_location
from itertools import groupby
from pathlib import Path
from pydoc import locate

import pytest

from clustersim.metrics.attribution import PARTS
from clustersim.program.schedules import SCHEDULES
from clustersim.reports.step.files import FILES

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([ROOT / "README.md", ROOT / "CHANGELOG.md", *DOCS.rglob("*.md")])
NAMES = [page.relative_to(ROOT).as_posix() for page in PAGES]


def script(name):
    """Import a script of the docs folder, which is no package."""
    spec = spec_from_file_location(name, DOCS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


made = script("make_examples")
script("schema_keys")
reference = script("make_reference")
images = script("make_images")


def text_of(page):
    return (ROOT / page).read_text(encoding="utf-8")


def untrue(page, folder, *, large):
    """Return what a page shows and its commands do not print, each after its line."""
    found = []
    for block in made.blocks(text_of(page)):
        made.prepare(folder, block)
        if block.large != large:
            continue
        if block.language == "pycon":
            found += [said for said in [made.session(block, page)] if said]
        for example in made.examples(block) if block.language == "console" else ():
            number, command, _ = example.command
            if command.startswith("clustersim "):
                lines = made.wrong(example.shown, made.output_of(command), more=example.more)
                found += [f"{page}:{number}: {command}: not so: {line}" for line in lines[:1]]
    return found


def has_examples(page, *, large):
    languages = {b.language for b in made.blocks(text_of(page)) if b.large == large}
    return bool(languages & {"console", "pycon"})


@pytest.fixture
def unpainted(monkeypatch):
    """Leave the figures and pages of runs empty, which other tests look at and no text shows."""

    def make(drawing):
        files = {drawing.path.with_suffix(ending) for ending in (".png", ".svg", ".html")}
        for file in sorted(files):
            if file.name in FILES:
                file.touch()

    monkeypatch.setattr("clustersim.render.render_process._cores", lambda: 1)
    monkeypatch.setattr("clustersim.render.render_process.Drawing.make", make)


SLOW = (
    "api",
    "can-i-replay-a-trace",
    "does-a-70b-fit-on-two-gaming-cards",
    "how-does-it-scale",
    "how-many-days",
    "is-my-run-normal",
    "my-own-machine",
    "quick-start",
    "start-from-a-launch-file",
    "what-can-it-answer",
    "what-changed-between-two-runs",
    "what-do-neighbours-cost",
    "what-if-links-were-twice-as-fast",
    "where-do-my-ranks-run",
    "which-layout-is-best",
    "why-do-my-experts-wait",
    "why-is-my-pipeline-idle",
    "why-is-the-same-model-faster-under-another-framework",
    "will-it-fit",
)
"""Pages whose verbs the quick tests run elsewhere, on smaller scenarios."""


@pytest.mark.usefixtures("unpainted")
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(name, marks=[pytest.mark.large] * (Path(name).stem in SLOW))
        for name in NAMES
        if has_examples(name, large=False)
    ],
)
def test_examples_print_what_is_shown(page, here):
    """Every command and session of a page runs, and prints the lines below it."""
    assert untrue(page, here, large=False) == []


@pytest.mark.large
@pytest.mark.usefixtures("unpainted")
@pytest.mark.parametrize("page", [name for name in NAMES if has_examples(name, large=True)])
def test_large_examples_print_what_is_shown(page, here):
    """The same for commands that take long."""
    assert untrue(page, here, large=True) == []


@pytest.mark.parametrize("page", NAMES)
def test_other_commands_are_targets_of_make(page):
    """What is neither clustersim nor a tool in a console block is make, with an existing target."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = re.findall(r"^([a-z-]+):", makefile, re.MULTILINE)
    commands = [
        example.command.text.split()
        for block in made.blocks(text_of(page))
        if block.language == "console"
        for example in made.examples(block)
        if not example.command.text.startswith(made.TOOL)
    ]

    assert [words for words in commands if words[0] not in ("clustersim", "make")] == []
    assert [words for words in commands if words[0] == "make" and words[1] not in targets] == []


# --- links ----------------------------------------------------------------------------------------


def without_code(text):
    """Return a page without its fenced blocks and its code in lines."""
    return re.sub(r"`[^`\n]*`", "", re.sub(r"^```.*?^```", "", text, flags=re.S | re.M))


def anchors(text):
    """Return what links into a page may name: its headings in small letters with dashes."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```", "", text, flags=re.S | re.M), re.M)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def leads_somewhere(link, page):
    """Whether a relative link names a file of the project, and a heading of it after '#'."""
    name, _, heading = link.partition("#")
    target = (ROOT / page).parent / name if name else ROOT / page
    return target.exists() and (
        not heading or heading in anchors(target.read_text(encoding="utf-8"))
    )


@pytest.mark.parametrize("page", NAMES)
def test_links_lead_somewhere(page):
    """No relative link is broken."""
    links = re.findall(r"\]\(([^)\s]+)\)", without_code(text_of(page)))
    inside = [link for link in links if not link.startswith(("https://", "http://"))]

    assert [link for link in inside if not leads_somewhere(link, page)] == []


INDEXES = [page for page in NAMES if page.startswith("docs/") and page.endswith("/README.md")]


@pytest.mark.parametrize("index", INDEXES)
def test_an_index_links_each_page_of_its_folder(index):
    """A page that no index links is not found, as decision 14 was not."""
    pages = {page.name for page in (ROOT / index).parent.glob("*.md")} - {"README.md"}

    assert pages - set(re.findall(r"\]\(([\w.-]+\.md)\)", text_of(index))) == set()


def test_every_folder_of_pages_has_an_index():
    """A reader who opens a folder sees what is in it."""
    folders = {page.parent.relative_to(ROOT).as_posix() for page in DOCS.rglob("*.md")}

    assert folders == {index.removesuffix("/README.md") for index in INDEXES}


@pytest.mark.parametrize("page", NAMES)
def test_modules_that_are_named_are_there(page):
    """Paths such as `clustersim/engine/replay.py` and dotted names are those of the package."""
    names = re.findall(r"`([\w./]+)`", text_of(page))
    paths = [name for name in names if re.match(r"(clustersim|tests|benchmarks|docs|tools)/", name)]
    dotted = [name for name in names if name.startswith("clustersim.")]

    assert [path for path in paths if not (ROOT / path).exists()] == []
    assert [name for name in dotted if locate(name) is None] == []


@pytest.mark.parametrize("page", NAMES)
def test_modules_are_named_by_their_whole_path(page):
    """A path without `clustersim/` is that of another project."""
    paths = re.findall(r"`(\w[\w/]*/\w+\.py)`", text_of(page))

    assert [path for path in paths if (ROOT / "clustersim" / path).exists()] == []


@pytest.mark.parametrize("page", [name for name in NAMES if name != "docs/performance.md"])
def test_a_line_has_one_sentence(page):
    """A change of a sentence is a change of one line."""
    ends = re.compile(r"(?<!\bet al)(?<!\bvs)[.!?](?= +[A-Z`\[])")  # run-in titles end with *
    lines = re.sub(r"^```.*?^```", "", text_of(page), flags=re.S | re.M).splitlines()
    prose = [line for line in lines if not re.match(r"\||#|\d+\. |    ", line)]

    assert [line for line in prose if ends.search(line)] == []


def test_each_figure_has_the_command_that_makes_it():
    """`docs/make_images.py` can make every picture of the docs again, and no other."""
    assert {path.stem for path in (DOCS / "images").glob("*")} == {
        *images.IMAGES,
        *images.SCREENS,
    }


def test_figures_are_small():
    """Pictures in the docs are below 200 kB each."""
    sizes = {path.name: path.stat().st_size for path in (DOCS / "images").glob("*")}

    assert sizes
    assert {name: size for name, size in sizes.items() if size >= 200_000} == {}


# --- tables and words -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", reference.PAGES)
def test_the_reference_is_up_to_date(name):
    """Scenarios, catalogue and answers are what `docs/make_reference.py` writes."""
    assert text_of(f"docs/{name}") == reference.page(name)


def test_the_reference_has_no_other_page():
    """A page that the script no longer writes is deleted."""
    folders = {Path(name).parent for name in reference.PAGES}
    pages = {path.relative_to(DOCS).as_posix() for f in folders for path in (DOCS / f).glob("*")}

    assert pages == set(reference.PAGES)


def test_the_glossary_has_the_words_of_the_code():
    """Every part of the step time and every schedule is explained."""
    glossary = text_of("docs/glossary.md")

    assert [word for word in (*PARTS, *SCHEDULES) if f"`{word}`" not in glossary] == []


def test_the_glossary_is_in_alphabetical_order():
    """A word is found where a reader looks for it, and stands there once."""
    terms = re.findall(r"^\*\*(.+?)\*\*", text_of("docs/glossary.md"), re.MULTILINE)
    plain = [re.sub(r"[^a-z0-9 ]", "", term.lower().replace("_", " ")) for term in terms]

    assert len(terms) > 40
    assert plain == sorted(plain)
    assert [term for term, same in groupby(plain) if len(list(same)) > 1] == []


# --- the comparison itself ------------------------------------------------------------------------

PAGE = """
```yaml title="lab.yaml"
a: 1
```

<!-- large -->
```console
$ clustersim one
step   1.50 s
...
$ make run
```

<!-- $ clustersim two -->
| a | b |
"""


def test_blocks_and_commands_are_found_with_their_lines():
    """Files, commands, shown lines, tables and marks come out as they stand on the page."""
    file, console, table = made.blocks(PAGE)
    one, make = made.examples(console)
    (two,) = made.examples(table)

    assert (file.title, [line.text for line in file.lines]) == ("lab.yaml", ["a: 1"])
    assert (one.command[:2], one.large) == ((8, "clustersim one"), True)
    assert [line[1:] for line in one.shown] == [("step   1.50 s", False)]
    assert one.more
    assert make.command[:2] == (11, "make run")
    assert (two.command.text, [line.text for line in two.shown]) == (
        "clustersim two",
        ["| a | b |"],
    )


@pytest.mark.parametrize(
    ("shown", "true"),
    [
        ("step   215.5 s", "step   220.5 s"),
        ("step   215.5 s", "stop   215.5 s"),
        ("stage 0   F0 B0", "stage 0   F0 B1"),
        ("error +0.4 %", "error -0.4 %"),
        ("first", "second"),
    ],
)
def test_an_untrue_line_is_noticed(shown, true):
    """A word or a number that is not printed does not pass."""
    assert made.wrong([made.Line(1, shown)], f"before\n{true}\nafter") == [shown]


def test_lines_out_of_order_are_noticed():
    """What is shown must come in the order in which it is printed."""
    shown = [made.Line(1, "second"), made.Line(2, "first")]

    assert made.wrong(shown, "first\nsecond") == ["first"]


def test_lines_that_are_left_out_are_marked():
    """The first example of the README left out six lines of its report without a word."""
    first, last = made.Line(1, "first", False), made.Line(2, "last", False)

    assert made.wrong([first, last], "first\n\nlast", more=False) == []
    assert made.wrong([first, last], "first\nsecond\nlast", more=False) == ["last"]
    assert made.wrong([first, last._replace(gap=True)], "first\nsecond\nlast") == []
    assert made.wrong([first, last], "first\nlast\nmore") == []
    assert made.wrong([first, last], "first\nlast\nmore", more=False) == [
        "... is missing before: more"
    ]


def test_a_session_that_prints_something_else_is_noticed():
    """A Python session is held to its output, with the same tolerance."""
    right, off, error = made.blocks(
        "```pycon\n>>> 2 / 3\n0.667\n```\n```pycon\n>>> 2 / 3\n0.8\n```\n```pycon\n>>> 1 / 0\n```\n"
    )

    assert made.session(right, "right") == ""
    assert "0.666" in made.session(off, "off")
    assert "ZeroDivisionError" in made.session(error, "error")
