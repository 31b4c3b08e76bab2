"""Quantities with units, parsed where text comes in and formatted where text goes out.

Inside clustersim every number is a plain float in SI base units: seconds, bytes, bytes per second,
FLOPs, FLOPs per second.  ``G`` is 10^9 and ``Gi`` is 2^30; ``b`` is a bit and ``B`` a byte.  A unit
is never optional in a file: numbers without units have caused errors of 9 % in simulators.
"""

import math
import re
from collections.abc import Mapping
from typing import Final

_DECIMAL: Final[Mapping[str, float]] = {
    "": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18,
}  # fmt: skip
_BINARY: Final[Mapping[str, float]] = {
    "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50,
}  # fmt: skip
PREFIXES: Final[Mapping[str, float]] = {**_DECIMAL, **_BINARY}
_SECONDS: Final[Mapping[str, float]] = {
    "ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0,
}  # fmt: skip


def _scaled(symbol: str, factor: float = 1.0) -> dict[str, float]:
    return {prefix + symbol: scale * factor for prefix, scale in PREFIXES.items()}


UNITS: Final[Mapping[str, Mapping[str, float]]] = {
    "bytes": {**_scaled("B"), **_scaled("b", 1 / 8)},
    "bandwidth": {**_scaled("B/s"), **_scaled("b/s", 1 / 8)},
    "seconds": _SECONDS,
    "flops": _scaled("FLOP"),
    "flops_per_second": {**_scaled("FLOP/s"), **_scaled("OP/s")},
    "watts": {prefix + "W": scale for prefix, scale in _DECIMAL.items()},
}
"""Symbols of each dimension with their values in the base unit."""

_SPELLINGS: Final[Mapping[str, str]] = {
    "bytes": "B", "Byte": "B", "byte": "B", "bits": "b", "bit": "b",
    "bps": "b/s", "Bps": "B/s", "bit/s": "b/s", "bits/s": "b/s", "byte/s": "B/s", "bytes/s": "B/s",
}  # fmt: skip
"""Other spellings of units: ``200Gbps`` is ``200 Gb/s``."""

_IMPLIED: Final[Mapping[str, str]] = {"bytes": "B", "flops_per_second": "FLOP/s"}
"""Units that a prefix implies: ``8G`` of a memory is ``8 GB``; of a bandwidth it may be bits."""

_WORDS: Final[Mapping[str, str]] = {
    "bytes": "B or b (bits)",
    "bandwidth": "B/s or b/s (bits)",
    "seconds": ", ".join(_SECONDS),
    "flops": "FLOP",
    "flops_per_second": "FLOP/s or OP/s",
    "watts": "W",
}


def _allowed(dimension: str) -> str:
    """Return an example of a quantity, and the units that are allowed."""
    prefixes = [*filter(None, _DECIMAL), *([] if dimension == "watts" else _BINARY)]
    listed = ", ".join(prefix for prefix in prefixes if prefix != "K")
    units = _WORDS[dimension] + ("" if dimension == "seconds" else f", with {listed}")
    return f"(write it like {EXAMPLES[dimension]}; units: {units})"


def _factor(symbol: str, dimension: str) -> float | None:
    """Return the value of a unit in the base unit, also of its other spellings."""
    known = UNITS[dimension]
    if symbol in known:
        return known[symbol]
    if dimension in _IMPLIED and symbol in PREFIXES and symbol:
        return known[symbol + _IMPLIED[dimension]]
    for spelling, unit in _SPELLINGS.items():
        if symbol.endswith(spelling) and symbol.removesuffix(spelling) + unit in known:
            return known[symbol.removesuffix(spelling) + unit]
    return None


GIB: Final = 2.0**30
"""A gibibyte, the unit of memory sizes [B]."""

EXAMPLES: Final[Mapping[str, str]] = {
    "bytes": "64 GB or 105 MiB",
    "bandwidth": "25 GB/s or 200 Gb/s",
    "seconds": "4 us or 1.2 ms",
    "flops": "1.5 TFLOP",
    "flops_per_second": "191.5 TFLOP/s",
    "watts": "400 W",
}

QUANTITY = re.compile(r"^\s*([+-]?(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*(.*?)\s*$")
"""A number and its unit."""


def parse_number(text: object) -> float:
    """Return a finite number; here every number of an option, a file or a table is read.

    >>> parse_number("1e3"), parse_number(2)
    (1000.0, 2.0)
    >>> parse_number("inf")
    Traceback (most recent call last):
    ValueError: must be a finite number, not inf

    Raises
    ------
    ValueError
        when it is no number, or not finite.
    """
    try:
        number = float(text) if isinstance(text, str | int | float) else math.nan
    except OverflowError:
        number = math.inf
    except ValueError:
        raise ValueError(f"must be a number, not {text!r}") from None
    if not math.isfinite(number):
        shown = text if isinstance(text, str | int | float) else _shown(text)
        raise ValueError(f"must be a finite number, not {str(shown)[:60]}")
    return number


def parse(text: object, dimension: str) -> float:
    """Return the value of `text` in the base unit of `dimension`.

    Raises
    ------
    ValueError
        when the unit is missing or not one of `dimension`; the message has an example, and the
        units that are allowed.

    Examples
    --------
    >>> parse("200 Gb/s", "bandwidth")
    25000000000.0
    >>> parse("200Gbps", "bandwidth") == parse("200 Gbit/s", "bandwidth")
    True
    >>> parse("2 GiB", "bytes")
    2147483648.0
    """
    if isinstance(text, bool) or not isinstance(text, str | int | float):
        raise ValueError(f"{_shown(text)} is not a quantity {_allowed(dimension)}")
    match = QUANTITY.match(str(text))
    if match is None:
        raise ValueError(f"{text!r} is not a quantity {_allowed(dimension)}")
    number, symbol = match.groups()
    if not symbol:
        raise ValueError(f"{text!r} has no unit {_allowed(dimension)}")
    factor = _factor(symbol, dimension)
    if factor is None:
        raise ValueError(f"{text!r} is not in a unit of {dimension} {_allowed(dimension)}")
    return parse_number(number.replace("_", "")) * factor


def _shown(value: object) -> str:
    """Return a value that is no text as a file states it."""
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    return "a list" if isinstance(value, list | tuple) else "a table of keys"


def parse_size(text: str) -> float:
    """Return the size of a message [B]; a number alone is of bytes, and ``8G`` is 8 GiB.

    So nccl-tests writes sizes; with a unit, prefixes have their usual values.

    >>> parse_size("1024"), parse_size("1M"), parse_size("1MB")
    (1024.0, 1048576.0, 1000000.0)
    """
    number, prefix = text.strip()[:-1].rstrip(), text.strip()[-1:]
    if prefix in ("k", *"KMGT"):
        text = f"{number} {prefix.upper()}iB"
    return parse(f"{text} B" if text.strip().isdecimal() else text, "bytes")


_COUNTS: Final[Mapping[str, float]] = {
    "": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "B": 1e9, "G": 1e9, "T": 1e12,
}  # fmt: skip
"""Suffixes of counts: a billion is a B, as in the names of models."""


def parse_count(text: object) -> float:
    """Return a count of tokens, samples or the like.

    >>> parse_count("1.4T") == parse_count("1_400 B") == parse_count(1.4e12)
    True

    Raises
    ------
    ValueError
        when it is not a number with one of these suffixes, or without.
    """
    match = None if isinstance(text, bool) else QUANTITY.match(str(text))
    if match is None or match[2] not in _COUNTS:
        shown = repr(text) if isinstance(text, str | float | int) else _shown(text)
        raise ValueError(f"must be a count, not {shown} (write it like 300e9, 300B or 1.4T)")
    return parse_number(match[1].replace("_", "")) * _COUNTS[match[2]]


def parse_rate(text: object) -> object:
    """Return a rate of events, ``10/s`` or ``600/min``, in a second; another value as it is.

    >>> parse_rate("10/s"), parse_rate("600/min"), parse_rate(10)
    (10.0, 10.0, 10)
    """
    number, slash, unit = str(text).partition("/")
    if not slash or unit.strip() not in _SECONDS:
        return text
    try:
        return parse_number(number.strip()) / _SECONDS[unit.strip()]
    except ValueError:
        return text


PERCENTILES: Final = "greater than 0 and less than 100, whole or in tenths"
"""Which percentiles there are."""


def percentile_name(percent: float) -> str:
    """Return the name of a percentile.

    >>> percentile_name(99.0), percentile_name(99.9)
    ('p99', 'p99.9')

    Raises
    ------
    ValueError
        when it is none.
    """
    if not (0 < percent < 100 and percent == round(percent, 1)):
        raise ValueError(f"{percent:g} is no percentile ({PERCENTILES})")
    return f"p{percent:g}"


def _with_prefix(value: float, symbol: str, digits: int) -> str:
    for prefix in ("E", "P", "T", "G", "M", "k"):
        if abs(value) >= _DECIMAL[prefix]:
            return f"{value / _DECIMAL[prefix]:.{digits}g} {prefix}{symbol}"
    return f"{value:.{digits}g} {symbol}"


def format_bytes(nbytes: float, digits: int = 3) -> str:
    """Return an amount of data in decimal units: ``'64 GB'``."""
    return _with_prefix(nbytes, "B", digits)


def format_binary(nbytes: float) -> str:
    """Return an amount of data, in binary units if it is a round number: ``'32 KiB'``, ``'5 kB'``.

    >>> format_binary(2**25), format_binary(5000), format_binary(64e6)
    ('32 MiB', '5 kB', '64 MB')
    """
    decimal = nbytes % 10 ** max(0, len(f"{nbytes:.0f}") - 3) == 0
    for power, symbol in ((40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")):
        long = decimal and nbytes >= 2 ** (power + 10)
        if nbytes >= 2**power and nbytes * 8 % 2**power == 0 and not long:
            return f"{nbytes / 2**power:g} {symbol}"
    return format_bytes(nbytes)


def format_bandwidth(bandwidth: float, digits: int = 3) -> str:
    """Return a bandwidth in decimal bytes per second: ``'25 GB/s'``."""
    return _with_prefix(bandwidth, "B/s", digits)


def format_flops_per_second(rate: float, digits: int = 4) -> str:
    """Return a compute rate: ``'61.2 TFLOP/s'``."""
    return _with_prefix(rate, "FLOP/s", digits)


def format_watts(watts: float, digits: int = 3) -> str:
    """Return an electrical power: ``'7.55 kW'``."""
    return _with_prefix(watts, "W", digits)


def format_joules(joules: float, digits: int = 3) -> str:
    """Return an energy: ``'2.4 MJ'``."""
    return _with_prefix(joules, "J", digits)


def format_kwh(kwh: float) -> str:
    """Return the energy of a run.

    >>> format_kwh(537_949.3), format_kwh(0.01207)
    ('537.9 MWh', '12.07 Wh')
    """
    return _with_prefix(1e3 * kwh, "Wh", 4)


def format_kg(kg: float) -> str:
    """Return a mass of emissions.

    >>> format_kg(57_312.0), format_kg(0.5)
    ('57.31 t', '0.5 kg')
    """
    return f"{format_number(kg / 1e3)} t" if kg >= 1e3 else f"{kg:.4g} kg"


def format_usd(usd: float) -> str:
    """Return an amount of money.

    >>> format_usd(2_002_264.3), format_usd(0.0231)
    ('2,002,264 USD', '0.0231 USD')
    """
    return f"{format_number(usd, 3)} USD"


def format_seconds(seconds: float, digits: int = 4) -> str:
    """Return a time in a suitable unit; seconds of more than these digits have commas.

    >>> format_seconds(860.12), format_seconds(9999.96), format_seconds(0.0012)
    ('860.1 s', '10,000 s', '1.2 ms')
    >>> format_seconds(0.000417, 2)
    '417 us'
    """
    magnitude = abs(seconds)
    if magnitude >= 1 or magnitude == 0:
        whole = magnitude >= 10**digits - 0.5
        return f"{seconds:,.0f} s" if whole else f"{seconds:.{digits}g} s"
    for symbol in ("ms", "us", "ns"):
        if magnitude >= _SECONDS[symbol]:
            number = seconds / _SECONDS[symbol]
            whole = abs(number) >= 10**digits - 0.5  # without an exponent
            return f"{number:.0f} {symbol}" if whole else f"{number:.{digits}g} {symbol}"
    return f"{seconds:.{digits}g} s"


def format_number(value: float, digits: int = 4) -> str:
    """Return a number to some digits; a larger one whole, with an exponent from 10^15 on.

    >>> format_number(61.2345), format_number(16384.2), format_number(999.6, 3), format_number(2e99)
    ('61.23', '16,384', '1,000', '2e+99')
    """
    whole = 10**digits - 0.5 <= abs(value) < 1e15
    return f"{value:,.0f}" if whole else f"{value:,.{digits}g}"


def counted(number: float, noun: str) -> str:
    """Return a number with its noun, in the plural unless it is one.

    >>> counted(1, "gather"), counted(1600, "microbatch")
    ('1 gather', '1,600 microbatches')
    """
    plural = "es" if noun.endswith("ch") else "s"
    return f"{number:,.12g} {noun}{'' if number == 1 else plural}"


def format_duration(seconds: float) -> str:
    """Return a time as a person states it.

    >>> format_duration(51.7), format_duration(2400), format_duration(35000), format_duration(2e6)
    ('51.7 s', '40 min', '9.72 h', '23.1 d')
    """
    if seconds < 120:
        return format_seconds(seconds, 3)
    unit, symbol = 60.0, "min"
    if seconds >= 7200:
        unit, symbol = (86_400.0, "d") if seconds >= 172_800 else (3600.0, "h")
    return f"{format_number(seconds / unit, 3)} {symbol}"


def format_days(days: float) -> str:
    """Return the length of a run: in days, or a short one in hours or minutes.

    >>> format_days(18.04), format_days(302545.4), format_days(1.0), format_days(0.0341)
    ('18 days', '302,545 days', '24 h', '49.1 min')
    """
    return f"{format_number(days, 3)} days" if days >= 2 else format_duration(days * 86_400)


def short_count(value: float) -> str:
    """Return a large number with a word for its power of ten.

    >>> short_count(450e9), short_count(15.6e12), short_count(3e5)
    ('450 billion', '15.6 trillion', '300,000')
    """
    for power, word in ((1e12, "trillion"), (1e9, "billion"), (1e6, "million")):
        if value >= power:
            return f"{value / power:,.4g} {word}"
    return f"{value:,.0f}"
