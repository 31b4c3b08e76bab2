"""`clustersim collective`: the table, the figure, and the errors of invalid input."""

import json

import pytest

import clustersim
from clustersim.catalog.libraries import OPERATIONS
from clustersim.errors import ClustersimError
from clustersim.studies.collective import CollectiveAnswer
from clustersim.studies.collective.answer import Timing
from clustersim.studies.collective.benchmark import background_of, devices_of, sizes_of, split_of
from clustersim.studies.collective.files import table
from commands import output
from logged_lines import NCCL_TESTS

DGX = ["collective", "--cluster", "dgx-h100", "--op", "all-reduce"]


def answered(capsys, *arguments):
    return json.loads(output(capsys, *arguments, "--json"))


def test_json_has_the_documented_keys(capsys):
    """Bytes, time, both bandwidths and the algorithm, one object a size."""
    lines = answered(capsys, *DGX, "--devices", "64", "--bytes", "32KiB:128KiB")

    assert [line["bytes"] for line in lines] == [2**15, 2**16, 2**17]
    for line in lines:
        assert line["algbw"] == pytest.approx(line["bytes"] / line["time_s"])
        assert line["busbw"] == pytest.approx(line["algbw"] * 2 * 63 / 64)
        assert line["algorithm"] in ("ring", "tree", "nvls-tree")


def test_the_table_is_that_of_nccl_tests(capsys, tmp_path):
    """A line a size, with time, bandwidths, algorithm and the link that limits it."""
    options = "--devices", "8", "--bytes", "1MiB,1GiB", "--out", tmp_path / "out"
    lines = output(capsys, *DGX, *options).splitlines()

    assert lines[0] == "all-reduce over 8 x h100-sxm on 1 node of dgx-h100"
    assert lines[2].split() == ["size", "time", "algbw", "busbw", "algorithm", "bottleneck"]
    assert lines[3].split()[:2] == ["1", "MiB"]
    assert lines[3].endswith("latency")
    assert lines[4].endswith("nvls simple  n0.dev0>n0.switch")
    assert lines[6].startswith("files ")
    assert len(lines) == 7


def test_the_folder_holds_the_numbers_and_the_figure_the_same_each_time(capsys, tmp_path):
    """Summary, CSV and figures; a second run writes the same bytes over them."""
    command = [*DGX, "--devices", "8", "--bytes", "1MiB:64MiB", "--out", tmp_path / "out"]
    first, second = (
        output(capsys, *command, "--figures", "png,svg")
        and {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
        for _ in range(2)
    )

    assert {*first} == {
        "collective.csv", "collective.png", "collective.svg", "report.html", "summary.json",
    }  # fmt: skip
    assert first == second
    assert len(first["collective.csv"].decode().splitlines()) == 8


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("cluster", ["dgx-h100", "frontier", "fugaku", "desktop-2x4090"])
def test_every_operation_runs_on_every_kind_of_machine(capsys, cluster, operation):
    """A crossbar, a mesh, a torus and a PCIe tree: each library has a way for each operation."""
    command = "collective", "--cluster", cluster, "--op", operation, "--devices", "2"
    (line,) = answered(capsys, *command, "--bytes", "1MiB")

    assert line["time_s"] > 0


def test_a_barrier_carries_nothing(capsys, tmp_path):
    """One line of 0 bytes, and no figure, whatever the requested sizes."""
    command = "collective", "--cluster", "dgx-h100", "--op", "barrier", "--devices", "16"
    text = output(capsys, *command, "--out", tmp_path / "out")

    assert "0 B" in text.splitlines()[3]
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "collective.csv", "report.html", "summary.json",
    }  # fmt: skip


def test_concurrent_groups_share_the_nics_of_a_node(capsys):
    """8 groups of one device a node use a NIC each: as fast as one, but not one NIC each way."""
    command = [*DGX, "--devices", "32", "--bytes", "1GiB", "--algorithm", "ring"]
    together = answered(capsys, *command, "--split", "MOD 8")
    alone = answered(capsys, *DGX, "--on", "0,8,16,24", "--bytes", "1GiB", "--algorithm", "ring")

    assert together[0]["time_s"] == pytest.approx(alone[0]["time_s"])


def test_a_setting_reaches_the_machine(capsys):
    """Twice the NIC is nearly twice the bandwidth across nodes for a large buffer."""
    command = [*DGX, "--devices", "32", "--bytes", "16GiB", "--algorithm", "tree"]
    before = answered(capsys, *command)
    keys = "nic.bandwidth", "node.nics.bus", "node.interconnect.bandwidth"
    after = answered(capsys, *command, *(f"--set=cluster.{key}=x2" for key in keys))

    assert after[0]["busbw"] > 1.8 * before[0]["busbw"]


def test_concurrent_traffic_slows_it_down_and_is_named(capsys):
    """An all-to-all over the same NICs: slower, and the shared link is named."""
    command = [*DGX, "--devices", "64", "--bytes", "256MiB"]
    (line,) = answered(capsys, *command, "--with", "all-to-all 64MiB on 0-31")
    (alone,) = answered(capsys, *command)

    assert line["time_s"] == alone["time_s"]
    assert line["slowdown"] == pytest.approx(line["time_with_s"] / line["time_s"])
    assert line["slowdown"] > 1.1
    assert line["shared_link"]


def test_traffic_elsewhere_changes_nothing(capsys):
    """An all-to-all on other nodes of an ideal switch does not touch the group."""
    command = [*DGX, "--devices", "16", "--bytes", "256MiB"]
    (line,) = answered(capsys, *command, "--with", "all-to-all 1GiB on 16-31")

    assert line["slowdown"] == pytest.approx(1.0)
    assert line["shared_link"] is None


@pytest.mark.parametrize("copy", ["device-to-host", "host-to-device"])
def test_copies_to_the_host_slow_what_passes_between_cards(capsys, copy):
    """Two cards without peer access reduce by way of their host bridge, where copies go as well."""
    command = ["collective", "--cluster", "desktop-2x4090", "--op", "all-reduce", "--devices", "2"]
    (line,) = answered(capsys, *command, "--bytes", "256MiB", "--with", f"{copy} 1GiB on 0-1")

    assert line["slowdown"] > 1.2
    assert "cpu0" in line["shared_link"]


# --- what is written on the command line ----------------------------------------------------------


def test_sizes_devices_splits_and_traffic_are_read_as_they_are_written():
    """The forms that the help names."""
    assert sizes_of("1MiB,4 MB") == [2**20, 4e6]
    assert sizes_of("1KiB:5KiB") == [1024, 2048, 4096]
    assert sizes_of("1024,1M,1.5G") == [1024, 2**20, 1.5 * 2**30]
    assert sizes_of("512M:8G") == sizes_of("512MiB:8GiB") == [2.0**power for power in range(29, 34)]
    assert sizes_of("500MB:1GB") == [500e6, 1e9]
    assert sizes_of("8:8GiB") == [2.0**power for power in range(3, 34)]
    assert sizes_of("1024:4096") == sizes_of("1Ki:4Ki") == [1024, 2048, 4096]
    assert devices_of("3,0-1", "--on") == (3, 0, 1)
    assert split_of(range(6), "mod 3") == ((0, 3), (1, 4), (2, 5))
    assert background_of("all-to-all 64MiB on 0-3") == ("all-to-all", 2**26, (0, 1, 2, 3))


def test_a_table_with_concurrent_traffic_has_its_columns():
    """Time with it, slowdown, and the link that was shared, or none."""
    timing = Timing(
        **{"bytes": 2**20, "time_s": 1e-3, "algbw": 1e9, "busbw": 2e9, "algorithm": "ring"},
        **{"protocol": "ll", "bottleneck": "latency", "time_with_s": 2e-3, "slowdown": 2.0},
    )
    head, cells = table(CollectiveAnswer("name", "title", (timing,)))

    assert head[-3:] == ["with", "slowdown", "shared link"]
    assert cells[-3:] == ["2 ms", "2.00 x", "none"]


def test_traffic_on_other_nodes_of_a_dragonfly_has_an_answer(capsys):
    """Its links are numbered by its own routes, before capacities are read."""
    command = [*DGX, "--cluster=frontier", "--devices", "128", "--bytes", "64MiB"]

    (line,) = answered(capsys, *command, "--with", "all-to-all 64MiB on 128-255")

    assert line["time_with_s"] >= 0.999 * line["time_s"]


# --- next to a log --------------------------------------------------------------------------------


def written(tmp_path, text=NCCL_TESTS):
    path = tmp_path / "nccl.log"
    path.write_text(text.replace("\\\n", ""))
    return path


def test_a_log_of_nccl_tests_stands_next_to_the_prediction(capsys, tmp_path):
    """Its sizes are computed, with the median of repeated ones, and the finding has the ratios."""
    log = written(tmp_path)
    lines = answered(capsys, *DGX, "--devices", "8", "--against", log)
    text = output(capsys, *DGX, "--devices", "8", "--against", log, "--out", tmp_path / "out")

    assert [line["bytes"] for line in lines] == [2**20, 2**26]
    assert [line["measured_s"] for line in lines] == pytest.approx([42.1e-6, 392.3e-6])
    ratios = [line["measured_s"] / line["time_s"] for line in lines]
    assert f"in the median of 2 sizes, {ratios[0]:.2f} to {ratios[1]:.2f}" in text
    assert text.splitlines()[2].split()[-2:] == ["measured", "ratio"]


def test_sizes_that_a_log_lacks_have_no_measured_time(capsys, tmp_path):
    """With --bytes the sizes are these."""
    given = "--against", written(tmp_path), "--bytes", "1MiB,2MiB"
    lines = answered(capsys, *DGX, "--devices", "8", *given)

    assert [line["measured_s"] for line in lines] == [pytest.approx(42.1e-6), None]


@pytest.mark.parametrize(
    ("devices", "text", "message"),
    [
        (16, NCCL_TESTS, r"nccl\.log: is of 8 ranks, not of 16 \(--devices\)"),
        (8, NCCL_TESTS.replace("all_reduce", "all_gather"), "is of all-gather, not of all-reduce"),
        (8, "Segmentation fault\n", "has no rows of nccl-tests"),
    ],
)
def test_a_log_of_something_else_is_one_line(tmp_path, devices, text, message):
    """Of other ranks, of another operation, or of no collective."""
    log = written(tmp_path, text)
    with pytest.raises(ClustersimError, match=message):
        clustersim.collective("dgx-h100", "all-reduce", devices=devices, against=log)


def test_faster_nics_do_not_help_where_the_library_is_the_limit():
    """The bottleneck was a NIC of Frontier, and twice its rate changed nothing."""
    given = {"devices": 32, "split": "MOD 8", "bytes": 2**30}
    [plain] = clustersim.collective("frontier", "all-reduce", **given).timings
    twice = {"settings": ["cluster.nic.bandwidth=x2"], **given}
    [faster] = clustersim.collective("frontier", "all-reduce", **twice).timings
    [alone] = clustersim.collective("frontier", "all-reduce", devices=32, bytes=2**30).timings

    assert faster.time_s == pytest.approx(plain.time_s)
    assert plain.bottleneck == "library"
    assert alone.bottleneck == "n1.nic0>g0s0"
