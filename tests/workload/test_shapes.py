"""Shapes of models of any size."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clustersim.catalog.records.models import ModelRecord
from clustersim.workload.shapes import FAMILIES, shape_of


@pytest.mark.parametrize("family", FAMILIES)
@given(parameters=st.floats(2e9, 5e12))
def test_a_shape_has_about_the_parameters_that_were_wished(family, parameters):
    """From 2 B on the count is met to 20 %, and the file is valid."""
    shape = shape_of(FAMILIES[family], parameters)

    assert ModelRecord.model_validate(shape).layers == shape["layers"]
    assert shape["parameters"]["value"] == pytest.approx(parameters, rel=0.2)
    assert shape["hidden"] == 128 * shape["heads"]


@pytest.mark.parametrize(
    ("name", "parameters", "hidden", "layers"),
    [("llama", 69e9, 8192, 80), ("llama", 6.7e9, 4096, 32), ("gpt", 175e9, 12288, 96)],
)
def test_shapes_are_like_published_ones(name, parameters, hidden, layers):
    """Width and layers are within a third of those of Llama 2 and GPT-3."""
    shape = shape_of(FAMILIES[name], parameters)

    assert shape["hidden"] == pytest.approx(hidden, rel=0.33)
    assert shape["layers"] == pytest.approx(layers, rel=0.33)
