"""Seeds of random cases of large tests."""

import pytest


def random_cases(large, count):
    """Return seeds from 0; those after some of the large tests are exhaustive."""
    exhaustive = pytest.mark.exhaustive
    return [
        *range(large),
        *(pytest.param(seed, marks=exhaustive) for seed in range(large, count)),
    ]
