"""JSON files with the line of each value: checked by `json`, which has no lines, read as YAML."""

import json

from clustersim.catalog.reading import Document, parse_yaml
from clustersim.errors import CatalogError
from clustersim.importers.source import Source


def read_json(source: Source) -> Document:
    """Return the values of a JSON file.

    Raises
    ------
    CatalogError
        with the line, when the text is not JSON, repeats a key, or is nested too deeply.
    """
    try:
        json.loads(source.text)
    except json.JSONDecodeError as problem:
        what = f"is not JSON ({problem.msg}; comments are not part of JSON)"
        raise source.wrong(problem.lineno, what) from None
    except (RecursionError, ValueError):
        raise source.wrong(None, "is not JSON (nested too deeply, or a number too long)") from None
    return parse_yaml(source.text, source.file, CatalogError)
