"""Measured runs for tests of prediction intervals: ratios of measured to predicted, by source."""

from hypothesis import strategies as st

from clustersim.metrics.prediction_interval import MeasuredRuns

ratios = st.lists(st.floats(0.2, 5.0), min_size=1, max_size=8)
evidence = st.lists(ratios, min_size=1, max_size=20)
"""Measured over predicted, by source."""


def runs_of(*sources, accelerator="chip", nodes="one"):
    """Return runs of sources that are named by their place."""
    return [
        MeasuredRuns(source=str(i), accelerator=accelerator, nodes=nodes, ratios=tuple(of))
        for i, of in enumerate(sources)
    ]
