"""Bad input to every importer: an answer or one clear line within seconds, and no command is run.

The formats are those of the registries, and the files those of `tests/data`, so that a format with
a sample is tested here without a further line.
"""

import re
import shutil
import socket
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from clustersim.errors import ClustersimError
from clustersim.importers.draft import Choices
from clustersim.importers.launch.draft import LaunchDraft
from clustersim.importers.logs.nccl_tests import read_collective_log
from clustersim.importers.logs.services import benchmark_of
from clustersim.importers.logs.steps import read_log, steps_of
from clustersim.importers.registry import FORMATS, import_file, import_source
from clustersim.importers.source import Source
from clustersim.scenario.load import load_launch
from logged_lines import LINES, NCCL_TESTS, RESULTS_AS_TEXT

DATA = Path(__file__).parents[1] / "data"
DEEP = 10_000
SECONDS = 2.0
"""Time of a processor; most cases take a hundredth of a second."""

FOR_15_MB = 12.0
"""The same for a file near the limit: finding its format takes three seconds, reading it as many,
on a busy machine."""

JOBS = [
    {"cluster": "dgx-h100", **nodes, **model}
    for nodes in ({}, {"nodes": 8}, {"nodes": 2})
    for model in ({}, {"model": "llama3-8b"})
]
NAMED = ({}, {"accelerator": "a100-80gb"}, *JOBS)
"""What files do not state, one set after the other until a file can be read."""


# --- samples --------------------------------------------------------------------------------------


class Sample(NamedTuple):
    """A file that is read: its format, its ending, its text, and the reader of a path."""

    format: str
    suffix: str
    text: str
    read: Callable[[Path], object]


def imported(path, form, choices):
    """Import a file of a machine, a model or a job."""
    draft = import_file(path, Choices("mine", folder=path.parent, **choices), form).draft
    if isinstance(draft, LaunchDraft):
        load_launch(path, draft)


def logged(path):
    """Read a log of training or the result of a benchmark."""
    source = read_log(path)
    return benchmark_of(source) or steps_of(source)


@cache
def samples():
    """Return the samples by name: every file of the data, and a text of each log."""
    found = {}
    for path in sorted([*DATA.glob("import/*.*"), *DATA.glob("launch/*.*")]):
        text = path.read_text(encoding="utf-8")
        form = format_of(text)
        found[path.name] = Sample(form, path.suffix, text, reader(path.name, form, text))
    for name, (form, text, _) in LINES.items():
        found[f"log of {name}"] = Sample(f"log of {form}", ".log", f"{text}\n" * 20, logged)
    for name, text in RESULTS_AS_TEXT.items():
        found[f"result of {name}"] = Sample(f"result of {name}", ".json", text, logged)
    found["nccl-tests"] = Sample("nccl-tests", ".txt", NCCL_TESTS, read_collective_log)
    return found


def format_of(text):
    """Return the format that the content shows; any JSON object may be a model."""
    found = [form for form, (_, sign) in FORMATS.items() if sign.search(text)]
    return found[0]


@cache
def named(name, form, text):
    """Return what has to be named for a file; all of it if that does not suffice."""
    for choices in NAMED:
        with suppress(ClustersimError):
            import_source(Source(name, text), Choices("mine", **choices), form)
            return choices
    return NAMED[-1]


def reader(name, form, text):
    """Return the reader of a format, which is detected first."""

    def read(path):
        choices = named(name, form, text)
        try:
            imported(path, None, choices)
        except ClustersimError as problem:
            if "format not detected" not in str(problem):
                raise
            imported(path, form, choices)

    return read


def first_of_each():
    """Return the smallest sample of each format."""
    by_size = sorted(samples(), key=lambda name: len(samples()[name].text))
    return sorted({samples()[name].format: name for name in reversed(by_size)}.values())


# --- what is done to them -------------------------------------------------------------------------

NUMBER = re.compile(r"(?<![\w.\-])\d+(?:\.\d+)?(?![\w.])")
WRONG = (
    "1e400", f"1{'0' * 10_000}", f"1{'0' * 400}", "NaN", ".inf", "-Infinity", "-1", "0", "[1, 2]",
    "{a: 1}", '{"a": 1}', "null", "true", "'text'", "18446744073709551616", "1e-320", "\u0661", "",
)  # fmt: skip
"""What may stand in the place of a number."""


def truncated(sample):
    """Yield a file that ends early."""
    for share in (0.03, 0.25, 0.5, 0.75, 0.97):
        yield sample.text[: int(share * len(sample.text))].encode()


def empty(sample):
    """Yield files without content: no byte, space, and comments alone."""
    comments = {".json": "// a\n", ".xml": "<!-- a -->\n"}
    yield from (b"", b" \n\t\n", b"\xef\xbb\xbf", comments.get(sample.suffix, "# a\n").encode() * 9)


def binary(sample):
    """Yield what is no text, whole or in the middle."""
    half = len(sample.text) // 2
    yield from (
        bytes(range(256)),
        b"\x1f\x8b\x08" + b"\x00\xff" * 100,
        sample.text.encode("utf-16"),
    )
    yield sample.text[:half].encode() + b"\x00\xfe" + sample.text[half:].encode()


def unknown(sample):
    """Yield a file with a key or an option that no program has."""
    text = sample.text
    if sample.suffix == ".json":
        yield text.replace("{", '{"unknown_key": {"a": [1]},', 1).encode()
    elif sample.suffix == ".xml":
        yield re.sub(r"<(\w+)", r'<\1 unknown="1"', text).encode()
    else:
        added = {".yaml": "unknown_key: {a: [1]}", ".yml": "unknown_key: {a: [1]}"}
        added |= {".toml": "unknown_key = {a = [1]}", ".sh": "tool --unknown-option 3"}
        yield f"{text}\n{added.get(sample.suffix, 'unknown_key = 3')}\n".encode()


NESTS = ("[", "{", '{"a":', "(", "$(", "`", '"$((', "- ", "a: &b [", "<a>", "not ", "-")


def nested(sample, nests=NESTS):
    """Yield a file with a nest without end: lists, tables, tags, brackets or commands."""
    text = sample.text
    for left in nests:
        deep = left * DEEP
        if sample.suffix == ".json":
            yield text.replace("{", f'{{"deep": {deep}', 1).encode()
        elif sample.suffix == ".xml":
            yield re.sub(r"(</\w+>\s*)\Z", rf"{re.escape(deep)}\1", text).encode()
        elif sample.suffix in (".yaml", ".yml"):
            yield f"{text}\ndeep: {deep}".encode()
        else:
            yield f"{text}\ndeep = {deep}".encode()


def numbers(sample, most):
    """Yield a file with something else in the place of a number, for each of `most` numbers."""
    found = list(NUMBER.finditer(sample.text))
    for match in found[:: max(1, len(found) // most)]:
        for value in WRONG:
            yield f"{sample.text[: match.start()]}{value}{sample.text[match.end() :]}".encode()


def wrong_numbers(sample):
    """Yield a file with one of the wrong values in the place of each of as many numbers."""
    count = len(list(NUMBER.finditer(sample.text)))
    contents = list(numbers(sample, most=len(WRONG)))
    yield from contents[:: len(WRONG) + 1] if count >= len(WRONG) else contents[: len(WRONG)]


def repeated(sample, lines):
    """Yield a file of many lines: each of three of its own, and empty ones."""
    own = sample.text.splitlines()
    for line in (own[len(own) // 4], own[len(own) // 2], own[-1], ""):
        fewest = min(lines, 15_000_000 // (len(line) + 1))
        many = f"{line}\n" * fewest
        yield f"{sample.text}\n{many}".encode()


def large(sample):
    """Yield a file that is larger than any is allowed to be."""
    yield sample.text.encode() + b" " * 17_000_000


# --- what comes of it -----------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def _nothing_is_run_or_fetched(monkeypatch):
    def forbidden(*given, **named):
        raise AssertionError(f"called with {given}")

    monkeypatch.setattr(subprocess.Popen, "__init__", forbidden)
    monkeypatch.setattr(socket.socket, "connect", forbidden)
    for name in ("system", "popen", "execv", "execve", "fork", "posix_spawn"):
        monkeypatch.setattr(f"os.{name}", forbidden)


def check(sample, contents, folder, seconds=SECONDS):
    """Read each content: it ends with an answer, or with a line for each value that is wrong."""
    for other in DATA.glob("launch/*.*"):
        shutil.copy(other, folder)
    path = folder / f"given{sample.suffix}"
    for content in contents:
        path.write_bytes(content)
        begun = time.process_time()
        try:
            sample.read(path)
        except ClustersimError as problem:
            for line in str(problem).split("\n"):
                assert re.fullmatch(r"[^\x00-\x08]{10,700}", line), content[:300]
                assert not re.search(r"\bNone\b|Traceback|object at|<class", line), line
        assert time.process_time() - begun < seconds, content[:300]


def test_each_format_has_a_sample():
    """No format of a registry is left out."""
    assert {sample.format for sample in samples().values()} >= set(FORMATS)


@pytest.mark.parametrize("name", first_of_each())
@pytest.mark.parametrize("change", [truncated, empty, binary, unknown, wrong_numbers])
def test_bad_input_ends_in_an_answer_or_one_line(name, change, tmp_path):
    """Of each format one file, changed in each way."""
    sample = samples()[name]

    check(sample, change(sample), tmp_path)


@pytest.mark.parametrize("name", first_of_each())
def test_input_without_end_ends_in_an_answer_or_one_line(name, tmp_path):
    """A deep nest, many lines, and more bytes than are read."""
    sample = samples()[name]

    check(sample, nested(sample, NESTS[:2]), tmp_path)
    check(sample, repeated(sample, lines=200), tmp_path)
    check(sample, large(sample), tmp_path)


@pytest.mark.large
@pytest.mark.exhaustive
@pytest.mark.parametrize("name", samples())
def test_every_file_that_is_bad_ends_in_an_answer_or_one_line(name, tmp_path):
    """Further files of a format, every nest, and every wrong value for sixty numbers."""
    sample = samples()[name]

    for change in (truncated, unknown, nested):
        check(sample, change(sample), tmp_path)
    check(sample, numbers(sample, most=60), tmp_path)


@pytest.mark.large
@pytest.mark.exhaustive
@pytest.mark.parametrize("name", first_of_each())
def test_a_million_lines_end_in_an_answer_or_one_line(name, tmp_path):
    """As many lines as a file may have."""
    sample = samples()[name]

    check(sample, repeated(sample, lines=990_000), tmp_path, FOR_15_MB)
