"""What is remembered of the set that ran before, and the way back to it."""

import pytest
from ansible_collections.bimetal.cluster.plugins.module_utils import driver_record as record

OLD = {"nvidia-smi": "535.1-1", "libcuda1": "1:535.1-1"}
NEW = {"nvidia-smi": "550.1-1", "libcuda1": "1:550.1-1", "nvidia-firmware": "550.1-1"}
KEPT = ["libcuda1_1%3a535.1-1_amd64.deb", "nvidia-smi_535.1-1_amd64.deb"]


@pytest.mark.parametrize(
    ("installed", "target", "expected"),
    [(OLD, NEW, True), (OLD, OLD, False), ({}, NEW, False), ({"nvidia-settings": "1"}, NEW, False)],
)
def test_only_what_is_replaced_is_recorded(installed: dict[str, str], target: dict[str, str], expected: bool) -> None:
    assert record.must_record(installed, target) is expected


def test_kept_files_are_used_and_what_came_with_the_new_set_goes() -> None:
    way = record.restoration(OLD, NEW, KEPT, {}, "/kept")
    assert way.arguments == [*(f"/kept/{file}" for file in KEPT), "nvidia-firmware-"]
    assert way.missing == []


def test_an_archive_is_asked_where_no_file_was_kept() -> None:
    way = record.restoration(OLD, NEW, KEPT[:1], {"nvidia-smi": ["550.1-1", "535.1-1"]}, "/kept")
    assert "nvidia-smi=535.1-1" in way.arguments
    assert way.missing == []


def test_what_can_be_had_nowhere_is_named() -> None:
    way = record.restoration(OLD, NEW, KEPT[:1], {"nvidia-smi": ["550.1-1"]}, "/kept")
    assert way.missing == ["nvidia-smi=535.1-1"]


def test_what_did_not_change_needs_no_file() -> None:
    way = record.restoration({"nvidia-smi": "1"}, {"nvidia-smi": "1"}, [], {}, "/kept")
    assert (way.arguments, way.missing) == ([], [])


def test_files_of_the_present_and_the_previous_set_stay() -> None:
    older = "nvidia-smi_470.1-1_amd64.deb"
    assert record.stale([*KEPT, older, "nvidia-smi_550.1-1_amd64.deb"], OLD, NEW) == [older]
