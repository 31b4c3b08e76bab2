"""The page of each verb in a real browser: no serious fault of accessibility on a narrow screen."""

import pytest

from browsers import DRAWN, WIDE, faults, screen, wait
from commands import ending

pytestmark = pytest.mark.large

STEP = "frontier-22b --set batch.global=16"
SERVICE = "llama3-70b-h100-serving --set load.requests=8 --set load.concurrency=4"

PAGES = {
    "run": STEP,
    "train": "megatron-1t-84-days --set training.replications=5",
    "serve": f"{SERVICE} --loads 1:4",
    "compare": "korthikanti-22b-full korthikanti-22b-seqsel --jobs 1",
    "whatif": f"{STEP} --jobs 1",
    "sweep": f"{STEP} --over plan.zero=0,1 --jobs 1",
    "search": f"{STEP} --set batch.micro=1 --set plan.zero=1 --free plan.tensor=2,4,8 --jobs 1",
    "scale": f"{STEP} --strong 8,16 --jobs 1",
    "collective": "--cluster dgx-h100 --op all-reduce --devices 16 --bytes 1MiB,1GiB",
    "validate": "--group xmoe-frontier --jobs 1",
    "size": "--cluster dgx-h100 --nodes 1 --days 1",
}


@pytest.mark.parametrize("verb", PAGES)
def test_the_page_of_a_verb_has_no_serious_fault(browser, capsys, here, verb):
    """Contrast, names of controls, order of headings; nothing is wider than a telephone."""
    assert ending(capsys, verb, *PAGES[verb].split(), "--out", "out")[0] == 0
    with screen(browser, 390):
        browser.get((here / "out" / "report.html").as_uri())
        wait(browser, DRAWN)

        assert browser.execute_script(WIDE) <= 0
        assert faults(browser) == []
