"""The order of long batches, which is not written out step by step."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clustersim.program.schedules import SCHEDULES
from clustersim.program.schedules.batch_order import batch_order
from clustersim.program.schedules.steps import order_of


@st.composite
def long_batches(draw):
    """A schedule and up to 10 stages, 3 chunks and as many microbatches as 12 times the stages."""
    schedule = SCHEDULES[draw(st.sampled_from(sorted(SCHEDULES)))]
    least, most = schedule.chunks
    chunks = draw(st.integers(least, most or 3))
    stages = draw(st.integers(1, 10))
    batches = range(1, 12 * stages + 60)
    fitting = [m for m in batches if schedule.misfit(stages, m, chunks) is None]
    if not fitting:
        return schedule, 4, 64, chunks
    return schedule, stages, fitting[-1 - draw(st.integers(0, len(fitting) - 1))], chunks


@settings(max_examples=80, deadline=None)
@given(long_batches())
def test_the_order_of_a_long_batch_is_that_of_its_steps(shape):
    """The order made from two short batches has the codes and inputs of the written-out steps."""
    schedule, stages, microbatches, chunks = shape
    order = batch_order(schedule, stages, microbatches, chunks)
    written = order_of(schedule.rows(stages, microbatches, chunks), chunks)

    assert order.codes == written.codes
    for stage in range(stages):
        assert np.array_equal(order.of[stage], written.of[stage])
        assert np.array_equal(order.inputs[stage], written.inputs[stage])


@settings(max_examples=50, deadline=None)
@given(long_batches())
def test_a_repetition_repeats(shape):
    """Each step has the code of the step one period before, with its input as much later."""
    schedule, stages, microbatches, chunks = shape
    order = batch_order(schedule, stages, microbatches, chunks)
    for codes, inputs, parts in zip(order.of, order.inputs, order.repetitions, strict=True):
        for start, stop, steps, shift in parts:
            late, early = slice(start + steps, stop), slice(start, stop - steps)

            assert stop - start >= 2 * steps
            assert np.array_equal(codes[late], codes[early])
            assert (inputs[late] - inputs[early] == shift).all()


@pytest.mark.parametrize("name", sorted(SCHEDULES))
def test_most_steps_of_a_long_batch_repeat(name):
    """All steps of 4 stages and 400 microbatches repeat, but for those of 24 microbatches."""
    schedule = SCHEDULES[name]
    chunks = schedule.chunks[0]
    order = batch_order(schedule, 4, 400, chunks)
    for codes, parts in zip(order.of, order.repetitions, strict=True):
        repeated = sum(part.stop - part.start for part in parts)

        assert repeated >= len(codes) - 24 * 3 * chunks


def test_steps_are_those_of_the_rows():
    """An order returns the steps from which it was made."""
    schedule = SCHEDULES["dualpipe"]
    rows = schedule.rows(4, 12, 2)
    order = order_of(rows, 2)

    assert [order.row(stage) for stage in range(4)] == rows
