"""Order of the tests, and settings of property tests, memory and signals for all of them."""

import gc
import os
import signal
from functools import cache

import pytest
from hypothesis import settings

import browsers

collect_ignore_glob = ["data/*"]  # files of other programs, also in Python

# A busy machine is no failed law.
settings.register_profile("any machine", deadline=None, max_examples=15)
settings.load_profile("any machine")

os.environ["XDG_CACHE_HOME"] = os.devnull  # what is checked is not kept: tests change the code

gc.set_threshold(100_000)  # as commands do, which build much and drop little: a tenth of the time

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as a shell starts a job with `&`
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder of the test's own, in which it runs."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def browser():
    """A browser without a window."""
    yield from browsers.started()


@cache
def _may_have_large(file):
    """Return whether a file has a word by which tests are marked ``large``."""
    text = file.read_text(encoding="utf-8")
    return any(word in text for word in ("mark.large", "LARGE", "random_cases"))


def pytest_ignore_collect(collection_path, config):
    """Leave files without large tests out where these alone run."""
    alone = config.option.markexpr.startswith("large") and collection_path.suffix == ".py"
    return True if alone and not _may_have_large(collection_path) else None


def pytest_collection_modifyitems(items):
    """Put the tests marked ``large`` first, so that none of them runs alone at the end."""
    large = [item for item in items if item.get_closest_marker("large")]
    assert all(_may_have_large(item.path) for item in large), "a file that test-large leaves out"
    items.sort(key=lambda item: item.get_closest_marker("large") is None)
