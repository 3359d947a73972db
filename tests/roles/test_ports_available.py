"""The module that finds out who holds a port."""

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from ansible_collections.bimetal.cluster.plugins.modules import ports_available as module

PROC = Path("/proc")


def wanted(port: int, address: str = "127.0.0.1") -> list[module.WantedPort]:
    return [module.WantedPort(address=address, port=port, purpose="gateway, HTTP")]


def test_a_busy_port_is_reported_with_its_purpose_and_the_pid_and_command_of_its_holder(
    listener: socket.socket,
) -> None:
    port = listener.getsockname()[1]
    [problem] = module.problems(PROC, wanted(port), None)
    assert problem.startswith(f"Port {port} (gateway, HTTP) is held by pid {os.getpid()}: ")
    command = (PROC / "self/cmdline").read_text().replace("\0", " ")
    assert command[:40] in problem


def test_a_free_port_is_no_problem(free_port: Callable[[], int]) -> None:
    assert module.problems(PROC, wanted(free_port()), None) == []


def test_a_port_held_by_a_child_of_our_supervisord_is_no_problem() -> None:
    code = "import socket; s = socket.create_server(('127.0.0.1', 0)); print(s.getsockname()[1], flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        port = int(child.stdout.readline())
        assert module.problems(PROC, wanted(port), os.getpid()) == []
        assert len(module.problems(PROC, wanted(port), child.pid + 1)) == 1
        child.communicate("\n")


def test_a_port_held_by_one_of_our_services_outside_supervisord_is_no_problem(listener: socket.socket) -> None:
    port = listener.getsockname()[1]
    assert module.problems(PROC, wanted(port), None, lambda: [os.getpid()]) == []


def test_our_services_are_asked_for_only_where_there_is_a_stranger(free_port: Callable[[], int]) -> None:
    def never() -> list[int]:
        raise AssertionError("asked")

    assert module.problems(PROC, wanted(free_port()), None, never) == []


def test_a_holder_that_cannot_be_seen_is_ours_if_it_is_our_containers_user(tmp_path: Path) -> None:
    """A member of the group docker may not look into the containers' processes."""
    (tmp_path / "net").mkdir()
    (tmp_path / "4711").mkdir()
    line = f"   0: 0100007F:1F40 00000000:0000 0A 00000000:00000000 00:00000000 00000000 {os.getuid():5} 0 99 1\n"
    (tmp_path / "net/tcp").write_text(f"  sl  local_address ...\n{line}")
    assert module.problems(tmp_path, wanted(8000), None, lambda: [4711]) == []
    assert len(module.problems(tmp_path, wanted(8000), None, list)) == 1


def test_a_connection_without_a_listener_is_no_problem(listener: socket.socket) -> None:
    with socket.create_connection(listener.getsockname()) as client:
        assert module.problems(PROC, wanted(client.getsockname()[1]), None) == []


def test_a_holder_that_cannot_be_seen_is_said_to_be_another_users(tmp_path: Path) -> None:
    (tmp_path / "net").mkdir()
    (tmp_path / "net/tcp").write_text(
        "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
        "   0: 0100007F:1F40 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1\n"
    )
    [problem] = module.problems(tmp_path, wanted(8000), None)
    assert "another user" in problem
    assert "ss -ltnp" in problem


@pytest.mark.parametrize(
    ("held", "bound", "conflict"),
    [
        ("0.0.0.0", "127.0.0.1", True),
        ("::", "127.0.0.1", True),
        ("::ffff:127.0.0.1", "127.0.0.1", True),
        ("127.0.0.1", "0.0.0.0", True),
        ("192.0.2.7", "127.0.0.1", False),
        ("::1", "127.0.0.1", False),
    ],
)
def test_only_a_listener_on_the_same_or_on_every_address_conflicts(held: str, bound: str, conflict: bool) -> None:
    assert module.conflicts(module.Listener(held, 8000, 0, "1"), bound) is conflict


def test_the_kernels_table_is_read_for_both_address_families() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as four,
        socket.create_server(("::1", 0), family=socket.AF_INET6) as six,
    ):
        listeners = [
            (entry.address, entry.port)
            for table in ("net/tcp", "net/tcp6")
            for entry in module.parse_listeners((PROC / table).read_text())
        ]
        assert ("127.0.0.1", four.getsockname()[1]) in listeners
        assert ("::1", six.getsockname()[1]) in listeners
