"""Comparisons and changes of services: what differs, by how much, and why."""

import json

import pytest
from clustersim.studies.service_compare.text import result_table

import clustersim
from clustersim.cli import main
from clustersim.errors import ScenarioError

NAME = "llama3-70b-h100-serving"
SMALL = ["load.concurrency=8", "load.requests=16"]
WIDER = ["load.output=9"]
BASE = f"{NAME} {' '.join(SMALL)}"


def ended(capsys, *words):
    """Return exit code, standard output and standard error of a command."""
    with pytest.raises(SystemExit) as end:
        main([*words])
    caught = capsys.readouterr()
    return end.value.code, caught.out, caught.err


def test_the_parts_of_a_difference_add_up_to_it():
    """Causes of a token's time sum to its change, and gain is the ratio of the measure."""
    pair = [NAME, f"{NAME} precision=bf16"]
    found = clustersim.compare_services(pair, settings=SMALL, jobs=1)
    (one,) = found.comparisons
    rate = one.differences["tokens_per_s_per_device"]

    assert sum(one.parts.values()) == pytest.approx(one.differences["tpot"].change)
    assert sum(one.ttft_parts.values()) == pytest.approx(one.differences["ttft"].change)
    assert one.gain == pytest.approx(rate.after / rate.before)
    assert [value.text for value in one.inputs] == ["precision fp8 -> bf16"]
    assert one.finding.startswith(f"{NAME} precision=bf16: 0.")


def test_a_service_that_does_not_fit_is_compared_by_its_verdict():
    """There is no gain, and the finding states what is missing."""
    found = clustersim.compare_services([NAME, f"{NAME} plan.tensor=1"], settings=SMALL, jobs=1)
    table = {line[0]: line[2] for line in result_table(found)}

    assert found.comparisons[0].gain is None
    assert "does not fit: a device needs" in found.comparisons[0].finding
    assert (table["memory"], table["each token"]) == ("does not fit", "-")


@pytest.mark.large
def test_fused_kernels_and_links_are_changes_that_gain():
    """The changes are ranked; faster links and narrower weights gain, wider weights lose."""
    changes = [
        "precision=bf16", "cluster.node.interconnect.bandwidth=x2", "engine.kernels.norm=false",
    ]  # fmt: skip
    found = clustersim.whatif_service(BASE, settings=changes, jobs=1)
    gains = {one.settings[0]: one.gain for one in found.changes}

    assert [*gains] == sorted(gains, key=gains.__getitem__, reverse=True)
    assert gains[changes[0]] < gains[changes[2]] < 1 < gains[changes[1]]
    assert found.product == pytest.approx(gains[changes[0]] * gains[changes[1]] * gains[changes[2]])
    assert found.together.gain == pytest.approx(found.product, rel=0.1)


def test_a_batch_is_ranked_by_its_latency():
    """A batch that is faster serves the same requests sooner."""
    found = clustersim.whatif_service("gpt-175b-a100-fastertransformer", settings=WIDER, jobs=1)

    assert found.by == "latency"
    assert found.changes[0].measures["latency"] > found.base.latency_s.mean


def test_the_verbs_take_serving_scenarios(capsys, tmp_path, monkeypatch):
    """`whatif` and `compare` print the finding first and write a page."""
    monkeypatch.chdir(tmp_path)
    code, out, _ = ended(
        capsys, "whatif", BASE, "--set", "precision=bf16", "--set", "plan.tensor=3"
    )
    again = ended(capsys, "compare", BASE, f"{BASE} precision=bf16")

    assert (code, again[0]) == (0, 0)
    assert out.startswith("none of the changes improves tokens/s per device")
    assert "invalid" in out
    assert "inputs        precision fp8 -> bf16" in again[1]
    for verb in ("whatif", "compare"):
        assert (tmp_path / "runs" / f"{NAME}-{verb}" / "report.html").exists()


def test_an_object_has_the_keys_of_the_answer(capsys, tmp_path, monkeypatch):
    """`--json` prints the changes with their measures."""
    monkeypatch.chdir(tmp_path)
    words = ["--set", "precision=bf16", "--json", "--by", "tpot"]
    found = json.loads(ended(capsys, "whatif", BASE, *words)[1])

    assert found["by"] == "tpot"
    assert found["changes"][0]["measures"]["tpot"] > found["base"]["tpot_s"]["mean"]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["whatif", NAME], "no change is given"),
        (["whatif", NAME, "--set", "precision=int4", "--by", "mfu"], "--by mfu: unknown measure"),
        (["whatif", "frontier-22b", "--set", "plan.zero=1", "--by", "tpot"], "--by tpot: unknown"),
        (["compare", NAME], "one scenario, and two are needed"),
        (["compare", NAME, "frontier-22b"], "a serving scenario"),
        (
            ["compare", "frontier-22b", "korthikanti-22b-full", "--by", "tpot"],
            "--by tpot: unknown",
        ),
        (["whatif", f"{NAME} plan.tensor=1", "--set", "precision=int4"], "no change has a gain"),
    ],
)
def test_bad_input_is_one_line(capsys, tmp_path, monkeypatch, words, complaint):
    """The line names what is wrong; the exit code is 2."""
    monkeypatch.chdir(tmp_path)
    code, _, err = ended(capsys, *words)

    assert (code, err.count("\n")) == (2, 1)
    assert complaint in err


def test_a_base_that_does_not_fit_is_an_error():
    """Without times there is no gain."""
    with pytest.raises(ScenarioError, match="does not fit"):
        clustersim.whatif_service(f"{NAME} plan.tensor=1", settings=["load.requests=8"], jobs=1)
