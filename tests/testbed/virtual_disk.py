"""The disk of the virtual machine: Debian with a kernel and GRUB, as an installer leaves it. Standard library only.

Made of the distribution's archive with mmdebstrap, on a loop device, and kept as long as its recipe does not change.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.testbed.engine import TestbedError, missing_commands, sbin_environment

SUITE = "bookworm"
# Debian's full kernel: the one for clouds has no nouveau that could be kept out.
PACKAGES = (
    "ca-certificates,dbus,e2fsprogs,grub-pc,ifupdown,initramfs-tools,iproute2,isc-dhcp-client,kmod,linux-image-amd64,"
    "openssh-server,procps,python3,sudo,systemd,systemd-sysv,udev,"
    # What makes the repository of stand-in packages.
    "apt-utils,dpkg-dev,gnupg,gpg-agent"
)
SIZE_GB = 4
USER = "admin"
NETWORK_CARD = "ens3"
# Packages of the commands that build and boot the disk, which a minimal Debian lacks.
COMMAND_PACKAGES = {
    "mmdebstrap": "mmdebstrap",
    "qemu-system-x86_64": "qemu-system-x86",
    "sfdisk": "fdisk",
    "mke2fs": "e2fsprogs",
    "losetup": "mount",
    "partx": "util-linux",
    "ssh-keygen": "openssh-client",
}
BUILD_TIMEOUT_SECONDS = 900

# Runs inside the new root, where /dev and /proc are the builder's. $1 is the disk's device.
FINISH = rf"""set -eu
export HOME=/root
printf 'LABEL=root / ext4 errors=remount-ro 0 1\n' > /etc/fstab
printf 'auto lo {NETWORK_CARD}\niface lo inet loopback\niface {NETWORK_CARD} inet dhcp\n' > /etc/network/interfaces
echo vm > /etc/hostname
printf '127.0.0.1 localhost\n127.0.1.1 vm\n' > /etc/hosts
: > /etc/machine-id
useradd --create-home --shell /bin/bash {USER}
echo '{USER} ALL=(ALL) NOPASSWD: ALL' > /etc/sudoers.d/{USER}
install -d -m 0700 -o {USER} -g {USER} ~{USER}/.ssh
install -m 0600 -o {USER} -g {USER} /key.pub ~{USER}/.ssh/authorized_keys
rm /key.pub
# What the installer writes when asked for a "targeted" initramfs: an emulated CPU packs the full one for minutes.
printf 'MODULES=dep\nCOMPRESS=gzip\n' > /etc/initramfs-tools/conf.d/driver-policy
printf 'GRUB_TIMEOUT=0\nGRUB_CMDLINE_LINUX_DEFAULT="quiet"\nGRUB_CMDLINE_LINUX="console=ttyS0"\n' > /etc/default/grub
grub-install --target=i386-pc "$1"
update-grub
# The device's name here is not the one in the machine.
sed -i 's#root=/dev/loop[0-9p]*#root=LABEL=root#; s#root=UUID=[0-9a-f-]*#root=LABEL=root#' /boot/grub/grub.cfg
install -d /srv/nvidia /lib/modules/6.1.0-0-stand-in/build
/bin/sh /stand_ins.sh /srv/nvidia stand-ins < /stand_ins.list
printf '[Service]\nExecStart=/bin/sleep infinity\n[Install]\nWantedBy=multi-user.target\n' \
  > /etc/systemd/system/nvidia-persistenced.service
gpgconf --kill all
rm /stand_ins.sh /stand_ins.list
"""


def missing_packages() -> list[str]:
    """Packages that `apt-get install` must bring before a disk can be built and booted."""
    return sorted({COMMAND_PACKAGES[command] for command in missing_commands(tuple(COMMAND_PACKAGES))})


def check() -> None:
    """Raise TestbedError with the next step where no disk can be built or booted."""
    if missing := missing_packages():
        raise TestbedError(f"Missing for the virtual machine. Next: apt-get install {' '.join(missing)}")
    if os.geteuid() != 0:
        raise TestbedError("A disk can only be made by root, because it is mounted. Next: sudo make vm-test")


def stamp(stand_ins: Path, script: Path) -> str:
    """Changes whenever the recipe does."""
    recipe = [SUITE, PACKAGES, SIZE_GB, FINISH, stand_ins.read_text(), script.read_text()]
    return hashlib.sha256(json.dumps(recipe).encode()).hexdigest()[:16]


def run(command: list[str], log: Path, timeout_seconds: float = BUILD_TIMEOUT_SECONDS) -> str:
    """Run one step of the build, its errors into `log`; its output."""
    with log.open("ab") as errors:
        ended = subprocess.run(
            command,
            stdout=subprocess.PIPE,
            stderr=errors,
            env=sbin_environment(),
            timeout=timeout_seconds,
            check=False,
        )
        errors.write(ended.stdout)
    if ended.returncode:
        raise TestbedError(f"{' '.join(command[:3])} … ended with {ended.returncode}. Next: read {log}")
    return ended.stdout.decode().strip()


@contextmanager
def partition(disk: Path, log: Path) -> Iterator[tuple[str, str]]:
    """Device names of the disk and of its first partition, for the block."""
    device = run(["losetup", "--show", "--find", str(disk)], log)
    try:
        # The kernel need not know partition tables of this kind: partx tells it where the partition is.
        run(["partx", "--add", device], log)
        yield device, f"{device}p1"
    finally:
        subprocess.run(["partx", "--delete", device], capture_output=True, env=sbin_environment(), check=False)
        run(["losetup", "--detach", device], log)


@contextmanager
def mounted(what: list[str], where: Path, log: Path) -> Iterator[Path]:
    """A mount for the block; `what` are mount's options and source."""
    where.mkdir(parents=True, exist_ok=True)
    run(["mount", *what, str(where)], log)
    try:
        yield where
    finally:
        run(["umount", str(where)], log)


def fill(root: Path, device: str, inputs: dict[str, Path], log: Path) -> None:
    """Unpack the distribution into `root` and make it bootable; `inputs` are files that the last step reads."""
    run(["mmdebstrap", "--quiet", "--variant=minbase", f"--include={PACKAGES}", SUITE, str(root)], log)
    for name, file in inputs.items():
        (root / name).write_bytes(file.read_bytes())
    with ExitStack() as mounts:
        for tree in ("dev", "proc", "sys"):
            mounts.enter_context(mounted(["--bind", f"/{tree}"], root / tree, log))
        run(["chroot", str(root), "/bin/sh", "-c", FINISH, "finish", device], log)


def build(disk: Path, inputs: dict[str, Path], log: Path) -> None:
    """Make the disk: one bootable partition, about two minutes."""
    with disk.open("wb") as file:
        file.truncate(SIZE_GB * 2**30)
    run(["sh", "-c", 'printf "start=2048, type=83, bootable\n" | sfdisk --quiet "$1"', "sfdisk", str(disk)], log)
    with partition(disk, log) as (device, first):
        run(["mke2fs", "-q", "-t", "ext4", "-L", "root", first], log)
        with mounted([first], disk.parent / "root", log) as root:
            fill(root, device, inputs, log)


def ensure(directory: Path, stand_ins: Path, script: Path) -> tuple[Path, Path, bool]:
    """Have disk and key in `directory`; paths of both, and whether they were made now.

    Args:
        directory: where they are kept.
        stand_ins: list of the packages of the repository inside.
        script: the program that makes that repository of the list.
    """
    disk, key, made_of = directory / "disk.raw", directory / "key", directory / "stamp"
    wanted = stamp(stand_ins, script)
    if disk.exists() and key.exists() and made_of.exists() and made_of.read_text() == wanted:
        return disk, key, False
    directory.mkdir(parents=True, exist_ok=True)
    for old in (disk, key, key.with_suffix(".pub"), made_of):
        old.unlink(missing_ok=True)
    log = directory / "build.log"
    log.unlink(missing_ok=True)
    run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], log)
    inputs = {"key.pub": key.with_suffix(".pub"), "stand_ins.sh": script, "stand_ins.list": stand_ins}
    build(disk, inputs, log)
    # Last: a disk that broke off is built again.
    made_of.write_text(wanted)
    return disk, key, True
