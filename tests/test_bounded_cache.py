"""A result is computed once, as long as there is room for it."""

from hypothesis import given
from hypothesis import strategies as st

from clustersim.bounded_cache import BoundedCache

CALLS = st.lists(st.tuples(st.integers(0, 6), st.integers(1, 5)), max_size=40)


@given(CALLS)
def test_a_result_is_the_computed_one_and_their_size_is_bounded(calls):
    """Whatever was requested before; all results of one key have the same size."""
    cache, sizes = BoundedCache(most=8, largest=4), {}
    for key, size in calls:
        size = sizes.setdefault(key, size)

        assert cache.get(key, size, lambda key=key: f"result {key}") == f"result {key}"

        sizes_now = [entry.size for entry in cache._results.values()]
        assert sum(sizes_now) == cache._total <= 8
        assert max(sizes_now, default=0) <= 4


def test_the_oldest_results_are_computed_again():
    """Of three results for two places, one that was not used since has gone."""
    cache, computed = BoundedCache(most=2, largest=1), []
    for key in ("a", "b", "a", "c", "a", "b"):
        cache.get(key, 1, lambda key=key: computed.append(key))

    assert computed == ["a", "b", "c", "b"]


def test_a_large_result_replaces_no_others():
    """It is computed each time."""
    cache, computed = BoundedCache(most=4, largest=2), []
    for key, size in (("a", 1), ("large", 3), ("a", 1), ("large", 3)):
        cache.get(key, size, lambda key=key: computed.append(key))

    assert computed == ["a", "large", "large"]
