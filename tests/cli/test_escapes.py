"""Control characters of titles, names, keys, values and paths are escaped in all output."""

import re
from xml.etree import ElementTree

import pytest

from clustersim.catalog.finding import shipped
from clustersim.catalog.reading import Place
from clustersim.cli.options import print_rows, print_table
from clustersim.errors import CatalogError, ScenarioError
from clustersim.render.charts.bars import Bars
from clustersim.render.charts.picture import printable
from clustersim.render.page.page import Page, Section, render
from clustersim.render.tables import Row, aligned
from clustersim.simulation.step.simulate import simulate
from commands import ending, output
from small import small

EVIL = "\x1b[31mred\x07\u202e\u2066\x9b"
SHOWN = r"\x1b[31mred\x07\u202e\u2066\x9b"
RAW = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def evil(tmp_path):
    """Return a scenario with control characters in its title and in the reason of a key."""
    path = small(tmp_path)
    text = path.read_text()
    title = re.search(r"title: .*", text)[0]
    escape = EVIL.encode("unicode_escape").decode()
    path.write_text(text.replace(title, f'title: "a {escape} $x_{{ & <b> \\n\\n title"'))
    return path


@pytest.mark.large
def test_a_title_with_escapes_leaves_clean_text_and_well_formed_figures(tmp_path, capsys):
    """Terminal, page and figures show the escapes of a title, and every SVG is XML."""
    out = tmp_path / "out"
    text = output(capsys, "run", evil(tmp_path), "--out", out, "--figures", "svg,png,pdf")
    pages = [path.read_text() for path in out.glob("*.html")]

    assert not RAW.search(text)
    assert f"a {SHOWN} $x_{{ & <b> title" in text
    assert pages
    assert not any(RAW.search(re.sub(r"(?s)<script>.*?</script>", "", page)) for page in pages)
    assert any(SHOWN in page for page in pages)
    for path in out.glob("*.svg"):
        ElementTree.parse(path)


@pytest.mark.parametrize(
    "command",
    [
        ("run", f"no{EVIL}\nsuch"),
        ("run", f"folder/no{EVIL}\nsuch.yaml"),
        ("show", f"no{EVIL}\nsuch"),
        ("import", f"no{EVIL}\nsuch.xml"),
        ("flows", f"no{EVIL}\nsuch.json"),
        ("study", f"no{EVIL}\nsuch.db"),
        ("run", "{}", "--set", f"plan.no{EVIL}\nsuch=1"),
        ("run", "{}", "--set", f"model=no{EVIL}\nsuch"),
        ("run", "{}", "--set", f'plan.schedule="no{EVIL}\\nsuch"'),
        ("run", "{}", "--set", f"precision=no{EVIL}"),
        ("run", "{}", "--set", f"no{EVIL}\nform"),
        ("sweep", "{}", "--over", f"plan.data=no{EVIL}\nsuch"),
        ("sweep", "{}", "--list", f"no{EVIL}\nsuch"),
        ("scale", "{}", "--weak", f"no{EVIL}\nsuch"),
        ("collective", "--cluster", f"no{EVIL}\nsuch", "--op", "all-reduce", "--devices", "8"),
        ("collective", "--cluster", "dgx-h100", "--op", f"no{EVIL}", "--devices", "8"),
        ("list", f"no{EVIL}\nsuch"),
        ("schema", f"no{EVIL}\nsuch"),
        (f"no{EVIL}\nsuch",),
        ("run", f"--no{EVIL}\nsuch"),
    ],
)
def test_messages_show_control_characters_as_escapes(command, tmp_path, capsys):
    """No name, key, value or path reaches the terminal raw, nor begins a line of its own."""
    file = str(small(tmp_path))
    code, text, error = ending(capsys, *(word.format(file) for word in command))

    assert code == 2
    assert not RAW.search(text + error)
    assert "\nsuch" not in error
    assert "\nform" not in error


def test_messages_of_python_are_escaped_too(tmp_path):
    """An exception shows escapes wherever it is printed; its lines stay one per problem."""
    with pytest.raises(ScenarioError) as error:
        simulate(small(tmp_path), {f"plan.{EVIL}\n": 1, "plan.tensor": 0})

    assert not RAW.search(str(error.value))
    assert str(CatalogError(f"one{EVIL}\ntwo")) == f"one{SHOWN}\ntwo"
    assert str(Place("a\nb", 3)) == r"a\nb:3"


def test_tables_of_the_terminal_are_escaped(capsys, monkeypatch):
    """A cell is one line, on a terminal and elsewhere."""
    assert aligned([["a", f"{EVIL}\n"], ["b", "c"]])[0] == f"a  {SHOWN}\\n"
    monkeypatch.setenv("COLUMNS", "200")
    for terminal in ("", "1"):
        monkeypatch.setenv("FORCE_COLOR", terminal)
        print_rows(f"title{EVIL}", [Row("label", f"text{EVIL}")])
        print_table([["a"], [f"cell{EVIL}"]])
        text = capsys.readouterr().out

        assert all(f"{word}{SHOWN}" in text for word in ("title", "text", "cell"))
        assert "\u202e" not in text


def test_a_name_with_separators_stays_in_the_folder_of_runs(here, capsys):
    """The output folder of an entry is below `runs`, whatever the entry is called."""
    text = (shipped("cluster") / "dgx-a100.yaml").read_text()
    evil = re.sub("(?m)^name: .*$", 'name: "x/../../../\\\\e[31mout"', text)
    (here / "mine.yaml").write_text(evil)
    output(capsys, "show", "mine.yaml", "--figures", "svg")

    assert sorted(path.name for path in here.iterdir()) == ["mine.yaml", "runs"]
    assert len([*(here / "runs").iterdir()]) == 1


def test_pictures_and_pages_are_escaped():
    """A picture is cleaned before any back end draws it; a page where text is put into it."""
    page = render(Page(EVIL, EVIL, (Section(EVIL, "a", (EVIL,)),), EVIL))
    start = re.sub(r"(?s)<script>.*?</script>", "", page)

    assert not RAW.search(start)
    assert SHOWN in start
    assert printable(Bars).__name__ == "Bars"
    assert printable((EVIL, [EVIL], {EVIL: EVIL})) == (SHOWN, [SHOWN], {SHOWN: SHOWN})
