"""Finding Debian's archive in apt's sources of both forms, and the stanzas that add a component to it."""

from collections.abc import Callable
from pathlib import Path

import pytest
from ansible_collections.bimetal.cluster.plugins.modules import apt_component_info as module

PATTERN = r"/debian(-security)?(\.list)?/?$"
KEY = "/usr/share/keyrings/debian-archive-keyring.gpg"


@pytest.fixture
def propose(tmp_path: Path) -> Callable[..., str]:
    """The stanzas for files of /etc/apt, by name."""

    def run(**files: str) -> str:
        (tmp_path / "sources.list.d").mkdir()
        for name, text in files.items():
            stem, _, suffix = name.rpartition("_")
            folder = tmp_path if name == "sources_list" else tmp_path / "sources.list.d"
            (folder / f"{stem}.{suffix}").write_text(text)
        sources = module.read_sources(tmp_path, tmp_path / "sources.list.d/own.sources")
        stanzas: str = module.stanzas(sources, "bookworm", PATTERN, "non-free-firmware")
        return stanzas

    return run


def test_every_suite_of_the_archive_gets_the_component(propose: Callable[..., str]) -> None:
    assert propose(
        sources_list="# a comment\n"
        "deb http://mirror.example/debian bookworm main contrib # inline\n"
        "deb-src http://mirror.example/debian bookworm main\n"
        "deb http://mirror.example/debian-security bookworm-security main\n"
    ) == (
        "Types: deb\nURIs: http://mirror.example/debian\nSuites: bookworm\nComponents: non-free-firmware\n\n"
        "Types: deb\nURIs: http://mirror.example/debian-security\nSuites: bookworm-security\n"
        "Components: non-free-firmware\n"
    )


# toolkit 170 and cog 1190: "Conflicting values set for option Signed-By".
def test_the_options_of_a_one_line_source_are_repeated(propose: Callable[..., str]) -> None:
    text = propose(sources_list=f"deb [arch=amd64,i386 signed-by={KEY}] http://mirror.example/debian bookworm main\n")
    assert "Architectures: amd64 i386\n" in text
    assert f"Signed-By: {KEY}\n" in text


def test_a_key_that_stands_in_the_source_itself_is_repeated_line_by_line(propose: Callable[..., str]) -> None:
    text = propose(
        debian_sources="Types: deb deb-src\nURIs: http://mirror.example/debian/\nSuites: bookworm bookworm-updates\n"
        "# a comment\nComponents: main\nSigned-By:\n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n mQINBF\n"
    )
    assert text.count("Signed-By: \n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n mQINBF\n") == 2
    assert "Suites: bookworm\n" in text
    assert "Suites: bookworm-updates\n" in text


def test_a_cloud_images_mirror_list_is_debians_archive(propose: Callable[..., str]) -> None:
    text = propose(
        debian_sources="Types: deb\nURIs: mirror+file:///etc/apt/mirrors/debian.list\nSuites: bookworm\n"
        "Components: main\n"
    )
    assert "URIs: mirror+file:///etc/apt/mirrors/debian.list\n" in text


@pytest.mark.parametrize(
    "text",
    [
        "deb http://mirror.example/debian bookworm main non-free-firmware\n",
        "deb http://mirror.example/debian/ bookworm main\n"
        "deb http://mirror.example/debian bookworm non-free-firmware\n",
    ],
)
def test_nothing_is_proposed_where_the_component_is_enabled(propose: Callable[..., str], text: str) -> None:
    assert propose(sources_list=text) == ""


@pytest.mark.parametrize(
    "text",
    [
        "deb https://apt.example/ bookworm main\n",  # another vendor's archive with Debian's names
        "deb https://download.example/linux/debian bookworm stable\n",
        "deb http://mirror.example/debian trixie main\n",
        "deb http://mirror.example/debian bookworm-backports main\n",
        "# deb http://mirror.example/debian bookworm main\n",
        "deb cdrom:[Debian GNU/Linux 12]/ bookworm main\n",
    ],
)
def test_other_archives_and_releases_are_left_alone(propose: Callable[..., str], text: str) -> None:
    assert propose(sources_list=text) == ""


def test_a_disabled_stanza_and_our_own_file_do_not_count(propose: Callable[..., str]) -> None:
    enabled = "Types: deb\nURIs: http://mirror.example/debian\nSuites: bookworm\nComponents: main\n"
    firmware = enabled.replace("main", "non-free-firmware")
    text = propose(
        debian_sources=enabled,
        off_sources=f"Enabled: no\n{firmware}",
        own_sources=firmware,
        notes_txt=firmware,
    )
    assert text == firmware
