"""No branch knows a name: what differs between machines, models and software stands in their files.

    names of the catalogue and of measured runs --words--> none where the code decides
                                                           none in a key of a profile

A word of a name, `h100` of `h100-sxm`, would do as well as the name, so words are looked for.
"""

import ast
import re
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import pytest

from clustersim.catalog.finding import entry_names as files_of
from clustersim.catalog.finding import find, shipped

PACKAGE = Path(__file__).parents[2] / "clustersim"

KINDS = ("accelerator", "cluster", "node", "library", "model", "framework")

PLAIN = frozenset({
    "full", "selective", "fused", "unfused", "fusion", "graphs", "offload", "lora", "dora", "qlora",
    "hqq", "mxfp8", "nvfp4", "layer", "step", "moe", "strong", "weak", "small", "other", "chip",
    "core", "gpu", "pcie", "pod", "tile", "fsdp", "single", "roce", "gcd", "server", "paper",
    "base", "bridge", "eager", "next", "gpt", "llama", "log", "user", "nvidia", "fujitsu",
})  # fmt: skip
"""Words of the field that names are made of as well; `gpt` and `llama` are families of layers,
which a model file tells, and the last two are makers."""

SUBJECT = {
    "importers/launch/formats.py": "launch formats, named after their program",
    "importers/logs/formats.py": "formats of logs, named after their program",
    "importers/launch/megatron.py": "options of a program, by their names",
    "importers/launch/megatron_config.py": "options of a program, by their names",
    "importers/launch/nemo.py": "options of a program, by their names",
    "importers/launch/primus.py": "options of a program, by their names",
    "importers/launch/engines/tensorrt_llm.py": "options of a program, by their names",
    "importers/launch/accelerate.py": "options of a program, by their names",
    "importers/launch/axolotl.py": "options of a program, by their names",
    "importers/launch/litgpt.py": "options of a program, by their names",
    "importers/launch/llm_foundry.py": "options of a program, by their names",
    "importers/launch/torchtitan.py": "options of a program, by their names",
    "importers/launch/torchtune.py": "options of a program, by their names",
    "importers/launch/deepspeed.py": "options of a program, by their names",
    "importers/launch/maxtext.py": "options of a program, by their names",
    "importers/launch/torchtitan_source.py": "forms of jobs of a program",
    "importers/registry.py": "readers by the format of a file",
    "importers/models/__init__.py": "readers by the model_type of a configuration",
}
"""Files in which names are what the code is about, and why."""

ASKS = frozenset({
    "startswith", "endswith", "removeprefix", "removesuffix", "find", "index", "count", "get",
    "pop", "match", "fullmatch", "search", "findall", "compile", "fnmatch", "fnmatchcase", "alike",
    "frozenset", "set",
})  # fmt: skip
"""Calls that ask whether a text is, or holds, another."""

TYPES = frozenset({"Annotated", "Literal"})
"""What is written with brackets and looks nothing up."""


class Found(NamedTuple):
    """A text that the code decides on, and the word of a name in it."""

    line: int
    text: str
    word: str


BETWEEN = re.compile(r"[^a-z0-9.]+")
NUMBER = re.compile(r"[\d.]{0,3}|[a-z]{0,2}\d{0,2}")


def words(text: str) -> list[str]:
    """Return the words of a text; numbers of a version or a layout (`2.0`, `tp8`) say nothing."""
    return [word for word in BETWEEN.split(text.lower()) if not NUMBER.fullmatch(word)]


@cache
def words_of_names() -> frozenset[str]:
    """Return the words of all names in the catalogue and of measured runs and their groups."""
    cases = (shipped("validation") / "cases.yaml").read_text(encoding="utf-8")
    runs = re.findall(r"^(?:- |  )(?:id|group): (.+)$", cases, re.MULTILINE)
    names = chain(runs, *(files_of(kind) for kind in KINDS))
    return frozenset(word for name in names for word in words(name))


def texts(node: ast.AST, constants: Mapping[str, ast.AST]) -> Iterator[tuple[int, str]]:
    """Yield the texts below a node, those of the constants that it names among them."""
    for each in ast.walk(node):
        if isinstance(each, ast.Constant) and isinstance(each.value, str):
            yield each.lineno, each.value
        elif isinstance(each, ast.Name) and each.id in constants:
            told = texts(constants[each.id], {})
            yield from ((each.lineno, text) for _, text in told)


def deciding(node: ast.AST) -> list[ast.AST]:
    """Return the parts of a node that the way of the code depends on, usually none."""
    match node:
        case ast.Compare(left=left, comparators=others):
            return [left, *others]
        case ast.MatchValue(value=value):
            return [value]
        case ast.Dict(keys=keys):
            return [key for key in keys if key is not None]
        case ast.Set(elts=members):
            return list(members)
        case ast.Subscript(value=ast.Name(id=name)) if name in TYPES:
            return []
        case ast.Subscript(slice=key):
            return [key]
        case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name), args=given):
            return list(given) if name in ASKS else []
    return []


def field(node: ast.AST) -> list[tuple[int, str]]:
    """Return the name of a field or variable that a node declares, usually none."""
    match node:
        case ast.AnnAssign(target=ast.Name(id=name), lineno=line):
            return [(line, name)]
    return []


def named_in(source: str, known: frozenset[str]) -> list[Found]:
    """Return the texts and fields of a module in which a word of a name stands."""
    if known.isdisjoint(words(source)):
        return []
    tree = ast.parse(source)
    constants = {
        target.id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name) and isinstance(node.value, ast.Constant | ast.Tuple)
    }
    found = {
        Found(line, text, word)
        for node in ast.walk(tree)
        for line, text in [
            *chain.from_iterable(texts(part, constants) for part in deciding(node)),
            *field(node),
        ]
        for word in words(text)
        if word in known
    }
    return sorted(found)


NAMING = ("sources", "held_out", "launch")
"""Keys below which names are the subject: what was read, the errors of groups left out, and the
programs that launch a job, with the names of models that they have."""


def keys_of(data: object) -> Iterator[str]:
    """Yield every key of a catalogue file, but the names of its sources and of measured groups."""
    if isinstance(data, Mapping):
        for key, value in data.items():
            yield str(key)
            if key not in NAMING:
                yield from keys_of(value)
    elif isinstance(data, list):
        for value in data:
            yield from keys_of(value)


@pytest.fixture(scope="module")
def known():
    return words_of_names() - PLAIN


def test_no_condition_has_the_name_of_a_machine_a_model_or_a_group(known):
    """What the code does depends on facts, never on what a thing is called."""
    found = [
        f"clustersim/{place}:{each.line}: '{each.text}' has '{each.word}', a word of a name"
        for path in sorted(PACKAGE.rglob("*.py"))
        if (place := path.relative_to(PACKAGE).as_posix()) not in SUBJECT
        for each in named_in(path.read_text(encoding="utf-8"), known)
    ]

    assert "\n".join(found) == ""


@pytest.mark.parametrize("kind", ["accelerator", "library", "framework", "model", "node"])
def test_no_key_of_the_catalogue_is_named_after_a_machine_a_model_or_a_group(kind, known):
    """One calibration for a chip and one profile for a framework, the same for all that use it."""
    found = [
        f"{name}.yaml: {key}"
        for name in files_of(kind)
        for key in keys_of(find(kind, name).data)
        if not known.isdisjoint(words(key))
    ]

    assert found == []


def test_names_that_are_the_subject_still_stand_where_they_are_said_to(known):
    """A file whose names are gone is no exception any more."""
    for place in SUBJECT:
        assert named_in((PACKAGE / place).read_text(encoding="utf-8"), known), place


def test_plain_words_are_words_of_names():
    """A word that no name has would only hide one that comes."""
    assert sorted(PLAIN - words_of_names()) == []


@pytest.mark.parametrize(
    ("source", "word"),
    [
        ("if chip.name == 'h100-sxm':\n    fast = 1", "h100"),
        ("if 'h100' in chip.name:\n    fast = 1", "h100"),
        ("slow = name != 'Frontier'", "frontier"),
        ("if name in ('vtrain-multi', 'any'):\n    pass", "vtrain"),
        ("if case.group.startswith('ultrascale'):\n    pass", "ultrascale"),
        ("if re.match(r'a100-.*', name):\n    pass", "a100"),
        ("if alike('mosaicml-*', group):\n    pass", "mosaicml"),
        ("match name:\n    case 'fugaku':\n        pass", "fugaku"),
        ("share = {'a100-80gb': 0.7}.get(name, 1.0)", "a100"),
        ("share = table['nanotron']", "nanotron"),
        ("if name in {'bloom-176b'}:\n    pass", "bloom"),
        ("SLOW = ('selene', 'frontier')\nif name in SLOW:\n    pass", "selene"),
        ("class Record:\n    torchtitan_factor: float = 1.0", "torchtitan"),
    ],
)
def test_a_branch_on_a_name_is_found(source, word, known):
    """However it is spelt, a decision by name does not pass."""
    assert word in {each.word for each in named_in(source, known)}


@pytest.mark.parametrize(
    "source",
    [
        "if given.peak > 1e15:\n    pass",
        "run('frontier-22b')",
        "source = 'measured on an A100'",
        "if kernels.attention == 'unfused':\n    pass",
        "if precision in ('fp8', 'bf16'):\n    pass",
    ],
)
def test_a_branch_on_a_fact_passes(source, known):
    """Facts, options and names that nothing depends on are free."""
    assert named_in(source, known) == []
