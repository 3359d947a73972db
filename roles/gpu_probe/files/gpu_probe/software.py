"""Drivers, CUDA, ROCm, the order in which the loader finds their libraries, and the containers' toolkits."""

from __future__ import annotations

import json
import re

from . import cells, kernel
from .host import Host
from .reading import Json, VendorReadings

# What bimetal's images are built on; older stacks are not tested.
MINIMUM_CUDA = "11.8"
MINIMUM_ROCM = "5.6.0"

# One soname of each layer of both stacks: which copy a process gets decides which driver it can talk to.
LIBRARIES = {
    "nvidia": ("libcuda.so.1", "libnvidia-ml.so.1", "libcudart.so.11.0", "libcudart.so.12", "libnccl.so.2"),
    "amd": ("libamdhip64.so", "libhsa-runtime64.so.1", "librocblas.so", "librccl.so.1"),
}
_MODULES = ("nvidia", "nvidia-current", "amdgpu")


def read(host: Host, nvidia: VendorReadings, amd: VendorReadings) -> Json:
    """The layer's object."""
    libraries = loader_order(host)
    return {
        "nvidia_driver": nvidia_driver(host, libraries, nvidia.versions.get("driver")),
        "cuda": cuda(host, nvidia.versions.get("cuda")),
        "amdgpu": {"version": host.read("/sys/module/amdgpu/version") or amd.versions.get("driver")},
        "rocm": rocm(host),
        "dkms": [entry for entry in kernel.dkms(host) if entry["module"].startswith(_MODULES)],
        "libraries": libraries,
        "container_toolkits": container_toolkits(host),
    }


def nvidia_driver(host: Host, libraries: Json, tool_version: str | None) -> Json:
    """The loaded module's version, the user-space library's, and whether the module is the open one."""
    banner = host.read("/proc/driver/nvidia/version") or ""
    match = re.search(r"Kernel Module\s+(?:for \S+\s+)?(\d+(?:\.\d+)+)", banner)
    loaded = match.group(1) if match else host.read("/sys/module/nvidia/version")
    library = next(iter(libraries["paths"].get("libnvidia-ml.so.1", [])), None)
    target = host.link_name(library) if library else None
    library_version = re.search(r"\.so\.(\d+\.\d+[\d.]*)$", target or "")
    return {
        "module": loaded,
        "library": library_version.group(1) if library_version else tool_version,
        "open": "Open Kernel Module" in banner if banner else None,
    }


def cuda(host: Host, driver_supports: str | None) -> Json:
    """CUDA of the driver (what images need) and of a toolkit on the host (what nobody needs to serve)."""
    match = re.search(r"release (\d+\.\d+)", host.run("nvcc", "--version").stdout)
    toolkit = match.group(1) if match else _cuda_version_file(host)
    return {
        "driver_supports": driver_supports,
        "toolkit": toolkit,
        **minimum(driver_supports or toolkit, MINIMUM_CUDA),
    }


def _cuda_version_file(host: Host) -> str | None:
    try:
        version = json.loads(host.read("/usr/local/cuda/version.json") or "{}").get("cuda", {}).get("version")
    except ValueError:
        return None
    return str(version) if version else None


def rocm(host: Host) -> Json:
    """AMD's own installation first, then the distribution's packages."""
    version = host.read("/opt/rocm/.info/version")
    source = "AMD" if version else None
    if version is None:
        package = host.run("dpkg-query", "--show", "--showformat=${Version}", "rocminfo")
        if package.status != 0:
            package = host.run("rpm", "--query", "--queryformat=%{VERSION}", "rocminfo")
        version = package.stdout.strip() if package.status == 0 else None
        source = "distribution" if version else None
    return {"version": version, "source": source, **minimum(version, MINIMUM_ROCM)}


def minimum(version: str | None, at_least: str) -> Json:
    """Whether a version is new enough; None without one."""
    found, wanted = cells.version_tuple(version), cells.version_tuple(at_least)
    return {"minimum": at_least, "meets_minimum": None if found is None or wanted is None else found >= wanted}


def loader_order(host: Host) -> Json:
    """Paths of each library in the loader's order (`ldconfig -p`), and those with more than one: the first wins."""
    paths: dict[str, list[str]] = {}
    wanted = {name for names in LIBRARIES.values() for name in names}
    for line in host.run("ldconfig", "-p").stdout.splitlines():
        match = re.match(r"\s*(\S+) \(.*\) => (\S+)", line)
        if match is None or "x32" in line or "i386" in line:
            continue
        name, path = match.groups()
        # ROCm raises the major version of some libraries with every release.
        plain = name if name in wanted else re.sub(r"\.so\.\d+$", ".so", name)
        if plain in wanted and path not in paths.setdefault(plain, []):
            paths[plain].append(path)
    shadowed = {
        name: found[1:] for name, found in paths.items() if len({path.rpartition("/")[0] for path in found}) > 1
    }
    return {"paths": paths, "shadowed": shadowed}


def container_toolkits(host: Host) -> Json:
    """What gives containers their GPUs: NVIDIA's and AMD's toolkit, and the CDI files they wrote."""
    versions = {}
    for vendor, tool in (("nvidia", "nvidia-ctk"), ("amd", "amd-ctk")):
        match = re.search(r"(\d+\.\d+\.\d+)", host.run(tool, "--version").stdout)
        versions[vendor] = match.group(1) if match else None
    cdi = [f"{place}/{name}" for place in ("/etc/cdi", "/var/run/cdi") for name in host.names(place)]
    return {**versions, "cdi_files": cdi}
