"""Formulas of pages as MathML."""

import re
from html import unescape
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tools.site.mathml import to_mathml

DOCS = Path(__file__).parents[2] / "docs"
CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.DOTALL | re.MULTILINE)
FORMULA = re.compile(r"\$\$(.+?)\$\$|\$(?! )([^$\n]+?)\$")


def formulas():
    for page in sorted(DOCS.rglob("*.md")):
        for block, inline in FORMULA.findall(CODE.sub("", page.read_text(encoding="utf-8"))):
            yield block or inline


def tree(formula):
    """Return the element of a formula, whose entities are those of HTML."""
    text = re.sub(r"&(?!lt|gt|amp)\w+;", lambda name: unescape(name[0]), to_mathml(formula))
    return ElementTree.fromstring(text)


def test_every_formula_of_the_docs_is_drawn():
    """A formula with a command that is not known, or without its closing brace, is an error."""
    drawn = [tree(formula) for formula in formulas()]

    assert len(drawn) > 800
    assert {len(one.find("mrow")) > 0 for one in drawn} == {True}


def test_a_formula_is_a_tree_of_what_it_says():
    r"""`\frac{1}{n} \sum_i x_i^2` has a fraction, a sum with its index, and both scripts of x."""
    (row,) = tree(r"\frac{1}{n} \sum_i x_i^2")

    assert [part.tag for part in row] == ["mfrac", "msub", "msubsup"]
    assert ["".join(part.itertext()) for part in row] == ["1n", "∑i", "xi2"]


def test_a_text_keeps_its_spaces():
    """Words in a formula are words."""
    assert "".join(tree(r"\text{bytes of others} / n").itertext()) == "bytes of others/n"


@pytest.mark.parametrize(
    ("formula", "error"),
    [
        (r"\oint x", r"\oint x: \oint is not drawn (tools/site/mathml.py)"),
        (r"{x", r"{x: } is missing"),
    ],
)
def test_an_unknown_formula_is_an_error(formula, error):
    """The build stops with the formula and what is wrong with it."""
    with pytest.raises(ValueError, match=re.escape(error)):
        to_mathml(formula)
