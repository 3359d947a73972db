"""A small locked cluster: one Triton, the router and the gateway, with certificates of one authority."""

import datetime
import json
import os
import signal
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.e2e.cluster import ROOT, wait_until
from tests.model_repo.conftest import _backends, _environment, _free_ports
from tests.patience import PATIENCE_S

API_KEY, OTHER_KEY, TOKEN = "test-key-0123456789", "other-key-0123456789", "test-token-0123456789"
BIMETAL = [sys.executable, "-c", "from bimetal.cli.main import main; main()"]

ECHO_CONFIG = """
name: "headers"
backend: "python"
input [{ name: "INPUT0", data_type: TYPE_FP32, dims: [-1, -1] }]
output [{ name: "SEEN", data_type: TYPE_STRING, dims: [1] }]
instance_group [{ count: 1, kind: KIND_CPU }]
"""
ECHO_MODEL = """
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        seen = [np.array([r.parameters()], dtype=np.object_) for r in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("SEEN", s)]) for s in seen]
"""


@dataclass(frozen=True)
class Identity:
    """PEM files of a certificate and its key."""

    certificate: Path
    private_key: Path


class Authority:
    """Issues certificates into a folder."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        constraints = x509.BasicConstraints(ca=True, path_length=0)
        builder = self._builder(self._name, self._key.public_key()).add_extension(constraints, critical=True)
        self.file = folder / f"{name}.crt"
        self.file.write_bytes(_pem(builder.sign(self._key, hashes.SHA256())))

    def issue(self, name: str, *hosts: str) -> Identity:
        """A certificate made out to `hosts` (addresses or names)."""
        key = ec.generate_private_key(ec.SECP256R1())
        builder = self._builder(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]), key.public_key())
        if hosts:
            builder = builder.add_extension(x509.SubjectAlternativeName([_general(h) for h in hosts]), critical=False)
        identity = Identity(self._folder / f"{name}.crt", self._folder / f"{name}.key")
        identity.certificate.write_bytes(_pem(builder.sign(self._key, hashes.SHA256())))
        identity.private_key.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        identity.private_key.chmod(0o600)
        return identity

    def _builder(self, subject: x509.Name, key: Any) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        day = datetime.timedelta(days=1)
        return (
            x509.CertificateBuilder(subject_name=subject, issuer_name=self._name, public_key=key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - day)
            .not_valid_after(now + day)
        )


def _general(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


@dataclass
class SecureCluster:
    """Addresses, files and processes of the cluster."""

    folder: Path
    authority: Authority
    client: Identity
    ports: dict[str, int]
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def fleet_file(self) -> Path:
        return self.folder / "fleet.yaml"

    @property
    def state_dir(self) -> Path:
        return self.folder / "state"

    def log(self, program: str) -> Path:
        return self.folder / f"{program}.log"

    def bimetal(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """What a command of the command line prints."""
        command = [*BIMETAL, *arguments, "--fleet", str(self.fleet_file)]
        return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False, cwd=ROOT)

    def ask(
        self, port: str, path: str, body: bytes | None = None, scheme: str = "https", **headers: str
    ) -> tuple[int, bytes]:
        """Status and body of an HTTP request; keyword `x_api_key` is the header x-api-key."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        request = urllib.request.Request(f"{scheme}://127.0.0.1:{self.ports[port]}{path}", body, named)
        context = ssl.create_default_context(cafile=str(self.authority.file))
        opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
        )
        try:
            with opener.open(request, timeout=PATIENCE_S) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()

    def is_ready(self) -> bool:
        """Whether the gateway says that every model has a backend."""
        for program, process in self.processes.items():
            assert process.poll() is None, f"{program} ended:\n{self.log(program).read_text()[-4000:]}"
        try:
            return self.ask("http", "/v2/health/ready", x_api_key=API_KEY)[0] == 200
        except OSError:
            return False

    def start(self, program: str, command: list[str], environment: dict[str, str] | None = None) -> None:
        with self.log(program).open("ab") as log:
            self.processes[program] = subprocess.Popen(
                command, env=environment, cwd=ROOT, stdout=log, stderr=subprocess.STDOUT
            )

    def stop(self) -> None:
        """End every process that was started, the last one first."""
        for process in reversed(self.processes.values()):
            process.send_signal(signal.SIGTERM)
        for process in self.processes.values():
            try:
                process.wait(timeout=PATIENCE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def start_router(self) -> None:
        self.start("router", [*BIMETAL, "run", "--fleet", str(self.fleet_file)])


@contextmanager
def secure_cluster(folder: Path) -> Iterator[SecureCluster]:
    """A running cluster, ended afterwards."""
    names = ("http", "grpc", "admin", "router_http", "xds", "triton_http", "triton_grpc", "triton_metrics")
    authority = Authority(folder, "authority")
    ports = dict(zip(names, _free_ports(len(names)), strict=True))
    cluster = SecureCluster(folder, authority, authority.issue("client"), ports)
    with ExitStack() as stack:
        stack.callback(cluster.stop)
        _start_triton(cluster)
        _write_fleet(cluster)
        cluster.start_router()
        cluster.start("gateway", [*BIMETAL, "gateway", "--fleet", str(cluster.fleet_file)])
        wait_until(cluster.is_ready)
        yield cluster


def _start_triton(cluster: SecureCluster) -> None:
    repository = cluster.folder / "repository"
    model = repository / "headers"
    (model / "1").mkdir(parents=True)
    (model / "config.pbtxt").write_text(ECHO_CONFIG)
    (model / "1/model.py").write_text(ECHO_MODEL)
    (repository / "identity").symlink_to(ROOT / "model_repo/cpu/identity")
    identity = cluster.authority.issue("triton", "cpu-0")
    home = Path(sys.prefix, "lib", f"python3.{sys.version_info.minor}", "site-packages/pytriton/tritonserver")
    command = [
        str(home / "bin/tritonserver"),
        f"--model-repository={repository}",
        f"--backend-directory={_backends(home, cluster.folder)}",
        *(f"--{service}-address=127.0.0.1" for service in ("http", "grpc", "metrics")),
        *(f"--{service}-port={cluster.ports[f'triton_{service}']}" for service in ("http", "grpc", "metrics")),
        "--model-control-mode=explicit",
        "--load-model=*",
        "--grpc-use-ssl-mutual=true",
        f"--grpc-server-cert={identity.certificate}",
        f"--grpc-server-key={identity.private_key}",
        f"--grpc-root-cert={cluster.authority.file}",
        # What the model then finds as parameters of a request.
        *(f"--{protocol}-header-forward-pattern=(?i).*(key|auth|kept).*" for protocol in ("http", "grpc")),
    ]
    cluster.start("triton", command, _environment())


def _write_fleet(cluster: SecureCluster) -> None:
    folder, ports = cluster.folder, cluster.ports
    host, gateway = cluster.authority.issue("host", "127.0.0.1"), cluster.authority.issue("gateway", "127.0.0.1")
    for name, content in {"api-keys": f"# team a\n{API_KEY}\n\n{OTHER_KEY}\n", "admin-token": f"{TOKEN}\n"}.items():
        (folder / name).touch(0o600)
        (folder / name).write_text(content)
    fleet = {
        "version": 1,
        "state_dir": str(cluster.state_dir),
        "gateway": {"http_port": ports["http"], "grpc_port": ports["grpc"], "admin_port": ports["admin"], "workers": 1},
        "router": {"http_port": ports["router_http"], "xds_port": ports["xds"]},
        "security": {
            "gateway": {
                "certificate": str(gateway.certificate),
                "private_key": str(gateway.private_key),
                "api_keys": str(folder / "api-keys"),
            },
            "internal": {
                "ca": str(cluster.authority.file),
                "certificate": str(host.certificate),
                "private_key": str(host.private_key),
            },
            "admin_token": str(folder / "admin-token"),
        },
        "pools": {
            "cpu": {"vendor": "cpu", "provider": "CPUExecutionProvider", "repository": str(folder / "repository")}
        },
        "backends": [
            {
                "name": "cpu-0",
                "pool": "cpu",
                "host": "127.0.0.1",
                "http_port": ports["triton_http"],
                "grpc_port": ports["triton_grpc"],
                "metrics_port": ports["triton_metrics"],
                "compute": "cpu",
                "tls": True,
            }
        ],
    }
    cluster.fleet_file.write_text(yaml.safe_dump(fleet))


def infer_body(rows: list[list[float]]) -> bytes:
    """An HTTP inference request, in JSON."""
    shape = [len(rows), len(rows[0])]
    data = [value for row in rows for value in row]
    return json.dumps({"inputs": [{"name": "INPUT0", "shape": shape, "datatype": "FP32", "data": data}]}).encode()


def arguments_of(pid: int) -> str:
    """The command line of a process."""
    return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()


def mode_of(path: Path) -> int:
    """The permission bits of a file."""
    return os.stat(path).st_mode & 0o777
