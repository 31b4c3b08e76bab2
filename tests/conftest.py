"""Tests that take long begin first, so that none of them is left to run alone at the end."""


def pytest_collection_modifyitems(items):
    """Put the tests marked ``large`` before the others, each in its old order."""
    items.sort(key=lambda item: item.get_closest_marker("large") is None)
