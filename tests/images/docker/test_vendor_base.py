"""Rows that start at a vendor's image, on a stand-in with a vendor's layout: no registry has to be in reach.

The stand-in has Triton where NVIDIA and AMD put it, with the base's own Python. What it cannot show is the vendor's
own libraries; the path of such a row, from override to an answered request, is the real one.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http

from bimetal.images import check, render, revision
from bimetal.images.bases import override_variable
from bimetal.images.build import Builder, Built
from bimetal.images.cli import CACHE
from bimetal.images.context import File, as_tar
from bimetal.images.engine import Engine
from bimetal.images.matrix import Row, choose, load
from bimetal.images.report import Report
from tests.images.docker.containers import Image, Start
from tests.images.docker.levels import alarming
from tests.images.docker.test_triton import VALUES, echoed

STAND_IN = "bimetal-images-test/vendor:1"
REPOSITORY = "bimetal-images-test"
SITE = render.SITE.format(python="3.11")


def recipe(bookworm: str, triton: str) -> str:
    return f"""\
FROM {bookworm}
RUN apt-get update && apt-get install --yes --no-install-recommends python3 python3-numpy libpython3.11 gcc
COPY --from={triton} {SITE}/pytriton/tritonserver /opt/tritonserver
COPY --from={triton} {SITE}/nvidia_pytriton.libs /opt/tritonserver/wheel-libs
COPY --from={triton} /opt/bimetal/backends /opt/tritonserver/backends
RUN echo /opt/tritonserver/wheel-libs > /etc/ld.so.conf.d/triton.conf && ldconfig
ENTRYPOINT ["/bin/false"]
"""


@pytest.fixture
def stand_in(engine: Engine, image: Image, bookworm: str, removed: list[str]) -> Iterator[str]:
    """An image of a vendor's layout; its name."""
    [cpu] = choose(load(), ["cpu"], offline=True)
    with as_tar({"Dockerfile": File(recipe(bookworm, image(cpu)).encode())}) as tar:
        image_id = engine.build(tar, {}, Report())
    repository, _, tag = STAND_IN.rpartition(":")
    engine.tag(image_id, repository, tag)
    yield STAND_IN
    removed.append(STAND_IN)  # last: what starts at it goes first


@pytest.fixture(params=["cuda:11.8", "rocm:7.2"])
def row(request: pytest.FixtureRequest) -> Row:
    """A row whose server is the base's own."""
    [chosen] = choose(load(), [request.param], offline=False)
    return chosen


@pytest.fixture
def built(
    engine: Engine, stand_in: str, row: Row, removed: list[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Built]:
    """The row, built on the stand-in."""
    monkeypatch.setenv(override_variable(row.variant.base), stand_in)
    builder = Builder(load(), engine, CACHE, revision.of_project(), repository=REPOSITORY, offline=False)
    done = builder.build(row, Report())
    yield done
    removed += [f"{done.repository}:{done.tag}", f"{done.repository}:{done.variant}"]


def test_a_row_on_a_vendors_base_is_built_tested_and_serves(
    engine: Engine, built: Built, row: Row, start: Start, repositories: Path
) -> None:
    reference = f"{built.repository}:{built.tag}"
    # The stand-in's compiler is the stand-in's.
    output = check.self_test(engine, reference, row.image.kind, built.base_id)
    assert "skip provider: the base's own onnxruntime backend serves" in output
    assert "ok   server: served over HTTP (the base has no tritonclient: gRPC not tried)" in output
    identity = {str(repositories / row.name / "identity"): {"bind": "/models/identity", "mode": "ro"}}
    running = start(reference, ports=[8000, 8001], volumes=identity)
    running.wait_until_healthy()
    for module, port in ((triton_http, 8000), (triton_grpc, 8001)):
        np.testing.assert_array_equal(echoed(module, running.address(port)), VALUES)
    assert running.stop() == 0
    assert alarming(running.log()) == []
