"""What the role sees of a host's engine, and the image that it makes."""

import io
import tarfile
from pathlib import Path

import pytest
from ansible_collections.bimetal.cluster.plugins.modules import docker_engine_info as info
from ansible_collections.bimetal.cluster.plugins.modules import host_image as image


# docker-snap 180: "unknown runtime nvidia".
@pytest.mark.parametrize("path", ["snap/docker/current", "var/lib/snapd/snaps/docker_2963.snap"])
def test_docker_is_seen_to_be_a_snap(tmp_path: Path, path: str) -> None:
    (tmp_path / path).parent.mkdir(parents=True)
    (tmp_path / path).touch()
    assert info.is_snap(tmp_path)


def test_another_snap_is_no_docker(tmp_path: Path) -> None:
    (tmp_path / "var/lib/snapd/snaps").mkdir(parents=True)
    (tmp_path / "var/lib/snapd/snaps/core22_1122.snap").touch()
    assert not info.is_snap(tmp_path)


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("Docker version 26.1.5+dfsg1, build 411e817\n", "26.1.5"),
        ("Docker version 20.10.24+dfsg1, build 5d6db84\n", "20.10.24"),
        ("Docker version 29.0.0, build 3d4129b\n", "29.0.0"),
        ("", ""),
    ],
)
def test_the_version_is_dockerds(text: str, version: str) -> None:
    assert info.version_of(text) == version


def test_a_programs_libraries_are_those_that_the_loader_takes() -> None:
    text = (
        "\tlinux-vdso.so.1 (0x00007ffc)\n"
        "\tlibselinux.so.1 => /lib/x86_64-linux-gnu/libselinux.so.1 (0x00007f01)\n"
        "\tlibnvidia-ml.so.1 => not found\n"
        "\t/lib64/ld-linux-x86-64.so.2 (0x00007f02)\n"
    )
    assert image.libraries(text) == ["/lib/x86_64-linux-gnu/libselinux.so.1", "/lib64/ld-linux-x86-64.so.2"]


def test_a_static_program_has_no_libraries() -> None:
    assert image.libraries("\tnot a dynamic executable\n") == []


def test_the_same_programs_are_the_same_image(tmp_path: Path) -> None:
    program, link = tmp_path / "program", tmp_path / "link"
    program.write_bytes(b"one")
    link.symlink_to(program)
    first = image.archive([str(program), str(link)])
    program.touch()
    assert image.archive([str(link), str(program), str(program)]) == first
    with tarfile.open(fileobj=io.BytesIO(first)) as tar:
        assert [(entry.name, entry.isfile(), entry.mode) for entry in tar] == [
            (str(link).lstrip("/"), True, 0o755),
            (str(program).lstrip("/"), True, 0o755),
        ]
