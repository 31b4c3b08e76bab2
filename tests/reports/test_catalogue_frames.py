"""The catalogue as data frames."""

import pandas as pd
import pytest

import clustersim
from clustersim.catalog.finding import entry_names
from clustersim.scenario.entries import entry

KINDS = {
    "machines": "cluster", "accelerators": "accelerator", "models": "model",
    "frameworks": "framework",
}  # fmt: skip


@pytest.mark.parametrize(("name", "kind"), KINDS.items())
def test_a_frame_has_each_file_once_with_the_values_of_its_record(name, kind):
    """The index is the names that commands take; a value is that of the record, in SI units."""
    frame = getattr(clustersim.catalog, name)()
    first, columns = frame.iloc[0], {*frame.columns}

    assert [*frame.index] == [*entry_names(kind)]
    assert "title" in columns
    assert frame["title"].notna().all()
    record = entry(kind, frame.index[0]).record
    for column in columns & {"heads", "layers", "compute_units", "dispatch"}:
        assert first[column] == getattr(record, column)


def test_numbers_of_machines_fit_together():
    """Devices are those of the nodes, and each accelerator has a row of its own."""
    machines, accelerators = clustersim.catalog.machines(), clustersim.catalog.accelerators()

    assert (machines["devices"] == machines["nodes"] * machines["devices_per_node"]).all()
    assert {*machines["accelerator"]} <= {*accelerators.index}
    assert machines.loc["frontier", "nic_bandwidth"] == 25e9
    assert accelerators.loc["h100-sxm", "peak_bf16"] == 989.4e12
    assert pd.isna(accelerators.loc["a100-80gb", "peak_fp8"])


def test_the_catalogue_has_public_names():
    """`dir` lists the tables, and another name is refused as Python does."""
    assert dir(clustersim.catalog) == sorted(KINDS)
    with pytest.raises(AttributeError, match=r"module 'clustersim.catalog' has no attribute 'gpus"):
        _ = clustersim.catalog.gpus
