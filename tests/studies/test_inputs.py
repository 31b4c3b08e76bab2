"""Inputs of scenarios that differ, and scenarios followed by changes."""

from pathlib import Path

from clustersim.runs.arguments import settings_in, variant_of
from clustersim.scenario.load import load
from clustersim.studies.compare.inputs import Input, changed_inputs, changed_values

# --- inputs ---------------------------------------------------------------------------------------


def inputs(text, other):
    return changed_inputs(*(variant_of(each).load_any() for each in (text, other)))


def test_a_scenario_has_the_inputs_of_itself():
    """Nothing differs, nor where the same value is written in another way."""
    same = "frontier-22b cluster.nic.bandwidth=200Gb/s plan.schedule=1f1b title=Another"

    assert inputs("frontier-22b", "frontier-22b") == []
    assert inputs("frontier-22b", same) == []


def test_a_changed_value_has_its_path_and_both_values():
    """In SI units for scripts, as they are written for people."""
    (found,) = inputs("frontier-22b", "frontier-22b cluster.nic.bandwidth=x2")

    assert found == Input(
        "cluster.nic.bandwidth", 25e9, 50e9, "cluster.nic.bandwidth 25 GB/s -> 50 GB/s"
    )


def test_a_default_is_a_value():
    """A value that only one scenario has is compared with the default of the other."""
    texts = [each.text for each in inputs("megatron21-t1-39b", "megatron21-t1-39b fold=false")]

    assert texts == ["fold true -> false"]


def test_a_replaced_record_is_one_line():
    """Another machine is its name, the number of values that differ, the most important ones."""
    first, *others = inputs("megatron21-t1-39b", "megatron21-t1-39b cluster=dgx-h100 plan.zero=1")

    assert first.path == "cluster"
    assert (first.before, first.after) == ("selene", "dgx-h100")
    assert first.values > 20
    assert [each.path for each in first.telling][:2] == [
        "node.accelerator.name",
        "node.interconnect.bandwidth",
    ]
    assert first.text.startswith("cluster selene -> dgx-h100 (node.accelerator.name a100-80gb -> ")
    assert [each.text for each in others] == ["plan.zero 0 -> 1"]


def test_another_profile_of_failures_is_one_line():
    """Its causes were 58 lines of a comparison of two runs."""
    (found,) = inputs("llama3-405b-54-days", "llama3-405b-54-days training.failures=rsc-1")

    assert (found.path, found.before, found.after) == (
        "training.failures",
        "llama3-54-days",
        "rsc-1",
    )
    assert found.values > 20


def test_all_single_values_are_kept_next_to_the_record():
    """The values of a record are available one by one."""
    pair = [load("megatron21-t1-39b", change) for change in ([], ["cluster=dgx-h100"])]
    single = changed_values(*pair)

    (record,) = changed_inputs(*pair)
    assert "cluster.node.accelerator.memory.bandwidth" in single
    assert record.values == len(single) - 1  # without its own name


# --- arguments --------------------------------------------------------------------------------


def test_settings_are_parted_by_spaces_that_begin_one():
    """A value may hold spaces: a word without '=' belongs to the setting before it."""
    text = "plan.data=12 cluster.nic.bandwidth=50 GB/s  framework={name: x, kernels: {}}"

    assert settings_in(text, "--change") == (
        "plan.data=12",
        "cluster.nic.bandwidth=50 GB/s",
        "framework={name: x, kernels: {}}",
    )


def test_settings_of_one_run_come_after_those_of_all():
    """The settings of one run win."""
    variant = variant_of("frontier-22b batch.global=32", ["batch.global=16"])

    assert variant.settings == ("batch.global=16", "batch.global=32")
    assert variant.load_any().scenario.batch.global_ == 32


def test_a_file_may_have_a_space_in_its_name(tmp_path):
    """A text that is a file is a file."""
    path = tmp_path / "my own.yaml"
    path.write_text(Path(load("frontier-22b").place("title").file).read_text())

    for text in (str(path), f"{path} batch.global=16"):
        assert variant_of(text).load_any().scenario.title == load("frontier-22b").scenario.title
