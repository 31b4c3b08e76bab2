"""Traffic in tables is the traffic of each name, whatever the number of tables."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clustersim.program.links import tables as links_tables
from clustersim.program.links.tables import tables_of
from clustersim.traffic import Traffic
from enumerated import traffic_rows

AMOUNTS = st.sampled_from([0.0, 1.0, 2.5, 8.0])


@st.composite
def transfers(draw):
    """Return traffic by name: as many rows for each, some of which cross no link."""
    rows = draw(st.integers(1, 4))
    weights = st.dictionaries(st.integers(0, 6), st.sampled_from([0.5, 1.0, 3.0]), max_size=4)
    found = {}
    for number in range(draw(st.integers(1, 5))):
        each = []
        for _ in range(rows):
            crossed = dict(sorted(draw(weights).items()))
            amounts = [draw(AMOUNTS) for _ in range(3)]
            each.append(Traffic(f"t{number}", tuple(crossed), tuple(crossed.values()), *amounts))
        found["send", number] = each
    return found


@pytest.mark.parametrize("most", [1, 5, 1 << 16])
@settings(max_examples=60, deadline=None)
@given(given_=transfers())
def test_tables_have_the_traffic_of_every_name_and_row_in_order(most, given_):
    """However many tables it fills; so do their entries, one for each link that is crossed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(links_tables, "MOST_ENTRIES", most)
        tables = tables_of({name: traffic_rows(rows) for name, rows in given_.items()})

    assert sum(len(table.names) for table in tables) == len(given_)
    assert [each for table in tables for each in table.traffic()] == [
        (name, row, traffic) for name, rows in given_.items() for row, traffic in enumerate(rows)
    ]
    assert [entry for table in tables for entry in table.entries()] == [
        (traffic.name, row, link, weight)
        for rows in given_.values()
        for row, traffic in enumerate(rows)
        for link, weight in traffic.crossings()
    ]
