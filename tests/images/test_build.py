"""Building a row: names only for what is whole, nothing twice."""

from pathlib import Path

import pytest

from bimetal.images import context
from bimetal.images.build import PYTHON_REPOSITORY, Builder, Built
from bimetal.images.errors import EngineError, ImageError
from bimetal.images.matrix import Matrix, choose
from bimetal.images.report import Report
from bimetal.images.revision import Revision
from tests.images.fakes import FakeEngine, Recorder


def build(matrix: Matrix, engine: FakeEngine, cache: Path, revision: Revision, report: Report | None = None) -> Built:
    builder = Builder(matrix, engine, cache, revision, repository="bimetal", offline=False)
    rows = choose(matrix, ["cpu"], offline=False)
    builder.preflight(rows)
    return builder.build(rows[0], report or Report())


def names(engine: FakeEngine) -> set[str]:
    return {name for name in engine.images if not name.startswith(("sha256:", "debian@"))}


@pytest.mark.usefixtures("no_index")
def test_an_image_gets_the_name_of_its_inputs_and_the_one_of_its_variant(
    matrix: Matrix, engine: FakeEngine, tmp_path: Path, revision: Revision
) -> None:
    built = build(matrix, engine, tmp_path, revision)
    assert built.status == "built"
    assert built.tag.startswith("bookworm-")
    assert engine.image_id("bimetal/cpu:bookworm") == engine.image_id(f"bimetal/cpu:{built.tag}") == built.image_id
    assert engine.built[-1]["org.opencontainers.image.revision"] == "0123abc"
    assert built.lock_entry()["base_id"] == "sha256:base"


@pytest.mark.usefixtures("no_index")
def test_the_same_inputs_are_not_built_again_whatever_the_commit(
    matrix: Matrix, engine: FakeEngine, tmp_path: Path, revision: Revision
) -> None:
    first = build(matrix, engine, tmp_path, revision)
    builds = len(engine.built)
    again = build(matrix, engine, tmp_path, Revision("ffff", "2027-01-01T00:00:00+00:00"))
    assert (again.status, again.tag, again.revision) == ("up to date", first.tag, "0123abc")
    assert len(engine.built) == builds


def test_a_change_of_our_own_files_leaves_the_python_environment_alone(
    matrix: Matrix, engine: FakeEngine, tmp_path: Path, revision: Revision, no_index: list[str]
) -> None:
    first = build(matrix, engine, tmp_path, revision)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bimetal.images.render.tree", lambda *_: {"rootfs/changed": context.File(b"new")})
        second = build(matrix, engine, tmp_path, revision)
    assert second.tag != first.tag
    assert len(no_index) == 1
    assert len([name for name in engine.images if name.startswith(PYTHON_REPOSITORY)]) == 1


@pytest.mark.usefixtures("no_index")
def test_an_image_over_its_budget_gets_no_name(
    matrix: Matrix, engine: FakeEngine, tmp_path: Path, revision: Revision
) -> None:
    engine.size = 10_000_001
    with pytest.raises(ImageError, match="has 10 MB, over its budget of 10 MB; it was not tagged"):
        build(matrix, engine, tmp_path, revision)
    assert {name for name in names(engine) if name.startswith("bimetal/")} == set()


@pytest.mark.usefixtures("no_index")
def test_a_build_that_fails_names_nothing(
    matrix: Matrix, engine: FakeEngine, tmp_path: Path, revision: Revision
) -> None:
    engine.failure = EngineError("build: no space left", "free some")
    with pytest.raises(EngineError):
        build(matrix, engine, tmp_path, revision)
    assert names(engine) == set()


def test_too_little_space_is_said_before_anything_is_fetched(
    matrix: Matrix, engine: FakeEngine, tmp_path: Path, revision: Revision, no_index: list[str]
) -> None:
    engine.free = 0.01
    with pytest.raises(EngineError, match=r"cpu:bookworm: the engine has 0.0 GB free, expected 0.0 GB to build"):
        build(matrix, engine, tmp_path, revision)
    assert (engine.pulled, no_index) == ([], [])


@pytest.mark.usefixtures("no_index")
def test_a_tag_depends_on_what_a_base_holds_and_not_on_its_id(
    matrix: Matrix, engine: FakeEngine, tmp_path: Path, revision: Revision
) -> None:
    first = build(matrix, engine, tmp_path, revision)
    pinned = engine.images[first.base]
    engine.images[first.base] = pinned | {"Id": "sha256:imported-elsewhere"}
    assert build(matrix, engine, tmp_path, revision).tag == first.tag
    engine.images[first.base] = pinned | {"RootFS": {"Layers": ["sha256:newer"]}}
    assert build(matrix, engine, tmp_path, revision).tag != first.tag


@pytest.mark.usefixtures("no_index")
def test_a_fresh_build_uses_no_layer_again_but_the_python_environment(
    matrix: Matrix, engine: FakeEngine, tmp_path: Path, revision: Revision
) -> None:
    build(matrix, engine, tmp_path, revision)
    builder = Builder(matrix, engine, tmp_path, revision, repository="bimetal", offline=False, fresh=True)
    [row] = choose(matrix, ["cpu"], offline=False)
    assert builder.build(row, Report()).status == "built"
    assert engine.from_scratch == [False, False, True]


@pytest.mark.usefixtures("no_index")
def test_an_image_that_is_there_needs_no_space(
    matrix: Matrix, engine: FakeEngine, tmp_path: Path, revision: Revision
) -> None:
    build(matrix, engine, tmp_path, revision)
    engine.free = 0.0
    assert build(matrix, engine, tmp_path, revision).status == "up to date"


@pytest.mark.usefixtures("no_index")
def test_an_image_that_is_there_needs_no_python_environment(
    matrix: Matrix, engine: FakeEngine, tmp_path: Path, revision: Revision
) -> None:
    build(matrix, engine, tmp_path, revision)
    [environment] = [name for name in engine.images if name.startswith(PYTHON_REPOSITORY)]
    del engine.images[environment]
    assert build(matrix, engine, tmp_path, revision).status == "up to date"
    assert environment not in engine.images


def test_an_engine_of_another_architecture_is_refused_before_anything_is_fetched(
    matrix: Matrix, engine: FakeEngine, tmp_path: Path, revision: Revision, no_index: list[str]
) -> None:
    engine.machine = "arm64"
    with pytest.raises(EngineError, match=r"cpu:bookworm is for amd64, and the engine's machine is arm64"):
        build(matrix, engine, tmp_path, revision)
    assert (engine.pulled, no_index) == ([], [])


@pytest.mark.usefixtures("no_index")
def test_the_build_says_where_it_stands(matrix: Matrix, engine: FakeEngine, tmp_path: Path, revision: Revision) -> None:
    report = Recorder()
    build(matrix, engine, tmp_path, revision, report)
    assert report.steps[:3] == ["base bookworm", "base bookworm", "wheels"]
    assert report.steps[-1] == "Step 1/1 : FROM x"
    assert report.lines == ["Saved one.whl"]
