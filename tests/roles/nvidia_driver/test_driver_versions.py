"""Versions are compared by their parts, never as strings."""

import pytest
from ansible_collections.bimetal.cluster.plugins.module_utils import driver_versions as versions


@pytest.mark.parametrize(
    ("version", "parts"),
    [
        ("535.261.03", (535, 261, 3)),
        ("535.261.03-1~deb12u1", (535, 261, 3)),
        ("1:30.10.2.60400-47", (30, 10, 2, 60400)),
        ("11.8.89~11.8.0-5~deb12u1", (11, 8, 89)),
        ("(none)", ()),
    ],
)
def test_the_leading_number_is_read_without_epoch_and_revision(version: str, parts: tuple[int, ...]) -> None:
    assert versions.numbers(version) == parts


def test_a_two_digit_part_is_newer_than_a_one_digit_part() -> None:
    assert versions.at_least("6.10", "6.9")
    assert not versions.at_least("9.99", "11.8")


def test_trailing_zeros_make_no_other_release() -> None:
    assert versions.at_least("6.4", "6.4.0")
    assert versions.at_least("6.4.0", "6.4")
    assert not versions.at_least("6.4.0", "6.4.1")


@pytest.mark.parametrize(
    ("version", "wanted", "fits"),
    [
        ("535.261.03-1", "535", True),
        ("535.261.03-1", "535.261.03", True),
        ("535.261.03-1", "535.261.03-1", True),
        ("535.261.03-1", "535.261.03-2", False),
        ("535.309.01-0+deb12u1", "535.261.03", False),
        ("53.1-1", "535", False),
        ("5350.1-1", "535", False),
    ],
)
def test_a_version_is_of_a_branch_an_upstream_version_or_exactly_one(version: str, wanted: str, fits: bool) -> None:
    assert versions.matches(version, wanted) is fits


# The pairs of deb-version(7) and of the Debian policy's text, older first.
@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("1.0~rc1", "1.0"),
        ("1.0", "1.0a"),
        ("1.0a", "1.0+deb12u1"),
        ("1.0-1", "1.0-1.1"),
        ("1.0-1~deb12u1", "1.0-1"),
        ("9.9-1", "10.0-1"),
        ("99-1", "1:1-1"),
        ("535.261.03-1", "535.309.01-0+deb12u1"),
    ],
)
def test_the_order_is_debians(older: str, newer: str) -> None:
    assert versions.compare(older, newer) < 0
    assert versions.compare(newer, older) > 0
    assert versions.newest([older, newer]) == newer
    assert versions.compare(older, older) == 0
