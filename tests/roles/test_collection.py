"""The collection as its users get it: packed, installed by ansible-galaxy, and used where no checkout is."""

import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path, PurePosixPath

import pytest

PROJECT = Path(__file__).parents[2]
MODULES = sorted(path.stem for path in (PROJECT / "plugins/modules").glob("*.py"))
# A quarter of a megabyte today; the checkout has a hundred times that.
SIZE_LIMIT_BYTES = 500_000


def ansible(program: str, *arguments: object, cwd: Path, collections: Path | None = None) -> str:
    """Run one of Ansible's programs in a folder, with the collections installed in another; its output."""
    # Its configuration is in the checkout, its home in no user's.
    environment = os.environ | {"LC_ALL": "C.UTF-8", "ANSIBLE_HOME": str(cwd / ".ansible"), "ANSIBLE_NOCOLOR": "1"}
    if collections:
        environment["ANSIBLE_COLLECTIONS_PATH"] = str(collections)
    command = [str(Path(sys.executable).with_name(program)), *map(str, arguments)]
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def artefact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `ansible-galaxy collection build` makes of this checkout."""
    folder = tmp_path_factory.mktemp("artefact")
    ansible("ansible-galaxy", "collection", "build", PROJECT, "--output-path", folder, cwd=folder)
    (file,) = folder.glob("*.tar.gz")
    return file


@pytest.fixture(scope="module")
def collections(artefact: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with nothing but the installed collection."""
    folder = tmp_path_factory.mktemp("collections")
    # Without --force it is content with the checkout that `make venv` linked.
    options = ("--offline", "--no-deps", "--force", "--collections-path", folder)
    ansible("ansible-galaxy", "collection", "install", artefact, *options, cwd=folder)
    return folder


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    """A folder with the playbooks and inventories, as a user copies them."""
    shutil.copytree(PROJECT / "ansible", tmp_path / "ansible")
    return tmp_path


def test_the_artefact_has_the_roles_and_the_plugins_and_nothing_else_of_the_checkout(artefact: Path) -> None:
    with tarfile.open(artefact) as archive:
        files = [PurePosixPath(member.name) for member in archive.getmembers() if member.isfile()]
    assert {file.parts[0] for file in files} == {
        *("FILES.json", "MANIFEST.json", "LICENSE", "README.md"),
        *("meta", "plugins", "roles"),
    }
    assert {file.parts[1] for file in files if file.parts[0] == "roles"} == {
        folder.name for folder in (PROJECT / "roles").iterdir()
    }
    assert not [
        file for file in files if {"molecule", "__pycache__", "library", "module_utils"} & set(file.parts[2:-1])
    ]
    assert artefact.stat().st_size < SIZE_LIMIT_BYTES


def test_the_playbooks_find_every_role_in_the_installed_collection(collections: Path, elsewhere: Path) -> None:
    options = ("-i", "ansible/inventories/example", "--syntax-check")
    out = ansible("ansible-playbook", "ansible/site.yml", *options, cwd=elsewhere, collections=collections)
    assert "playbook: ansible/site.yml" in out


def test_an_installed_role_probes_a_host(collections: Path, elsewhere: Path) -> None:
    """Its lookup packs the probe from the installed role, and the probe finds a recorded GPU."""
    device = elsewhere / "host/sys/bus/pci/devices/0000:41:00.0"
    device.mkdir(parents=True)
    for name, value in {"vendor": "0x10de", "device": "0x20b5", "class": "0x030200"}.items():
        (device / name).write_text(f"{value}\n")
    shutil.copy(PROJECT / "tests/roles/gpu_probe/playbooks/report.yml", elsewhere)
    variables = {"gpu_probe_root": str(elsewhere / "host"), "gpu_probe_python": sys.executable}
    options = ("-i", "localhost,", "-vv", "--extra-vars", json.dumps(variables))
    out = ansible("ansible-playbook", "report.yml", *options, cwd=elsewhere, collections=collections)
    assert f"{collections}/ansible_collections/bimetal/cluster/roles/gpu_probe/tasks/report.yml" in out
    assert "vendors: nvidia" in out


def test_ansible_doc_shows_options_examples_and_results_of_every_module(collections: Path, tmp_path: Path) -> None:
    names = [f"bimetal.cluster.{name}" for name in MODULES]
    shown = ansible("ansible-doc", "--json", "--type", "module", *names, cwd=tmp_path, collections=collections)
    documents = json.loads(shown)
    assert sorted(documents) == names
    for name, document in documents.items():
        assert document["doc"]["short_description"], name
        assert f"{name}:" in document["examples"], name
        assert document["return"], f"{name} documents no result"
