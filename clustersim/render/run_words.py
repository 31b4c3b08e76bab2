"""Whole training runs in words and colours."""

from collections.abc import Mapping
from typing import Final

from clustersim.units import format_number, format_seconds

MINUTE: Final = 60.0
HOUR: Final = 3600.0
DAY: Final = 86_400.0

ACCOUNT_COLOURS: Final[Mapping[str, str]] = {
    "useful": "compute",
    "lost": "imbalance",
    "saving": "communication",
    "restarting": "optimiser",
    "waiting": "bubble",
    "planned": "quiet",
}
"""Colours of the parts of the elapsed time."""


def format_duration(seconds: float) -> str:
    """Return a time as a person states it.

    >>> format_duration(51.7), format_duration(2400), format_duration(35000), format_duration(2e6)
    ('51.7 s', '40 min', '9.72 h', '23.1 d')
    """
    if seconds < 120:
        return format_seconds(seconds, 3)
    unit, symbol = MINUTE, "min"
    if seconds >= 2 * HOUR:
        unit, symbol = (DAY, "d") if seconds >= 2 * DAY else (HOUR, "h")
    value = seconds / unit
    return f"{format_number(value, 3)} {symbol}"


def short_count(value: float) -> str:
    """Return a large number with a word for its power of ten.

    >>> short_count(450e9), short_count(15.6e12), short_count(3e5)
    ('450 billion', '15.6 trillion', '300,000')
    """
    for power, word in ((1e12, "trillion"), (1e9, "billion"), (1e6, "million")):
        if value >= power:
            return f"{value / power:,.4g} {word}"
    return f"{value:,.0f}"
