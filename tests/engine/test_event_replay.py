"""Blocks unit by unit in the replay: where no link is shared, the times of the closed form."""

from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clustersim.engine.clock import CONTINUOUS, Clock
from clustersim.engine.event_replay import run_units
from clustersim.program.blocks.units import Move, Unit, Units, total_seconds

MODEST = settings(max_examples=50, deadline=None)
CHANNELS = st.sampled_from(["network", "from-host", "to-host"])
AT_ONCE = st.builds(Move, CHANNELS, st.floats(0, 5), st.none(), st.none())
LATE = st.builds(Move, CHANNELS, st.floats(0, 5), st.none(), st.floats(0, 9))
UNITS = st.lists(
    st.builds(
        Unit,
        st.floats(0, 5),
        st.lists(AT_ONCE | LATE, max_size=3).map(tuple),
        st.lists(AT_ONCE, max_size=2).map(tuple),
        st.just(()),
    ),
    min_size=1,
    max_size=8,
)


@MODEST
@given(UNITS)
def test_a_block_in_units_takes_its_closed_form(units):
    """Moves are requested, wait for their channel and are waited for as in `total_seconds`."""
    clock = Clock(CONTINUOUS)
    rank = SimpleNamespace(env=clock, at=0, additional=lambda step: 0.0)
    ends = []
    block = Units(tuple(units), 1, 0.0, always=True)
    clock.process(run_units(rank, block, lambda: ends.append(clock.now)))
    clock.run()

    assert ends == [pytest.approx(total_seconds(units, 1))]
