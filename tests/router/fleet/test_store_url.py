"""Where the store may be, and that no password of its URL is ever shown."""

from pathlib import Path

import pytest

from bimetal.errors import FleetFileError
from bimetal.fleet.file import load_fleet
from bimetal.fleet.schema import Fleet
from bimetal.fleet.store_url import leaves_unprotected, parse_store_url
from bimetal.security.files import check_security_files

FLEET = """\
version: 1
state_dir: /var/lib/bimetal
store_url: URL
pools:
  cuda: {vendor: nvidia, provider: CUDAExecutionProvider, repository: /srv/cuda}
backends:
  - {name: cuda-0, pool: cuda, host: 10.0.0.1, http_port: 1, grpc_port: 2, metrics_port: 3}
"""
REMOTE = "postgresql+psycopg://bimetal:hunter2@db.example.org/bimetal"


def write(tmp_path: Path, url: str, extra: str = "") -> Path:
    file = tmp_path / "fleet.yaml"
    file.touch(0o600)
    file.write_text(FLEET.replace("URL", url) + extra)
    return file


def load(tmp_path: Path, url: str, extra: str = "") -> Fleet:
    return load_fleet(write(tmp_path, url, extra))


def test_without_a_url_the_store_is_a_file_in_the_state_directory(tmp_path: Path) -> None:
    assert load(tmp_path, "null").database_url == "sqlite:////var/lib/bimetal/router.db"


@pytest.mark.parametrize("scheme", ["postgresql", "postgres", "postgresql+psycopg"])
def test_postgresql_by_any_of_its_names_is_reached_with_the_driver_that_is_there(scheme: str) -> None:
    assert parse_store_url(f"{scheme}://bimetal@db/bimetal").drivername == "postgresql+psycopg"


@pytest.mark.parametrize(
    "url",
    [
        "hunter2",
        "mysql://bimetal:hunter2@db/bimetal",
        "sqlite://",
        "sqlite:///hunter2.db",
        "postgresql://db/x?password=hunter2",
    ],
)
def test_another_url_is_refused_by_name_and_line_and_not_repeated(tmp_path: Path, url: str) -> None:
    with pytest.raises(FleetFileError, match=r"fleet\.yaml:3: store_url: .*expected") as caught:
        load(tmp_path, url)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("line", ["state_url: URL", "store_url: [URL]", "models: URL"])
def test_a_url_that_stands_in_the_wrong_place_is_not_repeated(tmp_path: Path, line: str) -> None:
    file = write(tmp_path, "null", line.replace("URL", REMOTE) + "\n")
    with pytest.raises(FleetFileError) as caught:
        load_fleet(file)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "unprotected"),
    [
        ("postgresql://db/x", True),
        ("postgresql://192.0.2.9/x?sslmode=require", True),
        ("postgresql://db/x?sslmode=verify-full", False),
        ("postgresql:///x?host=one:5432&host=two:5432", True),
        ("postgresql:///x?host=127.0.0.1,two", True),
        ("postgresql:///x?host=/run/postgresql", False),
        ("postgresql:///x", False),
        ("postgresql://127.0.0.1/x", False),
        ("sqlite:////var/lib/x.db", False),
    ],
)
def test_a_database_on_another_host_must_show_a_certificate(url: str, unprotected: bool) -> None:
    assert leaves_unprotected(parse_store_url(url)) is unprotected


def test_a_fleet_file_with_an_unprotected_database_is_refused_unless_it_says_insecure(tmp_path: Path) -> None:
    with pytest.raises(FleetFileError, match=r"fleet\.yaml:3: store_url: .*expected sslmode=verify-full"):
        load(tmp_path, REMOTE)
    load(tmp_path, f"{REMOTE}?sslmode=verify-full&sslrootcert=/etc/bimetal/ca.crt")
    load(tmp_path, REMOTE, "security: {insecure: true}\n")


def test_a_password_is_refused_in_a_file_that_others_can_read(tmp_path: Path) -> None:
    file = write(tmp_path, "postgresql://bimetal:hunter2@127.0.0.1/bimetal")
    fleet = load_fleet(file)
    check_security_files(file, fleet)
    file.chmod(0o640)
    with pytest.raises(FleetFileError, match=r"fleet\.yaml:3: store_url: .*0640: expected 0600") as caught:
        check_security_files(file, fleet)
    assert "hunter2" not in str(caught.value)


def test_a_fleet_shows_no_password(tmp_path: Path) -> None:
    fleet = load(tmp_path, "postgresql://bimetal:hunter2@127.0.0.1/bimetal")
    assert "hunter2" not in f"{fleet!r} {fleet.model_dump()} {fleet.model_dump_json()}"
    assert "hunter2" in fleet.database_url
