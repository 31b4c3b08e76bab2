"""A Hugging Face ``config.json`` as typed values, with all problems collected.

A reader requests the keys that it supports.  A missing or invalid value is recorded with its line,
and a valid placeholder is returned, so that all problems of a file are reported together.  A key
that no reader requested is a problem as well, unless it is known to change no shape.  Other
files in the folder of a ``config.json`` are JSON as well; each is recognised by the
keys that only it has.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from clustersim.catalog.reading import Place
from clustersim.errors import CatalogError
from clustersim.importers.reasons import read_reasons, reason_of
from clustersim.suggestions import nearest

_HERE: Final = Path(__file__).parent

_MOST_LETTERS: Final = 80
"""Characters of a value that a message quotes."""

_MOST: Final = 10**9
"""Upper limit of sizes: larger ones are typos."""


class Config:
    """The keys of one object of the file.

    Attributes
    ----------
    notes : remarks for the user
    problems : errors, with their lines
    """

    def __init__(self, file: str, text: str, data: Mapping[str, Any], within: str = "") -> None:
        self.file, self.text, self.data, self.within = file, text, data, within
        self.notes: list[str] = []
        self.problems: list[tuple[int, str]] = []
        self._requested: set[str] = set()

    # --- values -----------------------------------------------------------------------------------

    def given(self, key: str) -> bool:
        """Whether the file has a key, be it null."""
        self._requested.add(key)
        return key in self.data

    def value(self, key: str) -> Any:
        """Return a value as written, None if it is null or missing."""
        self._requested.add(key)
        return self.data.get(key)

    def count(
        self, *keys: str, default: int | None = None, least: int = 1, most: int = _MOST
    ) -> int:
        """Return a whole number by the first of several names that is given.

        Without a default it is required.
        """
        values = [self.value(key) for key in keys]
        for key, number in zip(keys, values, strict=True):
            if number is None:
                continue
            whole = isinstance(number, int) and not isinstance(number, bool)
            if not whole or not least <= number <= most:
                self.wrong(
                    key, f"must be a whole number, {least} to {most:,}, not {_short(number)}"
                )
                return least
            return int(number)
        if default is None:
            others = f" ({' or '.join(keys)})" if len(keys) > 1 else ""
            self.wrong(keys[0], f"missing, but required{others}")
        return least if default is None else default

    def flag(self, key: str, default: bool | None = None) -> bool:
        """Return a boolean; without a default it is required."""
        value = self.value(key)
        if value is None:
            if default is None:
                self.wrong(key, "missing, but required (true or false)")
            return bool(default)
        if not isinstance(value, bool):
            self.wrong(key, f"must be true or false, not {_short(value)}")
        return value is True

    def share(self, key: str, default: float) -> float:
        """Return a probability, as of dropout."""
        value = self.value(key)
        if value is None:
            return default
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or not 0 <= value < 1:
            self.wrong(key, f"must be a number from 0 to 1, not {_short(value)}")
            return default
        return float(value)

    def one_of(self, key: str, allowed: Mapping[str, str], default: str) -> str:
        """Return the name in model files for a value of the file."""
        value = self.value(key)
        if value is None:
            value = default
        if not isinstance(value, str) or value not in allowed:
            self.wrong(key, f"{_short(value)} is not supported (supported: {', '.join(allowed)})")
            value = default
        return allowed[value]

    def only(self, key: str, allowed: Iterable[Any], why: str) -> None:
        """Reject a value that model files do not support."""
        value = self.value(key)
        if value is not None and value not in list(allowed):
            self.wrong(key, f"{_short(value)} is not supported ({why})")

    def items(self, key: str) -> list[Any]:
        """Return a list, empty if it is missing."""
        value = self.value(key)
        if value is not None and not isinstance(value, list):
            self.wrong(key, f"must be a list, not {_short(value)}")
        return value if isinstance(value, list) else []

    def inside(self, key: str) -> "Config":
        """Return the keys of an object inside this one, empty if it is missing."""
        value = self.value(key)
        if value is not None and not isinstance(value, dict):
            self.wrong(key, f"must be an object, not {_short(value)}")
            value = None
        part = Config(self.file, self.text, value or {}, f"{self.within}{key}.")
        part.notes, part.problems = self.notes, self.problems
        return part

    # --- problems ---------------------------------------------------------------------------------

    def wrong(self, key: str, problem: str) -> None:
        """Record a problem of a key."""
        line = self._line(key)
        text = f"{Place(self.file, line)}: {self.within}{key}: {problem}"
        self.problems.append((line or 0, text))

    def check_all_read(self) -> None:
        """Record a problem for every key that no reader requested and that may change the shape."""
        for key in self.data:
            if key not in self._requested and not is_harmless(key):
                hint = nearest(key, self._requested)
                reason = "unknown key, which may change the shape"
                self.wrong(_plain(key), f"{reason}{hint} (remove it if it does not)")

    def stop_if_wrong(self) -> None:
        """Report all problems, in the order of the file.

        Raises
        ------
        CatalogError
            with one line for each problem.
        """
        if self.problems:
            raise CatalogError("\n".join(dict.fromkeys(text for _, text in sorted(self.problems))))

    def _line(self, key: str) -> int | None:
        """Return the line of a key, inside its object if it has one."""
        start = 0
        for name in filter(None, (*self.within.split("."), key)):
            match = re.compile(rf'"{re.escape(name)}"\s*:').search(self.text, start)
            if match is None:
                return None
            start = match.start()
        return self.text.count("\n", 0, start) + 1


def read_config(file: str, text: str) -> Config:
    """Return the keys of a file.

    Raises
    ------
    CatalogError
        with the line, when it is not one JSON object or gives a key twice.
    """
    twice: list[str] = []

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        values = dict(pairs)
        times = Counter(key for key, _ in pairs)
        twice.extend(key for key in values if times[key] > 1)
        return values

    try:
        data = json.loads(text, object_pairs_hook=unique)
    except json.JSONDecodeError as problem:
        place = Place(file, problem.lineno)
        raise CatalogError(f"{place}: is not valid JSON ({problem.msg})") from None
    except (RecursionError, ValueError):
        raise CatalogError(f"{file}: is not valid JSON (nested too deeply, or too long)") from None
    if twice:
        raise CatalogError(f"{file}: {_plain(twice[0])}: key given twice")
    if not isinstance(data, dict):
        raise CatalogError(f"{file}: is not a model configuration (one JSON object)")
    return Config(file, text, data)


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= _MOST_LETTERS else f"{text[:_MOST_LETTERS]}..."


def _plain(key: str) -> str:
    """Return a key in printable characters, shortened."""
    plain = "".join(letter if letter.isprintable() else "?" for letter in key)
    return plain if len(plain) <= _MOST_LETTERS else f"{plain[:_MOST_LETTERS]}..."


def is_harmless(key: str) -> bool:
    """Whether a key is known not to affect the shape.

    >>> is_harmless("rms_norm_eps"), is_harmless("num_key_value_heads")
    (True, False)
    """
    return reason_of(key, read_reasons(_HERE / "without_effect.yaml")) is not None


# --- what is no configuration of a supported model ------------------------------------------------


def not_modelled() -> Mapping[str, str]:
    """Return known architectures that a model file cannot express, each with the reason."""
    return read_reasons(_HERE / "not_modelled.yaml")


_NOTHING: Final = "it has no shape of a model"

_OTHER_FILES: Final = (
    (("traceEvents",), "a trace of Kineto (torch.profiler) or Chrome", _NOTHING),
    (("weight_map",), "the index of a checkpoint", _NOTHING),
    (("added_tokens", "model"), "a tokenizer", _NOTHING),
    (("tokenizer_class",), "the configuration of a tokenizer", _NOTHING),
    (("added_tokens_decoder",), "the configuration of a tokenizer", _NOTHING),
    (("chat_template",), "a chat template", _NOTHING),
    (("peft_type",), "the configuration of an adapter (PEFT)", "import that of its base model"),
    (("log_history",), "the state of a trainer", _NOTHING),
    (("nbformat",), "a notebook", _NOTHING),
    (("zero_optimization",), "a configuration of DeepSpeed", _NOTHING),
    (("train_micro_batch_size_per_gpu",), "a configuration of DeepSpeed", _NOTHING),
    (("image_processor_type",), "the configuration of an image processor", _NOTHING),
    (("processor_class",), "the configuration of a processor", _NOTHING),
    (("_class_name", "_diffusers_version"), "the configuration of a diffusion model", _NOTHING),
    (("dim", "n_layers", "n_heads"), "a params.json of Meta", "take Hugging Face's config.json"),
    (("do_sample",), "a generation configuration", _NOTHING),
    (("_from_model_config",), "a generation configuration", _NOTHING),
    (("step_time_s",), "an answer of clustersim", _NOTHING),
)
"""Keys of other files, what these are, and what to do."""

SAMPLE: Final = 64 * 1024
"""Bytes of a large file in which its keys are searched for [B]."""

_VOCABULARY: Final = 1000
"""A file of more whole numbers than this is a vocabulary."""


def other_file(data: Mapping[str, Any]) -> str | None:
    """Return what a JSON file is, if it is a known one that is no configuration of a model.

    >>> other_file({"weight_map": {}, "metadata": {}})
    'is the index of a checkpoint, not the configuration of a model (it has no shape of a model)'
    """
    if "model_type" in data and "traceEvents" not in data:
        return None
    for keys, what, advice in _OTHER_FILES:
        if all(key in data for key in keys):
            return _not_a_model(what, advice)
    if len(data) > _VOCABULARY and all(isinstance(value, int) for value in data.values()):
        return _not_a_model("a vocabulary", _NOTHING)
    return None


def other_text(text: str) -> str | None:
    """Return the same for the beginning of a file that is too large to be read as a whole."""
    keys = dict.fromkeys(re.findall(r'"([A-Za-z_]{1,40})"\s*:', text[:SAMPLE]))
    return other_file(keys)


def _not_a_model(what: str, advice: str) -> str:
    return f"is {what}, not the configuration of a model ({advice})"
