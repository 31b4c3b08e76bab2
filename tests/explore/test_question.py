"""An address holds a whole question, and nothing of it names a file."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clustersim.errors import ClustersimError
from clustersim.explore.choices import brief, reason, reasons
from clustersim.explore.fields import FIELDS, KINDS, SETTING, fields_of
from clustersim.explore.question import (
    DRAFTS,
    MINE,
    Home,
    Question,
    loaded_of,
    question_of,
    values_of,
)

HOME = Home()


@st.composite
def questions(draw):
    """Questions that start from a draft, with allowed values of some fields."""
    kind = draw(st.sampled_from([*KINDS]))
    chosen = draw(st.lists(st.sampled_from(fields_of(kind)), unique_by=lambda f: f.key))
    texts = st.integers(1, 10**9).map(str)
    values = [
        (field.key, draw(st.sampled_from(field.choices) if field.choices else texts))
        for field in chosen
    ]
    before = values_of(Question(kind), HOME)
    changes = st.sampled_from(["cluster.nic.bandwidth=x2", "plan.reshard=false"])
    more = draw(st.lists(changes, max_size=20))
    stated = tuple((key, text) for key, text in values if before[key] != text)
    return Question(kind, values=stated, more=tuple(more))


@given(questions())
def test_an_address_brings_its_question_back(question):
    """A link brings a colleague to the same question."""
    assert question_of(question.address, HOME) == question


@given(st.text(max_size=80), st.text(max_size=80))
def test_any_address_is_a_question(key, value):
    """Whatever an address has is a question, or listed as ignored; no error ends the page."""
    from urllib.parse import urlencode

    question = question_of(urlencode({key: value}), HOME)

    assert question.kind in KINDS
    assert question.values == ()


@pytest.mark.parametrize("kind", KINDS)
def test_a_draft_is_a_valid_scenario(kind):
    """Each kind of question starts from a scenario that can be simulated."""
    question = Question(kind)

    assert reason(question, HOME) == ""
    loaded = loaded_of(question, HOME)
    assert (
        loaded.scenario.title
        == f"llama3.1-70b on {values_of(question, HOME)['cluster.nodes']}"
        + (" node of dgx-h100" if kind == "service" else " nodes of dgx-h100")
    )


@pytest.mark.parametrize(
    "address",
    [
        "model=/etc/passwd",
        "model=../models/llama3-8b",
        "cluster.name=mine.yaml",
        "of=/etc/passwd",
        "of=mine",
        "plan.schedule=steps.txt",
        "set=plan.schedule%3Dsteps.txt",
        "set=model%3Dmine",
        "set=load.trace%3Dtrace.csv",
        "set=cluster%3D%7Bname%3A+frontier%7D",
        "training.failures=../x&kind=run",
        "kind=shell",
        "plan.tensor=7",
        "cluster.nodes=1e9",
        "cluster.nodes=-1",
    ],
)
def test_no_part_of_an_address_names_a_file(address, tmp_path, monkeypatch):
    """A path, a name outside the catalogue or another kind of value is listed, and not used."""
    monkeypatch.chdir(tmp_path)
    for name in ("mine.yaml", "steps.txt", "trace.csv"):
        (tmp_path / name).write_text("kind: model\n")
    question = question_of(address, HOME)

    assert len(question.ignored) == 1
    assert (question.of, question.values, question.more) == ("", (), ())


def test_values_that_are_those_of_the_scenario_are_no_changes():
    """An address of the form as it was sent has only what differs."""
    same = "&".join(f"{key}={text}" for key, text in values_of(Question(), HOME).items())

    assert question_of(f"{same}&plan.tensor=4", HOME).values == (("plan.tensor", "4"),)


def test_a_question_starts_from_a_scenario_of_the_command():
    """It has its kind and values; only the command may name a file."""
    home = Home("frontier-22b", ("batch.global=32",))
    question = home.first()

    assert question == Question("step", MINE)
    assert values_of(question, home)["batch.global"] == "32"
    assert question_of(question.address, home) == question
    changed = loaded_of(question.having("plan.zero", "0"), home)
    assert [*map(str, changed.changes)] == ["batch.global=32", "plan.zero=0"]


@pytest.mark.parametrize(
    ("of", "kind", "becomes"),
    [
        ("llama3-70b-h100-serving", "step", "service"),
        ("frontier-22b", "service", "step"),
        ("frontier-22b", "run", "run"),
    ],
)
def test_a_scenario_answers_questions_of_its_kind(of, kind, becomes):
    """A service is no training; any training may be a whole run."""
    assert question_of(f"kind={kind}&of={of}", HOME).kind == becomes


def test_replicas_take_the_devices_that_other_degrees_leave():
    """Tensor ranks of one need no sequence parallelism; degrees that divide nothing say so."""
    plan = loaded_of(Question().having("plan.tensor", "1"), HOME).scenario.plan

    assert (plan.data, plan.sequence_parallel) == (32, False)
    many = Question().having("plan.tensor", "64").having("plan.pipeline", "3")
    with pytest.raises(ClustersimError, match=r"= 192 devices .* do not divide 128 devices"):
        loaded_of(many, HOME)


def test_a_rate_replaces_users():
    """A service has one load."""
    question = Question("service").having("load.rate", "3")
    loaded = loaded_of(question, HOME)

    assert (loaded.scenario.load.rate, loaded.scenario.load.concurrency) == (3, None)
    assert values_of(question, HOME)["load.concurrency"] == ""


def test_choices_that_are_not_valid_say_why():
    """A greyed layout has its reason, in a line; the present one is valid."""
    found = reasons(Question(), HOME)

    assert found["plan.tensor"]["8"] == ""
    assert found["plan.zero"]["3"] == "3 is not offered by the framework"
    assert "do not divide 128 devices" in found["plan.tensor"]["64"]
    assert {*found} == {f.key for f in fields_of("step") if f.choices} - {"model", "cluster.name"}
    assert all(len(why) <= 93 for by_choice in found.values() for why in by_choice.values())


def test_a_reason_has_no_place():
    """The form shows the reason next to its choice."""
    assert brief("--set plan.tensor=6: plan.tensor: 6 does not divide 64") == "6 does not divide 64"


@pytest.mark.parametrize("kind", KINDS)
def test_fields_have_a_value_in_each_draft(kind):
    """A field without one is optional: a load of another kind, a limit, or chunks."""
    empty = {key for key, text in values_of(Question(kind), HOME).items() if not text}

    assert empty <= {"load.rate", "limits.ttft", "limits.tpot", "plan.chunks"}
    assert {*DRAFTS} == {*KINDS}


def test_labels_of_fields_are_once_each():
    """A label names one field of a kind."""
    for kind in KINDS:
        labels = [field.label for field in fields_of(kind)]
        assert len(labels) == len({*labels})
    assert all(SETTING.fullmatch(f"{field.key}=2") for field in FIELDS if not field.entries)
