"""Where a build starts."""

from pathlib import Path

import pytest
import yaml

from bimetal.images import bases
from bimetal.images.errors import ImageError, RegistryError
from bimetal.images.matrix import Base, Matrix, choose
from bimetal.resources import resource
from tests.images.fakes import DIGEST, FakeEngine, Recorder, known

PINNED = f"debian@{DIGEST}"


def resolve(
    matrix: Matrix,
    engine: FakeEngine,
    cache: Path,
    name: str = "bookworm",
    *,
    offline: bool = False,
    **environment: str,
) -> bases.Resolved:
    return bases.resolve(name, matrix.bases[name], engine, cache, Recorder(), offline=offline, environment=environment)


def test_a_base_is_pulled_by_its_digest_once(matrix: Matrix, engine: FakeEngine, tmp_path: Path) -> None:
    first = resolve(matrix, engine, tmp_path)
    assert (first.reference, first.image_id, first.origin) == (PINNED, "sha256:base", "digest")
    assert resolve(matrix, engine, tmp_path) == first
    assert engine.pulled == [PINNED]


def test_a_base_of_another_digest_is_refused(matrix: Matrix, engine: FakeEngine, tmp_path: Path) -> None:
    engine.answers_to_pull = known("sha256:other", RepoDigests=[f"debian@sha256:{'b' * 64}"])
    with pytest.raises(RegistryError, match=r"expected debian@sha256:a+, and the engine has something else"):
        resolve(matrix, engine, tmp_path)


def test_bases_without_a_digest_are_refused_together_with_the_three_ways_on(matrix: Matrix) -> None:
    rows = choose(matrix, [], offline=False)
    with pytest.raises(ImageError) as error:
        bases.check_available(matrix.bases, rows, offline=False, environment={})
    assert str(error.value) == (
        "The bases of cuda:11.8 have no digest in matrix.yml, and a tag can change under a build."
        " Next: bimetal-images pin --write vendor; without a registry: make images OFFLINE_BASE=1;"
        " with an image that the engine has: BASE_VENDOR=..."
    )
    bases.check_available(matrix.bases, rows, offline=False, environment={"BASE_VENDOR": "mine:1"})


def test_without_mmdebstrap_offline_bases_are_refused_with_its_package(
    matrix: Matrix, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    rows = choose(matrix, ["cpu"], offline=True)
    with pytest.raises(ImageError, match=r"mmdebstrap is not a command.*Next: apt-get install mmdebstrap"):
        bases.check_available(matrix.bases, rows, offline=True, environment={})
    bases.check_available(matrix.bases, rows, offline=True, environment={"BASE_BOOKWORM": "mine:1"})


def test_an_override_wins_over_everything(matrix: Matrix, engine: FakeEngine, tmp_path: Path) -> None:
    engine.images["mine:1"] = known("sha256:mine")
    resolved = resolve(matrix, engine, tmp_path, "vendor", offline=True, BASE_VENDOR="mine:1")
    assert (resolved.reference, resolved.image_id, resolved.origin) == ("mine:1", "sha256:mine", "BASE_VENDOR")


def test_an_override_that_the_engine_lacks_is_an_error(matrix: Matrix, engine: FakeEngine, tmp_path: Path) -> None:
    with pytest.raises(ImageError, match="BASE_BOOKWORM=mine:1: the engine has no such image"):
        resolve(matrix, engine, tmp_path, BASE_BOOKWORM="mine:1")


@pytest.mark.parametrize("image", ["registry:5000/triton", "registry:5000/triton:1"])
def test_a_registrys_port_is_no_tag(image: str) -> None:
    assert bases.repository(image) == "registry:5000/triton"


def test_the_variable_of_a_base_is_its_name_in_capitals() -> None:
    assert bases.override_variable("ngc-22.12") == "BASE_NGC_22_12"


@pytest.fixture
def mmdebstrap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stand-in first on PATH, that writes its arguments where the root goes."""
    script = tmp_path / "bin/mmdebstrap"
    script.parent.mkdir()
    script.write_text('#!/bin/sh\nfor last; do :; done\necho "$SOURCE_DATE_EPOCH $*" > "$last"\n')
    script.chmod(0o755)
    monkeypatch.setenv("PATH", str(script.parent), prepend=":")
    return script


@pytest.mark.usefixtures("mmdebstrap")
def test_offline_a_base_is_bootstrapped_once_and_kept(matrix: Matrix, engine: FakeEngine, tmp_path: Path) -> None:
    resolved = resolve(matrix, engine, tmp_path / "cache", offline=True)
    assert (resolved.reference, resolved.origin) == ("local/debian:bookworm", "mmdebstrap bookworm")
    assert engine.pulled == []
    [tar] = (tmp_path / "cache").iterdir()
    made = tar.read_text()
    assert made.startswith(bases.EPOCH)
    engine.images.clear()  # another engine gets the same root, under another id
    again = resolve(matrix, engine, tmp_path / "cache", offline=True)
    assert again.content == resolved.content
    assert again.image_id != resolved.image_id


@pytest.mark.usefixtures("mmdebstrap")
def test_a_base_that_was_made_in_another_way_is_made_again(
    matrix: Matrix, engine: FakeEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolve(matrix, engine, tmp_path / "cache", offline=True)
    monkeypatch.setattr(bases, "DPKG", ())
    resolve(matrix, engine, tmp_path / "cache", offline=True)
    assert engine.imports == 2
    engine.images["local/debian:bookworm"] = known("sha256:somebodys", Config={"Labels": None})
    resolve(matrix, engine, tmp_path / "cache", offline=True)
    assert engine.imports == 3


@pytest.mark.usefixtures("mmdebstrap")
def test_a_base_that_was_forgotten_is_bootstrapped_again(matrix: Matrix, engine: FakeEngine, tmp_path: Path) -> None:
    resolve(matrix, engine, tmp_path / "cache", offline=True)
    bases.forget(matrix.bases, choose(matrix, ["cpu"], offline=True), engine, tmp_path / "cache")
    assert engine.images == {}
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_bootstrap_that_breaks_off_leaves_nothing_that_passes_for_a_base(
    matrix: Matrix, engine: FakeEngine, tmp_path: Path, mmdebstrap: Path
) -> None:
    mmdebstrap.write_text('#!/bin/sh\nfor last; do :; done\necho half > "$last"; echo "E: no mirror" >&2; exit 1\n')
    with pytest.raises(ImageError, match=r"mmdebstrap bookworm failed: E: no mirror. Next: check the mirror"):
        resolve(matrix, engine, tmp_path / "cache", offline=True)
    assert list((tmp_path / "cache").iterdir()) == []
    assert engine.images == {}


def test_the_origin_says_what_would_happen_without_asking(matrix: Matrix) -> None:
    base = matrix.bases["bookworm"]
    assert bases.origin("bookworm", base, {}, offline=True) == "mmdebstrap bookworm"
    assert bases.origin("bookworm", base, {}, offline=False).startswith("debian:bookworm-slim@sha256:aaaa")
    assert bases.origin("x", Base(image="v:1"), {}, offline=False) == "v:1 (not pinned)"
    assert bases.origin("x", base, {"BASE_X": "mine"}, offline=True) == "mine (BASE_X)"


def test_a_digest_is_put_into_the_matrix_or_replaced_and_its_comments_stay() -> None:
    text = (resource("images/matrix.yml")).read_text()
    pinned = bases.with_digest(bases.with_digest(text, "ngc-22.12", f"sha256:{'b' * 64}"), "ngc-22.12", DIGEST)
    line = f'  ngc-22.12: {{image: "nvcr.io/nvidia/tritonserver:22.12-py3", digest: "{DIGEST}"}}'
    assert line in pinned.splitlines()
    assert len(pinned.splitlines()) == len(text.splitlines())
    changed = set(pinned.splitlines()) - set(text.splitlines())
    assert changed == {line}
    assert yaml.safe_load(pinned)["bases"]["ngc-22.12"]["digest"] == DIGEST


def test_a_base_in_another_form_is_left_to_a_person() -> None:
    with pytest.raises(ImageError, match="no line for base 'mars' in the usual form"):
        bases.with_digest((resource("images/matrix.yml")).read_text(), "mars", DIGEST)
