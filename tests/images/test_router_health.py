"""The router image's health check, against something that answers as told."""

import http.server
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from bimetal.resources import resource
from tests.patience import PATIENCE_S

SCRIPT = resource("images/rootfs") / "router/opt/bimetal/healthcheck"


@contextmanager
def answering(status: int) -> Iterator[int]:
    """A port on which every question gets that status."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join()


def healthcheck(tmp_path: Path, router: int, gateway: int, **security: Any) -> subprocess.CompletedProcess[str]:
    fleet = tmp_path / "fleet.yaml"
    parts = {"router": {"host": "127.0.0.1", "http_port": router}, "gateway": {"host": "0.0.0.0", "http_port": gateway}}
    fleet.write_text(yaml.safe_dump(parts | security))
    return subprocess.run(
        [sys.executable, str(SCRIPT)],
        env={"BIMETAL_FLEET": str(fleet)},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )


@pytest.mark.parametrize(("status", "healthy"), [(200, True), (401, True), (503, False)])
def test_any_answer_but_a_servers_error_is_a_sign_of_life(tmp_path: Path, status: int, healthy: bool) -> None:
    with answering(200) as router, answering(status) as gateway:
        checked = healthcheck(tmp_path, router, gateway)
    assert (checked.returncode == 0) is healthy
    assert (f"gateway at 127.0.0.1:{gateway}: HTTP Error 503" in checked.stdout) is not healthy


def test_a_part_that_is_gone_is_named(tmp_path: Path) -> None:
    with answering(200) as gone:
        pass
    with answering(200) as gateway:
        checked = healthcheck(tmp_path, gone, gateway)
    assert checked.returncode == 1
    assert checked.stdout.startswith(f"router at 127.0.0.1:{gone}: ")
    assert "gateway" not in checked.stdout


def test_behind_tls_a_connection_is_the_sign_of_life(tmp_path: Path) -> None:
    with answering(200) as router, answering(503) as gateway:
        assert healthcheck(tmp_path, router, gateway, security={"gateway": {"certificate": "x"}}).returncode == 0
