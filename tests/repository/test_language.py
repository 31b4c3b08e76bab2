"""Help, messages, docstrings and pages use the words of the field (docs/glossary.md)."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]

OUT = {
    r"tell(s|ing)?|told": "print, report, show; reported",
    r"say(s|ing)?|said": "state, report, print; stated",
    r"ask(s|ed|ing)?": "request, requested; query",
    r"whom|nobody|somebody|anybody|everybody": "name the actor, or 'no X'",
    r"beside(s)?": "next to, together with, concurrently with",
    r"stands? against|stands? in the way|in the way": "reason, obstacle; already exists",
    r"takes? on": "claims",
    r"at work": "running",
    r"goes on from|goes on where": "resumes",
    r"what is left|are left over|is left (to|of)|that are left": "remaining",
    r"weigh(s|ed|ing)?": "estimate memory; memory only",
    r"refuse[sd]?|refusing": "reject, rejected, invalid",
    r"knows?|knew": "name the table or the value that is read",
    r"gating|informs only": "scored, not scored",
    r"\d+ of \d+ within": "90th percentile",
    r"cannot be(?= *[.,;:)(]|$)|can be(?= *[.,;:)(]|$)|none .{1,30}can be": "is invalid",
    r"a second time|once more|anew": "recomputed; rewritten",
    r"what it rests on|rests? on|stands? for": "is based on; represents",
    r"so many": "the first N",
    r"handed|hands? on|gives? up": "passes, transfers; releases",
    r"by (it|them)self|of its own making": "separately",
}
"""Words that are out, as regular expressions, and what to write instead (STYLE, section 12)."""

NAMES = {
    "told",
    "tell",
    "said",
    "say",
    "asked",
    "ask",
    "those",
    "whose",
    "beside",
    "again",
    "wanted",
    "mine",
    "there",
    "nobody",
}
"""Names of variables and functions that are out: the noun instead."""

KEYS = {"gating", "refused", "telling", "told"}
"""Keys of JSON objects that keep their names, because scripts read them."""

PATTERN = re.compile(rf"\b({'|'.join(OUT)})\b", re.IGNORECASE)


class Finding(NamedTuple):
    """One word that is out: where, which, and the text around it."""

    file: str
    line: int
    word: str
    text: str

    def __str__(self) -> str:
        """Return ``file:line: 'word' in: text``."""
        return f"{self.file}:{self.line}: '{self.word}' in: {self.text}"


@cache
def parsed(path: Path) -> tuple[list[tuple[int, str]], list[tuple[int, str]]]:
    """Return the literal texts of several words, and the names that a module gives, by line.

    Docstrings are texts; names are those of variables, arguments, functions and classes.
    """
    texts, names = [], []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.Constant(value=str(text)) if " " in text:
                texts.append((node.lineno, text))
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                names.append((node.lineno, name))
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                names.append((node.lineno, name))
    return texts, names


def lines(path: Path, mark: str = "") -> Iterator[tuple[int, str]]:
    """Yield the lines of a file, or what follows a mark in them."""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if mark in line:
            yield number, line[line.index(mark) :]


def findings(path: Path, texts: Iterator[tuple[int, str]]) -> Iterator[Finding]:
    """Yield the words of some texts that are out."""
    file = path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else str(path)
    for line, text in texts:
        for match in PATTERN.finditer(text):
            around = text[max(0, match.start() - 50) : match.end() + 40].replace("\n", " ")
            yield Finding(file, line, match[0], around)


def modules(root: Path) -> list[Path]:
    """Return the modules below a folder, or the module."""
    return sorted(root.rglob("*.py")) if root.is_dir() else [root]


WRITTEN = ("answers", "catalogue", "scenario", "validation")
"""Pages that scripts write, from texts of modules and keys."""

PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted(
        path
        for path in (ROOT / "docs").rglob("*.md")
        if path.relative_to(ROOT / "docs").parts[0] not in WRITTEN
    ),
]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_page_has_no_word_that_is_out(path):
    """Pages use conventional technical English."""
    assert "\n".join(map(str, findings(path, lines(path)))) == ""


def test_texts_of_modules_have_no_word_that_is_out():
    """Help, messages, docstrings and comments use conventional technical English."""
    found = [
        finding
        for path in modules(ROOT / "clustersim")
        for finding in findings(path, iter([*parsed(path)[0], *lines(path, "#")]))
        if finding.word not in KEYS
    ]
    assert "\n".join(map(str, found)) == ""


def test_no_name_is_a_word_that_is_out():
    """Variables and functions are named by nouns and verbs of the field."""
    found = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for path in modules(ROOT / "clustersim")
        for line, name in parsed(path)[1]
        if name.strip("_") in NAMES
    ]
    assert "\n".join(found) == ""


@pytest.mark.parametrize(
    "text", ["the table tells", "Nobody waits", "it is weighed", "5 of 9 within"]
)
def test_a_word_that_is_out_is_found(text):
    """The patterns find inflected and capitalised words."""
    assert PATTERN.search(text)
