"""Typed answers: their plain values, and the schema that documents each key."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any

import pytest
from pydantic import Field, TypeAdapter

from clustersim import simulate
from clustersim.answers import from_json, schema, to_json
from clustersim.simulation.step.answer import RunAnswer


@dataclass(frozen=True)
class Move:
    """A change of place.

    Attributes
    ----------
    from_ : where it begins [m]
    to : where it ends
        [m]
    """

    from_: Annotated[float, Field(alias="from")]
    to: float


@dataclass(frozen=True)
class Path:
    """Moves in order.

    Attributes
    ----------
    moves : one after another
    """

    moves: tuple[Move, ...]


PATH = Path((Move(0.0, 1.0), Move(1.0, 3.0)))


def test_an_answer_is_plain_values_and_back():
    """Tuples become lists, a field that is a keyword has its key, and nothing is lost."""
    data = to_json(PATH)

    assert data == {"moves": [{"from": 0.0, "to": 1.0}, {"from": 1.0, "to": 3.0}]}
    assert from_json(Path, json.loads(json.dumps(data))) == PATH
    assert to_json([PATH]) == [data]


@dataclass(frozen=True)
class Numbers:
    """Numbers of several types."""

    share: float
    rates: dict[str, tuple[float | None, ...]]
    whole: int | float
    known: bool
    inside: tuple[Path, ...] = (PATH,)


def test_whole_numbers_of_a_field_of_floats_are_floats():
    """Wherever they are in it; those of other fields are not, as pydantic has it."""
    answer = Numbers(1, {"a": (2, None)}, 3, True)

    text = json.dumps(to_json(answer))
    assert text.startswith('{"share": 1.0, "rates": {"a": [2.0, null]}, "whole": 3, "known": true')
    assert text == json.dumps(TypeAdapter(Numbers).dump_python(answer, mode="json", by_alias=True))


def test_a_missing_key_is_named():
    """Values that are no such answer are rejected with the key."""
    with pytest.raises(ValueError, match=r"moves.0.to\b"):
        from_json(Path, {"moves": [{"from": 0.0}]})


def test_the_schema_has_the_descriptions_of_the_docstrings():
    """A description may go on in a second line."""
    found = schema(Path)

    assert found["properties"]["moves"]["description"] == "one after another"
    assert found["$defs"]["Move"]["properties"]["to"]["description"] == "where it ends [m]"


def test_a_run_comes_back_from_its_json_the_same():
    """The store keeps text; an answer read from it equals the one of today."""
    answer = simulate("frontier-22b", ["batch.global=16"]).answer
    text = json.dumps(to_json(answer), allow_nan=False)

    assert from_json(RunAnswer, json.loads(text)) == answer
    assert list(json.loads(text)) == list(schema(RunAnswer)["properties"])


def properties(found: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for table in (found, *found["$defs"].values()):
        for key, given in table.get("properties", {}).items():
            yield f"{table['title']}.{key}", given


def test_every_key_of_a_run_is_documented():
    """The schema has a description for each key, at every level."""
    missing = [key for key, given in properties(schema(RunAnswer)) if "description" not in given]

    assert missing == []
