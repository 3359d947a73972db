"""Arithmetic of command lines: set semantics, lists, quotes."""

import pytest
from ansible_collections.bimetal.cluster.plugins.module_utils import kernel_cmdline as cmdline
from hypothesis import given
from hypothesis import strategies as st

WANTED = ["pcie_aspm=off", "iommu=pt", "pci=realloc=off"]

WORDS = st.sampled_from(
    [
        *WANTED,
        "quiet",
        "ro",
        "console=tty0",
        "console=ttyS0,115200",
        "pcie_aspm=force",
        "pcie-aspm=off",
        "pcie_aspm",
        "iommu=nopt,soft",
        "iommu=on",
        "amd_iommu=nopt",
        "pci=nommconf,realloc=on",
        "pci=realloc",
        "pci=norealloc,noaer",
        'pci="nommconf,realloc=on"',
        "pci=realloc=on,realloc=off,noaer",
        'dyndbg="file drivers/pci/* +p"',
        "module.parameter=a=b",
        "--",
    ]
)
LINES = st.lists(WORDS, max_size=8).map(" ".join)
PARAMETERS = st.lists(st.sampled_from([*WANTED, "quiet", "pci=noaer", "console=tty1"]), unique=True, max_size=6)


@given(line=LINES, wanted=PARAMETERS)
def test_what_is_wanted_is_in_force_afterwards(line: str, wanted: list[str]) -> None:
    assert cmdline.missing(cmdline.with_parameters(line, wanted), wanted) == []


# stackhpc linux 27 and 29: the order changed on every run.
@given(line=LINES, wanted=PARAMETERS)
def test_a_second_time_changes_nothing_not_even_the_order(line: str, wanted: list[str]) -> None:
    once = cmdline.with_parameters(line, wanted)
    assert cmdline.with_parameters(once, wanted) == once


@given(line=LINES, wanted=PARAMETERS)
def test_no_setting_has_two_values_afterwards(line: str, wanted: list[str]) -> None:
    words = cmdline.kernel_words(cmdline.split(cmdline.with_parameters(line, wanted)))
    target = cmdline.effective(wanted)
    values = [(key, text) for word in words for key, text in cmdline.settings(word).items() if key in target]
    assert set(values) == set(target.items())


@given(line=LINES, wanted=PARAMETERS)
def test_all_other_words_keep_their_order(line: str, wanted: list[str]) -> None:
    target = {parameter for parameter, _ in cmdline.effective(wanted)}

    def others(text: str) -> list[str]:
        return [word for word in cmdline.split(text) if cmdline.name(word) not in target]

    assert others(cmdline.with_parameters(line, wanted)) == others(line)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("", "pcie_aspm=off iommu=pt pci=realloc=off"),
        ("quiet pcie_aspm=force ro", "quiet ro pcie_aspm=off iommu=pt pci=realloc=off"),
        ("iommu=pt quiet pcie_aspm=off", "iommu=pt quiet pcie_aspm=off pci=realloc=off"),
        # The kernel takes - and _ for the same, and the last of several values.
        ("pcie-aspm=force", "pcie_aspm=off iommu=pt pci=realloc=off"),
        # Items of a list that are about something else stay.
        ("pci=nommconf,realloc=on,noaer", "pci=nommconf,noaer pcie_aspm=off iommu=pt pci=realloc=off"),
        ("pci=realloc,nommconf iommu=soft,nopt", "pci=nommconf iommu=soft pcie_aspm=off iommu=pt pci=realloc=off"),
        ('pci="realloc=on,nommconf"', 'pci="nommconf" pcie_aspm=off iommu=pt pci=realloc=off'),
        # amd_iommu is another parameter: a substitution in text would have hit it.
        ("amd_iommu=nopt", "amd_iommu=nopt pcie_aspm=off iommu=pt pci=realloc=off"),
        ('a="b pcie_aspm=force c"', 'a="b pcie_aspm=force c" pcie_aspm=off iommu=pt pci=realloc=off'),
        ("quiet -- pcie_aspm=force", "quiet pcie_aspm=off iommu=pt pci=realloc=off -- pcie_aspm=force"),
        ("iommu=pt iommu=pt", "iommu=pt pcie_aspm=off pci=realloc=off"),
    ],
)
def test_a_line_with_the_parameters(line: str, expected: str) -> None:
    assert cmdline.with_parameters(line, WANTED) == expected


@pytest.mark.parametrize(
    ("absent", "expected"),
    [
        ("quiet", "pci=nommconf,noaer mem=4G"),
        ("mem", "quiet pci=nommconf,noaer"),
        ("mem=4G", "quiet pci=nommconf,noaer"),
        ("mem=8G", "quiet pci=nommconf,noaer mem=4G"),
        ("pci=noaer", "quiet pci=nommconf mem=4G"),
        ("pci", "quiet mem=4G"),
    ],
)
def test_a_parameter_is_removed_by_name_or_by_value(absent: str, expected: str) -> None:
    assert cmdline.with_parameters("quiet pci=nommconf,noaer mem=4G", [], [absent]) == expected


@pytest.mark.parametrize(
    ("line", "missing"),
    [
        ("iommu=pt iommu=nopt", ["iommu=pt"]),
        ("iommu=nopt iommu=pt", []),
        ("iommu=soft,pt", []),
        ("amd_iommu=pt", ["iommu=pt"]),
        ("quiet -- iommu=pt", ["iommu=pt"]),
        ("iommu", ["iommu=pt"]),
    ],
)
def test_what_is_in_force_is_the_last_value_before_the_words_of_init(line: str, missing: list[str]) -> None:
    assert cmdline.missing(line, ["iommu=pt"]) == missing


def test_wanted_parameters_that_overrule_each_other_are_found() -> None:
    assert cmdline.contradictions(["pcie_aspm=off", "iommu=pt", "pcie_aspm=force"]) == ["pcie_aspm=off"]
    assert cmdline.contradictions(["pci=nommconf", "pci=realloc=off", "iommu=pt"]) == []
