"""Router and gateway on free ports, with a backend that is not there: both live, say so, and end on SIGTERM."""

import json
import os
import re
import signal
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

from checks.outcome import Failed

HERE = Path(__file__).resolve().parents[1]
LIVE_WITHIN_S = 60
STOP_WITHIN_S = 30
ALARM = re.compile(r"\[(warning|error|critical)\]|Traceback|level=(error|critical)")
# Envoy warns about an API that the router uses on purpose (router/bimetal/xds/listeners.py).
KNOWN = re.compile(r"allow_custom_methods' is marked as work-in-progress")


def answers_and_stops(facts):  # noqa: ARG001 - every check gets the facts
    """Both answer that they live, the cluster answers that it is not ready, both end with the container."""
    with tempfile.TemporaryDirectory() as folder:
        fleet = _fleet(Path(folder))
        fleet_file = Path(folder) / "fleet.yaml"
        fleet_file.write_text(json.dumps(fleet))  # JSON is YAML
        log_file = Path(folder) / "log"
        with log_file.open("wb") as log:
            process = subprocess.Popen(
                [str(HERE / "entrypoint")],
                env=dict(os.environ, BIMETAL_FLEET=str(fleet_file)),
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        try:
            for part in ("router", "gateway"):
                _wait_until_live(part, fleet[part]["http_port"], process, log_file)
            ready = _status(fleet["gateway"]["http_port"], "/v2/health/ready")
            # Only until here: Envoy warns about being ended.
            lines = log_file.read_text(errors="replace").splitlines()
            alarming = [line for line in lines if ALARM.search(line) and not KNOWN.search(line)]
            process.send_signal(signal.SIGTERM)
            process.wait(STOP_WITHIN_S)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
    if ready == 200:
        raise Failed("the gateway says that it is ready, with no backend")
    if process.returncode != 0:
        raise Failed(f"ended with {process.returncode} after SIGTERM, expected 0")
    if alarming:
        raise Failed("unexpected in the log: " + " | ".join(alarming[:5]))
    return f"router and gateway live, not ready without a backend ({ready}), SIGTERM ended both"


def _fleet(folder):
    http, grpc, admin, control, xds, backend_http, backend_grpc, backend_metrics = _free_ports(8)
    (folder / "models").mkdir()
    return {
        "version": 1,
        "state_dir": str(folder / "state"),
        "gateway": {"host": "127.0.0.1", "http_port": http, "grpc_port": grpc, "admin_port": admin},
        "router": {"host": "127.0.0.1", "http_port": control, "xds_port": xds},
        "pools": {"cpu": {"vendor": "cpu", "provider": "CPUExecutionProvider", "repository": str(folder / "models")}},
        "backends": [
            {
                "name": "absent",
                "pool": "cpu",
                "host": "127.0.0.1",
                "http_port": backend_http,
                "grpc_port": backend_grpc,
                "metrics_port": backend_metrics,
                "compute": "cpu",
                "devices": [],
            }
        ],
    }


def _wait_until_live(part, port, process, log_file):
    deadline = time.monotonic() + LIVE_WITHIN_S
    while _status(port, "/v2/health/live") != 200:
        if process.poll() is not None or time.monotonic() > deadline:
            tail = " | ".join(log_file.read_text(errors="replace").splitlines()[-4:])
            raise Failed(f"the {part} does not live after {LIVE_WITHIN_S} s: {tail}")
        time.sleep(0.1)


def _status(port, path):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return None


def _free_ports(count):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [opened.getsockname()[1] for opened in sockets]
    for opened in sockets:
        opened.close()
    return ports
