"""The fleet file: which backends exist, on which pool, and how the router may treat them.

Read once at start, validated once, frozen from then on.
"""

from collections.abc import Iterator
from functools import cached_property
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from bimetal.fleet.security import Gap, Security
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


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Gateway(_Section):
    """Where Envoy listens. `admin_port` is Envoy's own and stays on loopback."""

    host: str = "127.0.0.1"
    http_port: Port = Field(default=8000, ge=1, le=65535)
    grpc_port: Port = Field(default=8001, ge=1, le=65535)
    admin_port: Port = Field(default=18901, ge=1, le=65535)
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


class RouterAddress(_Section):
    """Where the router listens: HTTP for metrics, admin API and control answers; gRPC for xDS and feedback."""

    host: str = "127.0.0.1"
    http_port: Port = Field(default=8002, ge=1, le=65535)
    xds_port: Port = Field(default=18900, ge=1, le=65535)


class BreakerSettings(_Section):
    """When a backend is degraded, isolated, and for how long (seconds)."""

    degrade_after: int = Field(default=1, ge=1)
    isolate_after: int = Field(default=3, ge=1)
    recover_after: int = Field(default=10, ge=1)
    transient_cooldown_s: float = Field(default=300, gt=0)
    persistent_cooldown_s: float = Field(default=1800, gt=0)
    degraded_weight: float = Field(default=0.5, gt=0, le=1)

    @model_validator(mode="after")
    def _isolation_comes_after_degradation(self) -> Self:
        if self.isolate_after <= self.degrade_after:
            raise ValueError(f"isolate_after must be above degrade_after ({self.degrade_after})")
        return self


class PolicySettings(_Section):
    """How observations become weights."""

    pending_half: float = Field(default=32, gt=0)
    """Requests waiting in a backend's queues at which its weight is halved."""
    cool_margin_c: float = Field(default=10, gt=0)
    """°C below the temperature at which a device slows down from which on its heat does not matter."""
    retry_percent: float = Field(default=20, ge=0, le=100)
    retry_min_concurrent: int = Field(default=64, ge=0)
    """Retries always allowed at once. Peers have 3; losing one backend with more than 3 requests in
    flight then shows clients errors, so the floor is what one backend may have in flight."""


class ProbeSettings(_Section):
    """How often the router looks at each Triton, in seconds."""

    interval_s: float = Field(default=0.25, ge=0.02)
    timeout_s: float = Field(default=2.0, gt=0)
    config_refresh_s: float = Field(default=60.0, gt=0)
    """How long a model's configuration may be remembered while its READY versions do not change."""
    gpu_metrics_interval_s: float = Field(default=15.0, gt=0)
    gpu_metrics_stale_s: float = Field(default=180.0, gt=0)
    """Age from which GPU metrics say nothing; the role gpu_probe writes them every 60 s."""


class LearningSettings(_Section):
    """How measured service times move the weights; docs/learning.md gives the reasons."""

    enabled: bool = True
    prior_requests: float = Field(default=10, gt=0)
    """How many measured requests the operator score and the bandwidth count as."""
    lesson_requests: float = Field(default=20, ge=0)
    """How many measured requests the learned time of a pool (`bimetal learn`) counts as."""
    floor: float = Field(default=0.03, ge=0, le=0.2)
    """Least share of an able backend of the best operator class, so that a wrong belief can be corrected."""
    sharpness: float = Field(default=4, gt=0, le=10)
    """Weight ~ (1 / time) ** sharpness: 1 shares in proportion to speed, more prefers the fastest."""
    indifference: float = Field(default=0.2, ge=0, le=2)
    """A backend that takes up to this much longer than the fastest counts as equally fast."""
    half_life_requests: float = Field(default=64, gt=0)
    half_life_s: float = Field(default=3600, gt=0)
    most_waiting: float = Field(default=1, gt=0)
    """While at least this many requests wait in a backend's queues, times tell of the queue, not of the device."""
    interval_s: float = Field(default=2, gt=0)
    """Least time between two changes of what is believed of one model."""


class ModelSettings(_Section):
    """What the router should do differently for one model.

    Devices differ in the batches that they like (AMD multiples of 32, NVIDIA of 8), so large requests may be shared
    out differently from small ones.
    """

    large_from: int = Field(ge=2)
    """Batch dimension from which a request is large."""
    large: dict[str, float] = Field(min_length=1)
    """Pool → factor (above 0, at most 1) on its weight for large requests; a pool that is not named keeps 1."""

    @model_validator(mode="after")
    def _factors_are_fractions(self) -> Self:
        wrong = {pool: f for pool, f in self.large.items() if not 0 < f <= 1}
        if wrong:
            raise ValueError(f"large: factors must be above 0 and at most 1, not {wrong}")
        return self


class Pool(_Section):
    """The Tritons of one stack: they share vendor, execution provider and model repository."""

    vendor: Vendor
    provider: Provider
    repository: Path


class Device(_Section):
    """One accelerator of a backend; None where the fact is not known."""

    model: str
    memory_bandwidth_gbs: float | None = Field(default=None, gt=0)
    pci: str | None = Field(default=None, pattern=r"^[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$")
    """Its PCI address, as the role gpu_probe writes it."""


class Backend(_Section):
    """One Triton server. `host` is an IP address: Envoy takes no names in endpoints that come over xDS."""

    name: str = _NAME
    pool: str
    host: IPv4Address | IPv6Address
    http_port: Port = _PORT
    grpc_port: Port = _PORT
    metrics_port: Port = _PORT
    compute: Literal["gpu", "cpu"] = "gpu"
    """What really computes there; `cpu` on a machine without the pool's accelerator."""
    devices: tuple[Device, ...] = ()
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


class Fleet(_Section):
    """The whole fleet file."""

    version: Literal[1]
    state_dir: Path
    gateway: Gateway = Gateway()
    router: RouterAddress = RouterAddress()
    breaker: BreakerSettings = BreakerSettings()
    policy: PolicySettings = PolicySettings()
    probes: ProbeSettings = ProbeSettings()
    learning: LearningSettings = LearningSettings()
    security: Security = Security()
    store_url: StoreUrl | None = None
    """Where the gateways of one cluster share their state; None: a file in `state_dir`, for one gateway."""
    models: dict[str, ModelSettings] = Field(default_factory=dict)
    pools: dict[str, Pool] = Field(min_length=1)
    backends: tuple[Backend, ...] = Field(min_length=1)

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
