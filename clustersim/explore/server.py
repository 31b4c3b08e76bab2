"""The server of the page: addresses in, documents and streams of answers out; it holds no state.

/           the form with a question, and the place of its answer
/answer     a view of it as a stream of JSON lines: progress, then HTML, or what is wrong
/choices    which choices are valid with the rest
/launch     its launch file, for the program that its software is launched as
/download   the folder that the verb writes, as a ZIP file
/stop       ends a search with the best so far
"""

import json
import logging
import socket
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from clustersim.errors import ClustersimError, ScenarioError
from clustersim.explore.answers import VIEWS, Shown, launch_file, shown, zipped
from clustersim.explore.choices import reasons
from clustersim.explore.fields import KINDS, fields_of
from clustersim.explore.pool import Message, Pool
from clustersim.explore.question import Home, Question, question_of, values_of
from clustersim.records import dataclass
from clustersim.render.page.page import environment, page_scripts, page_style

if TYPE_CHECKING:
    from flask import Flask, Response

HERE: Final = Path(__file__).parent

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:"
    " blob:; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
"""What a browser may load and run for the page: only what this server sends."""

HOSTS: Final = ("localhost", "127.0.0.1", "[::1]")
"""Names by which the page is reached without a proxy."""

MOST_ADDRESS: Final = 8_000
"""Letters of an address."""

THREADS: Final = 96
"""Connections that are served at the same time."""


@dataclass(frozen=True)
class Site:
    """A page with what it starts from and who computes its answers.

    Attributes
    ----------
    hosts : further names by which a proxy reaches it
    """

    home: Home
    pool: Pool
    hosts: tuple[str, ...] = ()

    def application(self) -> "Flask":
        """Return the application for a server of WSGI."""
        from flask import Flask, Response, request

        app = Flask("clustersim", static_folder=None)
        app.config["TRUSTED_HOSTS"] = [*HOSTS, *self.hosts]
        app.config["MAX_CONTENT_LENGTH"] = 1_000

        def query() -> str:
            text = request.query_string.decode("utf-8", "replace")
            return text if len(text) <= MOST_ADDRESS else ""

        def stream(messages: Iterator[Message]) -> Response:
            lines = (json.dumps(_plain(message)) + "\n" for message in messages)
            return Response(lines, mimetype="application/x-ndjson")

        @app.get("/")
        def page() -> str:
            return self.page(query(), too_long=len(request.query_string) > MOST_ADDRESS)

        @app.get("/answer")
        def answer() -> Response:
            return stream(self.answer(query(), request.args))

        @app.get("/choices")
        def choices() -> Response:
            question = question_of(query(), self.home)
            return stream(self.pool.messages(partial(_choices, question, self.home)))

        @app.get("/launch")
        def launch() -> Response:
            question = question_of(query(), self.home)
            return stream(self.pool.messages(partial(_launch_file, question, self.home)))

        @app.get("/download")
        def download() -> Response:
            return self.download(query(), request.args.get("view", "answer"))

        @app.post("/stop")
        def stop() -> tuple[str, int]:
            return "", 204 if self.pool.stop(request.args.get("job", "")) else 404

        @app.get("/explore.css")
        def style() -> Response:
            return _kept(page_style() + _text("explore.css"), "text/css")

        @app.get("/<int:number>.js")
        def script(number: int) -> Response:
            scripts = _scripts()
            if number >= len(scripts):
                return Response("no such script", 404)
            return _kept(scripts[number], "text/javascript")

        @app.after_request
        def protect(response: Response) -> Response:
            response.headers["Content-Security-Policy"] = POLICY
            response.headers["X-Content-Type-Options"] = "nosniff"
            response.headers["Referrer-Policy"] = "no-referrer"
            response.headers.setdefault("Cache-Control", "no-store")
            return response

        return app

    def page(self, query: str, *, too_long: bool = False) -> str:
        """Return the document of an address."""
        question = question_of(query, self.home) if query else self.home.first()
        values = values_of(question, self.home)
        base = values_of(Question(question.kind, question.of), self.home)
        groups: dict[str, list[Any]] = {}
        for field in fields_of(question.kind):
            groups.setdefault(field.group, []).append(field)
        ignored = [*question.ignored]
        if too_long:
            ignored.append(f"the address is longer than {MOST_ADDRESS:,} letters")
        return (
            environment(HERE)
            .get_template("explore.html.j2")
            .render(
                question=question,
                kinds=KINDS,
                views={name: view for name, view in VIEWS.items() if question.kind in view.kinds},
                groups=groups,
                values=values,
                base=base,
                ignored=ignored,
                scenarios=self.scenarios(question),
                scripts=range(len(_scripts())),
            )
        )

    def scenarios(self, question: Question) -> Mapping[str, str]:
        """Return what a question may start from, by the name in addresses."""
        from clustersim.catalog.finding import entry_names

        own = {"mine": self.home.scenario} if self.home.scenario else {}
        return {"": "a draft", **own, **{name: name for name in entry_names("scenario")}}

    def answer(self, query: str, arguments: Mapping[str, str]) -> Iterator[Message]:
        """Yield the messages of a view of a question."""
        view = arguments.get("view", "answer")
        try:
            question = question_of(query, self.home)
            pin = arguments.get("pin", "")
            pinned = question_of(unquote(pin), self.home) if pin else None
            if view not in VIEWS or question.kind not in VIEWS[view].kinds:
                raise ScenarioError(f"view={view}: is none of a question of this kind")
        except ClustersimError as problem:
            return iter([Message("problem", str(problem))])
        task = partial(shown, question, pinned, view, self.home)
        return self.pool.messages(task, arguments.get("job", ""))

    def download(self, query: str, view: str) -> "Response":
        """Return the folder of a view as a ZIP file."""
        from flask import Response

        question = question_of(query, self.home)
        if view not in VIEWS or question.kind not in VIEWS[view].kinds:
            return Response(f"view: is none of {', '.join(VIEWS)}", 400, mimetype="text/plain")
        for message in self.pool.messages(partial(_zipped, question, view, self.home)):
            if message.kind == "answer":
                name = f"clustersim-{question.kind}-{view}.zip"
                headers = {"Content-Disposition": f'attachment; filename="{name}"'}
                return Response(message.value, headers=headers, mimetype="application/zip")
            if message.kind != "progress":
                return Response(message.value, 400, mimetype="text/plain")
        return Response("", 500)


def _choices(question: Question, home: Home, *_: object) -> Any:
    return reasons(question, home)


def _launch_file(question: Question, home: Home, *_: object) -> str:
    return launch_file(question, home)


def _zipped(question: Question, view: str, home: Home, *_: object) -> bytes:
    return zipped(question, view, home)


def _plain(message: Message) -> dict[str, Any]:
    value = message.value
    return {"kind": message.kind, "value": asdict(value) if isinstance(value, Shown) else value}


def _text(name: str) -> str:
    return (HERE / name).read_text(encoding="utf-8")


def _scripts() -> tuple[str, ...]:
    return (*page_scripts(), _text("explore.js"))


def _kept(text: str, mimetype: str) -> "Response":
    from flask import Response

    return Response(text, mimetype=mimetype, headers={"Cache-Control": "max-age=3600"})


def serve_site(site: Site, port: int) -> None:
    """Serve a page on the loopback address until the process is interrupted.

    Raises
    ------
    ScenarioError
        when another program listens on the port.
    """
    from waitress import create_server

    logging.getLogger("waitress.queue").setLevel(logging.ERROR)  # a short queue is no news
    try:
        listening = socket.create_server(("127.0.0.1", port))
    except OSError:
        site.pool.close()
        raise ScenarioError(f"--port {port}: is in use (choose another one)") from None
    try:
        server = create_server(site.application(), sockets=[listening], threads=THREADS)
        server.run()
    finally:
        listening.close()
        site.pool.close()
