"""A change of our own files is one layer, and a fraction of a build from nothing."""

from pathlib import Path
from typing import Any

import pytest

from bimetal.images import render, revision
from bimetal.images.app import app_files
from bimetal.images.build import Builder
from bimetal.images.cli import CACHE
from bimetal.images.context import File
from bimetal.images.engine import Engine
from bimetal.images.matrix import choose, load
from bimetal.images.report import Report

REPOSITORY = "bimetal-images-test"
# A loaded machine must not make a false alarm.
AT_LEAST_AS_FAST = 3


def test_a_change_of_the_router_is_one_layer_and_a_fraction_of_a_build(
    engine: Engine, bookworm: str, removed: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("BASE_BOOKWORM", bookworm)
    [row] = choose(load(), ["router"], offline=True)

    def builder(**options: Any) -> Builder:
        commit = revision.of_project()
        return Builder(load(), engine, CACHE, commit, repository=REPOSITORY, offline=True, **options)

    first = builder(fresh=True).build(row, Report())
    removed += [f"{first.repository}:{first.tag}", f"{first.repository}:{first.variant}"]
    changed = tmp_path / "changed.py"
    changed.write_text("CHANGED = True\n")
    files = app_files(render.SITE.format(python=row.python))
    place = next(name for name in files if name.endswith("bimetal/errors.py")).replace("errors.py", "changed.py")
    monkeypatch.setattr(render, "app_files", lambda _: files | {place: File(changed)})
    second = builder().build(row, Report())
    removed.append(f"{second.repository}:{second.tag}")

    assert (first.status, second.status) == ("built", "built")
    assert second.tag != first.tag
    before, after = layers(engine, first.image_id), layers(engine, second.image_id)
    assert after[:-1] == before[:-1]
    assert after[-1] != before[-1]
    assert second.seconds < first.seconds / AT_LEAST_AS_FAST


def layers(engine: Engine, image_id: str) -> list[str]:
    inspected = engine.inspect(image_id)
    assert inspected is not None
    found: list[str] = inspected["RootFS"]["Layers"]
    return found
