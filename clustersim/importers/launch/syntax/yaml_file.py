"""YAML files of trainers as options, with references to literals of the same file replaced.

variables: {length: 2048}
max_seq_len: ${variables.length}     -->  max-seq-len 2048
ffn: ${multiply:4, ${.hidden}}       -->  ffn 4096, with hidden of the same table
run_name: ${oc.env:NAME}             -->  a value that is not known from the file
"""

import re
from dataclasses import field, replace
from typing import Any, Final

from clustersim.catalog.reading import Document, parse_yaml
from clustersim.errors import CatalogError
from clustersim.importers.launch.options import Option, options_in
from clustersim.importers.launch.syntax.shell import whole_number
from clustersim.importers.source import Source
from clustersim.records import dataclass

MOST_LETTERS: Final = 1_000
"""Letters of a text with references, before and after they are replaced; a longer one stays."""

MOST_STEPS: Final = 20
"""References from one to the next, at most."""

_REFERENCE: Final = re.compile(r"\$\{(\.?[A-Za-z_][\w.]*)\}")
_PRODUCT: Final = re.compile(r"\$\{multiply:([0-9\s,]+)\}")


def yaml_options(source: Source, *, references: bool = False) -> list[Option]:
    """Return the values of a YAML file as options; those without a value are left out.

    Parameters
    ----------
    references : whether ``${key}`` refers to another value, as OmegaConf has it

    Raises
    ------
    CatalogError, ScenarioError
        with the line, when the text is not YAML, or has no keys.
    """
    document = yaml_document(source, references=references)
    return [option for option in options_in(document) if option.values != (None,)]


def yaml_document(source: Source, *, references: bool = False) -> Document:
    """Return the values of a YAML file, as `yaml_options` does, before they are options."""
    document = parse_yaml(source.text, source.file, CatalogError)
    data = document.mapping()
    return replace(document, data=_Literals(data).inside(data, "")) if references else document


@dataclass
class _Literals:
    """The literals of a file by dotted key, each with its references replaced."""

    data: dict[str, Any]
    known: dict[str, Any] = field(default_factory=dict)

    def inside(self, value: Any, table: str, steps: int = 0) -> Any:
        """Return a value of a table, by its dotted key, with the references in it replaced."""
        if isinstance(value, dict):
            return {
                key: self.inside(item, f"{table}.{key}" if isinstance(item, dict) else table, steps)
                for key, item in value.items()
            }
        if isinstance(value, list):
            return [self.inside(item, table, steps) for item in value]
        return self._text(value, table, steps) if isinstance(value, str) else value

    def _text(self, text: str, table: str, steps: int) -> Any:
        if "${" not in text or len(text) > MOST_LETTERS or steps > MOST_STEPS:
            return text
        if whole := _REFERENCE.fullmatch(text):
            return self._literal(whole[1], table, steps)
        literals = [self._literal(key, table, steps) for key in _REFERENCE.findall(text)]
        if None in literals:
            return text
        made = _REFERENCE.sub(lambda _: str(literals.pop(0)), text)
        if product := _PRODUCT.fullmatch(made):
            return _product(product[1], text)
        return made if len(made) <= MOST_LETTERS else text

    def _literal(self, reference: str, table: str, steps: int) -> Any:
        """Return the literal of a key; the reference itself where there is none."""
        key = f"{table}{reference}".lstrip(".") if reference.startswith(".") else reference
        if key not in self.known:
            self.known[key] = unknown = f"${{{reference}}}"
            value: Any = self.data
            for part in key.split("."):
                value = value.get(part, unknown) if isinstance(value, dict) else unknown
            inner = f".{key.rpartition('.')[0]}".rstrip(".")
            literal = not isinstance(value, dict | list)
            known = self.inside(value, inner, steps + 1) if literal else unknown
            self.known[key] = unknown if "${" in str(known) else known
        return self.known[key]


def _product(factors: str, otherwise: str) -> int | str:
    """Return the product of whole numbers; the text itself where it has none or is too large."""
    try:
        return whole_number(factors.replace(",", "*"))
    except ValueError:
        return otherwise
