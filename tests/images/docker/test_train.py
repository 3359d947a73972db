"""The training images, on a stand-in for the vendors' PyTorch images: Debian's Python with torch's own build for CPUs.

What it cannot show is the vendors' torch; the path of such a row, from override to a self-test in which torch computes,
is the real one.
"""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bimetal.images import check, revision
from bimetal.images.bases import override_variable
from bimetal.images.build import Builder
from bimetal.images.cli import CACHE
from bimetal.images.context import File, as_tar, tree
from bimetal.images.engine import Engine
from bimetal.images.matrix import choose, load
from bimetal.images.report import Report

# Not plain 2.13.0: that is gigabytes of CUDA. Of the wheels that it names, what `import torch` wants.
TORCH = "torch==2.13.0+cpu"
STAND_IN = "bimetal-images-test/torch:1"
REPOSITORY = "bimetal-images-test"


def recipe(bookworm: str) -> str:
    return f"""\
FROM {bookworm}
RUN apt-get update && apt-get install --yes --no-install-recommends python3 python3-venv
COPY wheels/ /wheels/
RUN python3 -m venv /opt/torch && /opt/torch/bin/pip install --no-index --find-links /wheels {TORCH} && rm -rf /wheels
ENV PATH=/opt/torch/bin:$PATH
"""


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("torch")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--only-binary=:all:", "--dest", str(folder)]
    platform = ["--python-version=3.11", "--platform=manylinux_2_28_x86_64", "--platform=manylinux2014_x86_64"]
    fetched = subprocess.run([*command, *platform, TORCH], capture_output=True, text=True, check=False)
    if fetched.returncode != 0:
        pytest.skip(f"no {TORCH}: PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu has it")
    return folder


@pytest.fixture(scope="module")
def stand_in(engine: Engine, bookworm: str, wheels: Path) -> Iterator[str]:
    """An image with torch in it; its name."""
    with as_tar({"Dockerfile": File(recipe(bookworm).encode()), **tree(wheels, "wheels")}) as tar:
        image_id = engine.build(tar, {}, Report())
    repository, _, tag = STAND_IN.rpartition(":")
    engine.tag(image_id, repository, tag)
    yield STAND_IN
    engine.untag(STAND_IN)


@pytest.mark.parametrize("name", ["train-cuda", "train-rocm"])
def test_a_training_image_is_built_and_torch_computes_in_it(
    engine: Engine, stand_in: str, name: str, removed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    [row] = choose(load(), [name], offline=False)
    monkeypatch.setenv(override_variable(row.variant.base), stand_in)
    builder = Builder(load(), engine, CACHE, revision.of_project(), repository=REPOSITORY, offline=False)
    built = builder.build(row, Report())
    removed += [f"{built.repository}:{built.tag}", f"{built.repository}:{built.variant}"]
    output = check.self_test(engine, f"{built.repository}:{built.tag}", row.image.kind, built.base_id)
    assert "torch 2.13.0+cpu computes on: no device: CPU" in output
    _, numa = engine.run(built.image_id, ["numactl", "--hardware"], entrypoint="", network_mode="none")
    assert "available: " in numa
