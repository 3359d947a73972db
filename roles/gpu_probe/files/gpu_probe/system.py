"""What the operating system does to the GPUs: compute nodes, daemons, power saving, address translation, boot trust."""

from __future__ import annotations

import re

from . import kernel, kfd
from .host import Host
from .reading import Json

_SECURE_BOOT = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
# An EFI variable file begins with four bytes of attributes.
_EFI_ATTRIBUTES = 4


def read(host: Host) -> Json:
    """The layer's object."""
    return {
        "kernel": kernel.release(host),
        "command_line": kernel.command_line(host),
        "boot_id": host.read("/proc/sys/kernel/random/boot_id"),
        "kernel_headers": kernel.headers_installed(host),
        "kfd": {
            "device": host.exists("/dev/kfd"),
            "gpu_nodes": [
                {"node": node.number, "pci_address": node.pci_address, "architecture": node.gfx}
                for node in kfd.gpu_nodes(host)
            ],
        },
        "nvidia_persistenced": service(host, "nvidia-persistenced"),
        "nvidia_fabricmanager": service(host, "nvidia-fabricmanager"),
        "aspm": aspm(host),
        "iommu": iommu(host),
        "numa_nodes": len([name for name in host.names("/sys/devices/system/node") if re.match(r"node\d+$", name)]),
        "secure_boot": secure_boot(host),
    }


def service(host: Host, name: str) -> Json:
    """`enabled` (enabled, disabled, masked, static, …) and `active` in systemd's words; None without the unit."""
    enabled = host.run("systemctl", "is-enabled", f"{name}.service").stdout.strip()
    if not enabled or enabled == "not-found":
        return {"enabled": None, "active": None}
    active = host.run("systemctl", "is-active", f"{name}.service").stdout.strip()
    return {"enabled": enabled, "active": active or None}


def aspm(host: Host) -> Json:
    """PCIe power saving. `off` is True when no link may sleep, None when the kernel does not tell."""
    policy = re.search(r"\[(\w+)\]", host.read("/sys/module/pcie_aspm/parameters/policy") or "")
    name = policy.group(1) if policy else None
    parameter = kernel.parameter(host, "pcie_aspm")
    off = True if parameter == "off" or name == "performance" else None if name is None else False
    return {"policy": name, "parameter": parameter, "off": off}


def iommu(host: Host) -> Json:
    """Address translation. A kernel can be built with pass-through as its default: the parameter is then not needed."""
    parameters = {name: kernel.parameter(host, name) for name in ("iommu", "amd_iommu", "intel_iommu")}
    enabled = bool(host.names("/sys/class/iommu"))
    passthrough = parameters["iommu"] == "pt" or kernel.parameter(host, "iommu.passthrough") == "1"
    built_in = kernel.built_with(host, "IOMMU_DEFAULT_PASSTHROUGH")
    return {
        "enabled": enabled,
        "passthrough": (passthrough or bool(built_in)) if enabled else None,
        "passthrough_by": "parameter" if passthrough else "kernel configuration" if built_in else None,
        "parameters": parameters,
    }


def secure_boot(host: Host) -> Json:
    """`enabled` is None where the firmware's variable cannot be read; without EFI there is no Secure Boot."""
    efi = host.exists("/sys/firmware/efi")
    content = host.read_bytes(_SECURE_BOOT)
    enabled = (len(content) > _EFI_ATTRIBUTES and content[_EFI_ATTRIBUTES] == 1) if content else None
    lockdown = re.search(r"\[(\w+)\]", host.read("/sys/kernel/security/lockdown") or "")
    return {
        "efi": efi,
        "enabled": enabled if efi else False,
        "lockdown": lockdown.group(1) if lockdown else None,
    }
