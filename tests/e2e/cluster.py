"""The running cluster as the end-to-end tests see it."""

import json
import os
import signal
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bimetal.fleet.schema import Backend, Fleet
from tests.patience import PATIENCE_S

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Cluster:
    """The running cluster: its addresses, its processes and what it says of itself."""

    state_dir: Path
    fleet: Fleet

    @property
    def grpc(self) -> str:
        return f"127.0.0.1:{self.fleet.gateway.grpc_port}"

    @property
    def http(self) -> str:
        return f"127.0.0.1:{self.fleet.gateway.http_port}"

    def backend(self, name: str) -> Backend:
        return self.fleet.backend(name)

    def bimetal(self, *arguments: str) -> str:
        """What the command line prints."""
        command = [str(ROOT / ".venv/bin/bimetal"), *arguments, "--fleet", str(self.state_dir / "fleet.yaml")]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=PATIENCE_S).stdout

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.get(self.fleet.router.http_port, "/admin/status"))
        return found

    def shares(self, model: str) -> dict[str, float]:
        found: dict[str, float] = next(m["shares"] for m in self.status()["models"] if m["name"] == model)
        return found

    def served(self, model: str) -> dict[str, int]:
        """Inferences of a model by backend, as each Triton counts them."""
        counts = {}
        for backend in self.fleet.backends:
            stats = json.loads(self.get(backend.http_port, f"/v2/models/{model}/stats"))["model_stats"][0]
            counts[backend.name] = int(stats["inference_stats"]["success"]["count"])
        return counts

    def served_since(self, before: dict[str, int], model: str) -> dict[str, int]:
        """Inferences by backend since `served` said `before`."""
        return {name: count - before[name] for name, count in self.served(model).items()}

    def has_equal_shares(self, model: str) -> bool:
        """At rest: the load of the tests before has left the shares."""
        return len(set(self.shares(model).values())) == 1

    def breaker(self, backend: str) -> str:
        return str(next(b["state"] for b in self.status()["backends"] if b["name"] == backend))

    def clear(self, backend: str) -> None:
        """A person declares the backend well."""
        url = f"http://127.0.0.1:{self.fleet.router.http_port}/admin/backends/{backend}/clear"
        with urllib.request.urlopen(urllib.request.Request(url, b""), timeout=PATIENCE_S) as answer:
            answer.read()

    def get(self, port: int, path: str) -> bytes:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=PATIENCE_S) as answer:
            body: bytes = answer.read()
        return body

    def envoy_stat(self, name: str) -> int:
        """A counter or gauge of the gateway; 0 if it was never touched."""
        lines = self.get(self.fleet.gateway.admin_port, f"/stats?filter=^{name}$").decode().split("\n")
        return sum(int(line.split(": ")[1]) for line in lines if line)

    @contextmanager
    def proxyless(self, *arguments: str) -> Iterator[subprocess.Popen[str]]:
        """A Python process with these arguments whose gRPC knows the router; it does not outlive the block."""
        export = self.bimetal("client-bootstrap").strip()
        variable, bootstrap = export.removeprefix("export ").split("=", 1)
        command = [str(ROOT / ".venv/bin/python"), *arguments]
        environment = {variable: bootstrap, "PATH": "/usr/bin:/bin"}
        pipe = subprocess.PIPE
        with subprocess.Popen(
            command, cwd=ROOT, env=environment, stdin=pipe, stdout=pipe, stderr=pipe, text=True
        ) as client:
            try:
                yield client
            finally:
                client.kill()

    def run_proxyless(self, *arguments: str) -> str:
        """What a proxyless client prints; it must end well."""
        with self.proxyless(*arguments) as client:
            printed, errors = client.communicate(timeout=PATIENCE_S)
        assert client.returncode == 0, errors
        return printed

    def feedback_is_in(self) -> bool:
        """Whether nothing is in flight and the router has read all that the gateway ever logged."""
        busy = sum(self.envoy_stat(f"http.{protocol}.downstream_rq_active") for protocol in ("http", "grpc"))
        written = self.envoy_stat("access_logs.grpc_access_log.logs_written")
        metrics = self.get(self.fleet.router.http_port, "/metrics").decode()
        return not busy and f"bimetal_access_log_entries_total {float(written)}" in metrics.splitlines()

    def supervisor(self, *arguments: str) -> str:
        command = [
            str(ROOT / ".venv/bin/supervisorctl"),
            "--configuration",
            str(self.state_dir / "supervisor/supervisord.conf"),
            *arguments,
        ]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=PATIENCE_S).stdout

    def pid(self, program: str) -> int:
        return int(self.supervisor("pid", program))

    def triton_pid(self, backend: str) -> int:
        """The server itself, which its program runs as a child."""
        program = self.pid(f"triton-{backend}")
        return int(Path(f"/proc/{program}/task/{program}/children").read_text().split()[0])

    def kill(self, program: str) -> None:
        """SIGKILL one of the cluster's own programs; its supervisor starts it again."""
        os.kill(self.pid(program), signal.SIGKILL)

    def answers(self) -> bool:
        """Whether the gateway lets a request through."""
        try:
            self.get(self.fleet.gateway.http_port, "/v2/health/live")
        except OSError:
            return False
        return True

    def is_whole(self) -> bool:
        """Whether every backend is reachable and every model has an able one."""
        try:
            status = self.status()
        except OSError:
            return False
        backends = all(b["ready"] and len(b["models"]) == len(status["models"]) for b in status["backends"])
        return backends and bool(status["models"]) and all(any(m["shares"].values()) for m in status["models"])


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait for a condition; fail if it does not come within `PATIENCE_S`."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"this did not become true: {condition}"
        time.sleep(0.02)
