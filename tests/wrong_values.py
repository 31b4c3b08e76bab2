"""Wrong values and what is said of them, from a golden text."""

from pathlib import Path

GOLDEN = Path(__file__).parent / "golden" / "wrong_values.txt"


def wrong_values(section):
    """Return the cases below a heading, a text for each kind of line of a paragraph.

    Lines of one kind begin with the same letter: `@` what is wrong, `-` what is replaced, `+` what
    is written, `=` what is said of it.
    """
    text = "\n" + GOLDEN.read_text("utf-8")
    parts = dict(part.split("\n\n", 1) for part in text.split("\n# ")[1:])
    cases = []
    for paragraph in parts[section].strip("\n").split("\n\n"):
        texts: dict[str, list[str]] = {}
        for line in paragraph.split("\n"):
            texts.setdefault(line[0], []).append(line[2:])
        cases.append(tuple("\n".join(lines) for lines in texts.values()))
    return cases
