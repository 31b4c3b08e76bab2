"""Files of plain values, against the library that writes the values that are not plain words."""

import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.scalarstring import SingleQuotedScalarString

from clustersim.catalog.finding import entry_names
from clustersim.catalog.writing import WIDTH, _is_brief, _is_long, to_yaml
from clustersim.scenario.load import load_any


def by_library(data):
    """Return data as the library writes all of it, in the style of the catalogue files."""
    yaml, text = YAML(), io.StringIO()
    yaml.width = WIDTH
    yaml.indent(mapping=2, sequence=4, offset=2)
    yaml.dump(styled(data), text)
    return text.getvalue()


def styled(value):
    """Return values with facts and short lists on one line, and colons of facts in quotes."""
    if isinstance(value, dict):
        mapping = CommentedMap((key, styled(item)) for key, item in value.items())
        if _is_brief(value):
            mapping.fa.set_flow_style()
            for key, item in mapping.items():
                if isinstance(item, str) and ":" in item:
                    mapping[key] = SingleQuotedScalarString(item)
        return mapping
    if isinstance(value, list | tuple):
        items = CommentedSeq(map(styled, value))
        if not _is_long(value):
            items.fa.set_flow_style()
        return items
    return value


@pytest.mark.parametrize("name", ["frontier-1t", "qlora-70b-2x4090", "fugaku-llm-13b"])
def test_a_scenario_is_written_as_the_library_writes_it(name):
    """Letter by letter, with all names resolved."""
    data = load_any(name).tree.data
    assert to_yaml(data) == by_library(data)


@pytest.mark.parametrize("name", entry_names("scenario")[::6])
def test_a_scenario_is_read_back_as_it_was_written(name):
    """As what the library writes, which has other forms for long keys and for lists of pairs."""
    data, yaml = load_any(name).tree.data, YAML(typ="safe")
    assert yaml.load(to_yaml(data)) == yaml.load(by_library(data))


PLAIN = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False),
    st.text(st.sampled_from("aZ_09 .,#-[]{}'\"*&!%@|><=~/\\\té"), max_size=8),
    st.sampled_from(["no", "True", "1e5", "0x1f", "1_000", "2026-11-27", "12:30", "a: b", "~"]),
)  # fmt: skip
NAMES = st.text(st.sampled_from("abc_. #1"), min_size=1, max_size=5)
FACTS = st.fixed_dictionaries({"value": PLAIN, "source": st.just("a: b")})
TREES = st.recursive(
    PLAIN | FACTS,
    lambda inner: st.lists(inner, max_size=18) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=30,
)


@given(st.dictionaries(NAMES, TREES, min_size=1, max_size=5))
@settings(max_examples=60, deadline=None)
def test_any_values_are_read_back_as_they_were_written(data):
    """Whatever needs quotes, in a list on one line or below a key."""
    assert YAML(typ="safe", pure=True).load(to_yaml(data)) == data
