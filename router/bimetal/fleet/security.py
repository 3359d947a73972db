"""The fleet file's `security` section. It holds paths of certificates, keys and secrets, never their contents."""

from collections.abc import Iterable, Iterator
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, NamedTuple

from pydantic import AfterValidator, model_validator

from bimetal.fleet.settings import Section


def _absolute(path: Path) -> Path:
    # A relative path is more likely a secret that was written into the fleet file: so it is not repeated.
    if not path.is_absolute():
        raise ValueError("expected the absolute path of a file, not its content")
    return path


SecurityFile = Annotated[Path, AfterValidator(_absolute)]


class GatewaySecurity(Section):
    """What clients meet at the gateway."""

    certificate: SecurityFile | None = None
    """PEM chain of the gateway, its own certificate first; both listeners then speak TLS only."""
    private_key: SecurityFile | None = None
    """PEM key of `certificate`; mode 0600."""
    api_keys: SecurityFile | None = None
    """One key per line, `#` begins a comment; mode 0600. Every request then needs one of them."""
    open_health: bool = False
    """Whether health endpoints answer without a key, for load balancers."""

    @model_validator(mode="after")
    def _certificate_and_key_come_together(self) -> "GatewaySecurity":
        if (self.certificate is None) != (self.private_key is None):
            raise ValueError("expected both certificate and private_key, or neither")
        return self


class InternalTls(Section):
    """Mutual TLS between router, gateway, Tritons and proxyless clients: one CA, and this host's identity.

    The certificate is made out to the router's `host`; that of a Triton to the name of its backend.
    """

    ca: SecurityFile
    """PEM certificate of the authority that all of them trust."""
    certificate: SecurityFile
    """PEM certificate of this host."""
    private_key: SecurityFile
    """Its PEM key; mode 0600."""


class Gap(NamedTuple):
    """A demand of safety that the fleet file does not meet: the key that causes it, and what is expected."""

    key: tuple[str | int, ...]
    text: str


class Security(Section):
    """Nothing is demanded on loopback; elsewhere everything is, unless `insecure` lets it pass."""

    insecure: bool = False
    """Lets addresses be bound that others reach without what should protect them."""
    gateway: GatewaySecurity = GatewaySecurity()
    """What clients meet at the gateway."""
    internal: InternalTls | None = None
    """Mutual TLS behind the gateway; None: plain text, on loopback only."""
    admin_token: SecurityFile | None = None
    """File with the token that opens the admin API and loading of models; mode 0600."""
    open_metrics: bool = True
    """Whether the router's /metrics answers without the admin token."""

    def gaps(self, gateway_host: str, router_host: str, tls_backends: Iterable[int]) -> Iterator[Gap]:
        """What is missing for these addresses, and for the backends (by index) that speak TLS."""
        if not self.insecure:
            yield from self._unprotected("gateway", gateway_host, self._missing_at_gateway())
            yield from self._unprotected("router", router_host, self._missing_at_router())
        if self.gateway.api_keys and not self.admin_token:
            yield Gap(
                ("security", "gateway", "api_keys"),
                "expected security.admin_token beside it: without one, each holder of an API key could unload models",
            )
        if self.internal and _is_wildcard(router_host):
            yield Gap(
                ("router", "host"),
                f"{router_host} is no address that a certificate can be made out to: expected one address of this host",
            )
        for index in tls_backends:
            if not self.internal:
                yield Gap(
                    ("backends", index, "tls"),
                    "expected security.internal (ca, certificate, private_key): Triton asks for a client certificate",
                )

    def _unprotected(self, part: str, host: str, missing: list[str]) -> Iterator[Gap]:
        if missing and not is_loopback(host):
            yield Gap(
                (part, "host"),
                f"{host} can be reached from other hosts: expected {', '.join(missing)} (docs/security.md), "
                "a loopback address, or security.insecure: true",
            )

    def _missing_at_gateway(self) -> list[str]:
        have = {
            "security.gateway.certificate and private_key": self.gateway.certificate,
            "security.gateway.api_keys": self.gateway.api_keys,
            "security.admin_token": self.admin_token,
        }
        return [name for name, value in have.items() if value is None]

    def _missing_at_router(self) -> list[str]:
        have = {
            "security.internal": self.internal,
            # The router hands requests on to Tritons, so its own port asks for the gateway's keys too.
            "security.gateway.api_keys": self.gateway.api_keys,
            "security.admin_token": self.admin_token,
        }
        return [name for name, value in have.items() if value is None]


def is_loopback(host: str) -> bool:
    """Whether only this host can reach a listener on `host`; a name other than localhost may mean anything."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _is_wildcard(host: str) -> bool:
    try:
        return ip_address(host).is_unspecified
    except ValueError:
        return False
