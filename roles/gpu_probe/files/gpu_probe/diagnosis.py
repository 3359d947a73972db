"""Why a vendor's tool cannot talk to its driver: "NVIDIA-SMI has failed because it couldn't communicate…"

Pure: facts in, causes out. Several can hold at once, and each comes with its next step.
"""

from __future__ import annotations

from dataclasses import dataclass

from .finding import FAIL, OK, WARN, Finding
from .reading import Json

_LAYER = "software"


@dataclass(frozen=True)
class DriverFacts:
    """What is known of one vendor's driver on a host that has a GPU of that vendor."""

    vendor: str
    module: str
    bound_drivers: tuple[str | None, ...]
    module_loaded: bool
    module_file: str | None
    dkms: tuple[Json, ...]
    kernel: str | None
    headers: bool
    secure_boot: bool | None
    refused_module_lines: tuple[str, ...]
    module_version: str | None = None
    library_version: str | None = None
    device_node: bool = True


def causes(facts: DriverFacts) -> list[Finding]:
    """Every cause that the facts show; one "ok" when there is none."""
    found = [*_taken_by_another(facts)]
    if not facts.module_loaded:
        found.append(_not_loaded(facts))
    elif facts.vendor == "nvidia":
        found += _nvidia_versions(facts)
    elif not facts.device_node:
        found.append(
            _fail(
                "driver_kfd_missing",
                facts,
                "amdgpu is loaded and /dev/kfd is not there: ROCm has nothing to open",
                "Look at `dmesg | grep -i kfd`: an unsupported GPU, PCIe atomics, or amdgpu.noretry are named there.",
            )
        )
    return found or [Finding(_LAYER, "driver", OK, facts.vendor, f"{facts.module} is loaded and its parts agree")]


def _fail(check: str, facts: DriverFacts, message: str, next_step: str) -> Finding:
    return Finding(_LAYER, check, FAIL, facts.vendor, message, next_step)


def _taken_by_another(facts: DriverFacts) -> list[Finding]:
    found = []
    if "nouveau" in facts.bound_drivers:
        found.append(
            _fail(
                "driver_nouveau_loaded",
                facts,
                "nouveau holds the GPU, and the nvidia module cannot have it",
                "Run role nvidia_driver (it blacklists nouveau and rebuilds the initramfs), then reboot.",
            )
        )
    if "vfio-pci" in facts.bound_drivers:
        found.append(
            Finding(
                _LAYER,
                "driver_vfio",
                WARN,
                facts.vendor,
                "vfio-pci holds a GPU: it is set aside for a virtual machine",
                "Leave it, or remove its id from vfio-pci's options and reboot.",
            )
        )
    return found


def _not_loaded(facts: DriverFacts) -> Finding:
    if facts.module_file is None:
        return _not_built(facts)
    if facts.refused_module_lines:
        return _fail(
            "driver_signature_refused",
            facts,
            f"the kernel refused the module's signature: {facts.refused_module_lines[-1]}"
            + (" (Secure Boot is on)" if facts.secure_boot else ""),
            "Enroll the key that signs it: `mokutil --import` with DKMS's mok.pub, reboot, and confirm at the console; "
            "or turn Secure Boot off in the firmware.",
        )
    return _fail(
        "driver_module_not_loaded",
        facts,
        f"{facts.module_file} is there for kernel {facts.kernel} and is not loaded",
        f"Run `modprobe {facts.module}`: it says why. "
        + ("Secure Boot is on: `mokutil --list-enrolled` must have the signing key." if facts.secure_boot else "")
        + f" Look for 'blacklist {facts.module}' in `modprobe --showconfig`.",
    )


def _not_built(facts: DriverFacts) -> Finding:
    if not facts.dkms:
        return _fail(
            "driver_module_missing",
            facts,
            f"kernel {facts.kernel} has no module {facts.module}",
            f"Run role {'nvidia_driver' if facts.vendor == 'nvidia' else 'rocm'}.",
        )
    sources = ", ".join(f"{entry['module']}/{entry['version']}" for entry in facts.dkms[:1])
    built = sorted({entry["kernel"] for entry in facts.dkms if entry["kernel"] and entry["state"] == "installed"})
    first = "" if facts.headers else f"Install the headers of kernel {facts.kernel} first. "
    return _fail(
        "driver_dkms_not_built",
        facts,
        f"DKMS has {sources} built for {', '.join(built) or 'no kernel'}, and the running one is {facts.kernel}"
        + ("" if facts.headers else ", whose headers are missing"),
        f"{first}Run `dkms autoinstall -k {facts.kernel}`; its make.log names what does not compile.",
    )


def _nvidia_versions(facts: DriverFacts) -> list[Finding]:
    if facts.library_version is None:
        return [
            _fail(
                "driver_library_missing",
                facts,
                f"the module is loaded ({facts.module_version}) and libnvidia-ml.so.1 is not to be found",
                "Install the driver's libraries of the same version with role nvidia_driver, then run `ldconfig`.",
            )
        ]
    if facts.module_version is not None and facts.library_version != facts.module_version:
        return [
            _fail(
                "driver_version_mismatch",
                facts,
                f"the loaded module is {facts.module_version} and the library is {facts.library_version}: "
                "the packages were upgraded under a running module",
                "Drain the host and reboot; or stop every user of the GPU, unload the nvidia modules, and load them.",
            )
        ]
    return []
