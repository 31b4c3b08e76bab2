"""A result is computed once, as long as there is room for it."""

from hypothesis import given
from hypothesis import strategies as st

from clustersim.bounded_cache import BoundedCache

CALLS = st.lists(st.tuples(st.integers(0, 6), st.integers(1, 5)), max_size=40)


@given(CALLS)
def test_a_result_is_the_computed_one_and_their_size_is_bounded(calls):
    """Whatever was requested before; all results of one key have the same size."""
    kept, sizes = BoundedCache(most=8, largest=4), {}
    for key, size in calls:
        size = sizes.setdefault(key, size)

        assert kept.get(key, size, lambda key=key: f"result {key}") == f"result {key}"

        held = [each for each, _ in kept._found.values()]
        assert sum(held) == kept._total <= 8
        assert max(held, default=0) <= 4


def test_the_oldest_results_are_computed_again():
    """Of three results for two places, the one that was not used for longest has gone."""
    kept, computed = BoundedCache(most=2, largest=1), []
    for key in ("a", "b", "a", "c", "a", "b"):
        kept.get(key, 1, lambda key=key: computed.append(key))

    assert computed == ["a", "b", "c", "b"]


def test_a_large_result_replaces_no_others():
    """It is computed each time."""
    kept, computed = BoundedCache(most=4, largest=2), []
    for key, size in (("a", 1), ("large", 3), ("a", 1), ("large", 3)):
        kept.get(key, size, lambda key=key: computed.append(key))

    assert computed == ["a", "large", "large"]
