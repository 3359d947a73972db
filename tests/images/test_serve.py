"""What `serve` does with signals and ends; a fake stands in for Triton, whose own end the end-to-end tests watch."""

import os
import signal
import socket
import subprocess
import sys
import textwrap
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bimetal.resources import resource
from tests.patience import PATIENCE_S

SERVE = resource("images/rootfs") / "triton/opt/bimetal/serve"
AN_HOUR = "3600"
# Tells its port and what happens to it, line by line; ends well at SIGTERM.
FAKE_TRITON = """
    import http.server, json, os, signal, sys

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()

        def do_POST(self):
            asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
            mapped = os.path.getsize("/dev/shm" + asked["key"]) == asked["byte_size"]
            print("told", self.path, mapped, flush=True)
            self.send_response({answer})
            self.end_headers()

        def log_message(self, *arguments):
            pass

    def end(*_):
        print("signal", flush=True)
        os._exit(0)

    signal.signal(signal.SIGTERM, end)
    server = http.server.HTTPServer(("127.0.0.1", int(os.environ["BIMETAL_HTTP_PORT"])), Handler)
    print("up", flush=True)
    server.serve_forever()
"""

Serve = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
    return port


@pytest.fixture
def prefix() -> str:
    """What the regions of the server begin with."""
    return f"serve-{os.getpid()}-"


@pytest.fixture
def serve(free_port: int, prefix: str) -> Iterator[Serve]:
    """Starts `serve` with a command, and waits for what that says first."""
    running: list[subprocess.Popen[str]] = []

    def start(*command: str, delay: str = AN_HOUR) -> "subprocess.Popen[str]":
        own = {"BIMETAL_ADDRESS": "127.0.0.1", "BIMETAL_HTTP_PORT": str(free_port), "BIMETAL_STOP_DELAY": delay}
        own["BIMETAL_SHARED_MEMORY_PREFIX"] = prefix
        process = subprocess.Popen(
            [sys.executable, str(SERVE), *command],
            env=os.environ | own,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        running.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        return process

    yield start
    for process in running:
        process.kill()
        process.communicate(timeout=PATIENCE_S)


def triton(answer: int = 200) -> list[str]:
    return [sys.executable, "-c", textwrap.dedent(FAKE_TRITON).replace("{answer}", str(answer))]


def line(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


TOLD = "told /v2/systemsharedmemory/region/bimetal-stopping/register True"


def test_a_server_is_marked_before_it_gets_the_signal(serve: Serve) -> None:
    process = serve(*triton(), delay="0.1")
    process.send_signal(signal.SIGTERM)
    assert [line(process), line(process)] == [TOLD, "signal"]
    assert process.wait(PATIENCE_S) == 0
    assert not list(Path("/dev/shm").glob(f"bimetal-stopping-{process.pid}"))


def test_a_marked_server_goes_on_serving_and_a_second_signal_is_passed_on_at_once(serve: Serve, free_port: int) -> None:
    process = serve(*triton())
    process.send_signal(signal.SIGTERM)
    assert line(process) == TOLD
    assert process.stderr is not None
    assert "nothing new for 3600 s, then SIGTERM" in process.stderr.readline()
    with urllib.request.urlopen(f"http://127.0.0.1:{free_port}/", timeout=PATIENCE_S) as answer:
        assert answer.status == 200
    process.send_signal(signal.SIGTERM)
    assert line(process) == "signal"
    assert process.wait(PATIENCE_S) == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_ctrl_c_and_a_closed_terminal_end_it_as_well(serve: Serve, number: int) -> None:
    process = serve(*triton(), delay="0")
    process.send_signal(number)
    assert [line(process), line(process)] == [TOLD, "signal"]
    assert process.wait(PATIENCE_S) == 0


def test_a_server_that_does_not_take_the_mark_gets_the_signal_at_once(serve: Serve) -> None:
    process = serve(*triton(answer=501))
    process.send_signal(signal.SIGTERM)
    assert [line(process), line(process)] == [TOLD, "signal"]
    _, said = process.communicate(timeout=PATIENCE_S)
    assert "cannot be told that it is about to stop (HTTP Error 501" in said
    assert process.returncode == 0


def test_a_server_that_is_not_up_yet_gets_the_signal_at_once(serve: Serve) -> None:
    process = serve("sh", "-c", "trap 'echo signal; exit 7' TERM; echo up; while :; do sleep 0.01; done")
    process.send_signal(signal.SIGTERM)
    assert line(process) == "signal"
    assert process.wait(PATIENCE_S) == 7


@pytest.mark.parametrize(("last", "status"), [("exit 3", 3), ("kill -SEGV $$", 128 + signal.SIGSEGV)])
def test_its_status_is_the_one_of_the_server(serve: Serve, last: str, status: int) -> None:
    assert serve("sh", "-c", f"echo up; {last}").wait(PATIENCE_S) == status


def test_a_server_does_not_outlive_it(serve: Serve) -> None:
    process = serve("sh", "-c", "echo up; exec sleep 3600")
    process.kill()
    process.communicate(timeout=PATIENCE_S)  # ends when the last that holds the output has


def test_what_a_server_leaves_behind_ends_with_it(serve: Serve) -> None:
    process = serve("sh", "-c", "(trap '' TERM; sleep 3600) & echo up; exit 0")
    process.communicate(timeout=PATIENCE_S)  # ends when the last that holds the output has
    assert process.returncode == 0


def test_regions_that_a_killed_server_left_are_removed_and_those_of_others_stay(serve: Serve, prefix: str) -> None:
    left, other = Path(f"/dev/shm/{prefix}left"), Path(f"/dev/shm/other-{prefix}left")
    left.touch()
    other.touch()
    try:
        process = serve("sh", "-c", f"ls /dev/shm/{prefix}left >&2; touch /dev/shm/{prefix}new; echo up; exit 0")
        assert process.wait(PATIENCE_S) == 0
        assert process.stderr is not None
        assert "No such file" in process.stderr.read()
        assert list(Path("/dev/shm").glob(f"*{prefix}*")) == [other]
    finally:
        other.unlink()


def test_a_command_that_is_none_is_said(serve: Serve, free_port: int) -> None:
    del serve
    own = {"BIMETAL_ADDRESS": "127.0.0.1", "BIMETAL_HTTP_PORT": str(free_port), "BIMETAL_STOP_DELAY": "0"}
    command = [sys.executable, str(SERVE), "/nowhere/tritonserver"]
    done = subprocess.run(
        command, env=os.environ | own, capture_output=True, text=True, check=False, timeout=PATIENCE_S
    )
    assert done.returncode == 127
    assert "/nowhere/tritonserver cannot be run: " in done.stderr
