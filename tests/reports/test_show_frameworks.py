"""`clustersim show FRAMEWORK`: each key of the schema once, with value, unit and source."""

import json

import pytest

from clustersim.catalog import finding
from clustersim.catalog.facts import facts
from clustersim.catalog.records.frameworks import FrameworkRecord, KernelFacts
from clustersim.reports.show.answer import DEFAULTS, UNITS, UNSUPPORTED, profile_rows
from clustersim.scenario.entries import entry
from commands import output

FRAMEWORKS = finding.entry_names("framework")


def rows_of(name):
    """Return the rows of a shipped framework by key."""
    rows = list(profile_rows(entry("framework", name).data))
    assert len({row.key for row in rows}) == len(rows)
    return {row.key: row for row in rows}


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_every_key_of_the_schema_has_a_row(name):
    """Facts have their proof; what a file leaves out has its default, or is not supported."""
    record, rows = entry("framework", name).record, rows_of(name)
    stated = dict(facts(record))
    tops = {key.partition(".")[0] for key in rows}

    assert tops >= {*FrameworkRecord.model_fields} - {
        "kind", "name", "title", "sources", "extends", "launch",
    }  # fmt: skip
    assert {f"kernels.{key}" for key in KernelFacts.model_fields} <= {*rows}
    for key, fact in stated.items():
        assert (rows[key].source is None) == (fact.source is None)
        assert (rows[key].assumed, rows[key].confidence) == (fact.assumed, fact.confidence)
    for key, row in rows.items():
        if row.source in ("default", "not set", "not supported"):
            assert key not in stated
            assert (row.source == "not supported") == (key in UNSUPPORTED)
            assert row.value == DEFAULTS.get(key)


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_every_plain_number_has_a_unit(name):
    """A number is of something, unless its text has a unit; flags and names have none."""
    for key, row in rows_of(name).items():
        plain = isinstance(row.value, int | float) and not isinstance(row.value, bool)
        if plain and not key.startswith("launch."):
            assert row.unit, key
        if isinstance(row.value, str | bool):
            assert row.unit is None, key


def test_units_are_of_keys_of_the_schema():
    """A key that is renamed loses no unit."""
    keys = {key for name in FRAMEWORKS for key in rows_of(name)}

    assert {*UNITS} <= keys


def test_text_and_json_have_values_with_units(capsys):
    """The text has value and unit in one cell, `--json` has the unit as a key."""
    facts = json.loads(output(capsys, "show", "megatron-core-graphs", "--json"))["facts"]
    rows = {row["key"]: row for row in facts}
    text = output(capsys, "show", "megatron-core-graphs")

    assert rows["extends"]["value"] == "megatron-core"
    mask = rows["kernels.dropout_mask"]
    assert (mask["value"], mask["unit"]) == (1, "bytes per element")
    assert "2 bytes per gradient" in text or "4 bytes per gradient" in text
    assert "not supported" in output(capsys, "show", "megatron-deepspeed")
