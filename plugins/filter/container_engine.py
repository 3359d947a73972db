"""Ansible filters: what `docker run` is told to give a container its vendor's GPUs. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

# `docker run --device vendor.com/class=name` came with this release, and `features.cdi` with it:
# https://docs.docker.com/build/building/cdi/ and Docker's release notes.
_FIRST_WITH_CDI = (25, 0)


def has_cdi(version: str) -> bool:
    """Whether an engine of this version gives devices by CDI itself; older ones need NVIDIA's runtime for it."""
    return tuple(int(part) for part in re.findall(r"\d+", version)[:2]) >= _FIRST_WITH_CDI


def device_arguments(
    nodes: Mapping[str, Any], vendor: str, version: str, devices: Sequence[str] = ("all",)
) -> list[str]:
    """Arguments of `docker run`; none where the vendor's device nodes are not there (yet).

    AMD's groups are numbers: a name of the host means another group in the image, or none (ROCm-docker 116 and 90).
    NVIDIA's devices are CDI names, because what `--gpus` means depends on the toolkit's release (toolkit 1246, 1456).
    """
    if vendor == "amd":
        words = [word for node in nodes["amd"] for word in ("--device", node)]
        return words + [word for group in nodes["amd_groups"] for word in ("--group-add", str(group))]
    if vendor != "nvidia" or not nodes["nvidia"]:
        return []
    names = [f"nvidia.com/gpu={device}" for device in devices]
    if has_cdi(version):
        return [word for name in names for word in ("--device", name)]
    return ["--runtime", "nvidia", "--env", f"NVIDIA_VISIBLE_DEVICES={','.join(names)}"]


def daemon(wanted: Mapping[str, Any], vendor: str, version: str) -> dict[str, Any]:
    """What daemon.json must say: the inventory's words, and for NVIDIA its runtime and CDI."""
    result = dict(wanted)
    if vendor == "nvidia":
        runtimes = {"nvidia": {"path": "nvidia-container-runtime", "args": []}}
        result["runtimes"] = {**runtimes, **result.get("runtimes", {})}
        # An engine that is not installed yet is a new one.
        if not version or has_cdi(version):
            result["features"] = {"cdi": True, **result.get("features", {})}
    return result


def toolkit_mode(text: str) -> str:
    """The mode in NVIDIA's config.toml as `nvidia-ctk config` prints it; empty where it says none."""
    section = re.search(
        r"^\[nvidia-container-runtime\]\n(.*?)(?=^\[(?!nvidia-container-runtime\.)|\Z)", text, re.M | re.S
    )
    mode = re.search(r'^\s*mode\s*=\s*"([^"]*)"', section[1], re.MULTILINE) if section else None
    return mode[1] if mode else ""


class FilterModule:
    """What Ansible looks for."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Each is the function of its name with the prefix `container_engine_`."""
        return {
            f"container_engine_{function.__name__}": function for function in (device_arguments, daemon, toolkit_mode)
        }
