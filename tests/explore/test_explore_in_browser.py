"""The page to explore in, in a real browser: each view answers, links hold, choices say why."""

import threading
from urllib.parse import parse_qs, urlsplit

import pytest

from browsers import ANSWERED, DRAWN, WIDE, complaints, faults, find, screen, wait
from clustersim.explore.pool import Pool
from clustersim.explore.question import Home
from clustersim.explore.server import Site

pytestmark = pytest.mark.large

SMALL = "kind=step&cluster.nodes=1&model=llama3.1-8b&plan.pipeline=1&batch.global=16"
FAILED = "return document.getElementById('problem').textContent"


@pytest.fixture(scope="module")
def site():
    """The address of a page that is served with two processes."""
    from werkzeug.serving import make_server

    pool = Pool(2)
    server = make_server("127.0.0.1", 0, Site(Home(), pool).application(), threaded=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.port}/"
    server.shutdown()
    thread.join()
    server.server_close()
    pool.close()


@pytest.fixture
def page(browser, site):
    """The browser with the answer to a small question."""
    browser.get(f"{site}?{SMALL}")
    wait(browser, ANSWERED)
    return browser


def choose(browser, key, text):
    """Choose a value of a field, and wait for the answer."""
    browser.execute_script(
        "for (const id of ['status', 'problem']) document.getElementById(id).textContent = '';"
        "const field = document.querySelector(`[name='${arguments[0]}']`);"
        "field.value = arguments[1];"
        "field.dispatchEvent(new Event('change', {bubbles: true}));",
        key,
        text,
    )
    wait(browser, f"return (() => {{ {ANSWERED} }})() || (() => {{ {FAILED} }})()")


def title(browser):
    """Return title and subtitle of the answer."""
    return [find(browser, f"#{name}")[0].text for name in ("title", "subtitle")]


def test_an_answer_follows_a_choice_and_its_address_holds_the_question(page, site):
    """A link that is opened afresh has the same question and answer."""
    choose(page, "plan.tensor", "4")
    link, seen = page.current_url, (title(page), find(page, ".card .value")[0].text)
    page.get("about:blank")
    page.get(link)
    wait(page, ANSWERED)

    assert "tensor 4" in seen[0][1]
    assert (title(page), find(page, ".card .value")[0].text) == seen
    assert parse_qs(urlsplit(link).query)["plan.tensor"] == ["4"]
    wait(page, DRAWN)
    assert complaints(page) == []


def test_a_choice_that_is_not_valid_is_grey_and_says_why(page):
    """A stage of ZeRO that the framework lacks, and degrees that do not divide the devices."""
    script = "return document.querySelector(`[name='plan.zero'] option[value='3']`)"
    wait(page, f"{script}.disabled")

    assert page.execute_script(f"{script}.textContent") == "3: 3 is not offered by the framework"


def test_an_invalid_layout_says_why(page):
    """The reason stands above the former answer; a valid choice removes it."""
    choose(page, "batch.micro", "7")
    assert "is not a multiple of data" in page.execute_script(FAILED)

    choose(page, "batch.micro", "1")
    assert page.execute_script(FAILED) == ""


def test_a_pinned_answer_is_compared_with_the_next_one(page):
    """The answer begins with the difference by cause, until the pin is removed."""
    find(page, "#pin")[0].click()
    choose(page, "recompute", "full")
    assert find(page, "#answer section")[0].get_attribute("id").startswith("pinned-")
    assert "recompute selective" in find(page, "#answer")[0].text

    find(page, "#unpin")[0].click()
    wait(page, "return document.querySelector('#answer section').id === 'summary'")


def test_the_launch_file_is_copied(page):
    """It is made when it is asked for."""
    find(page, "#copies summary")[0].click()
    find(page, "[data-copy='launch file']")[0].click()
    wait(page, "return document.getElementById('copied').textContent.startsWith('#!/bin/bash')")
    assert "--tensor-model-parallel-size" in find(page, "#copied")[0].text


def test_charts_that_are_replaced_before_they_are_drawn_are_left(browser, site):
    """Another view may be chosen as soon as the answer is there."""
    browser.get(f"{site}?{SMALL}&view=layouts")
    wait(browser, "return !document.getElementById('compute').hidden")
    complaints(browser)
    browser.execute_script(
        "const answer = document.getElementById('answer');"
        "new MutationObserver((_, watch) => {"
        "  watch.disconnect();"
        "  document.querySelector('[data-view=layouts]').click();"
        "}).observe(answer, {childList: true});"
        "document.querySelector('[data-view=answer]').click();"
    )
    wait(browser, "return !document.getElementById('compute').hidden")
    wait(browser, DRAWN)

    assert find(browser, "#answer .chart") == []
    assert complaints(browser) == []


def test_the_best_layout_is_found_and_used(page):
    """A search runs with progress; its layout is a question."""
    find(page, "[data-view=layouts]")[0].click()
    find(page, "#compute")[0].click()
    wait(page, ANSWERED)
    address = find(page, "#use")[0].get_attribute("href")
    page.get(address)
    wait(page, ANSWERED)

    assert "not fit" not in find(page, "#answer")[0].text
    assert "plan.tensor=" in address


def test_a_search_can_be_stopped(browser, site):
    """It ends long before its proof, and says so."""
    browser.get(f"{site}?kind=step&model=gpt-175b&cluster.nodes=128&batch.global=3072&view=layouts")
    wait(browser, "return !document.getElementById('compute').hidden")
    find(browser, "#compute")[0].click()
    wait(browser, "return /known|examined/.test(document.getElementById('status').textContent)")
    find(browser, "#stop")[0].click()
    wait(browser, f"return (() => {{ {ANSWERED} }})() || (() => {{ {FAILED} }})()")

    seen = find(browser, "#answer")[0].text + browser.execute_script(FAILED)
    assert "time was over" in seen or "more than" in seen or "was stopped" in seen


@pytest.mark.parametrize(
    ("address", "view", "heading"),
    [
        (SMALL, "scaling", "Weak scaling"),
        ("kind=service&load.concurrency=8", "loads", "Load"),
        ("kind=service&load.concurrency=8", "answer", "Time of a token"),
        ("kind=run&" + SMALL.partition("&")[2], "answer", "Energy and price"),
    ],
)
def test_each_view_answers(browser, site, address, view, heading):
    """Scaling curves, load curves, a service and a whole run are the pages of their verbs."""
    browser.get(f"{site}?{address}&view={view}")
    if view != "answer":
        wait(browser, "return !document.getElementById('compute').hidden")
        find(browser, "#compute")[0].click()
    wait(browser, ANSWERED)
    wait(browser, DRAWN)

    assert heading in [each.text for each in find(browser, "#answer h2")]
    assert complaints(browser) == []


def test_hostile_values_of_an_address_are_text(browser, site):
    """They are listed, and nothing of them runs."""
    hostile = "%22%3E%3Cimg+src%3Dx+onerror%3Dalert(1)%3E"
    browser.get(f"{site}?{SMALL}&framework={hostile}&{hostile}={hostile}&set={hostile}")
    wait(browser, ANSWERED)

    assert find(browser, "img") == []
    assert '"><img src=x onerror=alert(1)>' in find(browser, "[role=alert]")[0].text
    assert complaints(browser) == []


@pytest.mark.parametrize(("width", "dark"), [(1400, False), (390, True)])
def test_no_serious_fault_of_accessibility(browser, site, width, dark):
    """Contrast, names of controls and the order of headings, on a wide and a narrow screen."""
    with screen(browser, width, dark=dark):
        browser.get(f"{site}?{SMALL}")
        wait(browser, ANSWERED)
        wait(browser, DRAWN)
        assert browser.execute_script(WIDE) <= 0
        assert faults(browser) == []


def test_the_form_is_used_with_keys_alone(page):
    """From the skip link to the form, a choice by its arrow key, and its answer."""
    from selenium.webdriver.common.keys import Keys

    field = find(page, "[name='plan.tensor']")[0]
    page.execute_script("document.getElementById('status').textContent = ''")
    field.send_keys(Keys.ARROW_UP)
    wait(page, ANSWERED)

    assert "tensor 4" in title(page)[1]
    assert page.switch_to.active_element.get_attribute("name") == "plan.tensor"
