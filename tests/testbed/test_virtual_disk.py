"""Building the virtual machine's disk only when it is missing or out of date, and undoing what a build mounts."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.testbed import virtual_disk
from tests.testbed.engine import TestbedError

Fake = Callable[[str, str], None]

COMMANDS = ("sfdisk", "mke2fs", "partx", "mount", "umount", "chroot")


@pytest.fixture
def recipe(fake: Fake, tmp_path: Path) -> tuple[Path, Path]:
    """A list of stand-ins and its program, and commands that only write down what they were asked."""
    for name in COMMANDS:
        fake(name, f'echo "{name} $*" >> "$FAKES/asked"')
    fake("losetup", 'echo "losetup $1" >> "$FAKES/asked"; test "$1" != --show || echo /dev/loop9')
    fake("mmdebstrap", 'echo mmdebstrap >> "$FAKES/asked"')
    fake("ssh-keygen", 'for file; do :; done; echo private > "$file"; echo public > "$file.pub"')
    stand_ins, script = tmp_path / "stand_ins.list", tmp_path / "stand_ins.sh"
    stand_ins.write_text("nvidia-smi 1-1\n")
    script.write_text("#!/bin/sh\n")
    return stand_ins, script


def asked(tmp_path: Path) -> list[str]:
    """What the fakes were asked, without the places."""
    return [line.replace(str(tmp_path), "") for line in (tmp_path / "asked").read_text().splitlines()]


def test_a_disk_is_built_and_everything_that_was_mounted_is_not(recipe: tuple[Path, Path], tmp_path: Path) -> None:
    disk, key, built = virtual_disk.ensure(tmp_path / "vm", *recipe)
    assert built
    assert key.exists()
    assert disk.stat().st_size == virtual_disk.SIZE_GB * 2**30
    lines = asked(tmp_path)
    assert lines[-5:] == [
        "umount /vm/root/proc",
        "umount /vm/root/dev",
        "umount /vm/root",
        "partx --delete /dev/loop9",
        "losetup --detach",
    ]
    assert (tmp_path / "vm/root/key.pub").read_text() == "public\n"


def test_a_disk_of_the_same_recipe_is_not_built_again(recipe: tuple[Path, Path], tmp_path: Path) -> None:
    virtual_disk.ensure(tmp_path / "vm", *recipe)
    before = asked(tmp_path)
    assert virtual_disk.ensure(tmp_path / "vm", *recipe)[2] is False
    assert asked(tmp_path) == before
    recipe[0].write_text("nvidia-smi 2-1\n")
    assert virtual_disk.ensure(tmp_path / "vm", *recipe)[2] is True


def test_a_build_that_breaks_off_undoes_its_mounts_and_is_made_again(
    recipe: tuple[Path, Path], tmp_path: Path, fake: Fake
) -> None:
    fake("chroot", "echo 'grub-install: error' >&2; exit 1")
    with pytest.raises(TestbedError, match=r"chroot .* ended with 1\. Next: read .*build\.log"):
        virtual_disk.ensure(tmp_path / "vm", *recipe)
    assert asked(tmp_path)[-2:] == ["partx --delete /dev/loop9", "losetup --detach"]
    assert "grub-install: error" in (tmp_path / "vm/build.log").read_text()
    fake("chroot", "true")
    assert virtual_disk.ensure(tmp_path / "vm", *recipe)[2] is True


def test_what_is_missing_is_said_with_the_command_that_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(virtual_disk, "missing_commands", lambda _: ["qemu-system-x86_64", "sfdisk"])
    with pytest.raises(TestbedError, match=r"Next: apt-get install fdisk qemu-system-x86$"):
        virtual_disk.check()
    monkeypatch.setattr(virtual_disk, "missing_commands", lambda _: [])
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(TestbedError, match="sudo make vm-test"):
        virtual_disk.check()
