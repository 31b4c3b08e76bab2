"""Times of a stage, computed or looked up in tables: a step then costs microseconds.

Knots grow geometrically, so that times that grow with a power of their argument are met within the
square of the distance between knots.  Tables are computed on first use.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import cache, cached_property, lru_cache, partial
from math import ceil
from typing import Final

import numpy as np

from clustersim.arrays import Floats
from clustersim.inference.batch import Prompt, Stretch
from clustersim.inference.stage import Stage

DENSE_UP_TO: Final = 16
"""Up to here each whole number is a knot: kernels of few tokens differ in tiles, not in size."""

KNOTS_AN_OCTAVE: Final = 8
"""Knots for each doubling above."""

TILE: Final = 64
"""Rows of the smallest tile: times of products step after each multiple of it."""

TILES: Final = 32
"""Multiples of a tile that are knots, each with the number after it."""

MOST_TOKENS: Final = 2**16
MOST_SEQUENCES: Final = 2**12
MOST_KEYS: Final = 2**17
"""Last knots of tables: tokens of a step, decoding sequences, and tokens of a sequence."""

MOST_PROMPTS: Final = 2**16
"""Prompts whose times are known."""

ROWS: Final = 512
"""Rows of a table of two numbers that are known between knots."""

DENSE_KEYS: Final = 15
"""Knots of few tokens that tables of attention leave out: it costs its launch there."""


@cache
def knots(most: float, tile: float = TILE) -> tuple[float, ...]:
    """Return whole numbers from 1 up to at least `most`, each a knot of a table.

    `tile` is the number of tokens that fill another tile of a product.
    """
    sizes = [float(n) for n in range(1, DENSE_UP_TO + 1)]
    while sizes[-1] < most:
        sizes.append(float(np.ceil(sizes[-1] * 2 ** (1 / KNOTS_AN_OCTAVE))))
    edges = {tile * n + after for n in range(1, TILES + 1) for after in (0.0, 1.0)}
    return tuple(sorted({*sizes, *(edge for edge in edges if edge < most)}))


class Line:
    """A function of one number, linear between knots and beyond the last."""

    def __init__(self, at: Sequence[float], function: Callable[[Floats], Floats]) -> None:
        self._at, self._function = at, function
        self._last = len(at) - 2

    @cached_property
    def _values(self) -> list[float]:
        values: list[float] = self._function(np.array(self._at)).tolist()
        return values

    @cached_property
    def _slopes(self) -> list[float]:
        slopes: list[float] = (np.diff(self._values) / np.diff(self._at)).tolist()
        return slopes

    def __call__(self, x: float) -> float:
        """Return the value at a number."""
        knot = bisect_right(self._at, x, 1, self._last + 1) - 1
        return self._values[knot] + self._slopes[knot] * (x - self._at[knot])

    @cached_property
    def _arrays(self) -> tuple[Floats, Floats, Floats]:
        return np.array(self._at), np.array(self._values), np.array(self._slopes)

    def many(self, x: Floats) -> Floats:
        """Return the values at some numbers."""
        at, values, slopes = self._arrays
        knot = (at.searchsorted(x, side="right") - 1).clip(0, self._last)
        interpolated: Floats = values[knot] + slopes[knot] * (x - at[knot])
        return interpolated

    def stretches(self, start: float, x: float, width: float, count: int) -> list[Stretch]:
        """Return steps whose times are the values at x, x + width, and so on."""
        at, values, slopes = self._at, self._values, self._slopes
        stretches: list[Stretch] = []
        while True:
            knot = bisect_right(at, x, 1, self._last + 1) - 1
            slope = slopes[knot]
            value, half = values[knot] + slope * (x - at[knot]), slope * width / 2
            if knot == self._last or x + count * width <= at[knot + 1]:
                stretches.append((start, value, half, count))
                return stretches
            steps = ceil((at[knot + 1] - x) / width)
            if steps >= count:
                stretches.append((start, value, half, count))
                return stretches
            stretches.append((start, value, half, steps))
            count -= steps
            start, x = start + steps * (value + half * (steps - 1)), x + steps * width

    def bent(self, function: Callable[[Floats], Floats], levels: Sequence[float]) -> "Line":
        """Return a function of the values of this line that is linear between some of them."""
        at, values, slopes = self._arrays
        slopes = np.where(slopes == 0.0, np.inf, slopes)
        crossings = at[:-1] + (np.array(levels)[:, None] - values[:-1]) / slopes
        inside = (crossings > [0.0, *at[1:-1]]) & (crossings < [*at[1:-1], np.inf])
        knots = np.unique([0.0, *at, *crossings[inside]])
        return Line([*knots.tolist(), 2 * float(knots[-1])], lambda x: function(self.many(x)))


class Plane:
    """A function of two numbers, linear in each between knots.

    Attributes
    ----------
    row : returns the function of the column at a row
    """

    def __init__(
        self,
        rows: Sequence[float],
        columns: Sequence[float],
        function: Callable[[Floats, Floats], Floats],
    ) -> None:
        self._rows, self._columns, self._function = rows, columns, function
        self.row = lru_cache(ROWS)(self._row)

    @cached_property
    def _values(self) -> Floats:
        a, b = np.meshgrid(np.array(self._rows), np.array(self._columns), indexing="ij")
        return self._function(a.ravel(), b.ravel()).reshape(a.shape)

    def __call__(self, x: float, y: float) -> float:
        """Return the value at a row and a column."""
        return self.row(x)(y)

    def _row(self, x: float) -> Line:
        row, share = self._between(x)
        low, high = self._values[row : row + 2]
        return Line(self._columns, lambda _: (1 - share) * low + share * high)

    def _between(self, x: float) -> tuple[int, float]:
        """Return the knot below a row, and the share of the way to the next one."""
        row = bisect_right(self._rows, x, 1, len(self._rows) - 1) - 1
        low, high = self._rows[row], self._rows[row + 1]
        return row, (x - low) / (high - low)


class StageTimes:
    """Times of a stage for one step at a time [s].

    Parameters
    ----------
    queries : tokens of a decoding sequence in a step
    tabled : whether times are looked up in tables; otherwise they are computed

    Attributes
    ----------
    gathered : of a gather of keys and values over a context group, by tokens
    combined : of the combination of results over a context group, by decoded tokens
    scan : of layers of Mamba-2, by the tokens of all prompts
    prefill : of attention of some prompts of the same lengths, by these and their number
    """

    def __init__(self, stage: Stage, queries: int, *, tabled: bool) -> None:
        self.stage, self._tabled = stage, tabled
        self._groups = stage.replica.layout.attention_data
        self.prefill_launch, self._with_experts = stage.prefill_launch, stage.with_experts
        experts = stage.replica.model.experts
        tile = TILE * (1.0 if experts is None else experts.count / experts.top_k)
        self._dense = self._line(stage.dense_seconds, MOST_TOKENS)
        self._routed = self._line(stage.routed, MOST_TOKENS, tile)
        self._exchange = self._line(partial(stage.exchange, prompts=False), MOST_SEQUENCES)
        self._prompt_exchange = self._line(partial(stage.exchange, prompts=True), MOST_TOKENS)
        self._head = self._line(stage.head, MOST_SEQUENCES)
        self.gathered = self._line(stage.context_gather, MOST_KEYS)
        self.combined = self._line(stage.context_combine, MOST_SEQUENCES)
        self.scan = self._line(stage.scan, MOST_TOKENS)
        decode = partial(stage.decode, queries=queries)
        self._decode = self._decode_together = self._plane(decode)
        if stage.together:
            self._decode_together = self._plane(partial(decode, together=True))
        self.prefill = lru_cache(MOST_PROMPTS)(self._prefill)

    def _line(
        self, function: Callable[[Floats], Floats], most: int, tile: float = TILE
    ) -> Callable[[float], float]:
        if self._tabled:
            return lru_cache(MOST_TOKENS)(Line(knots(most, tile), function))
        return lambda x: float(function(np.array([float(x)]))[0])

    def _plane(
        self, function: Callable[[Floats, Floats], Floats]
    ) -> Callable[[float, float], float]:
        if self._tabled:
            return Plane(knots(MOST_SEQUENCES), knots(MOST_KEYS)[DENSE_KEYS:], function)
        return lambda x, y: float(function(np.array([float(x)]), np.array([float(y)]))[0])

    def tokens(self, each: float, whole: float, rows: float, *, prompts: bool) -> dict[str, float]:
        """Return the times by cause that depend on numbers of tokens alone [s].

        In tables, all that depends on the tokens of a device is one cause.

        Parameters
        ----------
        each, whole, rows : tokens of a device, of the replica, and rows of logits of a device
        prompts : whether the step processes prompts
        """
        if self._tabled:
            parts = {"compute": self._dense(each)}
        else:
            dense = self.stage.dense(np.array([float(each)]))
            parts = {name: float(seconds[0]) for name, seconds in dense.items()}
        if self._with_experts:
            parts["experts"] = self._routed(whole)
            if self._groups > 1:
                parts["expert"] = (self._prompt_exchange if prompts else self._exchange)(each)
        parts["sampling"] = self._head(rows)
        return parts

    def decode(self, sequences: float, keys: float, *, prompts: bool) -> float:
        """Return the time of attention of sequences with `keys` cached tokens each [s]."""
        return (self._decode_together if prompts else self._decode)(sequences, keys)

    def decodes(self, sequences: float, *, prompts: bool) -> Line:
        """Return the same from tables by the number of cached tokens [s]."""
        plane = self._decode_together if prompts else self._decode
        assert isinstance(plane, Plane), "times are looked up in tables"
        return plane.row(sequences)

    def _prefill(self, prompt: Prompt, count: int) -> float:
        queries, keys = float(prompt.tokens), float(prompt.tokens + prompt.before)
        return float(self.stage.prefill(np.array([queries]), np.array([keys]), count)[0])
