"""The module that waits for a program and shows its log when it does not come up."""

import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from ansible_collections.bimetal.cluster.plugins.modules import program_ready as module

from tests.patience import PATIENCE_S


@pytest.fixture
def loading_server() -> Iterator[str]:
    """A server that says 400 twice, as a Triton that is loading its models, and then 200."""
    answers = iter([400, 400])

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(next(answers, 200))
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Keep the test's output clean."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("line", "state", "pid"),
    [
        ("triton-cuda-0                    RUNNING   pid 16309, uptime 0:00:05", "RUNNING", 16309),
        (
            "router                           BACKOFF   Exited too quickly (process log may have details)",
            "BACKOFF",
            None,
        ),
        ("router                           STOPPED   Nov 30 10:38 AM", "STOPPED", None),
        ("", "UNKNOWN", None),
    ],
)
def test_supervisords_status_line_is_read(line: str, state: str, pid: int | None) -> None:
    assert module.parse_status(line) == module.Program(state, pid)


def test_a_server_that_is_still_loading_is_waited_for(loading_server: str) -> None:
    assert module.wait(loading_server, PATIENCE_S, lambda: module.Program("RUNNING", 1)) is None


def test_a_program_that_supervisord_gave_up_is_not_waited_for(free_port: Callable[[], int]) -> None:
    url = f"http://127.0.0.1:{free_port()}/"
    problem = module.wait(url, PATIENCE_S, lambda: module.Program("FATAL", None))
    assert problem is not None
    assert "gave up" in problem
    assert "refused" in problem


def test_a_program_that_gets_a_new_pid_again_and_again_is_a_crash_loop() -> None:
    seen = [module.Program("RUNNING", pid) for pid in (1, 1, 2, 3)]
    assert module.hopeless(seen) is None
    assert module.hopeless([*seen, module.Program("RUNNING", 4)]) == "it ends soon after each start"


def test_a_time_out_tells_the_last_answer_and_the_programs_state(free_port: Callable[[], int]) -> None:
    url = f"http://127.0.0.1:{free_port()}/"
    problem = module.wait(url, 0, lambda: module.Program("RUNNING", 1))
    assert problem is not None
    assert problem.startswith("no 200 within 0 s")
    assert "RUNNING" in problem


def test_the_end_of_the_log_is_shown_and_a_missing_log_is_named(tmp_path: Path) -> None:
    log = tmp_path / "triton.log"
    assert "no log" in module.tail(log, 2)
    log.write_text("one\ntwo\nthree\n")
    assert module.tail(log, 2) == "  two\n  three"
