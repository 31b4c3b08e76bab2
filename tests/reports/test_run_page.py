"""The page of a run, as text: its contents, and that it has no others."""

import base64
import hashlib
import html
import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clustersim.catalog.finding import entry_names
from clustersim.catalog.records.machines import NodeRecord
from clustersim.render.charts.picture import text_table
from clustersim.render.layouts.node import node as node_layout
from clustersim.render.page.page import Chart, Drawing, Page, Section, render, with_units
from clustersim.render.palette import DARK, LIGHT
from clustersim.render.plotly import page_chart
from clustersim.render.plotly.pieces import label
from clustersim.render.plotly.timeline import MOST_BARS, lanes_shown
from clustersim.render.tables import percent
from clustersim.reports.step.charts import memory_by_stage, memory_over_time
from clustersim.reports.step.links import fabric_map, link_loads
from clustersim.reports.step.page import page
from clustersim.reports.step.pipeline import page_views, pipeline, sampled
from clustersim.reports.step.sections import power_over_time, power_section
from clustersim.reports.step.text import rows
from clustersim.scenario.entries import entry
from clustersim.scenario.load import load
from clustersim.simulation.step.simulate import simulate
from clustersim.topology.node import build_node
from pages import HOSTILE, page_of

SECTIONS = ["summary", "time", "pipeline", "memory", "power", "links", "groups", "nearest",
            "published", "sources", "scenario"]  # fmt: skip

few = settings(max_examples=20, deadline=None)


class Elements(HTMLParser):
    """All elements of a page with their attributes, and the text inside each kind."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.found, self.texts, self._open = [], {}, []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))
        if tag == "wbr":  # has no text, and no end
            return
        self._open.append(tag)
        self.texts.setdefault(tag, []).append("")

    def handle_endtag(self, tag):
        while self._open and self._open.pop() != tag:
            pass

    def handle_data(self, data):
        if self._open:
            self.texts[self._open[-1]][-1] += data

    def all(self, tag):
        return [attributes for name, attributes in self.found if name == tag]


@pytest.fixture(scope="module")
def hostile():
    """A page whose title, name and sources are made to break out of it."""
    return page_of(HOSTILE)


@pytest.fixture(scope="module")
def text(hostile):
    return render(hostile[1])


@pytest.fixture(scope="module")
def elements(text):
    return Elements(text)


def blocks(page, kind):
    return [block for section in page.sections for block in section.blocks if type(block) is kind]


def test_a_page_has_every_section_and_a_list_of_them(elements):
    """Sections stand in the order of the contents list, which leads to each of them."""
    links = [attributes["href"] for attributes in elements.all("a")]

    assert [attributes["id"] for attributes in elements.all("section")] == SECTIONS
    assert links == ["#content", *(f"#{name}" for name in SECTIONS)]


def test_the_page_has_the_lines_of_the_terminal(hostile, elements):
    """Every line of the answer is on the page."""
    cells = " ".join(elements.texts["td"]).replace("\xa0", " ")

    assert all(row.text in cells for row in rows(hostile[0]))


def test_the_same_result_gives_the_same_bytes(hostile, text):
    """Nothing on a page depends on when it was made."""
    second = page_of(HOSTILE)

    assert second[0] is not hostile[0]
    assert render(second[1]) == text


def test_a_hostile_title_is_text(elements, text):
    """Nothing of it becomes an element, an attribute or a part of a script."""
    kinds = {tag for tag, _ in elements.found}
    data = [block for block in elements.texts["script"] if block.startswith("{")]

    assert elements.texts["title"][0] == HOSTILE
    assert elements.texts["h1"] == [HOSTILE]
    assert not kinds & {"img", "iframe", "object", "link", "embed", "base"}
    assert not [n for _, attributes in elements.found for n in attributes if n.startswith("on")]
    assert len(elements.all("script")) == len(data) + 2
    assert "<img src=x" not in text
    for block in data:
        assert not re.search("[<>&]", block)
        assert not [part for part in strings(json.loads(block)) if "<img" in part]


def strings(value):
    """Yield every text of a figure."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from strings(item)


def test_a_page_loads_nothing(elements):
    """No element has an address but those inside the page, and no style loads a file."""
    addresses = [
        attributes[name]
        for _, attributes in elements.found
        for name in ("src", "href", "srcset", "data", "action")
        if name in attributes
    ]

    assert [address for address in addresses if not address.startswith("#")] == []
    assert not re.search(r"url\(|@import", "".join(elements.texts["style"]))


def test_the_policy_names_the_scripts_that_are_there(elements):
    """A script runs if its hash is in the policy, and nothing but the two that draw is."""
    [policy] = [each["content"] for each in elements.all("meta") if "http-equiv" in each]
    scripts = [block for block in elements.texts["script"] if not block.startswith("{")]
    hashes = [hashlib.sha256(script.encode()).digest() for script in scripts]
    allowed = " ".join(f"'sha256-{base64.b64encode(each).decode()}'" for each in hashes)

    assert f"default-src 'none'; script-src {allowed};" in policy
    assert "unsafe-eval" not in policy


def test_every_picture_has_words_and_a_table(hostile, elements):
    """Every chart has an alternative text, and its numbers in a table."""
    page = hostile[1]
    pictures = [*blocks(page, Chart), *blocks(page, Drawing)]
    labels = [a["aria-label"] for _, a in elements.found if a.get("role") == "img"]

    assert len(labels) == len(pictures) >= 5
    assert all(len(label) > 40 for label in labels)
    assert all(picture.table.rows for picture in pictures)


def test_headings_of_tables_have_a_scope(elements):
    """Each heading cell has a scope, and each table a caption."""
    assert {attributes["scope"] for attributes in elements.all("th")} == {"col", "row"}
    assert len(elements.all("caption")) == len(elements.all("table"))


def test_headings_go_down_one_by_one(elements):
    """One heading of the page, then those of its sections."""
    levels = [int(tag[1]) for tag, _ in elements.found if re.fullmatch("h[1-6]", tag)]

    assert levels[0] == 1
    assert set(levels[1:]) == {2}


def test_the_waterfall_ends_where_the_step_does(hostile):
    """Each bar begins where the one above ends; the last one ends with the step."""
    result, page = hostile
    [data] = page.sections[1].blocks[0].figure["data"]
    ends = np.cumsum(data["x"])

    assert data["base"][1:-1] == pytest.approx(ends[:-2], abs=1e-3 * result.step_time)
    assert ends[-2] == pytest.approx(data["x"][-1], rel=1e-3)
    assert data["x"][-1] == pytest.approx(result.step_time, rel=1e-3)


def test_memory_is_stacked_to_the_peak_of_each_stage(hostile):
    """The components of a bar add up to the peak of the stage."""
    result, page = hostile
    data = page.sections[3].blocks[0].figure["data"]
    peaks = [stage.peak / 2**30 for stage in result.memory.stages]

    assert np.sum([part["y"] for part in data], axis=0) == pytest.approx(peaks, rel=1e-3)


def test_every_value_of_a_run_has_its_proof(hostile):
    """Each row has the source of its value: a title, a reason, or the file that sets it."""
    page = hostile[1]
    tables = {table.caption.partition(":")[0]: table for table in page.sections[9].blocks[0].tables}
    of_run, of_device = (
        {key: proof for key, *_, proof in tables[name].rows}
        for name in ("Scenario", "Accelerator mi250x-gcd")
    )

    assert "" not in {proof for table in tables.values() for *_, proof in table.rows}
    assert of_run["batch.global"] == "--set batch.global=32"
    assert re.fullmatch(r"frontier-22b.yaml:\d+", of_run["precision"])
    assert of_device["peak.fp16"]


def test_sources_filled_two_thirds_of_the_page(hostile, elements):
    """A table for each record lies behind its caption; keys do not repeat where they are."""
    [folds] = hostile[1].sections[9].blocks
    closed = [a for a in elements.all("details") if a.get("class") == "fold"]
    captions = [table.caption for table in folds.tables]

    assert len(closed) == len(folds.tables) >= 6
    assert not any("open" in attributes for attributes in closed)
    assert captions[0].startswith("Scenario: ")
    assert any(re.fullmatch(r"Cluster frontier: \d+ values, \d+ assumed", c) for c in captions)
    assert sum(table.size for table in folds.tables) > 150
    assert not [row for table in folds.tables[1:] for row in table.rows if "cluster." in row[0]]


def test_keys_were_broken_within_words(text):
    """A long key may end its line after a dot or an underscore, and nowhere else."""
    long = [key for key in re.findall('<th scope="row">([^ ]*?)</th>', text) if len(key) > 20]

    assert "fabric.<wbr>switches_<wbr>per_<wbr>group" in long
    for key in long:
        assert all(part[-1] in "._/[>" for part in key.split("<wbr>")[:-1]), key


def test_the_contents_named_sections_that_were_not_there(text):
    """A section without a word or a picture is neither in the contents nor below them."""
    shown = Page("A page", "", (Section("Nothing", "none"), Section("A word", "word", ("Here.",))))

    assert [section.id for section in shown.sections] == ["word"]
    assert 'href="#word"' in render(shown)
    assert "Nothing" not in render(shown)


def test_a_percent_sign_began_a_line():
    """No line ends between a number and its unit, but commands can be copied as they are."""
    assert with_units("8.1 % of 80 GiB in 3 steps") == "8.1\xa0% of 80\xa0GiB in 3 steps"
    assert with_units("fits with --set a=30 GiB") == "fits with --set a=30 GiB"


# --- the timeline ---------------------------------------------------------------------------------


@few
@given(st.integers(1, 500), st.integers(2, 40))
def test_a_sample_of_stages_has_both_ends(stages, most):
    """At most `most` stages, in order, the first and the last among them."""
    shown = lanes_shown(stages, most).tolist()

    assert shown == sorted(set(shown))
    assert len(shown) == min(stages, most)
    assert shown[0] == 0
    assert shown[-1] == stages - 1


@pytest.fixture(scope="module")
def long():
    """A pipeline of 8 stages and 320 microbatches."""
    from clustersim.simulation.step.simulate import simulate

    return pipeline(simulate("frontier-22b", ["batch.global=1280", "batch.micro=1"]))


@few
@given(share=st.tuples(st.floats(0, 1), st.floats(0, 1)), at_end=st.booleans())
def test_a_sample_of_blocks_is_of_its_view(long, share, at_end):
    """Only blocks of the view are drawn, never more than can be seen, those at its end first."""
    begin, end = (part * long.limits[1] for part in sorted(share))
    inside = replace(long.within(begin, end), at_end=at_end)
    shown = sampled(inside)

    assert len(shown.start) <= MOST_BARS
    assert ((shown.end > begin) & (shown.start < end)).all()
    rows = np.isin(inside.lane, shown.lane)
    if rows.any() and at_end:
        assert shown.end.max() == inside.end[rows].max()
    elif rows.any():
        assert shown.start.min() == inside.start[rows].min()


def test_a_long_pipeline_is_an_overview_and_its_two_ends(long):
    """Of thousands of blocks some are drawn, and each chart has a note of how many."""
    overview, fill, drain = map(page_chart, page_views(long))
    z = np.array(overview.figure["data"][0]["z"])
    busy = sum((long.end - long.start)[long.kind < 4]) / long.count

    assert z.mean() / 100 * long.limits[1] == pytest.approx(busy, rel=0.01)
    assert f"of {len(long.start):,} blocks are drawn" in fill.note
    assert f"stage {long.count - 1} begins after " in fill.title
    assert f"stage {long.count - 1} ends its last block " in drain.title
    assert sum(len(trace["x"]) for trace in drain.figure["data"]) <= MOST_BARS
    assert long.limits[1] == pytest.approx(drain.figure["layout"]["xaxis"]["range"][1])


def test_chunks_are_told_apart(long):
    """With two chunks the legend names the first and the last, and blocks are coloured by them."""
    [chart] = map(page_chart, page_views(replace(long.within(0, long.limits[1] / 100), shades=2)))

    assert [each.name for each in chart.swatches][:2] == [
        "forward, first chunk",
        "forward, last chunk",
    ]
    assert chart.figure["data"][0]["marker"]["cmax"] == 1


# --- pieces ---------------------------------------------------------------------------------------


@few
@given(st.text())
def test_a_label_is_shown_as_it_is(given_text):
    """What plotly would read as HTML is written so that it shows the very letters."""
    written = label(given_text).replace("<br>", "\n")

    assert "<" not in written
    assert html.unescape(written) == html.unescape(given_text.replace("&", "&amp;"))


@pytest.mark.parametrize("name", entry_names("node"))
def test_every_link_inside_a_node_is_drawn(name):
    """What a route inside a node can cross has a line on its drawing, by the same two names."""
    record = entry("node", name).record
    assert isinstance(record, NodeRecord)
    built = build_node(record)
    drawn = {frozenset(wire.ends) for wire in node_layout(record).wires}
    hops = [hop for b in range(1, built.devices) for hop in built.hops("n0", 0, b)]
    crossed = {frozenset(end.partition(".")[2] for end in hop.name.split(">")) for hop in hops}

    assert crossed <= drawn


def luminance(colour):
    """Return the relative luminance of WCAG 2.2."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    lighter, darker = sorted((luminance(one), luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
def test_text_can_be_read_on_its_paper(colours):
    """Level AA of WCAG 2.2: 4.5 to 1 for text, 3 to 1 for lines that mean something."""
    for paper in ("ground", "raised"):
        for ink in ("ink", "quiet", "link", "warning", "good"):
            assert contrast(colours[ink], colours[paper]) >= 4.5, (ink, paper)
    for box in ("box-device", "box-switch", "box-nic"):
        assert contrast(colours["ink"], colours[box]) >= 4.5, box
    for line in ("compute", *(f"heat-{step}" for step in range(5))):
        assert contrast(colours[line], colours["ground"]) >= 3, line


@pytest.mark.parametrize("name", ["frontier-22b", "deepseek-v3-h800", "qlora-70b-no-offload"])
def test_a_link_at_12_percent_was_in_alarm_red(name):
    """Every link and cable that is used has a line with its load, by which alone it is coloured."""
    result, shown = page_of("A node", name, ())
    loads = link_loads(result)
    [drawn] = [block for block in shown.sections[5].blocks if type(block) is Drawing]
    most = max(used.load for used in (*loads.inside, *loads.cables))
    shares = [
        (float(match[1].replace(",", "")), line.colour)
        for line in drawn.lines
        if (match := re.search(r": ([\d.,]+) % of its payload", line.text))
    ]
    left, top, width, height = drawn.extent
    used = {frozenset(each.ends) for each in (*loads.inside, *loads.cables)}

    assert any(f": {percent(most)} of its payload" in line.text for line in drawn.lines)
    for share, colour in shares:
        assert colour == f"var(--heat-{min(int(share) // 20, 4)})", share
    assert sum(line.colour != "var(--idle)" for line in drawn.lines) == len(used)
    for line in drawn.lines:
        for point in line.points.split():
            x, y = map(float, point.split(","))
            assert left <= x <= left + width
            assert top <= y <= top + height


@pytest.mark.parametrize("name", ["frontier-22b", "megatron21-t1-39b", "moe-translation-hard-gate"])
def test_the_fabric_has_every_link_on_one_scale(name):
    """The reddest cell is the busiest link between nodes, and rows have all of their links."""
    result = simulate(name)
    shown = fabric_map(result)
    between = {
        used.name: used.nbytes / used.capacity / result.step_time
        for used in result.program.carried
        if len({end.partition(".")[0] for end in used.name.split(">")}) == 2
    }
    cells = [share for row in shown.shares for share in row]

    assert max(cells) == pytest.approx(max(between.values()))
    assert f" {percent(max(cells))}" in shown.title
    assert f"All {len(between):,} links between nodes" in shown.note
    assert {text.partition(":")[0] for row in shown.hover for text in row} <= between.keys()
    assert {len(row) for row in shown.shares} == {96}
    (data,) = page_chart(shown).figure["data"]
    assert (data["zmin"], data["zmax"]) == (0, 100)
    assert data["colorbar"]["title"]["text"] == "utilisation [%]"


def test_one_node_has_no_fabric():
    """A job inside of a node uses no link between nodes."""
    assert fabric_map(simulate("qlora-70b-no-offload")) is None


@pytest.mark.large
def test_a_run_that_does_not_fit_led_with_its_impossible_step_time():
    """Verdict, excess and remedy come first, in the text and on the page; the time is marked."""
    result = simulate("qlora-70b-no-offload", advise=True)
    first, second, *others = rows(result)
    cards, _ = page(result).sections[0].blocks
    step = next(row for row in others if row.label == "step time")

    assert (first.label, first.warning, second.label) == ("memory", True, "fits with")
    assert first.text.startswith("does not fit: 30.4 of 23.7 GiB on stage 0, 6.7 GiB too many")
    assert "hypothetical" in step.text
    assert cards.cards[0].value == "does not fit"
    assert "6.7 GiB too many" in cards.cards[0].note
    assert "fits with --set offload." in cards.cards[0].note
    assert cards.cards[1].label == "Hypothetical step time"
    assert cards.cards[1].warning


def test_activations_vanished_into_other_from_stage_47():
    """Each large component of any stage has a layer, constant ones below; a note has the reason."""
    result = simulate("frontier-1t", ["batch.global=384"])
    chart, curve = memory_by_stage(result), memory_over_time(result)
    names = [layer.name for layer in chart.layers]
    last = {layer.name: layer.values[-2] for layer in chart.layers}

    assert names == [layer.name for layer in curve.layers]
    assert names.index("fragmentation") < names.index("activations") < names.index("workspace")
    assert last["activations"] == 0
    assert last["workspace"] > 5 * last["other"]
    assert "in the optimiser step, without activations" in chart.note


def test_the_capacity_lay_on_the_bars(hostile):
    """Its name is in the legend, as a dashed line, and not in the plot."""
    (section,) = [section for section in hostile[1].sections if section.id == "memory"]
    for chart in section.blocks:
        last = chart.swatches[-1]

        assert last.name.startswith("capacity of a device: ")
        assert last.style == "dashed"
        assert "annotations" not in chart.figure["layout"]


def test_captions_named_the_file_instead_of_the_scenario():
    """The caption of a figure has the title of the scenario."""
    result = simulate("frontier-22b", ["batch.global=32"])

    assert memory_by_stage(result).caption == "GPT 22B on 16 GCDs of Frontier (frontier-22b)"


@pytest.mark.parametrize(
    ("changes", "changed"),
    [
        (["plan.zero=0"], ("plan.zero",)),
        (["framework=megatron-core", "batch.micro=1"], ("framework",)),
        (["cluster.nic.bandwidth=x2"], ("cluster.nic.bandwidth",)),
        (["plan.zero=1", "fold=false", "title=x", "model.title=y", "published[0].value=70"], ()),
    ],
)
def test_a_changed_run_was_compared_with_numbers_published_for_another(changes, changed):
    """A number belongs to the run of its file: with other values it is named, and no error."""
    loaded = load("frontier-22b").changed(changes)
    result = simulate(loaded)
    (check,) = result.answer.published
    text = next(row.text for row in rows(result) if row.label == "published")
    sections = {section.id: section for section in page(result).sections}
    cards = [card.label for card in sections["summary"].blocks[0].cards]

    assert check.changed == changed
    assert (check.error is None) == bool(changed)
    assert ("for another run" in text) == bool(changed)
    assert ("Error of the prediction" in cards) == (not changed)
    assert bool(sections["published"].prose) == bool(changed)
    assert all(key in text for key in changed)


# --- power ----------------------------------------------------------------------------------------


def test_power_over_the_step_is_drawn_with_its_energy():
    """The chart has levels with the energy of the step, and the tables add up to it."""
    result, shown = page_of("Power", "frontier-22b", ("batch.global=32",))
    chart = power_over_time(result)
    time, watts = np.array(chart.series[0].x), np.array(chart.series[0].y[:-1]) * 1e3
    section = next(each for each in shown.sections if each.id == "power")

    assert (watts * np.diff(time)).sum() == pytest.approx(result.energy.joules)
    assert len(section.blocks) == 3
    assert len(section.blocks[1].rows) == len(result.energy.mean)


def test_power_that_is_not_known_is_a_sentence():
    """Without facts the section names the file that lacks them."""
    result = simulate("frontier-22b", {"cluster.node.power": None})

    assert power_over_time(result) is None
    assert power_section(result).prose == ("Not known: node frontier-ex235a has no power.",)


@pytest.mark.parametrize(
    ("settings", "cautioned"),
    [
        ((), False),
        (("cluster.name=dgx-h100",), True),
        (("framework=megatron-core", "precision=bf16"), True),
        (("cluster.name=dgx-h100", "framework=megatron-core", "precision=bf16"), False),
        (("cluster.name=dgx-h100", "framework=megatron-deepspeed"), False),
    ],
)
def test_a_profile_of_rocm_ran_on_h100_without_a_word(settings, cautioned):
    """A line cautions where the figures of a framework are of machines with other software."""
    found = [row for row in rows(simulate("frontier-22b", settings)) if row.label == "software"]

    assert [row.caution for row in found] == [True] * cautioned


def test_a_long_name_does_not_take_its_column_off_a_narrow_screen():
    """All results of a service were cut off at 390 pixels by the name of a measured run."""
    name = "sil-2026_04_06_llama_3_1_70b_h100_sxm_vllm_fp8_agg_8192x1024_c16_tp4_ep1_7-1153"
    table = text_table(
        "Results", ("item", "result"), [["nearest runs", f"{name} each token -2.7 %"]]
    )
    written = render(Page("A service", "", (Section("Results", "answer", (), (table,)),)))

    assert name not in written
    assert name in written.replace("<wbr>", "")
    assert all(
        len(part) <= 20 for part in written.partition("sil-")[2].split(" ")[0].split("<wbr>")
    )
