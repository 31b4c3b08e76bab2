"""The garbage collector is off while a step is simulated, and as before afterwards."""

import gc

import pytest

from clustersim.simulation.garbage import garbage_collection_off


@pytest.fixture
def collector():
    """Restore the collector after a test."""
    enabled = gc.isenabled()
    yield
    (gc.enable if enabled else gc.disable)()


@pytest.mark.usefixtures("collector")
@pytest.mark.parametrize("enabled", [True, False])
def test_the_collector_is_as_before_after_a_nested_block(enabled):
    """It is off inside, also after an inner block has ended, and on afterwards only if it was."""
    (gc.enable if enabled else gc.disable)()
    with garbage_collection_off():
        with garbage_collection_off():
            assert not gc.isenabled()

        assert not gc.isenabled()

    assert gc.isenabled() is enabled


@pytest.mark.usefixtures("collector")
def test_the_collector_is_on_after_an_error():
    """An error inside leaves it as it was."""
    gc.enable()
    with pytest.raises(ZeroDivisionError), garbage_collection_off():
        _ = 1 / 0

    assert gc.isenabled()
