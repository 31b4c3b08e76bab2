"""Progress in a notebook."""

from clustersim.runs.progress import NotebookBar, Pace, ignore_progress, usual_progress


class Recorded(NotebookBar):
    """A bar that keeps what it shows."""

    def _show(self, content):
        self.__dict__.setdefault("shown", []).append(content)
        self._handle = self


def test_a_bar_changes_a_few_times_a_second_and_ends_as_a_line():
    """Of 100 runs in a second it shows some, the last without the bar and without a time."""
    now = [0.0]
    bar = Recorded(Pace("sweep", clock=lambda: now[0]))
    for completed in range(101):
        now[0] = completed / 100
        bar.update(completed, 100)

    texts = [content["text/plain"] for content in bar.shown]
    assert texts[0] == "sweep: 0 of 100 runs, 0.0 runs/s"
    assert texts[1].startswith("sweep: 20 of 100 runs, 100.0 runs/s, 800 ms left")
    assert texts[-1] == "sweep: 100 runs"
    assert len(texts) == 6
    assert '<progress value="20" max="100">' in bar.shown[1]["text/html"]
    assert bar.shown[-1]["text/html"] == "<div>sweep: 100 runs</div>"


def test_outside_a_notebook_nothing_is_shown():
    """A script prints what it prints."""
    assert usual_progress("sweep") is ignore_progress
