"""Order of the tests, and settings of property tests, memory and signals for all of them."""

import gc
import os
import signal

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


def pytest_collection_modifyitems(items):
    """Put the tests marked ``large`` first, so that none of them runs alone at the end."""
    items.sort(key=lambda item: item.get_closest_marker("large") is None)
