"""Running and installed microcode revisions, on small host trees with the vendors' file formats."""

import lzma
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from ansible_collections.bimetal.cluster.plugins.modules import microcode_info as module

# AMD EPYC 7763: family 0x19, model 1, stepping 1 is CPUID 0x00A00F11.
EPYC = "vendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 1\nstepping\t: 1\nflags\t\t: fpu sse2\n"
EPYC_SIGNATURE, EPYC_ID = 0x00A00F11, 0xA011
# Intel Xeon Platinum 8380: family 6, model 0x6a, stepping 6 is CPUID 0x000606A6.
XEON = "vendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 106\nstepping\t: 6\nflags\t\t: fpu sse2\n"
XEON_SIGNATURE = 0x000606A6

Host = Callable[..., Path]


@pytest.fixture
def host(tmp_path: Path) -> Host:
    """A host's root with this CPU, twice, and the revisions that its kernel shows."""

    def make(cpuinfo: str, *shown: str) -> Path:
        (tmp_path / "proc").mkdir()
        cpus = [f"processor\t: {number}\n{cpuinfo}" for number in range(2)]
        if shown:
            cpus = [f"{text}microcode\t: {shown[number % len(shown)]}\n" for number, text in enumerate(cpus)]
        (tmp_path / "proc/cpuinfo").write_text("\n".join(cpus))
        return tmp_path

    return make


def section(kind: int, content: bytes) -> bytes:
    return struct.pack("<II", kind, len(content)) + content


def amd_container(*patches: tuple[int, int, int]) -> bytes:
    """A container of AMD's form for (CPUID, CPU's id in the patches, revision)."""
    table = b"".join(struct.pack("<IIIHH", signature, 0, 0, own_id, 0) for signature, own_id, _ in patches)
    sections = [
        section(1, struct.pack("<II16xH", 0x20240101, revision, own_id) + b"\xee" * 38)
        for _, own_id, revision in patches
    ]
    return struct.pack("<I", 0x00414D44) + section(0, table + bytes(16)) + b"".join(sections)


def intel_update(revision: int, platforms: int, signature: int = XEON_SIGNATURE) -> bytes:
    """One update of Intel's form, 2048 bytes long as the oldest are."""
    return struct.pack("<9I12x", 1, revision, 0x01012024, signature, 0, 1, platforms, 0, 0).ljust(2048, b"\xee")


def install(root: Path, name: str, data: bytes) -> None:
    path = root / "lib/firmware" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def test_newer_microcode_of_amd_for_exactly_this_cpu_is_pending(host: Host) -> None:
    root = host(EPYC, "0xa001173")
    data = amd_container((EPYC_SIGNATURE, EPYC_ID, 0x0A0011D5), (0x00A00F12, 0xA012, 0x0A001299))
    install(root, "amd-ucode/microcode_amd_fam19h.bin", data)
    info = module.inspect(root)
    assert (info.vendor, info.running, info.installed, info.pending) == ("amd", "0xa001173", "0xa0011d5", True)


def test_several_containers_in_one_file_are_read() -> None:
    data = amd_container((EPYC_SIGNATURE, EPYC_ID, 1)) + amd_container((EPYC_SIGNATURE, 0xB0, 3))
    assert sorted(module.amd_revisions(data, EPYC_SIGNATURE)) == [1, 3]


def test_a_broken_off_container_gives_what_was_whole() -> None:
    data = amd_container((EPYC_SIGNATURE, EPYC_ID, 7))
    assert list(module.amd_revisions(data[:30], EPYC_SIGNATURE)) == []
    assert list(module.amd_revisions(b"", EPYC_SIGNATURE)) == []


def test_compressed_firmware_is_read(host: Host) -> None:
    root = host(EPYC, "0x1")
    install(root, "amd-ucode/microcode_amd_fam19h.bin.xz", lzma.compress(amd_container((EPYC_SIGNATURE, EPYC_ID, 9))))
    assert module.inspect(root).installed == "0x9"


def test_intels_update_for_this_cpu_and_platform_counts(host: Host) -> None:
    root = host(XEON, "0xd000375")
    updates = [intel_update(0xD0003F5, 0x87), intel_update(0xD0004FF, 0x40), intel_update(0xE000000, 0x87, 0x606A5)]
    install(root, "intel-ucode/06-6a-06", b"".join(updates))
    flags = root / "sys/devices/system/cpu/cpu0/microcode/processor_flags"
    flags.parent.mkdir(parents=True)
    flags.write_text("0x1\n")
    info = module.inspect(root)
    assert (info.vendor, info.installed, info.pending) == ("intel", "0xd0003f5", True)


def test_what_runs_already_is_not_pending(host: Host) -> None:
    root = host(EPYC, "0xa0011d5")
    install(root, "amd-ucode/microcode_amd_fam19h.bin", amd_container((EPYC_SIGNATURE, EPYC_ID, 0x0A0011D5)))
    assert module.inspect(root).pending is False


def test_a_firmware_that_brought_newer_microcode_than_the_package_leaves_nothing_pending(host: Host) -> None:
    root = host(EPYC, "0xa0011de")
    install(root, "amd-ucode/microcode_amd_fam19h.bin", amd_container((EPYC_SIGNATURE, EPYC_ID, 0x0A0011D5)))
    assert module.inspect(root).pending is False


def test_one_cpu_with_older_microcode_keeps_the_host_pending(host: Host) -> None:
    root = host(EPYC, "0xa0011d5", "0xa001173")
    install(root, "amd-ucode/microcode_amd_fam19h.bin", amd_container((EPYC_SIGNATURE, EPYC_ID, 0x0A0011D5)))
    info = module.inspect(root)
    assert (info.running, info.mixed, info.pending) == ("0xa001173", True, True)


def test_the_revision_of_sysfs_counts_where_there_is_one(host: Host) -> None:
    root = host(EPYC, "0x1")
    version = root / "sys/devices/system/cpu/cpu0/microcode/version"
    version.parent.mkdir(parents=True)
    version.write_text("0xa001173\n")
    assert module.inspect(root).running == "0xa001173"


@pytest.mark.parametrize("shown", [[], ["0x0"], ["0xffffffff"]])
def test_a_revision_that_is_not_shown_is_null_with_a_reason_and_never_zero(host: Host, shown: list[str]) -> None:
    root = host(EPYC, *shown)
    install(root, "amd-ucode/microcode_amd_fam19h.bin", amd_container((EPYC_SIGNATURE, EPYC_ID, 5)))
    info = module.inspect(root)
    assert (info.running, info.mixed, info.pending) == (None, False, False)
    assert info.reason == "the kernel shows no revision"


def test_a_virtual_machines_revision_is_null_whatever_it_shows(host: Host) -> None:
    root = host(EPYC.replace("fpu", "fpu hypervisor"), "0x1000065")
    install(root, "amd-ucode/microcode_amd_fam19h.bin", amd_container((EPYC_SIGNATURE, EPYC_ID, 0x0A0011D5)))
    info = module.inspect(root)
    assert (info.running, info.pending) == (None, False)
    assert "virtual machine" in str(info.reason)


def test_a_cpu_of_another_vendor_has_none_of_these_packages(host: Host) -> None:
    info = module.inspect(host("processor\t: 0\nBogoMIPS\t: 50.00\nCPU implementer\t: 0x41\n"))
    assert (info.vendor, info.running, info.installed) == (None, None, None)


def test_late_loading_is_possible_where_the_kernel_offers_it(host: Host) -> None:
    root = host(EPYC, "0x1")
    assert module.inspect(root).late_load is False
    reload = root / module.RELOAD
    reload.parent.mkdir(parents=True)
    reload.touch()
    assert module.inspect(root).late_load is True
