"""Sources of one archive in files of both forms, and the conflicts between them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.bimetal.cluster.plugins.module_utils import apt_sources as sources

URL = "https://mirror.example/cuda/debian12/x86_64"
KEY = "/etc/apt/keyrings/bimetal-nvidia.asc"


@pytest.fixture
def entries(tmp_path: Path) -> Callable[..., list[Any]]:
    """The archives of files of /etc/apt, by name."""

    def read(**files: str) -> list[Any]:
        (tmp_path / "sources.list.d").mkdir()
        for name, text in files.items():
            stem, _, suffix = name.rpartition("_")
            folder = tmp_path if name == "sources_list" else tmp_path / "sources.list.d"
            (folder / f"{stem}.{suffix}").write_text(text)
        found: list[Any] = sources.read_entries(tmp_path)
        return found

    return read


# toolkit 170 and cog 1190: "Conflicting values set for option Signed-By".
@pytest.mark.parametrize(
    "files",
    [
        {"cuda_list": f"# the vendor's package\ndeb [arch=amd64 signed-by=/usr/share/keyrings/cuda.gpg] {URL}/ /\n"},
        {"sources_list": f"\ndeb {URL} /\n"},
        {"cuda_sources": f"# comment\nTypes: deb\nURIs: {URL}\nSuites: /\nSigned-By: /usr/share/keyrings/cuda.gpg\n"},
        {"cuda_sources": f"Types: deb\nURIs: {URL}\nSuites: /\nSigned-By:\n -----BEGIN PGP-----\n .\n mQINBF\n"},
    ],
)
def test_a_source_with_another_key_conflicts_in_every_form(
    entries: Callable[..., list[Any]], files: dict[str, str]
) -> None:
    [found] = sources.conflicts(entries(**files), f"{URL}/", "/", KEY)
    assert found.path.stem in {"cuda", "sources"}


def test_the_place_of_a_conflict_is_its_file_and_line(entries: Callable[..., list[Any]]) -> None:
    found = entries(
        cuda_sources=f"Types: deb\nURIs: http://a.example\nSuites: b\n\nTypes: deb\nURIs: {URL}\nSuites: /\n"
    )
    [conflict] = sources.conflicts(found, URL, "/", KEY)
    assert conflict.place.endswith("cuda.sources:5")


@pytest.mark.parametrize(
    "files",
    [
        {"cuda_list": f"deb [signed-by={KEY}] {URL} /\n"},
        {"cuda_list": f"# deb {URL} /\n"},
        {"cuda_sources": f"Enabled: no\nTypes: deb\nURIs: {URL}\nSuites: /\n"},
        {"cuda_list": f"deb {URL}/other /\n"},
        {"cuda_list": f"deb {URL} noble main\n"},
        {"cuda_save": f"deb {URL} /\n"},
    ],
)
def test_the_same_key_another_archive_and_what_is_disabled_do_not_conflict(
    entries: Callable[..., list[Any]], files: dict[str, str]
) -> None:
    assert sources.conflicts(entries(**files), URL, "/", KEY) == []


def test_only_duplicates_with_our_marker_are_removed(entries: Callable[..., list[Any]], tmp_path: Path) -> None:
    ours = sources.stanza(URL, "/", "", KEY, "")
    found = entries(old_sources=ours, own_sources=ours, theirs_list=f"deb [signed-by={KEY}] {URL} /\n")
    own = tmp_path / "sources.list.d/own.sources"
    assert sources.duplicates(found, URL, own) == [tmp_path / "sources.list.d/old.sources"]


def test_a_directory_has_no_components_and_a_suite_has() -> None:
    assert "Components" not in sources.stanza(URL, "/", "main", KEY, "")
    assert "Suites: noble\nComponents: main\nArchitectures: amd64\n" in sources.stanza(
        URL, "noble", "main", KEY, "amd64"
    )
