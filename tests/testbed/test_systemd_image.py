"""Building the images only when they are missing or out of date."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.testbed import systemd_image
from tests.testbed.engine import Engine, TestbedError
from tests.testbed.systemd_image import SUITES, Suite, content_stamp, ensure

Fake = Callable[[str, str], None]

ENGINE = Engine("unix:///fake.sock")
# An engine with one image: remembers the stamp of what was imported, and how often.
DOCKER = """
case "$1 $2" in
  "image inspect") test -e "$FAKES/stamp" && cat "$FAKES/stamp" ;;
  "image rm") rm -f "$FAKES/stamp" ;;
  "import "*)
    cat > "$FAKES/tar"
    echo "$*" | sed 's/.*stamp=\\([0-9a-f]*\\).*/\\1/' > "$FAKES/stamp"
    echo import >> "$FAKES/imports" ;;
esac
"""


@pytest.fixture
def suite(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> Suite:
    fake("docker", DOCKER)
    fake("mmdebstrap", "echo root-of-$*")
    monkeypatch.setattr("os.geteuid", lambda: 0)
    return Suite("bookworm")


def test_a_missing_image_is_built_of_what_mmdebstrap_writes(suite: Suite, tmp_path: Path) -> None:
    assert ensure(suite, ENGINE, tmp_path) is True
    assert (tmp_path / "tar").read_text().startswith("root-of-")
    assert "bookworm -" in (tmp_path / "tar").read_text()


def test_an_image_of_the_same_recipe_is_not_built_again(suite: Suite, tmp_path: Path) -> None:
    ensure(suite, ENGINE, tmp_path)
    assert ensure(suite, ENGINE, tmp_path) is False
    assert (tmp_path / "imports").read_text() == "import\n"


def test_an_image_is_built_again_when_the_recipe_changes(
    suite: Suite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ensure(suite, ENGINE, tmp_path)
    monkeypatch.setattr(systemd_image, "PACKAGES", (*systemd_image.PACKAGES, "less"))
    assert ensure(suite, ENGINE, tmp_path) is True


def test_a_rebuild_can_be_asked_for(suite: Suite, tmp_path: Path) -> None:
    ensure(suite, ENGINE, tmp_path)
    assert ensure(suite, ENGINE, tmp_path, rebuild=True) is True


def test_a_root_that_breaks_off_leaves_no_image_that_passes_for_one(suite: Suite, fake: Fake, tmp_path: Path) -> None:
    fake("mmdebstrap", "echo half; echo 'E: no network' >&2; exit 25")
    with pytest.raises(TestbedError, match=r"bookworm: mmdebstrap ended with 25, .*Next: read") as failure:
        ensure(suite, ENGINE, tmp_path)
    assert systemd_image.current_stamp(suite, ENGINE) is None
    log = Path(str(failure.value).rpartition(" ")[2])
    assert "E: no network" in log.read_text()


def test_an_import_that_fails_is_said_to_be_that(suite: Suite, fake: Fake, tmp_path: Path) -> None:
    fake("docker", "exit 1")
    with pytest.raises(TestbedError, match="docker import with 1"):
        ensure(suite, ENGINE, tmp_path)


def test_only_root_can_build(suite: Suite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(TestbedError, match="only be made by root"):
        ensure(suite, ENGINE, tmp_path)


def test_debian_12_and_13_have_stamps_of_their_own() -> None:
    assert [suite.name for suite in SUITES] == ["bookworm", "trixie"]
    assert len({content_stamp(suite) for suite in SUITES}) == 2
