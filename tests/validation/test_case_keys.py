"""Keys of measured cases: unknown ones reject the file, in all families, with the nearest key."""

from pathlib import Path

import pytest

from clustersim.catalog.finding import shipped
from clustersim.errors import ScenarioError
from clustersim.validation.cases.rows import read_entries

CASES = """\
- {id: a, group: x, framework: megatron, parallel: {tp: 1, vpp: 2}, note: anything}
- {id: b, parallel: {vpp: 4}, measured: {step_time: 1.0}}
- {id: c, family: inference, serving: {mode: agg, input: 4}, measured: {total_tok_s: 3}}
- {id: d, family: goodput, measured: {mttf_hours: 3}}
- {id: e, family: energy, measured: {gpt3_median_w: 900, max_watts: 3}, derived: {any: 1}}
- {id: f, family: duration, model: {parameters: 3}}
- {id: g, family: jitter, system: {rank: 3}}
- {id: h, family: sharing, topology: {any: 1}, colour: red}
- {id: i, family: inferense}
- {id: j, family: {a: 1}}
"""
FAMILIES = "inference, duration, goodput, energy, jitter, sharing, or left out for training steps"
PROBLEMS = [
    "1: framework: unknown key (the software is chosen by 'group' and the title of 'source',",
    "1: parallel.vpp: unknown key (did you mean 'interleave'?), in 2 cases",
    "2: measured.step_time: unknown key (did you mean 'step_time_s'?)",
    "3: serving.input: unknown key",
    "4: measured.mttf_hours: unknown key (did you mean 'mttf_h'?)",
    "5: measured.max_watts: unknown key (did you mean 'max_w'?)",
    "6: model.parameters: unknown key (did you mean 'params_b'?)",
    "7: system.rank: unknown key (did you mean 'ranks'?)",
    "8: colour: unknown key",
    f"9: family: must be one of {FAMILIES}, not 'inferense' (did you mean 'inference'?)",
    f"10: family: must be one of {FAMILIES}, not a table of keys",
]


def test_unknown_keys_of_cases_are_not_dropped_in_silence(tmp_path: Path) -> None:
    """Each unknown key, and each unknown family, is one line with its place; notes are accepted."""
    file = tmp_path / "mine.yaml"
    file.write_text(CASES, encoding="utf-8")

    with pytest.raises(ScenarioError) as error:
        read_entries(file)

    lines = str(error.value).splitlines()
    assert len(lines) == len(PROBLEMS)
    for line, problem in zip(lines, PROBLEMS, strict=True):
        assert line.startswith(f"{file}:{problem}")


def test_shipped_cases_have_known_keys() -> None:
    """All shipped files of cases are read, and no row of them is unreadable."""
    names = ("cases", "inference_cases", "runs_goodput", "runs_duration")
    entries = [
        entry for name in names for entry in read_entries(shipped("validation") / f"{name}.yaml")
    ]

    assert len(entries) > 700
    assert all(entry.row is not None for entry in entries)


def test_lists_in_cases_were_shown_as_python_lists(tmp_path: Path) -> None:
    """A degree of experts was "[None] is not a whole number"."""
    file = tmp_path / "mine.yaml"
    file.write_text("- {id: a, group: x, parallel: {ep: [null]}}", encoding="utf-8")

    (entry,) = read_entries(file)
    assert "parallel.ep: a list is not a whole number" in str(entry)
