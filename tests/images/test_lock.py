"""The lock of images."""

import json
from pathlib import Path

import pytest

from bimetal.images import lock
from bimetal.images.errors import ImageError


def test_an_entry_is_added_and_the_others_stay(tmp_path: Path) -> None:
    file = tmp_path / "new" / "images.lock.json"
    lock.record(file, "rocm:1", {"tag": "a"})
    lock.record(file, "cpu:1", {"tag": "b"})
    lock.record(file, "rocm:1", {"tag": "c"})
    assert json.loads(file.read_text()) == {"schema": 1, "images": {"cpu:1": {"tag": "b"}, "rocm:1": {"tag": "c"}}}
    assert [path.name for path in file.parent.iterdir()] == ["images.lock.json"]
    assert file.stat().st_mode & 0o777 == 0o644


def test_an_image_that_was_never_built_is_named_with_the_next_step(tmp_path: Path) -> None:
    with pytest.raises(ImageError, match=r"cpu:1 is not in images.lock.json. Next: build it: .* build cpu:1"):
        lock.entry_of(tmp_path / "images.lock.json", "cpu:1")


@pytest.mark.parametrize("text", ["{", "[]", '{"schema": 9, "images": {}}'])
def test_a_file_that_is_no_lock_is_refused_and_not_overwritten(tmp_path: Path, text: str) -> None:
    file = tmp_path / "images.lock.json"
    file.write_text(text)
    with pytest.raises(ImageError, match="remove it and build again"):
        lock.record(file, "cpu:1", {})
    assert file.read_text() == text
