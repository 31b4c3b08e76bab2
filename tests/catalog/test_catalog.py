"""The catalogue: every shipped file passes, carries its proof, and what is wrong is named."""

import re
from functools import cache
from pathlib import Path

import pytest
from pydantic import BaseModel

from boxes import DATA
from clustersim import simulate
from clustersim.catalog import finding
from clustersim.catalog.changes import changes_of
from clustersim.catalog.checking import checked
from clustersim.catalog.facts import Count, Fact, Record, SourcedValue, Strict, sourced
from clustersim.catalog.reading import parse_yaml, read_yaml
from clustersim.catalog.records.machines import NicFacts
from clustersim.catalog.tree import Tree
from clustersim.catalog.writing import to_yaml
from clustersim.errors import CatalogError, ClustersimError, ScenarioError
from clustersim.reports.step.text import answer
from clustersim.scenario.load import from_mapping, load, load_any
from wrong_values import wrong_values

KINDS = ("accelerator", "library", "node", "cluster", "model", "framework")
SHIPPED = [(kind, name) for kind in KINDS for name in finding.entry_names(kind)]


@cache
def shipped(kind, name):
    """Return the record of a shipped file, by way of a scenario that names it."""
    data = {**DATA, "cluster": {"name": "frontier", "nodes": 1}}
    if kind == "cluster":
        data["cluster"]["name"] = name
    elif kind == "node":
        data["cluster"] |= {"name": "dgx-a100", "node": name}
    elif kind in ("accelerator", "library"):
        data["cluster"]["node"] = {"name": "dgx-a100", kind: name}
    else:
        data[kind] = name
    scenario = from_mapping("test", data).scenario
    node = scenario.cluster.node
    return {
        "accelerator": node.accelerator,
        "library": node.library,
        "node": node,
        "cluster": scenario.cluster,
        "model": scenario.model,
        "framework": scenario.framework,
    }[kind]


def facts(value, where, sources):
    """Yield every fact with its key and the sources that it may name, records inside included."""
    if isinstance(value, Record):
        sources = value.sources
    if isinstance(value, SourcedValue):
        yield where, value, sources
    if isinstance(value, BaseModel):
        for name in type(value).model_fields:
            yield from facts(sourced(value, name), f"{where}.{name}", sources)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from facts(item, f"{where}.{key}", sources)
    elif isinstance(value, list | tuple):
        for i, item in enumerate(value):
            yield from facts(item, f"{where}[{i}]", sources)


# --- what is shipped ------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "name"), SHIPPED)
def test_every_shipped_file_passes_its_schema(kind, name):
    """A file is of the kind of its folder, carries its own name and has nothing unknown."""
    record = shipped(kind, name)

    assert (record.kind, record.name) == (kind, name)
    assert finding.find(kind, name).data["kind"] == kind


@pytest.mark.parametrize(("kind", "name"), SHIPPED)
def test_every_value_has_one_proof(kind, name):
    """Each fact has a source that is listed or a reason for assuming it, and not both."""
    found = list(facts(shipped(kind, name), name, {}))

    assert found
    for where, fact, sources in found:
        assert (fact.source is None) != (fact.assumed is None), where
        assert fact.source is None or fact.source in sources, where
        assert fact.assumed is None or fact.assumed.strip(), where


@pytest.mark.parametrize(("kind", "name"), SHIPPED)
def test_no_source_is_listed_for_nothing(kind, name):
    """Every line of a table of sources is named by a fact, but those of the file it extends."""
    record = shipped(kind, name)
    parent = getattr(record, "extends", None)
    inherited = set() if parent is None else set(shipped(kind, parent).sources)
    used = {fact.source for _, fact, sources in facts(record, "", {}) if sources is record.sources}
    used.add(getattr(record, "source", None))
    launches = (getattr(record, "launch", None) or {}).values()
    used |= {launch.source for launch in launches if launch is not None}

    assert set(record.sources) - inherited <= used


def test_every_model_says_where_its_shape_is_from():
    """The one source of a model's dimensions is in its table."""
    for name in finding.entry_names("model"):
        record = shipped("model", name)
        assert record.source in record.sources


@pytest.mark.parametrize("name", finding.entry_names("scenario"))
def test_every_shipped_scenario_loads(name):
    """A scenario that is shipped names only what is shipped."""
    assert load_any(name).name == name


# --- what is wrong with a file --------------------------------------------------------------------

SCENARIO = (finding.shipped("scenario") / "frontier-22b.yaml").read_text(encoding="utf-8")
DEVICE = (finding.shipped("accelerator") / "mi250x-gcd.yaml").read_text(encoding="utf-8")
MODELS = ", ".join(finding.entry_names("model"))
UNITS = "compute_units: {value: 110, source: olcf}"


@pytest.fixture
def folder(here):
    """A folder with a scenario, in which files of its own are found first."""
    (here / "case.yaml").write_text(SCENARIO, encoding="utf-8")
    return here


def complaint(folder, text, name="mi250x-gcd"):
    """Return the message for a file next to the scenario."""
    (folder / f"{name}.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(ClustersimError) as caught:
        load("case.yaml")
    return str(caught.value)


def line_of(text, start):
    """Return the number of the line that holds a text."""
    return text[: text.index(start)].count("\n") + 1


@pytest.mark.parametrize(("old", "new", "key", "problem"), wrong_values("facts of an accelerator"))
def test_a_wrong_value_is_named_with_file_line_and_key(folder, old, new, key, problem):
    """The one line of the error has the place, the problem, and what is allowed."""
    assert old in DEVICE
    line = line_of(DEVICE, old)

    expected = f"mi250x-gcd.yaml:{line}: cluster.node.accelerator.{key}: {problem}"
    assert complaint(folder, DEVICE.replace(old, new)) == expected


def test_an_unknown_key_is_told_the_nearest_one(folder):
    """A misspelt key is named with its line, and so is the one that is missing for it."""
    message = complaint(folder, DEVICE.replace("compute_units:", "compute_unit:"))
    line = line_of(DEVICE, "compute_units:")

    missing, unknown = sorted(message.splitlines(), key=lambda line: "unknown" in line)
    assert missing.startswith("mi250x-gcd.yaml")
    assert missing.endswith("cluster.node.accelerator.compute_units: missing (a required key)")
    assert unknown == (
        f"mi250x-gcd.yaml:{line}: cluster.node.accelerator.compute_unit: unknown key"
        " (did you mean 'compute_units'?)"
    )


class Panel(Record):
    """A record with one fact."""

    switches: Fact[Count]


class Room(Strict):
    """A record that contains another."""

    panel: Panel


def test_sources_of_a_copy_are_checked_again():
    """A checked record is not searched again in the next one; a copy with another fact is."""
    panel = Panel(name="a", sources={"plan": {"title": "A plan"}}, switches=fact("plan"))
    copied = panel.model_copy(update={"switches": SourcedValue[Count](**fact("sketch"))})

    assert Room(panel=panel).panel.switches == 3
    with pytest.raises(ValueError, match="switches: source 'sketch' is not in the table"):
        Room(panel=copied)


def fact(source):
    """Return a fact with a source as a file states it."""
    return {"value": 3, "source": source}


def test_a_source_that_is_not_listed_is_blamed_on_its_file(folder):
    """A fact that names no line of the table is complained of with that file's name."""
    message = complaint(folder, DEVICE.replace(UNITS, UNITS.replace("olcf", "nobody")))

    assert message.startswith("mi250x-gcd.yaml")
    assert message.endswith("compute_units: source 'nobody' is not in the table 'sources'")


def test_a_key_given_twice_is_named(folder):
    """The second of two equal keys is rejected with its line."""
    line = line_of(DEVICE, UNITS) + 1
    message = complaint(folder, DEVICE.replace(UNITS, f"{UNITS}\n{UNITS}"))

    assert message == f"mi250x-gcd.yaml:{line}: compute_units: key given twice"


@pytest.mark.parametrize("text", ["a: [1\nb: 2", "a: b: c", "a: 'x", "\ta: 1", "a: *nobody", "%"])
def test_what_is_not_yaml_is_refused_with_its_line(folder, text):
    """A file that does not parse is named with the line of the trouble."""
    message = complaint(folder, f"kind: accelerator\n{text}\n")

    assert message.startswith("mi250x-gcd.yaml:")
    assert ": is not valid YAML (" in message
    assert "\n" not in message


BOMB = "\n".join(
    ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    + [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 12)]
)


def test_aliases_that_explode_are_counted_before_they_are_expanded():
    """A billion laughs are rejected at two hundred thousand."""
    with pytest.raises(CatalogError) as caught:
        parse_yaml(BOMB, "bomb.yaml", CatalogError)

    expected = r"aliases expand to more than 200,000 values \(write them out\)"
    assert caught.match(rf"^bomb\.yaml:\d+: {expected}$")


@pytest.mark.parametrize("text", ["a: &a [*a]", "a: &a {b: *a}", "[" * 60 + "]" * 60, "[" * 10_000])
def test_what_has_no_bottom_is_refused(text):
    """A list that holds itself, and one that would exhaust the stack, end in one line."""
    with pytest.raises(ScenarioError, match=r"^deep\.yaml:1: nested more than 40 levels deep$"):
        parse_yaml(text, "deep.yaml")


@pytest.mark.parametrize(
    ("text", "tag"), [("ls", ""), ("{x: 1}", ""), ("[ls]", "/apply")], ids=lambda text: text
)
def test_a_tag_constructs_nothing(text, tag):
    """A tagged value is rejected wherever it stands, so that a file can never make an object."""
    with pytest.raises(CatalogError) as caught:
        parse_yaml(f"x: 1\na: !!python/object{tag}:os.system {text}", "evil.yaml", CatalogError)

    assert str(caught.value) == (
        f"evil.yaml:2: tag 'tag:yaml.org,2002:python/object{tag}:os.system' is not allowed"
        " (plain values only)"
    )


def test_plain_values_are_read_as_yaml_1_2_says():
    """Numbers, booleans and nothing are themselves; a date, yes and a version stay text."""
    text = "[1_000, 0x10, 0o17, 1.5e3, true, null, ~, yes, 2026-11-21, 1.2.3, '7']"

    assert parse_yaml(text, "plain.yaml").data == [
        1000, 16, 15, 1500.0, True, None, None, "yes", "2026-11-21", "1.2.3", "7"
    ]  # fmt: skip


@pytest.mark.parametrize("number", [".inf", "-.inf", ".NaN", "1e999"])
def test_numbers_that_are_not_finite_are_rejected_where_they_are_read(number):
    """No reader of a file or option has to think of them: they have a line, or an option."""
    with pytest.raises(ScenarioError) as of_file:
        parse_yaml(f"a:\n  b: [1, {number}]\n", "numbers.yaml")
    with pytest.raises(ScenarioError) as of_option:
        changes_of([f"a.b={{c: {number}}}"])
    with pytest.raises(ScenarioError):
        changes_of({"a.b": [float(number.replace(".", "", 1) if "." in number else number)]})

    assert str(of_file.value) == f"numbers.yaml:2: a.b[1]: must be a finite number, not {number}"
    assert "--set a.b=" in str(of_option.value)
    assert "a.b: must be a finite number, not " in str(of_option.value)


def test_a_table_where_an_accelerator_is_named_is_one_line(tmp_path):
    """``kernels_like: {a: 1}`` ended in a KeyError before any check of it."""
    file = tmp_path / "mine.yaml"
    text = (finding.shipped("scenario") / "frontier-22b.yaml").read_text(encoding="utf-8")
    device = "accelerator: {name: mi250x-gcd, kernels_like: {a: 1}}"
    node = f"node: {{name: frontier-ex235a, {device}}}"
    file.write_text(re.sub("cluster: .*", f"cluster: {{name: frontier, nodes: 2, {node}}}", text))

    with pytest.raises(ScenarioError, match=r"kernels_like.a: unknown key"):
        load(file)


def test_an_assumed_value_names_its_file_without_private_folders(tmp_path):
    """Pages and summaries printed the absolute path of the file that sets a value."""
    file = tmp_path / "mine.yaml"
    text = (finding.shipped("scenario") / "frontier-22b.yaml").read_text(encoding="utf-8")
    nic = "nic: {bandwidth: 50 GB/s}"
    file.write_text(re.sub("cluster: .*", f"cluster: {{name: frontier, nodes: 2, {nic}}}", text))
    tree = load(file).tree

    assert re.fullmatch(
        r"set in mine.yaml:\d+", tree.data["cluster"]["nic"]["bandwidth"]["assumed"]
    )


def test_every_value_knows_its_line():
    """Keys and entries of lists remember where they stand, also behind an alias."""
    document = parse_yaml("a: &x\n  b: 1\nc:\n  - 2\n  - *x\n", "lines.yaml")
    lines = {key: place.line for key, place in document.places.items()}

    assert lines["a", "b"] == 2
    assert lines["c", 0] == 4
    assert lines["c", 1, "b"] == 2


def test_files_that_cannot_be_read_are_named(here):
    """No file, a folder and bytes that are no text each have their sentence."""
    Path("folder.yaml").mkdir()
    Path("bytes.yaml").write_bytes(b"\xff\xfe\xff")
    reasons = {
        "none.yaml": "no such file",
        "folder.yaml": "is a folder, not a file",
        "bytes.yaml": "cannot be read (is not UTF-8 text)",
    }
    for name, reason in reasons.items():
        with pytest.raises(CatalogError) as caught:
            read_yaml(Path(name), CatalogError)
        assert str(caught.value) == f"{name}: {reason}"


# --- names ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("old", "new", "problem"), wrong_values("names of files"))
def test_an_unknown_name_is_told_the_nearest_one(folder, old, new, problem):
    """A name that no file carries is named with its line, and the nearest that there is."""
    assert old in SCENARIO
    told = complaint(folder, SCENARIO.replace(old, new), "case")
    assert told == problem.replace("...", MODELS)


def test_a_file_beside_the_scenario_wins(folder):
    """A device of the same name in the scenario's folder is the one that is used."""
    (folder / "mi250x-gcd.yaml").write_text(DEVICE.replace(UNITS, UNITS.replace("110", "111")))
    loaded = load("case.yaml")

    path = ("cluster", "node", "accelerator", "compute_units", "value")
    assert loaded.scenario.cluster.node.accelerator.compute_units == 111
    assert str(loaded.place(*path)) == f"mi250x-gcd.yaml:{line_of(DEVICE, UNITS)}"


def test_a_chip_in_the_working_folder_is_found_by_a_shipped_scenario(tmp_path, monkeypatch):
    """A name that is not there is looked for in the working folder, which the message states."""
    monkeypatch.chdir(tmp_path)
    chip = finding.shipped("accelerator") / "a100-80gb.yaml"
    text = chip.read_text(encoding="utf-8").replace("name: a100-80gb", "name: mychip")
    (tmp_path / "mychip.yaml").write_text(f"{text}\nkernels_like: a100-80gb\n", encoding="utf-8")
    (tmp_path / "bare.yaml").write_text("name: bare\n", encoding="utf-8")
    key = "cluster.node.accelerator"
    loaded = load("megatron21-t1-1.7b", {key: "mychip"})

    assert loaded.scenario.cluster.node.accelerator.name == "mychip"
    for name, message in (
        ("mychp", "no accelerator named 'mychp' (did you mean 'mychip'?)"),
        ("bare", "no accelerator named 'bare' (bare.yaml lacks the line kind: accelerator)"),
        ("zz", "v100-sxm2-32gb; no zz.yaml in the working folder)"),
    ):
        with pytest.raises(CatalogError) as error:
            load("megatron21-t1-1.7b", {key: name})
        assert message in str(error.value)


@pytest.mark.parametrize("text", ["kind: model\nname: mi250x-gcd\n", "just text\n", "[1, 2]\n", ""])
def test_a_file_of_another_kind_beside_the_scenario_does_not_win(folder, text):
    """A file that only shares the name is passed over for the shipped one."""
    (folder / "mi250x-gcd.yaml").write_text(text)

    assert load("case.yaml").scenario.cluster.node.accelerator.compute_units == 110


# --- plain values and plain words -----------------------------------------------------------------

BOX = """kind: cluster
name: my-box
node: dgx-h100
size: 4
nic: {bandwidth: 50 GB/s, latency: {value: 1 us, assumed: as the vendor states}, efficiency: 0.94}
fabric: {type: switch}
"""
OWN = """title: Two nodes of my own
cluster: {name: my-box, nodes: 2}
model: llama3-8b
plan: {data: 16, zero: 3}
batch: {global: 16, micro: 1, sequence: 1024}
precision: bf16
framework: nemo-automodel
"""
PYTHON = ("input should", "valid ", "instance of", "Annotated", "FieldInfo", "None", "parse string",
          "expected tags")  # fmt: skip


@pytest.fixture
def box(folder):
    """A folder with a scenario on a cluster that the user describes with plain values."""
    (folder / "case.yaml").write_text(OWN, encoding="utf-8")
    (folder / "my-box.yaml").write_text(BOX, encoding="utf-8")
    return folder


def test_size_4_in_an_own_file_is_stated_by_the_user(box):
    """A plain value needs no proof in a user's own file: it is an assumption, listed as such."""
    cluster = load("case.yaml").scenario.cluster
    result = simulate("case.yaml")
    stated = ["cluster.size", "cluster.nic.bandwidth", "cluster.nic.efficiency"]

    assert (cluster.size, sourced(cluster, "size").assumed) == (4, "stated by the user")
    assert cluster.nic.bandwidth == 50e9
    assert result.answer.assumed == dict.fromkeys(stated, "stated by the user")
    assert f"stated by the user: {', '.join(stated)}" in "\n".join(answer(result))


def test_a_plain_value_set_on_the_command_line_names_its_option(box):
    """A setting of a key that the file lacks is assumed because of the option."""
    library = load("case.yaml", ["cluster.node.library.channels=4"]).scenario.cluster.node.library

    assert sourced(library, "channels").assumed == "--set cluster.node.library.channels=4"


def test_a_plain_value_in_a_shipped_file_needs_a_source(tmp_path, monkeypatch):
    """What we ship carries its proof: the message gives the form."""
    (tmp_path / "my-box.yaml").write_text(BOX, encoding="utf-8")
    monkeypatch.setattr(finding, "shipped", lambda kind: tmp_path)
    with pytest.raises(CatalogError) as caught:
        checked(Machine, Tree.of(read_yaml(tmp_path / "my-box.yaml")), CatalogError)

    assert (
        "my-box.yaml:4: size: 4 has no source"
        " (write {value: 4, source: KEY} or {value: 4, assumed: why})"
    ) in str(caught.value)


class Machine(Strict):
    """The facts of a cluster file that has no other files."""

    kind: str
    name: str
    node: str
    size: Fact[Count]
    nic: NicFacts
    fabric: dict[str, str]


@pytest.mark.parametrize(("old", "new", "problem"), wrong_values("a cluster of plain values"))
def test_errors_of_a_catalogue_file_are_in_plain_words(box, old, new, problem):
    """Python's types are never named: the line says what is wrong and the form that is right."""
    message = complaint(box, BOX.replace(old, new), "my-box")

    assert message == f"my-box.yaml:{problem}"
    assert not any(word in message for word in PYTHON)


@pytest.mark.parametrize(
    ("setting", "problem"),
    [
        ("cluster.fabric.type=torus", "cluster.fabric.shape: missing (a required key)"),
        (
            "cluster.node.nics.devices=[0, 99]",
            "cluster.node: nics.devices: names device 99, but",
        ),
        ("cluster.nodes=600000", "cluster: nodes: 600,000 nodes have 4,800,000 devices"),
        ("model.kv_heads=7", "model: kv_heads: 7 does not divide heads 32"),
        ("framework.kernels=3", "framework.kernels: must be a table with keys such as"),
    ],
)
def test_a_shipped_file_is_not_blamed_for_a_setting(box, setting, problem):
    """What contradicts a correct file is the setting, and the message begins with it."""
    with pytest.raises(ClustersimError) as caught:
        load("case.yaml", [setting])

    assert str(caught.value).startswith(f"--set {setting}: {problem}")


def test_a_shipped_file_is_not_blamed_for_a_scenario(box):
    """Without a setting it is the closest value of the scenario that contradicts the file."""
    text = OWN.replace("nodes: 2", "nodes: 600000").replace("my-box", "dgx-h100")

    assert complaint(box, text, "case").startswith("case.yaml:2: cluster: nodes: 600,000 nodes")


def test_a_fact_whose_assumption_has_a_colon_is_written_and_read_again():
    """Calibrating the H100 ended in invalid YAML: within braces a colon needs quotes."""
    data = {"compute": {"value": 1.0, "assumed": "8.48 kW of a node (arXiv:2412.08602)"}}

    assert parse_yaml(to_yaml(data), "chip.yaml", CatalogError).data == data
