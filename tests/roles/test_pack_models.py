"""Models are packed under the digest of what they are, once."""

import json
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def rendered(tmp_path: Path) -> Path:
    """Two rendered pools with one model each, and what Python leaves behind when a model is loaded."""
    for pool in ("cuda", "rocm"):
        model = tmp_path / pool / "identity"
        (model / "1/__pycache__").mkdir(parents=True)
        (model / "config.pbtxt").write_text('name: "identity"\n')
        (model / "1/model.py").write_text("# a model\n")
        (model / "1/__pycache__/model.cpython-311.pyc").touch()
    return tmp_path


def pack(project: Path, rendered: Path) -> dict[str, Any]:
    command = [sys.executable, "roles/triton/files/pack_models.py", str(rendered), "cuda", "rocm"]
    answer: dict[str, Any] = json.loads(
        subprocess.run(command, cwd=project, capture_output=True, text=True, check=True).stdout
    )
    return answer


def archives(rendered: Path, pool: str) -> list[Path]:
    return list((rendered / "archives").glob(f"{pool}-*"))


def test_an_archive_has_the_files_readable_for_the_servers_user_and_a_mark_at_its_end(
    project: Path, rendered: Path
) -> None:
    (rendered / "cuda/identity/1/model.py").chmod(0o600)
    digest = pack(project, rendered)["digests"]["cuda"]
    [archive] = archives(rendered, "cuda")
    assert archive.name == f"cuda-{digest}.tar"
    with tarfile.open(archive) as tar:
        assert tar.getnames() == ["identity/1/model.py", "identity/config.pbtxt", ".whole"]
        assert {member.mode for member in tar} == {0o644}


def test_the_same_models_are_packed_once_and_changed_ones_replace_their_pools_archive(
    project: Path, rendered: Path
) -> None:
    assert pack(project, rendered)["changed"]
    before = {pool: archives(rendered, pool) for pool in ("cuda", "rocm")}
    assert not pack(project, rendered)["changed"]
    (rendered / "cuda/identity/1/model.py").write_text("# another\n")
    assert pack(project, rendered)["changed"]
    assert archives(rendered, "rocm") == before["rocm"]
    assert len(archives(rendered, "cuda")) == 1
    assert archives(rendered, "cuda") != before["cuda"]
