"""The order in which people count names: `mlx5_2` comes before `mlx5_10`."""

import re


def natural(name: str) -> list[tuple[int, str]]:
    """Return a key that sorts names by the numbers in them.

    >>> sorted(["mlx5_10", "mlx5_2"], key=natural)
    ['mlx5_2', 'mlx5_10']
    """
    parts = re.findall(r"[0-9]+|[^0-9]+", name)
    return [(int(part[:18]), "") if part[0] in "0123456789" else (-1, part) for part in parts]
