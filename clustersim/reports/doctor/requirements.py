"""The libraries that this package states as required, and the versions that are installed."""

import re
from functools import cache
from importlib.metadata import PackageNotFoundError, requires, version
from operator import ge, lt
from typing import Final

from clustersim.records import dataclass

EXTRAS: Final = {
    "dask": "--executor: runs on the nodes of a cluster",
    "explore": "clustersim explore: a local page",
}
"""Optional libraries of users, and the commands that need them."""

_FORM: Final = re.compile(r"([\w.-]+)(?:\[[^]]*\])?([^;]*)(?:;(.*))?")
_LIMIT: Final = re.compile(r"(>=|<)([\d.]+)")
_EXTRA: Final = re.compile(r"extra == ['\"]([\w-]+)['\"]")
_HOLDS: Final = {">=": ge, "<": lt}


@dataclass(frozen=True)
class Requirement:
    """A library that this package states.

    Attributes
    ----------
    text : name and limits as pip reads them
    extra : the extra that it belongs to; None where every command needs it
    """

    name: str
    text: str
    extra: str | None

    @property
    def installed(self) -> str | None:
        """The installed version; None where there is none."""
        try:
            return version(self.name)
        except PackageNotFoundError:
            return None

    @property
    def problem(self) -> str:
        """What is wrong with the installed version; empty where nothing is."""
        limits = self.text.removeprefix(self.name)
        if self.installed is None:
            return f"{self.name} is missing"
        if not within(self.installed, limits):
            return f"{self.name} {self.installed} is outside of {limits}"
        return ""


@cache
def requirements() -> tuple[Requirement, ...]:
    """Return what the installed metadata states; nothing where this package is not installed."""
    try:
        return tuple(map(parsed, requires("clustersim") or ()))
    except PackageNotFoundError:
        return ()


def parsed(line: str) -> Requirement:
    """Return a line of the metadata.

    >>> parsed("flask<4,>=3.1; extra == 'explore'")
    Requirement(name='flask', text='flask<4,>=3.1', extra='explore')
    """
    form = _FORM.fullmatch(line)
    assert form is not None, line
    name, limits, marker = form.groups(default="")
    extra = _EXTRA.search(marker)
    return Requirement(name, f"{name}{limits.strip()}", extra and extra[1])


def within(installed: str, limits: str) -> bool:
    """Whether a version is within limits of the forms ``>=3.1`` and ``<4``.

    >>> within("3.11.2", ">=3.9,<4"), within("3.1", "<4,>=3.9"), within("4.0rc1", "<4")
    (True, False, False)
    """
    return all(
        _HOLDS[sign](_numbers(installed), _numbers(limit)) for sign, limit in _LIMIT.findall(limits)
    )


def _numbers(text: str) -> tuple[int, ...]:
    """Return the numbers at the beginning of a version."""
    numbers = re.match(r"[\d.]*", text)
    assert numbers is not None
    return tuple(int(part) for part in numbers[0].split(".") if part)
