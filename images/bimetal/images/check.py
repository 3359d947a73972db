"""Tests a built image from outside: what it is made of, and its own self-test in a container without any rights."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from bimetal.images.engine import Engine
from bimetal.images.errors import SelfTestError
from bimetal.images.render import UID

SELFTEST = "/opt/bimetal/selftest"
# A shell's `command -v` prints what it finds; none of these belongs into an image that serves.
BUILD_TOOLS = ("cc", "gcc", "g++", "make", "cmake", "git", "pip", "pip3", "mmdebstrap")
REQUIRED_LABELS = ("title", "version", "revision", "created", "licenses")


def findings(inspected: Mapping[str, Any], kind: str) -> list[str]:
    """What is wrong with an image's configuration; nothing when it is as it should be."""
    config = inspected["Config"]
    labels = config.get("Labels") or {}
    wrong = []
    if config.get("User") != f"{UID}:{UID}":
        wrong.append(f"runs as '{config.get('User')}', expected {UID}:{UID}")
    if kind != "train" and not config.get("Healthcheck", {}).get("Test"):
        wrong.append("has no HEALTHCHECK")
    missing = [name for name in REQUIRED_LABELS if not labels.get(f"org.opencontainers.image.{name}")]
    if missing:
        wrong.append(f"lacks the labels {', '.join(missing)}")
    return wrong


def _left_over_tools(engine: Engine, image: str) -> list[str]:
    """Build tools that the image still has."""
    script = "; ".join(f"command -v {tool} || true" for tool in BUILD_TOOLS)
    status, output = engine.run(image, ["-c", script], entrypoint="/bin/sh", network_mode="none")
    if status != 0:
        raise SelfTestError(f"{image}: the shell ended with {status}: {output.strip()}.", "look into the image")
    return output.split()


def self_test(engine: Engine, image: str, kind: str, base: str) -> str:
    """Run everything; the self-test's output. Raises SelfTestError with what is wrong.

    Args:
        base: the image that it was built from: the tools of a vendor's base are the vendor's.
    """
    inspected = engine.inspect(image)
    if inspected is None:
        raise SelfTestError(f"The engine has no {image}.", "build it")
    wrong = findings(inspected, kind)
    # A training image is a development environment: there the tools are wanted.
    if kind != "train" and (tools := _left_over_tools(engine, image)):
        inherited = _left_over_tools(engine, base) if engine.inspect(base) else []
        if ours := [tool for tool in tools if tool not in inherited]:
            wrong.append(f"still has {', '.join(ours)}")
    if wrong:
        raise SelfTestError(f"{image} {'; '.join(wrong)}.", "correct the templates")
    status, output = engine.run(
        image,
        [SELFTEST],
        # The rights of the narrowest host: what works so works everywhere.
        network_mode="none",
        read_only=True,
        tmpfs={"/tmp": "", "/var/lib/bimetal": f"uid={UID},gid={UID}"},
        cap_drop=["ALL"],
        security_opt=["no-new-privileges"],
        shm_size="256m",
    )
    if status != 0:
        failed = re.findall(r"^FAIL .*$", output, re.MULTILINE) or output.strip().splitlines()[-3:]
        raise SelfTestError(f"{image}: {' '.join(failed)}", f"docker run --rm --entrypoint /bin/sh -it {image}")
    return output
