"""A sweep that nothing disturbs, which tests of execution compare with."""

import pytest

from small import LONG, finished, sweeping


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory):
    """Return what the sweep prints when nothing happens to it."""
    return finished(sweeping(tmp_path_factory.mktemp("undisturbed"), axes=LONG))
