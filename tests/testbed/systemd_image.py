"""Debian images with systemd as their first process: the hosts that molecule's scenarios provision.

Built from the distribution's own archive with mmdebstrap and imported, because a test bed that needs no
registry works wherever the archive's mirror does. Standard library only.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.testbed.engine import Engine, TestbedError, missing_commands

STAMP_LABEL = "org.bimetal.testbed.stamp"
# A host as an installer leaves it: an init, udev, a network, the Python that Ansible needs, and sudo.
# libeatmydata1 is the one exception, see SKIP_SYNCS.
PACKAGES = (
    "ca-certificates",
    "dbus",
    "iproute2",
    "kmod",
    "libeatmydata1",
    "procps",
    "python3",
    "sudo",
    "systemd",
    "systemd-sysv",
    "udev",
)
# A container that is thrown away need not survive a power cut. dpkg waits for the disk after every file: without that,
# an install of 43 packages took half the time (39 to 54 s in place of 89 to 105 s, on a busy machine).
SKIP_SYNCS = 'echo libeatmydata.so > "$1/etc/ld.so.preload"'


@dataclass(frozen=True)
class Suite:
    """One Debian release, and what makes its image look like a host of that release."""

    name: str
    # Shell lines that run in the new root.
    finish: tuple[str, ...] = ()

    @property
    def tag(self) -> str:
        """The image's name, as molecule's platforms use it."""
        return f"local/debian-systemd:{self.name}"


SUITES = (
    Suite("bookworm"),
    # Debian 13's installer writes deb822 sources, Debian 12's one-line ones: the roles must read both.
    Suite("trixie", finish=("apt --yes modernize-sources", "rm -f /etc/apt/sources.list.bak")),
)


def mmdebstrap_command(suite: Suite) -> list[str]:
    """The command that writes the image's root as a tar stream to its standard output."""
    command = ["mmdebstrap", "--quiet", "--variant=minbase", "--mode=root", f"--include={','.join(PACKAGES)}"]
    command += [f'--customize-hook=chroot "$1" {line}' for line in suite.finish]
    command.append(f"--customize-hook={SKIP_SYNCS}")
    # Every container is a machine of its own: systemd makes the id at its first start.
    command.append('--customize-hook=: > "$1/etc/machine-id"')
    return [*command, suite.name, "-"]


def import_command(suite: Suite, stamp: str) -> list[str]:
    """The command that makes an image of the tar stream on its standard input."""
    changes = ('CMD ["/lib/systemd/systemd"]', f"LABEL {STAMP_LABEL}={stamp}")
    return ["docker", "import", *(word for change in changes for word in ("--change", change)), "-", suite.tag]


def content_stamp(suite: Suite) -> str:
    """Changes whenever the recipe does; the archive's own updates come in with a forced build."""
    recipe = json.dumps([mmdebstrap_command(suite), import_command(suite, "")])
    return hashlib.sha256(recipe.encode()).hexdigest()[:16]


def current_stamp(suite: Suite, engine: Engine) -> str | None:
    """The stamp of the image that the engine has; None without an image."""
    inspect = ["docker", "image", "inspect", "--format", f'{{{{index .Config.Labels "{STAMP_LABEL}"}}}}', suite.tag]
    answer = subprocess.run(inspect, env=engine.environment, capture_output=True, text=True, check=False)
    return answer.stdout.strip() if answer.returncode == 0 else None


def build(suite: Suite, engine: Engine, log_dir: Path) -> None:
    """Make and import one image; takes about half a minute and 110 MB of downloads."""
    if missing_commands(("mmdebstrap",)):
        raise TestbedError("mmdebstrap not found. Next: apt-get install mmdebstrap")
    if os.geteuid() != 0:
        raise TestbedError("Images can only be made by root, because mmdebstrap changes roots. Next: use sudo")
    log_dir.mkdir(parents=True, exist_ok=True)
    log = log_dir / f"mmdebstrap-{suite.name}.log"
    with (
        log.open("wb") as errors,
        subprocess.Popen(mmdebstrap_command(suite), stdout=subprocess.PIPE, stderr=errors) as root,
    ):
        imported = subprocess.run(
            import_command(suite, content_stamp(suite)),
            stdin=root.stdout,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            env=engine.environment,
            check=False,
        )
    if root.returncode or imported.returncode:
        # A root that broke off may have been imported: it must not pass for the image.
        subprocess.run(["docker", "image", "rm", suite.tag], env=engine.environment, capture_output=True, check=False)
        # Whichever fails first breaks the other's pipe, so both are named.
        raise TestbedError(
            f"{suite.tag}: mmdebstrap ended with {root.returncode}, docker import with {imported.returncode}."
            f" Next: read {log}"
        )


def ensure(suite: Suite, engine: Engine, log_dir: Path, *, rebuild: bool = False) -> bool:
    """Build the image unless the engine has it as the recipe says; whether it was built."""
    if not rebuild and current_stamp(suite, engine) == content_stamp(suite):
        return False
    build(suite, engine, log_dir)
    return True
