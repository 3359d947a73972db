"""The fleet file's security section: what is demanded where, and what an error tells."""

from pathlib import Path

import pytest

from bimetal.errors import FleetFileError
from bimetal.fleet.file import load_fleet
from bimetal.fleet.schema import Fleet
from bimetal.fleet.security import is_loopback

FLEET = """\
version: 1
state_dir: /var/lib/bimetal
gateway: {host: 127.0.0.1}
router: {host: 127.0.0.1}
pools:
  cuda: {vendor: nvidia, provider: CUDAExecutionProvider, repository: /srv/cuda}
backends:
  - name: cuda-0
    pool: cuda
    host: 10.0.0.1
    http_port: 8000
    grpc_port: 8001
    metrics_port: 8002
"""
PAIR = "certificate: /etc/c.crt, private_key: /etc/c.key"
INTERNAL = "internal: {ca: /etc/ca.crt, " + PAIR + "}"
WHOLE = f"""\
security:
  gateway: {{{PAIR}, api_keys: /etc/keys}}
  {INTERNAL}
  admin_token: /etc/token
"""
PUBLIC_GATEWAY = ("gateway: {host: 127.0.0.1}", "gateway: {host: 0.0.0.0}")
PUBLIC_ROUTER = ("router: {host: 127.0.0.1}", "router: {host: 10.0.0.9}")


def _load(tmp_path: Path, text: str) -> Fleet:
    file = tmp_path / "fleet.yaml"
    file.write_text(text)
    return load_fleet(file)


def _error(tmp_path: Path, text: str) -> str:
    with pytest.raises(FleetFileError) as caught:
        _load(tmp_path, text)
    return str(caught.value)


def test_on_loopback_nothing_is_demanded(tmp_path: Path) -> None:
    assert _load(tmp_path, FLEET).security.internal is None


@pytest.mark.parametrize(
    ("change", "line", "missing"),
    [
        (PUBLIC_GATEWAY, 3, "security.gateway.certificate and private_key, security.gateway.api_keys, "),
        (PUBLIC_GATEWAY, 3, "security.admin_token"),
        (PUBLIC_ROUTER, 4, "security.internal, security.gateway.api_keys, security.admin_token"),
    ],
)
def test_an_address_that_other_hosts_reach_is_refused_without_protection(
    tmp_path: Path, change: tuple[str, str], line: int, missing: str
) -> None:
    error = _error(tmp_path, FLEET.replace(*change))
    assert f"fleet.yaml:{line}: {change[0].split(':')[0]}.host: " in error
    assert missing in error
    assert "or security.insecure: true" in error


@pytest.mark.parametrize("left_out", [PAIR, "api_keys: /etc/keys", "  admin_token: /etc/token\n", f"  {INTERNAL}\n"])
def test_each_missing_part_of_the_protection_is_refused(tmp_path: Path, left_out: str) -> None:
    text = (FLEET + WHOLE).replace(*PUBLIC_GATEWAY).replace(*PUBLIC_ROUTER)
    assert _load(tmp_path, text).security.gateway.api_keys == Path("/etc/keys")
    assert "expected" in _error(tmp_path, text.replace(left_out, "", 1))


def test_insecure_lets_every_address_pass(tmp_path: Path) -> None:
    text = FLEET.replace(*PUBLIC_GATEWAY).replace(*PUBLIC_ROUTER) + "security: {insecure: true}\n"
    assert _load(tmp_path, text).gateway.host == "0.0.0.0"


def test_api_keys_need_an_admin_token_beside_them(tmp_path: Path) -> None:
    error = _error(tmp_path, FLEET + "security:\n  gateway:\n    api_keys: /etc/keys\n")
    assert "fleet.yaml:16: security.gateway.api_keys: expected security.admin_token" in error


def test_a_backend_with_tls_needs_an_identity_to_show(tmp_path: Path) -> None:
    error = _error(tmp_path, FLEET + "    tls: true\n")
    assert "fleet.yaml:14: backends.0.tls: expected security.internal" in error


def test_mutual_tls_needs_a_router_address_that_a_certificate_can_name(tmp_path: Path) -> None:
    error = _error(tmp_path, (FLEET + WHOLE).replace(PUBLIC_ROUTER[0], "router: {host: 0.0.0.0}"))
    assert "fleet.yaml:4: router.host: 0.0.0.0 is no address that a certificate can be made out to" in error


def test_a_certificate_without_its_key_is_refused(tmp_path: Path) -> None:
    error = _error(tmp_path, FLEET + "security:\n  gateway: {certificate: /etc/c.crt}\n")
    assert "fleet.yaml:15: security.gateway: " in error
    assert "expected both certificate and private_key" in error


@pytest.mark.parametrize("key", ["admin_token", "password"])
def test_a_secret_that_was_written_into_the_fleet_file_is_not_repeated(tmp_path: Path, key: str) -> None:
    error = _error(tmp_path, FLEET + f"security:\n  {key}: hunter2hunter2hunter2\n")
    assert f"fleet.yaml:15: security.{key}: " in error
    assert "hunter2" not in error


@pytest.mark.parametrize(
    ("host", "loopback"),
    [("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("localhost", True)]
    + [(host, False) for host in ("0.0.0.0", "::", "10.0.0.1", "gpu-node", "")],
)
def test_only_what_stays_on_this_host_counts_as_loopback(host: str, loopback: bool) -> None:
    assert is_loopback(host) is loopback
