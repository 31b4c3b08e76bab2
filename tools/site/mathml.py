r"""Formulas of pages as MathML, which browsers draw without a script.

The part of TeX that pages use: letters, numbers, signs, `_` and `^`, `\frac`, `\binom`, `\sqrt`,
`\text`, `\left` and `\right`, accents, names of functions and of signs.  All else is an error.
"""

import re
from collections.abc import Iterator
from html import escape
from typing import Final

TOKEN: Final = re.compile(r"\\[A-Za-z]+|\\.|\d+(?:\.\d+)?|\s+|.", re.DOTALL)

ENTITIES: Final = {
    r"\cdot": "sdot", r"\in": "isin", r"\approx": "asymp", r"\propto": "prop", r"\partial": "part",
    r"\lVert": "Vert", r"\rVert": "Vert", r"\{": "lbrace", r"\}": "rbrace", r"\%": "percnt",
    r"\leftarrow": "larr", "-": "minus", "'": "prime", "<": "lt", ">": "gt", "&": "amp",
} | {
    f"\\{name}": name
    for name in ("times", "pm", "sum", "le", "ge", "ll", "lceil", "rceil", "lfloor", "rfloor")
}  # fmt: skip
"""Signs by their entity of HTML."""

LETTERS: Final = tuple(
    f"\\{name}"
    for name in (
        "alpha", "beta", "gamma", "eta", "kappa", "lambda", "mu", "pi", "rho", "sigma", "phi",
        "omega", "Sigma", "Phi", "ell",
    )
)  # fmt: skip
"""Greek letters, whose entities have the same name."""

SPACES: Final = {r"\,": 0.17, r"\;": 0.28, r"\ ": 0.28, r"\qquad": 2.0, r"\quad": 1.0}
"""Widths of spaces [em]."""

FUNCTIONS: Final = (r"\max", r"\min", r"\log", r"\ln", r"\exp")
ACCENTS: Final = {r"\hat": "^", r"\overline": "&oline;"}
TEXT: Final = r"\text "
"""Before what `\\text{...}` holds, in a token."""

LARGE: Final = (r"\sum", r"\max", r"\min")
"""What has its limits below and above in a formula of its own line."""


def to_mathml(formula: str, *, block: bool = False) -> str:
    r"""Return a formula as an element of MathML, with its TeX as its label.

    >>> to_mathml(r"\frac{a}{2}").partition("<mfrac>")[2]
    '<mrow><mi>a</mi></mrow><mrow><mn>2</mn></mrow></mfrac></mrow></math>'
    """
    display = ' display="block"' if block else ""
    inside = "".join(Reader(formula, block=block).row())
    return f'<math{display} aria-label="{escape(formula)}"><mrow>{inside}</mrow></math>'


class Reader:
    """Reads the tokens of a formula from left to right."""

    def __init__(self, formula: str, *, block: bool) -> None:
        self.formula, self.block = formula, block
        self.tokens = [token for token in TOKEN.findall(formula) if not token.isspace()]
        if r"\text" in formula or r"\mathrm" in formula:
            self.tokens = [*_with_text(formula)]

    def row(self, *ends: str) -> Iterator[str]:
        """Yield elements up to one of some tokens, or to the end of the formula."""
        while self.tokens and self.tokens[0] not in ends:
            yield self.scripted()
        if ends:
            if not self.tokens:
                raise ValueError(f"{self.formula}: {ends[0]} is missing")
            self.tokens.pop(0)

    def scripted(self) -> str:
        """Return an element with what is below and above it."""
        large = self.block and self.tokens[0] in LARGE
        base, below, above = self.element(), "", ""
        while self.tokens and self.tokens[0] in ("_", "^", "'"):
            sign = self.tokens.pop(0)
            if sign == "_":
                below = self.element()
            else:
                above += "<mo>&prime;</mo>" if sign == "'" else self.element()
        above = f"<mrow>{above}</mrow>" if above else ""
        names = ("munder", "mover", "munderover") if large else ("msub", "msup", "msubsup")
        if not below and not above:
            return base
        name = names[2] if below and above else names[0] if below else names[1]
        return f"<{name}>{base}{below}{above}</{name}>"

    def element(self) -> str:
        """Return the next element without what is below and above it."""
        token = self.tokens.pop(0)
        if token == "{":
            return f"<mrow>{''.join(self.row('}'))}</mrow>"
        if token in (r"\frac", r"\binom"):
            inside = self.element() + self.element()
            if token == r"\frac":
                return f"<mfrac>{inside}</mfrac>"
            return f'<mrow><mo>(</mo><mfrac linethickness="0">{inside}</mfrac><mo>)</mo></mrow>'
        if token == r"\sqrt":
            return f"<msqrt>{self.element()}</msqrt>"
        if token in ACCENTS:
            return f'<mover accent="true">{self.element()}<mo>{ACCENTS[token]}</mo></mover>'
        if token == r"\left":
            return self.fenced()
        if token == r"\Big":
            return f'<mo stretchy="true" minsize="1.8em">{self.sign()}</mo>'
        return self.leaf(token)

    def fenced(self) -> str:
        r"""Return what is between `\left` and `\right`, whose signs grow with it."""
        opening, inside = self.sign(), "".join(self.row(r"\right"))
        closing = self.sign()
        return f"<mrow><mo>{opening}</mo><mrow>{inside}</mrow><mo>{closing}</mo></mrow>"

    def sign(self) -> str:
        """Return the next sign."""
        return _sign(self.tokens.pop(0))

    def leaf(self, token: str) -> str:
        """Return a number, a letter, a name, a space or a sign."""
        if token.startswith(TEXT):
            return f"<mtext>{escape(token.removeprefix(TEXT))}</mtext>"
        if token in SPACES:
            return f'<mspace width="{SPACES[token]}em"/>'
        if token in FUNCTIONS:
            return f"<mi>{token[1:]}</mi>"
        if token in LETTERS:
            return f"<mi>&{token[1:]};</mi>"
        if token[0].isdigit():
            return f"<mn>{token}</mn>"
        if token.isalpha():
            return f"<mi>{token}</mi>"
        if token.startswith("\\") and token not in ENTITIES:
            raise ValueError(f"{self.formula}: {token} is not drawn (tools/site/mathml.py)")
        stretchy = ' stretchy="false"' if token in "()[]|" else ""
        return f"<mo{stretchy}>{_sign(token)}</mo>"


def _sign(token: str) -> str:
    return f"&{ENTITIES[token]};" if token in ENTITIES else token


def _with_text(formula: str) -> Iterator[str]:
    r"""Yield tokens, those of `\text{...}` as one that keeps its spaces."""
    for plain, text in re.findall(r"(.*?)(?:\\(?:text|mathrm)\{([^}]*)\}|$)", formula):
        yield from (token for token in TOKEN.findall(plain) if not token.isspace())
        if text:
            yield TEXT + text
