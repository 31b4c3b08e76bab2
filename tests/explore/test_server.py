"""The server of the page sends answers and refuses what is none of its business."""

import io
import json
import time
import zipfile
from dataclasses import asdict

import pytest

from benchmarks.explore import ask_all
from clustersim.errors import ClustersimError, ScenarioError
from clustersim.explore.answers import (
    MOST_BLOCKS,
    MOST_DEVICES,
    VIEWS,
    posed,
    shown,
    too_large,
)
from clustersim.explore.fields import KINDS
from clustersim.explore.pool import Message, Pool
from clustersim.explore.question import Home, Question
from clustersim.explore.server import MOST_ADDRESS, Site, serve_site
from clustersim.exporters import export, program_of
from clustersim.render.page.page import with_units
from clustersim.scenario.load import load_any
from clustersim.simulation.step.simulate import simulate
from clustersim.units import format_seconds
from commands import rejected

SMALL = "kind=step&cluster.nodes=1&model=llama3.1-8b&plan.pipeline=1&batch.global=8"


class Here:
    """Computes answers in this process."""

    def messages(self, task, name=""):
        """Yield the messages of a task."""
        reports = []
        try:
            yield from (Message("progress", words) for words in reports)
            yield Message("answer", task(reports.append, lambda: False))
        except ClustersimError as problem:
            yield Message("problem", str(problem))

    def stop(self, name):
        """Return that it is not running."""
        return False


@pytest.fixture(scope="module")
def client():
    """A client of the site, whose answers are computed in this process."""
    return Site(Home(), Here()).application().test_client()


def lines(response):
    """Return the messages of a response."""
    return [json.loads(line) for line in response.text.splitlines()]


def test_the_page_has_the_question_and_runs_only_its_own_scripts(client):
    """The form states the values; a browser may load nothing from elsewhere."""
    response = client.get(f"/?{SMALL}")
    policy = response.headers["Content-Security-Policy"]

    assert response.status_code == 200
    assert '<option value="llama3.1-8b" selected>' in response.text
    assert "default-src 'none'" in policy
    assert "unsafe-eval" not in policy
    assert "script-src 'self';" in policy
    assert "<script>" not in response.text
    assert response.headers["Cache-Control"] == "no-store"


def test_an_answer_is_that_of_run(client):
    """The page shows the step time that the command prints, and the question as YAML."""
    [message] = lines(client.get(f"/answer?{SMALL}"))
    value = message["value"]
    result = simulate(load_any(json.dumps(scenario_of(value))))

    assert message["kind"] == "answer"
    assert value["title"] == "llama3.1-8b on 1 node of dgx-h100"
    assert with_units(format_seconds(result.step_time)) in value["html"]


def scenario_of(value):
    """Return the scenario of an answer, as its YAML states it."""
    from clustersim.catalog.reading import parse_yaml

    return parse_yaml(value["copies"]["YAML"], "mine.yaml").data


@pytest.mark.parametrize("kind", KINDS)
def test_the_copied_yaml_is_the_same_question(kind):
    """The YAML of a question, run by the command, has the answer of the page."""
    given = posed(Question(kind), Home())
    value = asdict(shown(Question(kind), None, "answer", Home(), print, bool))
    again = load_any(json.dumps(scenario_of(value)))

    assert again.scenario == given.loaded.scenario


@pytest.mark.parametrize("kind", KINDS)
def test_the_copied_launch_file_is_that_of_export(client, kind):
    """The program is the one that the software of the question is launched as."""
    [message] = lines(client.get(f"/launch?kind={kind}"))
    loaded = posed(Question(kind), Home()).loaded

    assert message["kind"] == "answer"
    assert message["value"] == export(loaded, program_of(loaded)).text


def test_a_launch_file_that_there_is_not_says_why(client):
    """Software without launch arguments is named."""
    [message] = lines(client.get("/launch?kind=step&framework=hai-llm"))

    assert message == {
        "kind": "problem",
        "value": "'hai-llm' states no launch arguments (a section launch of its file)",
    }


def test_hostile_values_are_shown_as_text(client):
    """A script in an address is listed as ignored, escaped."""
    hostile = "%3C%2Fscript%3E%3Cscript%3Ealert(1)%3C%2Fscript%3E"
    text = client.get(f"/?model={hostile}&{hostile}=1&set={hostile}&kind={hostile}").text

    assert "<script>alert" not in text
    assert "model=&lt;/script&gt;" in text


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", ""])
def test_another_host_is_refused(client, host):
    """A page of another site, whose name leads here, gets no answer."""
    assert client.get("/", headers={"Host": host}).status_code == 400


def test_a_proxy_is_a_host_by_its_name():
    """`--host-name` names it."""
    client = Site(Home(), Here(), ("sim.example",)).application().test_client()

    assert client.get("/", headers={"Host": "sim.example"}).status_code == 200


@pytest.mark.parametrize("path", ["/etc/passwd", "/../pyproject.toml", "/9.js", "/explore.html.j2"])
def test_no_file_is_sent(client, path):
    """Only the page, its style and its scripts have addresses."""
    assert client.get(path).status_code == 404


def test_a_long_address_is_the_first_question(client):
    """It is longer than any question."""
    text = client.get(f"/?set={'a' * MOST_ADDRESS}").text

    assert f"the address is longer than {MOST_ADDRESS:,} letters" in text


@pytest.mark.parametrize(
    ("address", "problem"),
    [
        ("cluster.nodes=4096", f"this page computes up to {MOST_DEVICES:,} devices"),
        ("batch.global=1000000&batch.sequence=1024", f"up to {MOST_BLOCKS:,} blocks"),
        ("kind=service&load.concurrency=100000", "this page replays up to 4,096 users"),
        ("kind=service&load.concurrency=8&set=load.requests%3D900000", "up to 20,000 requests"),
        ("plan.tensor=64&plan.pipeline=64", "do not divide 128 devices"),
        ("view=loads", "view=loads: is none of a question of this kind"),
        ("view=shell", "view=shell: is none of a question of this kind"),
    ],
)
def test_what_is_too_large_or_invalid_is_declined_in_a_sentence(client, address, problem):
    """Before anything is computed."""
    [message] = lines(client.get(f"/answer?{address}"))

    assert message["kind"] == "problem"
    assert problem in message["value"]
    assert "\n" not in message["value"]


def test_a_pinned_answer_comes_with_the_difference_by_cause(client):
    """The first sections compare the pinned answer with the present one."""
    [message] = lines(client.get(f"/answer?{SMALL}&recompute=full&pin={SMALL.replace('&', '%26')}"))
    html = message["value"]["html"]

    assert html.index("pinned-") < html.index('id="summary"')
    assert "recompute selective" in html
    assert ">now" in html


def test_a_download_is_the_folder_that_the_verb_writes(client):
    """Summary, page and tables, whole."""
    response = client.get(f"/download?{SMALL}")
    names = zipfile.ZipFile(io.BytesIO(response.data)).namelist()

    assert response.mimetype == "application/zip"
    assert {"summary.json", "report.html", "timeline.parquet", "trace.json"} <= {*names}
    assert client.get(f"/download?{SMALL}&view=shell").status_code == 400
    assert client.get("/download?plan.tensor=64&plan.pipeline=64").status_code == 400


def test_choices_come_with_reasons(client):
    """For each field with choices."""
    [message] = lines(client.get(f"/choices?{SMALL}"))

    assert message["value"]["plan.zero"]["3"] == "3 is not offered by the framework"


def test_a_job_that_does_not_run_cannot_be_stopped(client):
    """A name that nobody knows."""
    assert client.post("/stop?job=x").status_code == 404
    assert client.get("/stop?job=x").status_code == 405


def test_every_view_has_questions():
    """A tab without a question would be none."""
    assert all(view.kinds and view.name for view in VIEWS.values())


def test_a_scenario_within_the_limits_is_not_too_large():
    """All shipped scenarios of training up to their limits are computed."""
    assert too_large(load_any("frontier-1t")) == ""


def test_a_port_in_use_is_an_error_in_one_line():
    """The command names the port, and what to do."""
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ScenarioError, match=rf"--port {port}: is in use"):
            serve_site(Site(Home(), Pool(1)), port)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("nothing-there",), "no such file, and no shipped scenario of that name"),
        (("frontier-22b", "--set", "plan.tensor=nine"), "plan.tensor"),
    ],
)
def test_an_invalid_scenario_ends_the_command_before_the_page_is_served(capsys, words, message):
    """One line, exit code 2."""
    assert message in rejected(capsys, "explore", *words)


def test_a_missing_library_is_named(capsys, monkeypatch):
    """The extra of the package has it."""
    from clustersim.cli.verbs import explore

    monkeypatch.setattr(explore, "find_spec", lambda name: None)
    line = rejected(capsys, "explore")

    assert line == "explore: flask and waitress not installed (pip install 'clustersim[explore]')\n"


@pytest.mark.large
def test_twenty_users_at_once_have_answers():
    """None is declined, and none has the answer of another; `make bench` times them."""
    pool = Pool(2)
    try:
        times = ask_all(Site(Home(), pool), users=20, seconds=600, turns=3)
    finally:
        pool.close()

    assert len(times) == 60


def test_the_command_serves_the_page_until_it_is_interrupted():
    """It prints the address, answers, and ends without an error."""
    import signal
    import socket
    import subprocess
    import sys
    import urllib.request

    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    words = ["-u", "-m", "clustersim", "explore", "--port", str(port), "--jobs", "1"]
    process = subprocess.Popen(
        [sys.executable, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    address = process.stdout.readline().split()[1]
    for _ in range(200):
        try:
            with urllib.request.urlopen(f"{address}?kind=service", timeout=10) as page:
                text = page.read().decode()
            break
        except OSError:
            time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=30)

    assert "Serve requests" in text
    assert (process.returncode, error) == (0, "")
