"""A Triton on free ports with a small model: it serves over HTTP and gRPC, and SIGTERM lets requests finish."""

import importlib.util
import json
import os
import re
import signal
import socket
import subprocess
import tempfile
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

from checks.outcome import Failed

HERE = Path(__file__).resolve().parents[1]
VALUES = [0.5, -1.0, 2.0]
READY_WITHIN_S = 90
DELAY_MS = 1500
ANSWER_WITHIN_S = 30
# What Triton says where no NVIDIA driver is, whatever it was started with.
WITHOUT_A_DRIVER = re.compile(r"CudaDriverHelper has not been initialized|pinned system memory")
ALARM = re.compile(r"^[WE]\d{4}|\b(WARNING|ERROR|Traceback)\b")


def serves_and_drains(facts):  # noqa: ARG001 - every check gets the facts
    """One server: ready, two protocols, a request in flight at SIGTERM, exit status 0, nothing alarming in its log."""
    with tempfile.TemporaryDirectory() as folder:
        server = _Server(Path(folder))
        try:
            server.wait_until_ready()
            _expect_echo(server.infer(), "HTTP")
            protocols = "HTTP and gRPC" if _grpc_echo(server) else "HTTP (the base has no tritonclient: gRPC not tried)"
            server.drain()
        finally:
            server.kill()
        server.check_log()
    return f"served over {protocols}, SIGTERM let a request finish"


class _Server:
    def __init__(self, folder):
        self._log_file = folder / "log"
        self._in_flight = folder / "in-flight"
        self.http, self.grpc, metrics = (str(port) for port in _free_ports(3))
        environment = dict(
            os.environ,
            BIMETAL_MODEL_REPOSITORY=str(HERE / "selftest-models"),
            BIMETAL_ADDRESS="127.0.0.1",
            BIMETAL_HTTP_PORT=self.http,
            BIMETAL_GRPC_PORT=self.grpc,
            BIMETAL_METRICS_PORT=metrics,
            # The request in flight shall still be so when the server gets the signal.
            BIMETAL_STOP_DELAY="0",
            BIMETAL_SELFTEST_IN_FLIGHT=str(self._in_flight),
        )
        with self._log_file.open("wb") as log:
            self._process = subprocess.Popen(
                [str(HERE / "entrypoint")], env=environment, stdout=log, stderr=subprocess.STDOUT
            )

    def wait_until_ready(self):
        def ready():
            try:
                return self._get("/v2/health/ready") == 200
            except OSError:
                return False

        self._wait(ready, READY_WITHIN_S, "did not become ready")

    def infer(self, delay_ms=0):
        """The echoed values of one HTTP request that is answered after `delay_ms`."""
        body = {
            "inputs": [{"name": "INPUT0", "shape": [len(VALUES)], "datatype": "FP32", "data": VALUES}],
            "parameters": {"delay_ms": delay_ms},
        }
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.http}/v2/models/echo/infer", data=json.dumps(body).encode()
        )
        with urllib.request.urlopen(request, timeout=ANSWER_WITHIN_S) as answer:
            return json.load(answer)["outputs"][0]["data"]

    def drain(self):
        """SIGTERM while a request is being computed: it is answered, then the server ends with 0."""
        answers = []
        client = threading.Thread(target=lambda: answers.append(self._infer_or_error()))
        client.start()
        self._wait(self._in_flight.exists, ANSWER_WITHIN_S, "did not begin a request")
        self._process.send_signal(signal.SIGTERM)
        client.join(ANSWER_WITHIN_S)
        if answers != [VALUES]:
            raise Failed(f"a request in flight at SIGTERM got {answers or 'no answer'}, expected {VALUES}")
        status = self._process.wait(ANSWER_WITHIN_S)
        if status != 0:
            raise Failed(f"after SIGTERM the server ended with {status}, expected 0: {self._log_tail()}")

    def kill(self):
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    def check_log(self):
        lines = self._log_file.read_text(errors="replace").splitlines()
        alarming = [line for line in lines if ALARM.search(line)]
        if not Path("/dev/nvidiactl").exists():
            alarming = [line for line in alarming if not WITHOUT_A_DRIVER.search(line)]
        if alarming:
            raise Failed("unexpected in the server's log: " + " | ".join(alarming[:5]))

    def _infer_or_error(self):
        try:
            return self.infer(DELAY_MS)
        except OSError as error:
            return str(error)

    def _get(self, path):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.http}{path}", timeout=5) as answer:
                return answer.status
        except urllib.error.HTTPError as error:
            return error.code

    def _wait(self, condition, seconds, complaint):
        deadline = time.monotonic() + seconds
        while not condition():
            if self._process.poll() is not None:
                raise Failed(f"the server ended with {self._process.returncode}: {self._log_tail()}")
            if time.monotonic() > deadline:
                raise Failed(f"the server {complaint} in {seconds} s: {self._log_tail()}")
            time.sleep(0.05)

    def _log_tail(self):
        return " | ".join(self._log_file.read_text(errors="replace").splitlines()[-4:])


def _grpc_echo(server):
    """Whether there is a client to try gRPC with."""
    if importlib.util.find_spec("tritonclient") is None:
        return False
    import numpy  # noqa: PLC0415 - only where the client is
    from tritonclient.grpc import InferenceServerClient, InferInput  # noqa: PLC0415 - comes with the one above

    tensor = InferInput("INPUT0", [len(VALUES)], "FP32")
    tensor.set_data_from_numpy(numpy.array(VALUES, dtype=numpy.float32))
    client = InferenceServerClient(f"127.0.0.1:{server.grpc}")
    try:
        _expect_echo(client.infer("echo", [tensor]).as_numpy("OUTPUT0").tolist(), "gRPC")
    finally:
        client.close()
    return True


def _expect_echo(got, protocol):
    if got != VALUES:
        raise Failed(f"the model answered {got} over {protocol}, expected {VALUES}")


def _free_ports(count):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [opened.getsockname()[1] for opened in sockets]
    for opened in sockets:
        opened.close()
    return ports
