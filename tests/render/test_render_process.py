"""The second process: what it draws, and what happens if it cannot."""

import multiprocessing
import os

import pytest

from clustersim.render.render_process import Drawing, RenderProcess


def write_once(text, path):
    """A drawing that fails in any process but this one."""
    assert multiprocessing.parent_process() is None
    path.write_text(text)


def test_a_drawing_that_fails_in_the_second_process_is_repeated(tmp_path):
    """The file is there, written by this process."""
    with RenderProcess() as process:
        process.begin([Drawing(write_once, "x", tmp_path / "a")])
        process.finish()

    assert (tmp_path / "a").read_text() == "x"


def test_without_a_second_process_this_one_draws(tmp_path, monkeypatch):
    """If no process can be started the file is there as well."""

    def fails(_):
        raise BlockingIOError

    monkeypatch.setattr("clustersim.render.render_process._start", fails)
    with RenderProcess() as process:
        process.begin([Drawing(write_process, None, tmp_path / "a")])
        process.finish()

    assert int((tmp_path / "a").read_text()) == os.getpid()


def write_process(_, path):
    """Write the number of the process that draws."""
    path.write_text(str(os.getpid()))


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="a second process needs a second core")
def test_drawings_are_made_in_a_second_process_that_ends(tmp_path):
    """A file is written by another process, of which none remains."""
    with RenderProcess() as process:
        process.begin([Drawing(write_process, None, tmp_path / "a")])
        process.finish()

    assert int((tmp_path / "a").read_text()) != os.getpid()
    assert multiprocessing.active_children() == []


def test_an_error_ends_the_second_process(tmp_path):
    """Nothing is drawn, and no process remains."""
    with pytest.raises(RuntimeError), RenderProcess():
        raise RuntimeError

    assert multiprocessing.active_children() == []
