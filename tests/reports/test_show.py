"""`clustersim list` and `clustersim show`: facts with their proof, what follows, and pictures."""

import json
from functools import cache
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.image import imread

from clustersim.catalog import finding
from clustersim.catalog.fabrics import LinkList
from clustersim.catalog.facts import facts
from clustersim.cost.prices import price_of
from clustersim.program.schedules import SCHEDULES
from clustersim.render import layouts
from clustersim.render.diagram import frame, frame_of, picked, shared, thickness
from clustersim.render.layouts.node_links import inner_links, rim
from clustersim.render.matplotlib.diagram import diagram_figure, write_diagram
from clustersim.render.tables import format_value
from clustersim.reports.listing.kinds import PLURALS
from clustersim.reports.show.answer import fact_rows, page
from clustersim.scenario.entries import KINDS, entry
from clustersim.simulation.measures import ALL
from clustersim.topology.measures import measure, node_injection
from commands import ending, output

CLUSTERS, NODES = finding.entry_names("cluster"), finding.entry_names("node")
FILES = [(kind, name) for kind in KINDS for name in finding.entry_names(kind)]
SHAPES = ("frontier", "selene", "dgx-h100", "fugaku", "desktop-2x4090", "gb200-nvl72")
"""A cluster of each shape of fabric and of node."""

opened = cache(entry)


@cache
def measured(name, nodes=None):
    """Return the record of a shipped cluster, its first nodes, and what they can move."""
    record = opened("cluster", name).record
    return record, *measure(record, nodes or record.size)


def test_an_accelerator_shows_its_prices(capsys):
    """Each term with quotes has its price, as `train` and `search` use it; others have none."""
    found = json.loads(ending(capsys, "show", "a100-80gb", "--json")[1])["derived"]
    rented = price_of("a100-80gb", "on-demand")
    none = json.loads(ending(capsys, "show", "a64fx", "--json")[1])["derived"]

    assert found["price_on_demand_usd_per_hour"] == rented.usd_per_device_hour
    assert not any("price" in key for key in none)


def test_an_accelerator_shows_the_fits_of_its_kernels(capsys):
    """Each kind and format has its rows, errors of held-out shapes and source, also in JSON."""
    rows = {(r["kernel"], r["format"]): r for r in shown(capsys, "h100-sxm")["kernels"]}

    assert rows["gemm", "bf16"]["rows"] == 66
    assert 0 < rows["gemm", "bf16"]["median"] < rows["gemm", "bf16"]["p90"] < 0.2
    assert "aiconfigurator" in rows["gemm", "bf16"]["source"]
    assert "attention-decode" in output(capsys, "show", "h100-sxm")
    assert not page(opened("accelerator", "v100-sxm2-32gb")).answer.kernels


@cache
def listed_cables():
    """Return six boxes below three switches below two, by a list of cables."""
    links = [(f"n{n}.nic{i}", f"tor{n // 2}", "12.5 GB/s") for n in range(6) for i in range(4)]
    links += [(f"tor{t}", f"agg{s}", "25 GB/s") for t in range(3) for s in range(2)]
    proof = {"assumed": "a test"}
    fabric = LinkList.model_validate(
        {
            "type": "links",
            "links": {"value": links, **proof},
            "latency": {"value": "1 us", **proof},
        }
    )
    record = opened("cluster", "dgx-1v").record.model_copy(update={"fabric": fabric})
    return record, *measure(record, 6)


def node_pictures():
    """Return the picture of every shipped node, alone and as its clusters have it."""
    pictures = {f"node/{name}": layouts.node(opened("node", name).record) for name in NODES}
    for name in CLUSTERS:
        record = opened("cluster", name).record
        pictures[f"node of {name}"] = layouts.node(record.node, record.nic)
    return pictures


def fabric_pictures():
    """Return the picture of the network of every shipped cluster, and of listed cables."""
    machines = {name: measured(name) for name in CLUSTERS} | {"listed cables": listed_cables()}
    return {name: layouts.fabric(*machine) for name, machine in machines.items()}


# --- list -----------------------------------------------------------------------------------------


def test_list_names_every_entry_with_its_title(capsys):
    """All shipped files and schedules stand in the list, by kind, none without a title."""
    out = output(capsys, "list", "--json")
    found = json.loads(out)

    assert list(found) == list(PLURALS)
    others = {"schedule": sorted(SCHEDULES), "measure": sorted({m.name for m in ALL})}
    for plural, kind in PLURALS.items():
        known = others[kind] if kind in others else finding.entry_names(kind)
        assert sorted(each["name"] for each in found[plural]) == known
        assert all(each["title"] for each in found[plural])


def test_list_searches_for_a_text(capsys):
    """Names and titles are searched, in all kinds or in one; nothing found is an error."""
    _, out, _ = ending(capsys, "list", "H100", "--json")
    found = json.loads(out)
    code, nothing, complaint = ending(capsys, "list", "models", "qqqq")

    keys = ["name", "title", "nodes", "devices", "parameters", "pue", "carbon"]
    assert [*found["clusters"][0]] == keys
    assert "superpod-h100" in [each["name"] for each in found["clusters"]]
    assert "libraries" not in found
    assert (code, nothing) == (2, "")
    assert complaint == "qqqq: in no name or title of models\n"


def test_list_gives_sizes_and_device_counts(capsys):
    """Machines have nodes and devices, models parameters, scenarios the devices of the job."""
    clusters = ending(capsys, "list", "clusters", "superpod-h100")[1]
    models = ending(capsys, "list", "models", "llama3-8b")[1]
    scenarios = ending(capsys, "list", "scenarios", "llama3-405b-16k")[1]

    assert clusters.endswith("(127 nodes, 1,016 devices)\n")
    assert models.endswith("(8.03B parameters)\n")
    assert scenarios.endswith("(2,048 nodes, 16,384 devices)\n")


def test_list_gives_cooling_and_emissions_of_sites(capsys):
    """Sites have their PUE, and grams of CO2e where a source states them."""
    sites = ending(capsys, "list", "sites")[1].splitlines()

    assert any(line.endswith("(PUE 1.2, 57 g CO2e/kWh)") for line in sites)
    assert any(line.endswith("(PUE 1.045)") for line in sites)


def test_sites_and_prices_are_shown_with_their_sources(capsys):
    """A site and the quotes of an accelerator are entries of the catalogue."""
    site = ending(capsys, "show", "site/jean-zay")[1]
    prices = ending(capsys, "show", "prices/h200-sxm")[1]

    assert site.startswith("site jean-zay: ")
    assert "Estimating the carbon footprint of BLOOM" in site
    assert "rental[0].on_demand" in prices
    assert ending(capsys, "show", "frontier")[1].startswith("cluster frontier")


def test_list_has_no_powers_of_ten_and_knows_machines_as_clusters(capsys):
    """A trillion parameters are 1008B; machines are clusters."""
    text = output(capsys, "list", "models")

    assert "e+" not in text
    assert "(1008B parameters)" in text
    assert output(capsys, "list", "machines") == output(capsys, "list", "clusters")


def test_list_of_a_kind_is_aligned(capsys):
    """A line an entry: its name, and its title in one column."""
    _, out, _ = ending(capsys, "list", "schedules")

    assert out.startswith(
        "  gpipe             All forwards, then all backwards\n"
        "  1f1b              One forward, one backward: few microbatches in flight\n"
        "  interleaved-1f1b  1F1B over several model chunks a stage:"
        " a shorter bubble for more traffic\n"
    )
    assert ending(capsys, "list", "schedule")[1] == out


# --- resolving names ----------------------------------------------------------------------


def shown(capsys, *arguments):
    """Return the JSON object that `show` prints."""
    return json.loads(output(capsys, "show", *arguments, "--json"))


def test_a_shared_name_is_the_cluster_s(capsys, here):
    """`dgx-h100` is the cluster, with the node's facts on its page; `node/dgx-h100` the node."""
    cluster, node = shown(capsys, "dgx-h100"), shown(capsys, "node/dgx-h100")

    assert (cluster["kind"], node["kind"]) == ("cluster", "node")
    keys = {fact["key"] for fact in cluster["facts"]}
    assert keys > {f"node.{fact['key']}" for fact in node["facts"]}
    assert not list(here.iterdir())


def test_a_file_is_shown_by_its_path(capsys, here):
    """A file of any kind that lies anywhere is read; files next to it override shipped ones."""
    node = finding.shipped("node") / "dgx-h100.yaml"
    text = node.read_text(encoding="utf-8").replace("name: dgx-h100", "name: my-box", 1)
    (here / "my-box.yaml").write_text(text, encoding="utf-8")
    cluster = (finding.shipped("cluster") / "dgx-h100.yaml").read_text(encoding="utf-8")
    (here / "mine.yaml").write_text(cluster.replace("node: dgx-h100", "node: my-box"), "utf-8")

    assert shown(capsys, "my-box.yaml")["name"] == "my-box"
    rows = {fact["key"]: fact["value"] for fact in shown(capsys, "mine.yaml")["facts"]}
    assert rows["node"] == "my-box"


# --- facts ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "name"), [each for each in FILES if each[0] != "scenario"])
def test_every_fact_is_on_the_page(kind, name):
    """What the record holds as a fact is a row with the same proof, under the same key."""
    found = opened(kind, name)
    rows = {row.key: row for row in fact_rows(found.data)}

    assert rows
    for key, fact in facts(found.record):
        row = rows[key]
        assert (row.assumed, row.confidence) == (fact.assumed, fact.confidence)
        sources = found.record.sources
        assert row.source == (fact.source and sources[fact.source].title)


def test_values_stand_as_they_are_written(capsys, here):
    """Units are not converted; where no source was read, the reason is given."""
    rows = {fact["key"]: fact for fact in shown(capsys, "frontier")["facts"]}

    assert rows["nic.bandwidth"]["value"] == "25 GB/s"
    assert rows["nic.bandwidth"]["source"] == "Frontier User Guide"
    assert rows["nic.latency"]["source"] is None
    assert rows["nic.latency"]["assumed"].startswith("device-to-device message")
    assert rows["nic.latency"]["confidence"] == "low"
    assert set(rows["size"]) == {
        "key", "value", "source", "assumed", "confidence", "note", "unit",
    }  # fmt: skip


def test_a_plain_value_has_the_proof_of_its_file(capsys, here):
    """A model names one source for its shape, and the keys that this source does not state."""
    rows = {fact["key"]: fact for fact in shown(capsys, "gpt-1t")["facts"]}

    assert rows["layers"]["source"].startswith("Dash et al. 2023")
    assert rows["heads"]["source"] is None
    assert "launch_gpt1T_srun" in rows["heads"]["assumed"]


def test_a_long_list_is_cut_between_two_values():
    """A table shows the beginning of a list of cables, and that it goes on."""
    text = format_value([[f"n{i}.nic0", "tor0", "25 GB/s"] for i in range(100)])

    assert len(text) <= 120
    assert text.endswith(", ...")


def test_the_page_reads_from_top_to_bottom(capsys, here):
    """Title, facts, what follows, and where the files are; no line ends in blanks."""
    out = output(capsys, "show", "node/desktop-2x4090", "--figures", "png")
    lines = out.splitlines()

    assert lines[0].startswith("node desktop-2x4090: Desktop with two RTX 4090")
    heads = [
        i for i, line in enumerate(lines) if line.startswith(("fact ", "derived ", "files in "))
    ]
    assert len(heads) == 3
    assert all(line == line.rstrip() for line in lines)
    assert "buses to NICs       3.94 GB/s, 1 x 3.94 GB/s" in out
    assert lines[-1] == "files in runs/show-desktop-2x4090/: summary.json, node.png"


def test_a_model_s_shape_comes_to_its_stated_size():
    """Parameters counted by the shape of every shipped model are within 5 % of the stated ones."""
    for name in finding.entry_names("model"):
        found = opened("model", name)
        counted = {row.key: row.value for row in page(found).derived}["parameters"]

        assert counted == pytest.approx(found.record.parameters, rel=0.05), name


# --- derived quantities ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", CLUSTERS)
def test_no_half_of_a_machine_receives_more_than_the_other_sends(name):
    """The bisection is at most the injection of half of the nodes, and more than nothing."""
    record, _, found = measured(name)

    assert found.devices == found.nodes * record.node.devices
    assert 0 < found.bisection_share <= 1 + 1e-9
    assert found.bisection == pytest.approx(
        found.bisection_share * found.injection * (found.nodes // 2)
    )
    assert found.diameter >= 2


@pytest.mark.parametrize(
    ("name", "ratios"),
    [
        ("frontier", {"group": 128 * 100 / (73 * 4 * 25)}),
        ("meta-24k", {"leaf": 1.0, "pod": 192 * 16 / 439}),
        ("selene", {"leaf": 1.0, "pod": 1.0}),
        ("superpod-h100", {"leaf": 1.0}),
        ("dgx-h100", {}),
    ],
)
def test_oversubscription_is_that_of_the_sources(name, ratios):
    """Frontier lets 0.57 out of a group, Meta a seventh out of a pod, Selene all."""
    assert measured(name)[2].oversubscription == pytest.approx(ratios)


@given(
    rail=st.booleans(),
    per_leaf=st.integers(1, 6),
    uplinks=st.integers(1, 8),
    blocks=st.integers(2, 4),
)
@settings(max_examples=20, deadline=None)
def test_a_leaf_s_oversubscription_is_counted_on_the_graph(rail, per_leaf, uplinks, blocks):
    """NICs on the first leaf, over cables from it to spines, times their rates."""
    base = opened("cluster", "selene").record
    shape = {"rail_optimised": rail, "nodes_per_leaf": per_leaf, "leaf_uplinks": uplinks}
    record = base.model_copy(update={"fabric": base.fabric.model_copy(update=shape)})
    cluster, found = measure(record, per_leaf * blocks)
    ports = [
        cluster.fabric.port(n, i).switch_name for n in range(per_leaf * blocks) for i in range(8)
    ]
    up = [a for a, b, _ in cluster.fabric.edges(per_leaf * blocks) if a == "leaf0" and b != a]

    assert found.oversubscription["leaf"] == pytest.approx(ports.count("leaf0") / len(up))


def test_injection_is_what_buses_nics_and_links_let_through():
    """Frontier: all NICs. A 4090 box: its port. Eight cards and a vast NIC: the links to it."""
    frontier, box = measured("frontier")[1], measured("desktop-2x4090")[1]
    tight = opened("cluster", "server-8xl40s").record
    nics = tight.node.nics.model_copy(update={"bus": 1e12})
    record = tight.model_copy(
        update={
            "nic": tight.nic.model_copy(update={"bandwidth": 1e12}),
            "node": tight.node.model_copy(update={"nics": nics}),
        }
    )
    cluster, found = measure(record, 2)
    widths = cluster.node.widths

    assert node_injection(frontier, 0) == pytest.approx(4 * 25e9 * 0.95)
    assert node_injection(box, 0) == pytest.approx(1.25e9 * 0.94)
    assert found.injection == pytest.approx(widths["pcie0", "cpu0"] + widths["cpu1", "cpu0"])


# --- pictures -------------------------------------------------------------------------------------


@pytest.mark.parametrize("pictures", [node_pictures, fabric_pictures])
def test_nothing_on_a_picture_covers_anything_else(pictures):
    """No box lies on another, no label on a box or a label, and all of it on the paper."""
    for name, picture in pictures().items():
        boxes = [frame(b.x, b.y, b.width, b.height) for b in picture.boxes]
        notes = [frame_of(note) for note in picture.notes]

        for a, b in combinations(boxes, 2):
            assert shared(a, b) < 0.02, name
        for note in notes:
            assert max((shared(note, box) for box in boxes), default=0) < 0.001, name
        for a, b in combinations(notes, 2):
            assert shared(a, b) < 0.002, name
        for left, bottom, right, top in [*boxes, *notes]:
            assert left > 0, name
            assert bottom > 0, name
            assert right < picture.width, name
            assert top < picture.height, name


@pytest.mark.parametrize("name", NODES)
def test_a_node_shows_every_device_nic_and_link(name):
    """As many boxes as devices, NICs and switches, and a wire for each link and each bus."""
    record = opened("node", name).record
    picture = layouts.node(record)
    links = inner_links(record)
    ends = {end for link in links for end in (link.a, link.b) if isinstance(end, str)}
    devices, nics = record.devices, len(record.nics.devices)
    hung = devices if record.interconnect.type == "switch" else 0

    assert len(picture.boxes) == devices + nics + len(ends) + (hung > 0)
    assert len(picture.wires) == len(links) + nics + hung
    assert {wire.kind for wire in picture.wires} == set(picture.kinds)


def test_wires_grow_with_bandwidth():
    """A link of four times the bandwidth is twice as thick."""
    assert thickness(200e9) == pytest.approx(2 * thickness(50e9))


def test_the_widest_links_stand_on_the_rim():
    """Frontier's ring 0-1-3-2-4-5-7-6, which has all links of 100 and 200 GB/s, is the circle."""
    links = inner_links(opened("node", "frontier-ex235a").record)
    order = rim(8, links)
    neighbours = {frozenset(pair) for pair in zip(order, (*order[1:], order[0]), strict=True)}
    joined = {frozenset((link.a, link.b)): link.bandwidth for link in links}

    assert neighbours <= joined.keys()
    assert {pair for pair, wide in joined.items() if wide >= 100e9} <= neighbours


@given(count=st.integers(1, 500), most=st.integers(2, 40))
def test_the_first_and_the_last_are_always_drawn(count, most):
    """At most `most` things and one place for dots represent any number of them."""
    slots = picked(count, most)

    assert slots[0] == 0
    assert slots[-1] == count - 1
    assert sum(slot is not None for slot in slots) == min(count, most)


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("frontier", "frontier: 0.57 of the injection of a group can leave it"),
        ("meta-24k", "meta-24k: each pod is oversubscribed 7:1"),
        ("selene", "selene: no oversubscription at any level"),
    ],
)
def test_a_title_states_the_finding(name, title):
    """The title of a fabric picture states its bottleneck."""
    assert layouts.fabric(*measured(name)).title == title


@pytest.mark.parametrize("name", SHAPES)
def test_words_fit_into_their_boxes(name):
    """As drawn, no text is wider than its box, and title and caption end on the paper."""
    record, cluster, found = measured(name)
    for picture in (layouts.node(record.node, record.nic), layouts.fabric(record, cluster, found)):
        figure = diagram_figure(picture)
        canvas = FigureCanvasAgg(figure)
        renderer = canvas.get_renderer()
        wide = canvas.get_width_height()[0]
        boxes = figure.axes[0].texts[: len(picture.boxes)]

        for box, text in zip(picture.boxes, boxes, strict=True):
            assert text.get_window_extent(renderer).width <= box.width * figure.dpi, box.text
        for text in figure.texts:
            assert text.get_window_extent(renderer).x1 <= wide, picture.title
        assert figure.legends[0].get_window_extent(renderer).x1 <= wide


@pytest.mark.large
def test_the_same_picture_gives_the_same_bytes(here):
    """Drawn twice, PNG and SVG do not differ; the PNG is not blank."""
    picture = layouts.fabric(*listed_cables())
    write_diagram(picture, here / "a")
    write_diagram(picture, here / "b")

    for end in (".png", ".svg", ".pdf"):
        assert (here / f"a{end}").read_bytes() == (here / f"b{end}").read_bytes()
    assert b"<dc:date>" not in (here / "a.svg").read_bytes()
    image = imread(here / "a.png")
    assert image[..., :3].min() < 0.2
    assert image[..., :3].max() == 1.0


def test_files_of_a_machine_are_replaced_whole_or_not_at_all(capsys, here):
    """A second run takes the place of the first; what is not ours is left alone."""
    expected = {"summary.json", "node.png", "node.svg", "fabric.png", "fabric.svg"}
    arguments = ("desktop-2x4090", "--nodes", "2", "--out", "x", "--figures", "png,svg")
    for _ in range(2):
        code, out, _ = ending(capsys, "show", *arguments)

        assert code == 0
        assert out.endswith(
            "files in x/: summary.json, node.png, node.svg, fabric.png, fabric.svg\n"
        )
        assert {path.name for path in (here / "x").iterdir()} == expected
    summary = json.loads((here / "x" / "summary.json").read_text(encoding="utf-8"))
    (here / "x" / "notes.txt").write_text("mine", encoding="utf-8")

    assert summary["derived"]["devices"] == 4
    assert set(summary["files"]) == expected
    code, _, complaint = ending(capsys, "show", "desktop-2x4090", "--out", "x")
    assert (code, complaint.partition(":")[0]) == (2, "x")
    assert (here / "x" / "notes.txt").read_text(encoding="utf-8") == "mine"


@pytest.mark.parametrize("name", ["desktop-2x4090", "node/desktop-2x4090", "1f1b"])
def test_show_printed_no_facts_where_no_folder_can_be_written(capsys, here, name):
    """Without `--figures` and `--out` nothing is written; with them the facts come first."""
    (here / "runs").write_text("no folder", encoding="utf-8")
    facts = output(capsys, "show", name)
    failed, same, problem = ending(capsys, "show", name, "--figures", "png")

    assert len(facts.splitlines()) > 3
    assert same == facts
    assert failed == 2
    assert "runs is not a folder; choose another --out" in problem
    assert [path.name for path in here.iterdir()] == ["runs"]


def test_show_json_of_a_schedule_has_its_steps(capsys):
    """Steps of each stage in order, as the text shows them."""
    found = shown(capsys, "1f1b", "--stages", "2", "--microbatches", "3")

    assert found["kind"] == "schedule"
    assert found["derived"]["steps"] == [
        ["F0", "F1", "B0", "F2", "B1", "B2"],
        ["F0", "B0", "F1", "B1", "F2", "B2"],
    ]


def test_every_file_lives_where_list_looks():
    """A shipped file is of the kind of its folder, so `show` finds what `list` names."""
    for kind, name in FILES:
        assert Path(finding.shipped(kind) / f"{name}.yaml").is_file()
        assert opened(kind, name).name == name
