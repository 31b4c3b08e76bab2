"""The built site of the documentation: what a newcomer searches and asks is found."""

import re
import subprocess
import sys
from html.parser import HTMLParser
from inspect import getdoc
from pathlib import Path
from urllib.parse import urldefrag, urljoin

import axe_core_python
import pytest

import clustersim
from browsers import complaints, find, screen, started, wait
from clustersim.catalog.finding import FOLDERS, entry_names
from clustersim.cli import VERBS
from clustersim.scenario.schema import ScenarioFile
from clustersim.scenario.serving import ServingScenarioFile
from tools.site.catalogue import KINDS

pytestmark = pytest.mark.large

ROOT = Path(__file__).resolve().parents[2]
MAX_TEXT = 40_000
"""Characters of the text of a page, at most."""

QUESTIONS = {
    "What do I need to run it?": "Python 3.11 or newer",
    "How long does a training step of my model take?": "step time     13.02 s",
    "I have a launch script; what does it give?": "clustersim run train.sh",
    "Does my model fit in memory?": "does not fit",
    "Which tensor, pipeline and data degrees are best?": "clustersim search",
    "How many days does the whole run take, and what does it cost?": "clustersim train",
    "How many users can I serve?": "clustersim serve",
    "My machine is not in the catalogue; what now?": "nvidia-smi topo -m",
    "How accurate is it for my machine and software?": "By machine, software and kind",
    "When is it wrong?": "Features that are not modelled",
}
"""What newcomers ask, in the words of the front page, with a part of the answer."""

SEARCHED = {
    "bubble": "guides/why-is-my-pipeline-idle.html",
    "QLoRA": "guides/does-a-70b-fit-on-two-gaming-cards.html",
    "nvidia-smi": "guides/my-own-machine.html",
    "p99": "guides/how-many-users.html",
}
"""What is searched, with the page that is found first."""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Build the site as `make docs` does; a warning of a link or an anchor is an error."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Documentation built" in done.stderr, "mkdocs counts no warning that it does not log"
    return folder


@pytest.fixture(scope="module")
def browser():
    yield from started()


class Article(HTMLParser):
    """Reads the text of a page, the links in it, and what the page loads."""

    def __init__(self, file):
        super().__init__()
        self.text, self.links, self.loads, self.inside = "", set(), [], False
        self.feed(file.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.inside |= tag == "article"
        if tag != "a":
            self.loads += [given[key] for key in ("src", "href") if given.get(key)]
        elif self.inside and given.get("href"):
            self.links.add(given["href"])

    def handle_endtag(self, tag):
        self.inside &= tag != "article"

    def handle_data(self, data):
        self.text += data if self.inside else ""


@pytest.fixture(scope="module")
def pages(site):
    files = sorted(set(site.rglob("*.html")) - {site / "404.html"})
    return {file.relative_to(site).as_posix(): Article(file) for file in files}


def clicks(pages, first="index.html"):
    """Return the pages by the number of links in texts that lead to them from the first."""
    distance, queue = {first: 0}, [first]
    for page in queue:
        for link in pages[page].links:
            target = urldefrag(urljoin(page, link))[0]
            if target in pages and target not in distance:
                distance[target] = distance[page] + 1
                queue.append(target)
    return distance


def test_no_page_is_longer_than_40_kb(pages):
    """A page is read on one's way, not downloaded: no text has more than 40 kB."""
    sizes = {name: len(page.text.encode()) for name, page in pages.items()}

    assert {name: size for name, size in sizes.items() if size > MAX_TEXT} == {}


def test_nothing_is_fetched_from_elsewhere(pages):
    """The site needs no network: scripts, styles and pictures are its own."""
    loads = {name: [one for one in page.loads if "//" in one] for name, page in pages.items()}

    assert {name: urls for name, urls in loads.items() if urls} == {}


def test_ten_questions_are_answered_within_two_clicks(pages):
    """The answer is on a page that is two links from the front page, without the navigation."""
    near = {name for name, distance in clicks(pages).items() if distance <= 2}
    front = " ".join(pages["index.html"].text.split())
    texts = {name: " ".join(pages[name].text.split()) for name in near}
    answered = {
        question: [name for name, text in texts.items() if " ".join(answer.split()) in text]
        for question, answer in QUESTIONS.items()
    }

    assert [question for question in QUESTIONS if question not in front] == []
    assert [question for question, names in answered.items() if not names] == []


def test_every_page_is_reached(pages):
    """No page is an island: links of texts lead to it, in four clicks at most."""
    distance = clicks(pages)

    assert {name for name in pages if distance.get(name, 9) > 4} == set()


def test_every_entry_of_the_catalogue_has_a_page(pages, site):
    """With its sources, and of a machine with pictures of its node and its fabric."""
    entries = [(kind, name) for kind in KINDS for name in entry_names(kind)]
    made = {
        f"catalogue/{kind}/{name}.html": f"{FOLDERS[kind]}/{name}.yaml" for kind, name in entries
    }
    pictures = [
        site / "catalogue" / kind / f"{name}-{picture}.svg"
        for kind, name in entries
        if kind == "cluster"
        for picture in ("node", "fabric")
    ]

    assert len(entries) > 200
    assert {page for page, file in made.items() if file not in pages[page].text} == set()
    assert [file.name for file in pictures if "<svg" not in file.read_text()[:999]] == []


def test_every_verb_every_section_and_every_public_name_has_a_page(pages):
    """With the options of a verb, an example of a section, the first sentence of a docstring."""
    sections = {*ScenarioFile.model_fields, *ServingScenarioFile.model_fields}
    names = [name for name in clustersim.__all__ if not name.startswith("_")]
    public = {name for name in names if not name.endswith("Error")}

    assert [verb for verb in VERBS if "--help" not in pages[f"commands/{verb}.html"].text] == []
    assert {
        name for name in sections if f"{name}:" not in pages[f"scenario/keys/{name}.html"].text
    } == set()
    documented = {name: getattr(clustersim, name) for name in public - {"catalog"}}
    documented["catalog"] = clustersim.catalog.machines
    assert {
        name
        for name, thing in documented.items()
        if getdoc(thing).split(".")[0] not in pages[f"api/{name}.html"].text
    } == set()


ROWS = "return [...document.querySelectorAll('table')[1].tBodies[0].rows]"


def test_tables_of_numbers_sort_and_long_ones_filter(browser, site):
    """A click on a heading sorts by its numbers, a second one turns the order; words filter."""
    browser.get((site / "validation" / "my-case.html").as_uri())
    (heading,) = find(browser, "article table:nth-of-type(1) th:nth-child(3) button")[:1]
    column = f"{ROWS.replace('[1]', '[0]')}.map(row => Number(row.cells[2].textContent))"
    heading.click()
    up = browser.execute_script(column)
    heading.click()

    assert up == sorted(up)
    assert browser.execute_script(column) == up[::-1] != up

    find(browser, "input.filter")[1].send_keys("h100 STEP")
    shown = browser.execute_script(f"{ROWS}.filter(row => !row.hidden).map(r => r.textContent)")

    assert shown
    assert [row for row in shown if "h100" not in row or "training step" not in row] == []


LOOKED_AT = (
    "index.html",
    "quick-start.html",
    "model/kernels.html",
    "catalogue/cluster/frontier.html",
    "validation/my-case.html",
)
FORGET = ("Storage.clearDataForOrigin", {"origin": "*", "storageTypes": "all"})
SERIOUS = """
const done = arguments[0]
axe.run().then(({violations}) => done(violations
  .filter(each => ["serious", "critical"].includes(each.impact))
  .map(each => `${each.id}: ${each.nodes[0].html}`)))
"""


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_pages_are_accessible(browser, site, dark):
    """axe-core finds no serious fault: contrasts, names, labels."""
    (axe,) = Path(axe_core_python.__file__).parent.rglob("axe.min.js")
    faults = {}
    with screen(browser, 1400, dark=dark):
        for page in LOOKED_AT:
            browser.execute_cdp_cmd(*FORGET)
            browser.get((site / page).as_uri())
            browser.execute_script(axe.read_text(encoding="utf-8"))
            faults[page] = browser.execute_async_script(SERIOUS)

    assert {page: found for page, found in faults.items() if found} == {}


def first_result(browser, site, word):
    """Return the page that the search of the site finds first."""
    from selenium.webdriver.common.keys import Keys

    browser.get((site / "index.html").as_uri())
    (field,) = find(browser, ".md-search__input")
    field.click()
    # At once: while a word is typed, a slow browser also searches "nvidia-", which is no query.
    browser.execute_cdp_cmd("Input.insertText", {"text": word})
    field.send_keys(Keys.END)
    link = wait(browser, "return document.querySelector('.md-search-result__item a')?.href")
    return re.split(r"[?#]", link.removeprefix(site.as_uri() + "/"))[0]


def test_search_finds_the_right_page_first(browser, site):
    """The search of the page itself, opened as a file, without a server."""
    with screen(browser, 1400):
        assert {word: first_result(browser, site, word) for word in SEARCHED} == SEARCHED
        assert complaints(browser) == []
