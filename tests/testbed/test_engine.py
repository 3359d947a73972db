"""Finding, starting and stopping a Docker engine."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.patience import PATIENCE_S
from tests.testbed import engine
from tests.testbed.engine import TestbedError

Fake = Callable[[str, str], None]

# Answers once a daemon has made the file that stands for its socket.
DOCKER = 'case "$*" in *unix:///var/run*) exit 1 ;; esac; test -e "$FAKES/up"'
# Runs until it is told to stop, like the daemon; removes its "socket" on the way out.
DOCKERD = """
trap 'rm "$FAKES/up"; exit 0' TERM
echo "$*" > "$FAKES/arguments"
touch "$FAKES/up"
while :; do sleep 0.1; done
"""


# Knows one interface, and the bridge that an ended run left.
IP = """
echo "$*" >> "$FAKES/ip"
case "$*" in
  "-o -4 address") echo "4: eth0    inet 10.213.7.2/24 brd 10.213.7.255 scope global eth0" ;;
  "-o link") test ! -e "$FAKES/links" || cat "$FAKES/links" ;;
esac
"""


@pytest.fixture
def roomy(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    """A host on which an engine may be started."""
    fake("ip", IP)
    monkeypatch.setattr(engine, "problem", lambda *_: None)


def test_an_engine_that_answers_is_used_and_left_running(fake: Fake, tmp_path: Path) -> None:
    fake("docker", DOCKER)
    (tmp_path / "up").touch()
    with engine.engine(tmp_path / "data", {"DOCKER_HOST": "unix:///elsewhere.sock"}) as running:
        assert running == engine.Engine("unix:///elsewhere.sock", pid=None)
        assert running.environment["DOCKER_HOST"] == "unix:///elsewhere.sock"
    assert (tmp_path / "up").exists()
    assert not (tmp_path / "data").exists()


def test_a_named_engine_that_does_not_answer_is_an_error_and_not_replaced(fake: Fake, tmp_path: Path) -> None:
    fake("docker", DOCKER)
    with (
        pytest.raises(TestbedError, match=r"DOCKER_HOST=unix:///gone.sock. Start it, or unset DOCKER_HOST"),
        engine.engine(tmp_path, {"DOCKER_HOST": "unix:///gone.sock"}),
    ):
        pass


@pytest.mark.usefixtures("roomy")
def test_a_private_engine_is_started_and_nothing_of_it_is_left(fake: Fake, tmp_path: Path) -> None:
    fake("docker", DOCKER)
    fake("dockerd", DOCKERD)
    with engine.engine(tmp_path / "data", {}) as running:
        assert running.pid is not None
        socket = Path(running.host.removeprefix("unix://"))
        assert f"--data-root {tmp_path}/data/engine" in (tmp_path / "arguments").read_text()
    assert not (tmp_path / "up").exists()
    assert not socket.parent.exists()
    with pytest.raises(ProcessLookupError):
        os.kill(running.pid, 0)


@pytest.mark.usefixtures("roomy")
def test_a_private_engine_has_a_bridge_of_its_own_for_as_long_as_it_runs(fake: Fake, tmp_path: Path) -> None:
    fake("docker", DOCKER)
    fake("dockerd", DOCKERD)
    name = engine.bridge_name(tmp_path / "data")
    (tmp_path / "links").write_text(f"9: {name}: <BROADCAST> mtu 1500\n")
    with engine.engine(tmp_path / "data", {}):
        assert f"--bridge {name}" in (tmp_path / "arguments").read_text()
    address = engine.free_subnet("", int(name[-2:], 16))
    assert [line for line in (tmp_path / "ip").read_text().splitlines() if not line.startswith("-o")] == [
        f"link delete {name}",
        f"link add {name} type bridge",
        f"address add {address} dev {name}",
        f"link set {name} up",
        f"link delete {name}",
    ]
    assert len(name) <= 15


def test_a_bridge_gets_a_subnet_that_no_interface_has() -> None:
    assert engine.free_subnet("4: eth0    inet 10.213.7.2/24 brd 10.213.7.255", 7) == "10.213.8.1/24"
    assert engine.free_subnet("4: eth0    inet 10.213.255.2/24", 255) == "10.213.0.1/24"
    everything = "".join(f"inet 10.213.{number}.1/24\n" for number in range(256))
    with pytest.raises(TestbedError, match="Next: ip link delete"):
        engine.free_subnet(everything, 0)


@pytest.mark.usefixtures("roomy")
def test_a_private_engine_is_stopped_when_the_work_fails(fake: Fake, tmp_path: Path) -> None:
    fake("docker", DOCKER)
    fake("dockerd", DOCKERD)
    with pytest.raises(RuntimeError), engine.engine(tmp_path / "data", {}):
        raise RuntimeError
    assert not (tmp_path / "up").exists()


@pytest.mark.usefixtures("roomy")
def test_a_daemon_that_ends_at_once_is_reported_with_the_end_of_its_log(fake: Fake, tmp_path: Path) -> None:
    fake("docker", DOCKER)
    fake("dockerd", "echo 'failed to mount overlay: operation not permitted'; exit 3")
    with (
        pytest.raises(TestbedError, match=r"ended with 3: failed to mount overlay.*Next: read .*dockerd.log"),
        engine.engine(tmp_path, {}),
    ):
        pass


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_an_interrupted_run_stops_the_engine_that_it_started(fake: Fake, tmp_path: Path, number: int) -> None:
    fake("docker", f'case "$*" in *image*) touch "$FAKES/asked"; exec sleep 60 ;; esac; {DOCKER}')
    fake("dockerd", DOCKERD)
    fake("iptables", "")
    fake("ip", IP)
    code = (
        "import sys, tests.testbed.__main__ as m, tests.testbed.engine as e;"
        "e.problem = lambda *_: None; sys.exit(m.main())"
    )
    command = [sys.executable, "-c", code, "--data-dir", str(tmp_path / "data"), "images"]
    environment = {name: value for name, value in os.environ.items() if name != "DOCKER_HOST"}
    with subprocess.Popen(
        command, cwd=Path(__file__).parents[2], env=environment, stdout=subprocess.PIPE, start_new_session=True
    ) as run:
        assert run.stdout is not None
        assert run.stdout.read(len("local/")) == b"local/"  # the engine is up, the first image is asked for
        os.killpg(run.pid, number)
        assert run.wait(PATIENCE_S) == 128 + number
    assert (tmp_path / "arguments").exists()
    assert not (tmp_path / "up").exists()


@pytest.mark.parametrize(
    ("user_id", "missing", "free_gb", "expected"),
    [
        (0, ["dockerd"], 100.0, "dockerd not found. Next: apt-get install docker.io iptables iproute2 mmdebstrap"),
        (1000, [], 100.0, "only be started by root, and this is user 1000. Next: sudo make molecule"),
        (0, [], 2.0, "2.0 GB are free for /data, expected 10 GB. Next: free some"),
    ],
)
def test_what_keeps_an_engine_from_starting_is_one_line_with_the_next_step(
    user_id: int, missing: list[str], free_gb: float, expected: str
) -> None:
    reason = engine.problem(user_id, missing, free_gb, Path("/data"))
    assert reason is not None
    assert expected in reason
    assert "\n" not in reason


def test_nothing_keeps_an_engine_from_starting_for_root_with_docker_and_space() -> None:
    assert engine.problem(0, [], 100.0, Path("/data")) is None


def test_free_space_is_that_of_the_nearest_parent_that_exists(tmp_path: Path) -> None:
    assert engine.free_gb(tmp_path / "not" / "yet") > 0
