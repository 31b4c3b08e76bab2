"""Examples of sections of a scenario that no shipped scenario has."""

import pytest

import clustersim
from tools.site.reference import reference

EXAMPLES = reference.TEXTS["examples"]


@pytest.mark.parametrize("section", sorted(EXAMPLES))
def test_an_example_of_a_section_is_valid(section, here):
    """A scenario with the example in it runs."""
    base = "llama3-70b-h100-serving" if section == "speculation" else "korthikanti-22b-seqsel"
    key, _, value = EXAMPLES[section].partition(": ")
    function = clustersim.serve if section == "speculation" else clustersim.simulate

    assert key == section
    assert function(base, [f"{section}={value}"]).answer.title
