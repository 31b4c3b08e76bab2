"""YAML files of trainers as options, with references to literals of the same file replaced.

variables: {length: 2048}
max_seq_len: ${variables.length}     -->  max-seq-len 2048
run_name: ${oc.env:NAME}             -->  a value that is not known from the file
"""

import re
from dataclasses import dataclass, field, replace
from typing import Any, Final

from clustersim.catalog.reading import parse_yaml
from clustersim.errors import CatalogError
from clustersim.importers.launch.options import Option, options_in
from clustersim.importers.source import Source

MOST_LETTERS: Final = 1_000
"""Letters of a text with references, before and after they are replaced; a longer one stays."""

MOST_STEPS: Final = 20
"""References from one to the next, at most."""

_REFERENCE: Final = re.compile(r"\$\{([A-Za-z_][\w.]*)\}")


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
    document = parse_yaml(source.text, source.file, CatalogError)
    data = document.mapping()
    if references:
        document = replace(document, data=_Literals(data).inside(data, 0))
    return [option for option in options_in(document) if option.values != (None,)]


@dataclass
class _Literals:
    """The literals of a file by dotted key, each with its references replaced."""

    data: dict[str, Any]
    known: dict[str, Any] = field(default_factory=dict)

    def inside(self, value: Any, steps: int) -> Any:
        """Return a value with the references in it replaced."""
        if isinstance(value, dict):
            return {key: self.inside(item, steps) for key, item in value.items()}
        if isinstance(value, list):
            return [self.inside(item, steps) for item in value]
        return self._text(value, steps) if isinstance(value, str) else value

    def _text(self, text: str, steps: int) -> Any:
        if "${" not in text or len(text) > MOST_LETTERS or steps > MOST_STEPS:
            return text
        if whole := _REFERENCE.fullmatch(text):
            return self._literal(whole[1], steps)
        literals = [self._literal(key, steps) for key in _REFERENCE.findall(text)]
        if None in literals:
            return text
        made = _REFERENCE.sub(lambda _: str(literals.pop(0)), text)
        return made if len(made) <= MOST_LETTERS else text

    def _literal(self, key: str, steps: int) -> Any:
        """Return the literal of a key; the reference itself where there is none."""
        if key not in self.known:
            self.known[key] = unknown = f"${{{key}}}"
            value: Any = self.data
            for part in key.split("."):
                value = value.get(part, unknown) if isinstance(value, dict) else unknown
            known = unknown if isinstance(value, dict | list) else self.inside(value, steps + 1)
            self.known[key] = unknown if "${" in str(known) else known
        return self.known[key]
