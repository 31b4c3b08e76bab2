"""The model that is worth training on a machine, and what training a model takes."""

import json
from dataclasses import replace
from functools import partial

import hypothesis.strategies as st
import pytest
from hypothesis import given
from typer.testing import CliRunner

from clustersim import search, simulate, size
from clustersim.catalog.prices import find_site
from clustersim.cli import app
from clustersim.cost.prices import NO_ELECTRICITY, build_site
from clustersim.errors import PlanError
from clustersim.scenario.load import from_mapping
from clustersim.simulation.step.build import cluster_of
from clustersim.simulation.step.simulate import simulate_if_it_fits
from clustersim.studies import new
from clustersim.studies.search.step import fastest
from clustersim.studies.size import solution
from clustersim.studies.size.answer import GAP
from clustersim.studies.size.files import files_of, loss_by_size
from clustersim.studies.size.layouts import Machine, ModelLayouts, batch_of, fastest_layout
from clustersim.studies.size.text import finding, rows
from clustersim.workload.scaling_laws import DEFAULT_LAW, LAWS

TOKENS = 2**20
"""Tokens of a step: a quarter of the usual ones, which take a quarter of the microbatches."""

MACHINE = Machine("dgx-h100", 2, 8, "megatron-core", "bf16", TOKENS)

SOME = ["plan.schedule=1f1b", "plan.tensor=4", "plan.sequence_parallel=true"]
"""Keys that leave few layouts to search."""

LAYOUTS = {
    "cluster": "dgx-h100",
    "cluster.nodes": 2,
    "model": "llama2-7b",
    "framework": "megatron-core",
    "precision": "bf16",
    "batch.global": 256,
    "batch.sequence": 4096,
    "plan.layers": "even",
    "plan.context": 1,
}


PLAN = ("tensor", "pipeline", "data", "zero", "sequence_parallel", "schedule", "chunks")
"""Keys of a plan that a layout has."""


@pytest.fixture(scope="module")
def small():
    """The best model for two days on one node, of some of its layouts."""
    return size("dgx-h100", nodes=1, days=2, law="replication", batch_tokens=TOKENS, settings=SOME)


def test_days_are_those_of_usual_sequences_not_of_the_longest_context():
    """A trillion tokens of Llama 3.1 70B on 256 H100 took 149 days, of sequences of 131,072."""
    found = partial(size, "dgx-h100", nodes=32, model="llama3.1-70b", tokens=1e12)
    usual, stated = found(), found(settings=["batch.sequence=4096"])

    assert usual.layout.sequence == 8192
    assert 40 < usual.days < 50
    assert stated.layout.sequence == 4096
    assert stated.layout.batch * 4096 == usual.layout.batch * 8192


def test_the_model_is_the_optimum_of_its_own_budget(small):
    """Parameters are those that the law gives for 6 N D, to the steps of shapes."""
    law = LAWS["replication"]

    assert small.flops == pytest.approx(6 * small.parameters * small.tokens)
    assert small.parameters == pytest.approx(law.optimum(small.flops).parameters, rel=0.15)
    assert small.loss == law.loss.at(small.parameters, small.tokens)


def test_tokens_are_throughput_times_time(small):
    """Tokens per second, days and goodput multiply to the tokens."""
    assert small.tokens == pytest.approx(small.tokens_per_s * small.days * 86400 * small.goodput)
    assert small.devices == 8


def test_the_layout_is_a_run_that_fits(small):
    """A scenario with this shape and layout takes the step time that is reported."""
    one, layout = small.shape, small.layout
    batch = layout.batch, layout.micro, layout.sequence
    model = {
        "kind": "model",
        "name": "mine",
        "family": "llama",
        "sequence": layout.sequence,
        **one,
        "parameters": {"value": small.parameters, "assumed": "x"},
        "source": "x",
        "sources": {"x": {"title": "x"}},
    }
    run = simulate(
        {
            "title": "again",
            "cluster": {"name": "dgx-h100", "nodes": 1},
            "model": model,
            "plan": {key: getattr(layout, key) for key in PLAN},
            "batch": dict(zip(("global", "micro", "sequence"), batch, strict=True)),
            "precision": "bf16",
            "recompute": layout.recompute,
            "framework": "megatron-core",
        }
    )

    assert run.memory.fits
    assert run.step_time == pytest.approx(layout.step_time_s)
    assert run.tokens_per_s == pytest.approx(small.tokens_per_s)


@pytest.mark.large
def test_no_layout_of_the_sizes_is_faster(small):
    """The search of all layouts of this model finds none that is more than 1 % faster."""
    trained = fastest_layout("llama2-7b", MACHINE)
    found = search("frontier-22b", settings=LAYOUTS, jobs=1)

    assert found.best.step_time_s >= 0.99 * trained.result.step_time
    assert trained.result.memory.fits


@pytest.mark.large
def test_a_sizing_searches_each_shape_once_and_only_its_answer_to_one_percent(monkeypatch):
    """Sizes on the way to the answer took 47 s on 64 devices, one of them twice."""
    models, gaps = [], []

    class Counted(ModelLayouts):
        def __init__(self, model, machine):
            models.append(model["parameters"]["value"])
            super().__init__(model, machine)

        def fastest(self, gap):
            gaps.append(gap)
            return super().fastest(gap)

    monkeypatch.setattr(solution, "ModelLayouts", Counted)
    answer = size("dgx-h100", nodes=1, days=1, batch_tokens=TOKENS)

    assert len(models) == len(set(models)) > 4
    assert answer.parameters in models
    assert gaps.count(GAP) == 1
    assert len(gaps) == len(models) + 1


@pytest.mark.large
def test_a_smaller_gap_resumes_a_search(monkeypatch):
    """It replays none of the layouts again, and finds what a search to this gap finds."""
    replayed = []

    def counted(loaded):
        replayed.append(loaded.changes)
        return simulate_if_it_fits(loaded)

    monkeypatch.setattr(fastest, "simulate_if_it_fits", counted)
    layouts = ModelLayouts("llama2-7b", MACHINE)
    first, then = layouts.fastest(0.3), layouts.fastest(GAP)
    resumed = [*replayed]
    replayed.clear()
    at_once = ModelLayouts("llama2-7b", MACHINE).fastest(GAP)

    assert resumed == replayed
    assert then.layout == at_once.layout
    assert first.layout.step_time_s >= then.layout.step_time_s


def test_size_replayed_for_minutes_where_links_are_shared(monkeypatch):
    """El Capitan, 300 nodes, 58 s: bounds were far below the steps of hundreds of replays."""
    monkeypatch.setattr(fastest, "PATIENCE", 2 * fastest.AROUND)
    answer = size("workstation-4x6000-ada", nodes=2, days=20)
    (layout,) = [row.text for row in rows(answer) if row.label == "layout"]

    assert GAP < answer.layout.gap < 1
    assert f"another one may be up to {100 * answer.layout.gap:.1f} % faster" in layout


def test_scenarios_of_different_models_share_their_machine():
    """A sizing computed the routes and communicators of its machine again for each model."""
    scenario = {
        "title": "t",
        "cluster": {"name": "dgx-h100", "nodes": 1},
        "plan": {"data": 8},
        "batch": {"global": 8, "micro": 1, "sequence": 2048},
        "precision": "bf16",
        "framework": "megatron-core",
    }
    machines = [
        cluster_of(from_mapping("size", {**scenario, "model": model}))
        for model in ("llama2-7b", "llama2-13b")
    ]

    assert machines[0] is machines[1]


def test_a_key_that_is_set_is_not_searched():
    """`--set plan.tensor=4` gives the best layout with this tensor degree."""
    answer = size(
        "dgx-h100",
        nodes=2,
        model="llama2-7b",
        tokens=1e9,
        batch_tokens=TOKENS,
        settings=["plan.tensor=4"],
    )

    assert answer.layout.tensor == 4


@pytest.mark.large
def test_goodput_is_that_of_the_whole_run():
    """With failures it is what `train` predicts for this model and layout."""
    keys = ["training.failures=rsc-1", "training.restart.initialisation=30 min"]
    given = {"nodes": 16, "model": "llama2-7b", "tokens": 2e11, "batch_tokens": TOKENS}
    answer = size("selene", **given, settings=keys)
    assumed = size("selene", **given)

    assert 0.9 < answer.goodput < 1
    assert answer.goodput_note.startswith("predicted: ")
    assert assumed.goodput_note == "assumed"
    assert answer.days * answer.goodput == pytest.approx(assumed.days * 0.9)


@given(st.floats(1, 1e5), st.integers(1, 20_000))
def test_the_batch_is_divided_by_odd_factors_of_the_devices(sequences, devices):
    """A batch near the request is a multiple of them; else it divides the devices."""
    batch = batch_of(sequences, devices)
    odd = devices // (devices & -devices)

    assert batch >= 1
    assert devices % batch == 0 or (not batch % odd and abs(batch / sequences - 1) <= 0.15)


def test_the_way_back_takes_the_same_days():
    """A model on the tokens of two days takes two days on the same nodes."""
    given = {"nodes": 2, "batch_tokens": TOKENS, "settings": SOME}
    there = size("dgx-h100", days=2, family="llama2-7b", **given)
    back = size("dgx-h100", model="llama2-7b", tokens=there.tokens, **given)

    assert back.question == "days"
    assert back.days == pytest.approx(2)
    assert back.layout == there.layout


@pytest.mark.large
def test_the_fewest_nodes_train_in_time():
    """They take at most the days that are given, a node less takes more: 56 were named for 52."""
    given = {"model": "llama2-7b", "tokens": 8e10, "batch_tokens": TOKENS}
    found = size("dgx-h100", days=1, **given)
    fewer = size("dgx-h100", nodes=found.nodes - 1, **given)

    assert found.question == "devices"
    assert found.days <= 1 < fewer.days


def test_no_other_size_of_the_list_has_a_lower_loss():
    """Of a list of models the one with the lowest loss is the answer."""
    given = {"family": "gpt3-1.3b,llama2-7b", "batch_tokens": TOKENS, "settings": SOME}
    found = size("dgx-h100", nodes=1, days=2, law="replication", **given)

    assert found.loss == min(one.loss for one in found.sizes)
    assert {one.model for one in found.sizes} == {"gpt3-1.3b", "llama2-7b"}


@pytest.mark.large
def test_a_law_without_a_loss_has_none():
    """Loss is null, and the text names the reason."""
    found = size("dgx-h100", nodes=1, days=1, law="llama3", batch_tokens=TOKENS)

    assert found.loss is None
    assert any("llama3 has no loss" in row.text for row in rows(found))
    assert "replication" in loss_by_size(found).note


def test_the_text_states_law_range_and_neighbours(small):
    """The finding is first; below it the law with its range, half and twice the size."""
    lines = {row.label: row.text for row in rows(small)}

    assert finding(small).endswith("the best model by replication for 2 days on 8 h100-sxm")
    assert "Besiroglu et al. 2024" in lines["law"]
    assert "of its experiments" in lines["law"]
    assert "loss" in lines["half the size"]
    assert "loss" in lines["twice the size"]
    assert "USD" in lines["cost"]
    assert len(lines) <= 13


def test_101_tokens_a_parameter_were_those_of_a_law_without_its_constants(small):
    """The default law is named as such with its constants, next to the rule of 20 tokens."""
    laws = sorted(small.laws, key=lambda law: law.law != DEFAULT_LAW)
    found = [*rows(replace(small, law=DEFAULT_LAW, laws=tuple(laws)))]
    lines = {row.label: row.text for row in found}
    formula = next(row.text for row in found if row.text.startswith("L = "))

    assert lines["law"].startswith("chinchilla-3 (the default; --law names another), Hoffmann")
    assert formula.startswith("L = 1.69 + 406.4 N^-0.34 + 410.7 D^-0.28 for N parameters")
    assert "chinchilla-20 " in lines["other laws"]
    assert "(20 a parameter)" in lines["other laws"]


def test_its_files_have_all_sizes_and_laws(small):
    """Tables have a line for each size and each law, and the chart all points."""
    files = files_of(small)

    assert len([*files.tables["sizes.csv"]]) == 1 + len(small.sizes)
    assert len([*files.tables["laws.csv"]]) == 1 + len(LAWS)
    assert len(loss_by_size(small).series[0].x) == len(small.sizes)


def test_the_command_prints_one_object():
    """``size --json`` has the documented keys."""
    words = ["size", "--cluster", "dgx-h100", "--nodes", "1", "--model", "llama2-7b"]
    result = CliRunner().invoke(app, [*words, "--tokens", "1e9", "--json"], catch_exceptions=False)
    answer = json.loads(result.stdout)

    assert {"parameters", "tokens", "loss", "law", "layout", "days", "devices"} <= {*answer}
    assert answer["layout"]["data"] >= 1


@pytest.mark.parametrize("cluster", ["frontier", "dgx-h100", "desktop-2x4090", "dgx-1v"])
def test_size_took_another_framework_than_new_does(cluster):
    """Both take the usual software and number format of the machine."""
    asked = {"model": "gpt3-1.3b", "tokens": 1e9, "nodes": 1}
    answer = size(cluster, **asked)
    draft = new.step_draft(new.Machine("gpt3-1.3b", cluster, 1))

    assert answer.framework == draft.data["framework"]
    assert answer.precision == draft.data["precision"]


def test_a_constraint_to_zero_3_made_the_optimum_faster():
    """All stages that FSDP offers are searched: 31.4 days had 28.6 with `plan.zero=3`."""
    machine = {"nodes": 8, "model": "llama3-70b", "tokens": 1e9, "framework": "torchtitan"}
    free, stated = (
        size("mi300x-roce", **machine, settings=settings) for settings in ([], ["plan.zero=3"])
    )

    assert free.layout.zero == 3
    assert free.layout.step_time_s <= 1.01 * stated.layout.step_time_s


def test_a_model_that_fits_with_offload_alone_is_sized():
    """Eight billion parameters on two cards of 24 GB: weights and states on a host of 192 GB."""
    cards = ["cluster.node.host.memory=192 GB"]
    found = size(
        "desktop-2x4090",
        nodes=1,
        model="llama3-8b",
        tokens=1e9,
        framework="pytorch-fsdp",
        settings=cards,
    )

    assert found.layout.offload == ("parameters",)
    assert found.layout.zero == 3
    assert found.layout.memory_bytes < 24 * 2**30
    assert "parameters on the host" in {r.label: r.text for r in rows(found)}["layout"]


def test_a_degree_that_no_layout_can_have_was_an_internal_error():
    """One device and two tensor ranks."""
    message = "on 1 device with plan.tensor=2, whose product with the other degrees is not 1"
    with pytest.raises(PlanError, match=message):
        size("gh200-96gb", nodes=1, model="llama3-8b", tokens=1e9, settings=["plan.tensor=2"])


def test_the_price_is_that_of_a_run_of_these_days():
    """A purchase has electricity and PUE of its site, and no price without one."""
    one = {"nodes": 1, "model": "gpt3-125m", "tokens": 1e9}
    bought, site = ["costs.price=purchase"], build_site(find_site("industry-mean"))
    rented, unknown = (size("dgx-a100", **one, settings=given) for given in ((), bought))
    found = size("dgx-a100", **one, settings=[*bought, "costs.site=industry-mean"])
    text = {row.label: row.text for row in rows(found)}
    devices = 8 * 24 * found.days * found.bill.usd_per_device_hour

    assert found.energy_kwh == pytest.approx(site.pue * rented.energy_kwh)
    assert found.cost == pytest.approx(devices + found.energy_kwh * site.electricity)
    assert found.cost < rented.cost
    assert (unknown.cost, unknown.price) == (None, NO_ELECTRICITY)
    assert "with PUE 1.57 of industry-mean" in text["energy"]
    assert "of electricity at industry-mean" in text["cost"]
