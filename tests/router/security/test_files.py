"""The security files are looked at before anything is served."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization

from bimetal.errors import FleetFileError
from bimetal.fleet.file import load_fleet
from bimetal.security.files import check_security_files
from tests.e2e.secure_cluster import Authority

FLEET = """\
security:
  gateway:
    certificate: FOLDER/gateway.crt
    private_key: FOLDER/gateway.key
    api_keys: FOLDER/api-keys
  internal:
    ca: FOLDER/authority.crt
    certificate: FOLDER/host.crt
    private_key: FOLDER/host.key
  admin_token: FOLDER/admin-token
version: 1
state_dir: FOLDER
pools:
  cpu: {vendor: cpu, provider: CPUExecutionProvider, repository: FOLDER}
backends:
  - {name: cpu-0, pool: cpu, host: 127.0.0.1, http_port: 1, grpc_port: 2, metrics_port: 3}
"""


@pytest.fixture
def fleet_file(tmp_path: Path) -> Path:
    """A fleet file whose security files are all in order."""
    authority = Authority(tmp_path, "authority")
    for name in ("gateway", "host"):
        authority.issue(name)
    for name in ("api-keys", "admin-token"):
        (tmp_path / name).touch(0o600)
        (tmp_path / name).write_text("a-secret-of-test-0123456789\n")
    file = tmp_path / "fleet.yaml"
    file.write_text(FLEET.replace("FOLDER", str(tmp_path)))
    return file


def test_files_in_order_are_accepted(fleet_file: Path) -> None:
    check_security_files(fleet_file, load_fleet(fleet_file))


def _encrypt(key: Path) -> None:
    loaded = serialization.load_pem_private_key(key.read_bytes(), None)
    locked = serialization.BestAvailableEncryption(b"a password")
    key.write_bytes(loaded.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, locked))


def _open_to_the_group(file: Path) -> None:
    file.chmod(0o640)


def _replace_by_another_key(key: Path) -> None:
    shutil.copy(key.with_name("host.key"), key)


def _empty(file: Path) -> None:
    file.write_text("")


@pytest.mark.parametrize(
    ("file", "damage", "where", "words"),
    [
        ("gateway.crt", Path.unlink, "4: security.gateway.private_key", "gateway.crt: it cannot be read: No such file"),
        ("gateway.key", _open_to_the_group, "4: security.gateway.private_key", "its mode is 0640: expected 0600"),
        ("gateway.key", _replace_by_another_key, "4: security.gateway.private_key", "and its own key"),
        ("api-keys", _open_to_the_group, "5: security.gateway.api_keys", "its mode is 0640: expected 0600"),
        ("authority.crt", _empty, "7: security.internal.ca", "the PEM certificate of an authority"),
        ("host.key", _encrypt, "9: security.internal.private_key", "without a password"),
        ("admin-token", _empty, "10: security.admin_token", "expected one line with a token"),
    ],
)
def test_a_damaged_file_is_named_with_the_line_that_names_it(
    fleet_file: Path, file: str, damage: Callable[[Path], object], where: str, words: str
) -> None:
    damage(fleet_file.parent / file)
    with pytest.raises(FleetFileError) as caught:
        check_security_files(fleet_file, load_fleet(fleet_file))
    assert str(caught.value).startswith(f"{fleet_file}:{where}: ")
    assert words in str(caught.value)
