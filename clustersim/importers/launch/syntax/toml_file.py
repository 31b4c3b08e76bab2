"""TOML files with the line of each value, by `tomllib`, which states no lines itself."""

import re
import tomllib
from typing import Final

from clustersim.catalog.reading import Document, Key, Place
from clustersim.importers.source import Source

_TABLE: Final = re.compile(r"\s*\[([\w.-]+)\]\s*(?:#.*)?")
_KEY: Final = re.compile(r"\s*([\w.-]+)\s*=")


def read_toml(source: Source) -> Document:
    """Return the values of a TOML file.

    Raises
    ------
    CatalogError
        when the text is not TOML, or is nested too deeply.
    """
    try:
        data = tomllib.loads(source.text)
    except tomllib.TOMLDecodeError as problem:
        stated = re.search(r"line (\d+)", str(problem))
        last = len(source.text.rstrip().split("\n"))
        raise source.wrong(int(stated[1]) if stated else last, f"is not TOML ({problem})") from None
    except (RecursionError, ValueError):
        raise source.wrong(
            None, "is not TOML (nested too deeply, or a number is too long)"
        ) from None
    table: Key = ()
    places: dict[Key, Place] = {(): Place(source.file)}
    for number, line in source.lines:
        if header := _TABLE.fullmatch(line):
            table = tuple(header[1].split("."))
        elif named := _KEY.match(line):
            places[(*table, *named[1].split("."))] = Place(source.file, number)
    return Document(source.file, data, places)
