"""Tables in files: parts of a long one, and words of any letters."""

import numpy as np
import pytest
from pyarrow import csv, parquet

from clustersim.render.frames import write_table


def read(path):
    table = parquet.read_table(path) if path.suffix == ".parquet" else csv.read_csv(path)
    return table.to_pydict()


@pytest.mark.parametrize("name", ["table.parquet", "table.csv"])
def test_a_table_in_parts_is_one_table(name, tmp_path):
    """Rows of all parts are in the file, in their order."""
    parts = [{"stage": np.arange(3, dtype=np.int32)}, {"stage": np.array([7], np.int32)}]

    write_table(iter(parts), tmp_path / name)

    assert read(tmp_path / name) == {"stage": [0, 1, 2, 7]}


@pytest.mark.parametrize("name", ["table.parquet", "table.csv"])
def test_words_keep_their_letters(name, tmp_path):
    """Words of different lengths, of none and of letters that are not ASCII are as given."""
    words = {"plain": ["bubble", "", "F"], "other": ["sécond", "", "秒"]}

    write_table({key: np.array(values) for key, values in words.items()}, tmp_path / name)

    assert read(tmp_path / name) == words
