"""Python files: what their calls and assignments state is read, and nothing of them is run."""

import pytest

from clustersim.errors import CatalogError
from clustersim.importers.launch.syntax.python_file import MOST_LETTERS, read_recipes
from clustersim.importers.source import Source


def read(text):
    """Return the recipes of a text."""
    return read_recipes(Source("recipe.py", text))


def stated(text):
    """Return the values of the only recipe of a text, by their dotted names."""
    (recipe,) = (recipe for recipe in read(text) if not recipe.called)
    return {option.name: option.values for option in recipe.options}


@pytest.mark.parametrize(
    ("text", "name", "values"),
    [
        ("c = f(num_nodes=4)", "num-nodes", (4,)),
        ("c = f(a=g(b=4))", "a.b", (4,)),
        ("c = f(g, a=1)", "0", ("g",)),
        ("from m import g\nc = run.Config(m.g, a=m.bf16)", "a", ("m.bf16",)),
        ("c = f()\nc.a.b = 3", "a.b", (3,)),
        ("c = f(a=1)\nc.a = 2", "a", (2,)),
        ("c = f()\nd = c.a\nd.b = 3", "a.b", (3,)),
        ("c = f()\nc['a'].b[0] = 'x'", "a.b.0", ("x",)),
        ("c = f(a=[g(b=1)])\nc.a.append(g(b=2))", "a.1.b", (2,)),
        ("c = f(a=[1, 2], d=None)", "a", (1, 2)),
        ("K = 1024\nc = f(a=8 * K - 1)", "a", (8191,)),
        ("A, B = 2, -3\nB -= 1\nc = f(a=B)", "a", (-4,)),
        ("c = f(**dict(a=1))", "a", (1,)),
        ("c = f(a={'b': {'x': 1}})", "a.b.x", (1,)),
        ("def g(n, m=2, *, k=3):\n    return f(a=n, b=m, c=k)\nc = g(1, k=4)", "c", (4,)),
        ("def g(n, m=2, *, k=3):\n    return f(a=n, b=m, c=k)\nc = g(1, k=4)", "b", (2,)),
        ("class A(B):\n    x: int = 1\n    y = 2\nc = f(a=A(y=3))", "a.y", (3,)),
        ("class A(B):\n    x: int = 1\n    y = 2\nc = f(a=A(y=3))", "a", ("B",)),
        (
            "def main():\n    c = f()\n    c.a = 1\nif __name__ == '__main__':\n    main()",
            "a",
            (1,),
        ),
        ("def more(c):\n    c.a = 1\nc = f()\nmore(c)", "a", (1,)),
        ("c = f(a=g('x').h(y=1))", "a.0", ("x",)),
        ("c = f(a=g('x').h(y=1))", "a", ("g.h",)),
        ("c = f()\nc = tune(c)\nc.a = 1", "tune", ()),
    ],
)
def test_values_of_a_recipe_have_dotted_names(text, name, values):
    """Keyword arguments, attributes, variables, sums and functions of the file are followed."""
    assert stated(text)[name] == values


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("c = f(a=N)", "N is not set in the file"),
        ("c = f(a=args.n)", "args.n is not set in the file"),
        ("args = parse()\nc = f(a=args.n)", r"args.n\(...\) would have to be run"),
        ("c = f(a=int(x))", r"int\(...\) would have to be run"),
        ("c = f(a=f'{x}')", "f'{x}' would have to be run"),
        ("c = f(a=1 if x else 2)", "1 if x else 2 would have to be run"),
        ("c = f(a=2 ** 9999999)", "would have to be run"),
        ("a, b = f()\nc = f(a=b)", "b would have to be run"),
        ("def g(n):\n    return f(a=n)", r"n is an argument of g\(\)"),
        ("c = f(a=1)\nif x:\n    c.a = 2", r"c.a depends on a condition \(line 2\)"),
        ("N = 1\nfor i in x:\n    N = 2\nc = f(a=N)", r"N depends on a condition \(line 2\)"),
        ("c = f(a=x + 1)", "x is not set in the file"),
    ],
)
def test_a_value_that_is_no_literal_is_not_known(text, why):
    """What a program would have to compute has the reason; none of two branches is chosen."""
    (option,) = (o for recipe in read(text) for o in recipe.options if o.name == "a")

    with pytest.raises(ValueError, match=f"recipe.py:[0-9]: .*{why}"):
        option.whole()


def test_each_job_of_a_file_is_a_recipe():
    """Functions that others call are recipes too, and say so; lines are those of the values."""
    text = (
        "def a():\n    return f(x=1)\ndef b():\n    c = a()\n    c.x = 2\n    return c\ny = f(g=3)"
    )
    recipes = {recipe.name: recipe for recipe in read(text)}

    assert {name: recipe.called for name, recipe in recipes.items()} == {
        "a": True, "b": False, "y": False
    }  # fmt: skip
    assert [(o.name, o.values, o.place.line) for o in recipes["b"].options] == [("x", (2,), 5)]
    assert (recipes["y"].target, recipes["y"].place.line) == ("f", 7)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("c = f(\na=1", r":1: is not Python \('\(' was never closed\)"),
        ("c = 1\nd = )", ":2: is not Python"),
        ("x = " + "(" * 9999, "is not Python"),
        ("x = " + "-" * 99_999 + "1", r"is not Python \(nested too deeply\)"),
        ("x = a" + ".b" * 99_999, r"is not Python \(nested too deeply\)"),
        ("x = '\ud800'", "is not Python"),
        ("x = 1" + "0" * 5000, "is not Python"),
        ("x = " + "f(" * 60 + ")" * 60, "nested more than 40 levels deep"),
        ("x = 1" + " + 1" * 60, "nested more than 40 levels deep"),
        ("if a: pass\n" + "elif a: pass\n" * 60, "nested more than 40 levels deep"),
        ("x = f()\nx.a = x\ny = g(b=x)", "fields are nested more than 40 levels deep"),
        ("def f():\n    return f()", "nested more than 40 levels deep"),
        ("class A(A):\n    x: int\ny = A()", "nested more than 40 levels deep"),
        ("x = f(a=1)\n" + "x = f(a=x, b=x)\n" * 30, "states more than 20,000 options"),
        ("x = y = f()\n" + "x = x.a\n" * 9999 + "x.b = 1\n", "nested more than 40 levels deep"),
        ("def a():\n    return 1\n" + "".join(
            f"def a{i}():\n    a{i - 1 if i else ''}()\n    a{i - 1 if i else ''}()\n"
            for i in range(18)), "makes more than 50,000 values"),
        ("#" * (MOST_LETTERS + 1), "has more than 400,000 characters"),
    ],
)  # fmt: skip
def test_a_hostile_python_file_is_one_line(text, problem):
    """Whatever cannot be read, or would take too long, is one clear line at once."""
    with pytest.raises(CatalogError, match=rf"^recipe.py.*{problem}") as raised:
        read(text)

    assert "\n" not in str(raised.value)


def test_no_part_of_a_python_file_is_run(tmp_path):
    """A call in a file leaves no trace, and a warning of Python is not one of ours."""
    trace = tmp_path / "trace"
    text = rf"open('{trace}', 'w').write('\d')" + f"\nc = f(a=open({str(trace)!r}, 'w'))"

    assert [recipe.name for recipe in read(text)] == ["c"]
    assert not trace.exists()
