"""The fleet file: which backends exist, on which pool, and how the router may treat them.

Read once at start, validated once, frozen from then on.
"""

from collections.abc import Iterator
from functools import cached_property
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, model_validator

from bimetal.fleet.security import Gap, Security
from bimetal.fleet.settings import (
    BreakerSettings,
    LearningSettings,
    ModelSettings,
    PolicySettings,
    ProbeSettings,
    Section,
)
from bimetal.fleet.store_url import StoreUrl, leaves_unprotected, parse_store_url, sqlite_url

Port = int
Vendor = Literal["nvidia", "amd", "cpu"]
Provider = Literal[
    "CUDAExecutionProvider",
    "TensorrtExecutionProvider",
    "ROCMExecutionProvider",
    "MIGraphXExecutionProvider",
    "CPUExecutionProvider",
]
_PORT = Field(ge=1, le=65535)
_NAME = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$")


def join_host_port(host: str, port: int) -> str:
    """`host:port`, with brackets around an IPv6 address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class Gateway(Section):
    """Where Envoy listens. `admin_port` is Envoy's own and stays on loopback."""

    host: str = "127.0.0.1"
    """Address that both listeners bind; one that other hosts reach needs `security.gateway`."""
    http_port: Port = Field(default=8000, ge=1, le=65535)
    """Triton's HTTP, for clients."""
    grpc_port: Port = Field(default=8001, ge=1, le=65535)
    """Triton's gRPC, for clients."""
    admin_port: Port = Field(default=18901, ge=1, le=65535)
    """Envoy's own administration."""
    workers: int | None = Field(default=None, ge=1, le=256)
    """Envoy worker threads; None lets Envoy take one per core."""
    max_request_bytes: int = Field(default=256 * 2**20, ge=2**20, le=2**31 - 1)
    """A larger request is refused with 413 / RESOURCE_EXHAUSTED; one whole request is held for a retry."""
    max_connections: int = Field(default=10_000, ge=1)
    """Clients connected at once; a further one is refused at accept."""
    max_requests: int = Field(default=4096, ge=1)
    """Requests to one model at once over one protocol, those that wait for a connection included; a further one is
    told 503 / UNAVAILABLE."""
    max_memory_bytes: int = Field(default=4 * 2**30, ge=2**27)
    """Memory that requests and answers on their way may hold; above 80 % of it new requests are told 503."""
    request_timeout_s: float = Field(default=300, gt=0)
    """Our own deadline for one request, but for streams; passing it counts against the backend that had it last. A
    client's deadline never does."""


class RouterAddress(Section):
    """Where the router listens: HTTP for metrics, admin API and control answers; gRPC for xDS and feedback."""

    host: str = "127.0.0.1"
    """Address that both ports bind; another one than loopback needs `security.internal`."""
    http_port: Port = Field(default=8002, ge=1, le=65535)
    """Metrics, admin API and control answers."""
    xds_port: Port = Field(default=18900, ge=1, le=65535)
    """gRPC: xDS, access logs and ext_proc."""


class Pool(Section):
    """The Tritons of one stack: they share vendor, execution provider and model repository."""

    vendor: Vendor
    """Whose accelerators the pool's backends have."""
    provider: Provider
    """onnxruntime's execution provider there: whose operator scores count."""
    repository: Path
    """The pool's model repository, as the router's host sees it: it reads the models' operators."""


class Device(Section):
    """One accelerator of a backend; None where the fact is not known."""

    model: str
    """As the vendor names it."""
    memory_bandwidth_gbs: float | None = Field(default=None, gt=0)
    """Of its own memory, in 10^9 bytes a second."""
    pci: str | None = Field(default=None, pattern=r"^[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$")
    """Its PCI address, as the role gpu_probe writes it."""


class Backend(Section):
    """One Triton server. `host` is an IP address: Envoy takes no names in endpoints that come over xDS."""

    name: str = _NAME
    """Unique in the fleet; letters, digits, `.`, `_`, `-`."""
    pool: str
    """One of `pools`."""
    host: IPv4Address | IPv6Address
    """IP address of the server."""
    http_port: Port = _PORT
    """Of Triton's HTTP service."""
    grpc_port: Port = _PORT
    """Of Triton's gRPC service."""
    metrics_port: Port = _PORT
    """Of Triton's metrics."""
    compute: Literal["gpu", "cpu"] = "gpu"
    """What really computes there; `cpu` on a machine without the pool's accelerator."""
    devices: tuple[Device, ...] = ()
    """Its accelerators; without any, nothing is known of its bandwidth."""
    gpu_metrics_url: str | None = Field(default=None, pattern=r"^https?://[^\s/]+")
    """node_exporter of its host, with the metrics of the role gpu_probe. Counted are the devices that have a `pci`; if
    none has, all GPUs of the host."""
    tls: bool = False
    """Whether its gRPC port asks for mutual TLS, with a certificate made out to `name`. Triton's HTTP has no TLS."""

    @cached_property
    def ip(self) -> str:
        """`host` as text."""
        return str(self.host)

    @property
    def grpc_address(self) -> str:
        """`host:port` of Triton's gRPC service."""
        return join_host_port(self.ip, self.grpc_port)

    @property
    def http_address(self) -> str:
        """`host:port` of Triton's HTTP service."""
        return join_host_port(self.ip, self.http_port)

    @property
    def metrics_address(self) -> str:
        """`host:port` of Triton's metrics."""
        return join_host_port(self.ip, self.metrics_port)

    @cached_property
    def bandwidth_gbs(self) -> float | None:
        """Memory bandwidth of all devices together in GB/s; None if any device's is unknown."""
        known = [d.memory_bandwidth_gbs for d in self.devices if d.memory_bandwidth_gbs is not None]
        return sum(known) if known and len(known) == len(self.devices) else None


class Fleet(Section):
    """The whole fleet file."""

    version: Literal[1]
    """Of this format."""
    state_dir: Path
    """Folder for what the router keeps: store, journal, bootstraps, calibrations, verified operators."""
    gateway: Gateway = Gateway()
    """Where clients connect."""
    router: RouterAddress = RouterAddress()
    """Where the router listens."""
    breaker: BreakerSettings = BreakerSettings()
    """When a backend is taken out, and for how long."""
    policy: PolicySettings = PolicySettings()
    """How observations become weights."""
    probes: ProbeSettings = ProbeSettings()
    """How often Tritons are looked at."""
    learning: LearningSettings = LearningSettings()
    """How measured service times move the weights."""
    security: Security = Security()
    """Certificates, keys and tokens, by path."""
    store_url: StoreUrl | None = None
    """Where the gateways of one cluster share their state; None: a file in `state_dir`, for one gateway."""
    models: dict[str, ModelSettings] = Field(default_factory=dict)
    """Model → what is different for it."""
    pools: dict[str, Pool] = Field(min_length=1)
    """Name → pool."""
    backends: tuple[Backend, ...] = Field(min_length=1)
    """The Triton servers."""

    @model_validator(mode="after")
    def _names_fit_together(self) -> Self:
        for model, settings in self.models.items():
            for pool in settings.large:
                if pool not in self.pools:
                    raise ValueError(f"models.{model}.large names pool {pool!r}, which is not under pools")
        seen: set[str] = set()
        addresses: dict[str, str] = {}
        for backend in self.backends:
            if backend.pool not in self.pools:
                raise ValueError(
                    f"backend {backend.name!r} is in pool {backend.pool!r}, which is not under pools "
                    f"({', '.join(sorted(self.pools))})"
                )
            if backend.name in seen:
                raise ValueError(f"two backends are named {backend.name!r}; names must differ")
            seen.add(backend.name)
            for port in (backend.http_port, backend.grpc_port, backend.metrics_port):
                address = join_host_port(backend.ip, port)
                other = addresses.setdefault(address, backend.name)
                if other != backend.name:
                    raise ValueError(f"backends {other!r} and {backend.name!r} share {address}")
        return self

    def unsafe(self) -> Iterator[Gap]:
        """What is missing before these addresses may be bound."""
        tls_backends = [i for i, backend in enumerate(self.backends) if backend.tls]
        yield from self.security.gaps(self.gateway.host, self.router.host, tls_backends)
        if not self.security.insecure and leaves_unprotected(parse_store_url(self.database_url)):
            yield Gap(
                ("store_url",),
                "the database is on another host: expected sslmode=verify-full and sslrootcert=/FILE in the URL "
                "(docs/security.md), or security.insecure: true",
            )

    @property
    def database_url(self) -> str:
        """The SQLAlchemy URL of the state store; it may hold a password."""
        return self.store_url.get_secret_value() if self.store_url else sqlite_url(self.state_dir)

    def backend(self, name: str) -> Backend:
        """The backend of that name. Raises KeyError."""
        return self._by_name[name]

    @cached_property
    def _by_name(self) -> dict[str, Backend]:
        return {b.name: b for b in self.backends}

    def pool_of(self, backend: Backend) -> Pool:
        """The pool that a backend belongs to."""
        return self.pools[backend.pool]
