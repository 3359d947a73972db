"""What the boot loader will read, on recorded files; and which boot loader that is."""

from pathlib import Path

import pytest
from ansible_collections.bimetal.cluster.plugins.module_utils import grubby
from ansible_collections.bimetal.cluster.plugins.modules import boot_entries as entries
from ansible_collections.bimetal.cluster.plugins.modules import boot_loader

GRUB_CFG = r"""
linux /not/in/a/section
### BEGIN /etc/grub.d/10_linux ###
function gfxmode { set gfxpayload="${1}"; }
menuentry 'Debian GNU/Linux' --class debian $menuentry_id_option 'gnulinux-simple-1' {
	insmod gzio
	linux	/boot/vmlinuz-6.1.0-2-amd64 root=UUID=1 ro console=tty0 pcie_aspm=off iommu=pt quiet
	initrd	/boot/initrd.img-6.1.0-2-amd64
}
submenu 'Advanced options for Debian GNU/Linux' $menuentry_id_option 'gnulinux-advanced-1' {
	menuentry 'Debian GNU/Linux, with Linux 6.1.0-1-amd64' --class debian {
		linux	/boot/vmlinuz-6.1.0-1-amd64 root=UUID=1 ro console=tty0 pcie_aspm=off quiet
	}
	menuentry 'Debian GNU/Linux, with Linux 6.1.0-1-amd64 (recovery mode)' --class debian {
		linux	/boot/vmlinuz-6.1.0-1-amd64 root=UUID=1 ro single console=tty0
	}
}
### END /etc/grub.d/10_linux ###
### BEGIN /etc/grub.d/30_os-prober ###
menuentry 'Fedora Linux 41' {
	linux /vmlinuz-6.11 root=UUID=2 ro
}
### END /etc/grub.d/30_os-prober ###
"""

# Recorded form of `grubby --info=ALL` on EL 9 (two kernels and the rescue entry).
GRUBBY_INFO = """\
index=0
kernel="/boot/vmlinuz-5.14.0-362.8.1.el9_3.x86_64"
args="ro crashkernel=1G-4G:192M,4G-64G:256M,64G-:512M rd.lvm.lv=rl/root $tuned_params"
root="/dev/mapper/rl-root"
initrd="/boot/initramfs-5.14.0-362.8.1.el9_3.x86_64.img $tuned_initrd"
title="Rocky Linux (5.14.0-362.8.1.el9_3.x86_64) 9.3 (Blue Onyx)"
id="0123456789abcdef0123456789abcdef-5.14.0-362.8.1.el9_3.x86_64"
index=1
kernel="/boot/vmlinuz-5.14.0-284.el9.x86_64"
args="ro rd.lvm.lv=rl/root iommu=nopt"
root="/dev/mapper/rl-root"
initrd="/boot/initramfs-5.14.0-284.el9.x86_64.img"
title="Rocky Linux (5.14.0-284.el9.x86_64) 9.2 (Blue Onyx)"
id="0123456789abcdef0123456789abcdef-5.14.0-284.el9.x86_64"
index=2
kernel="/boot/vmlinuz-0-rescue-0123456789abcdef0123456789abcdef"
args="ro rd.lvm.lv=rl/root"
root="/dev/mapper/rl-root"
initrd="/boot/initramfs-0-rescue-0123456789abcdef0123456789abcdef.img"
title="Rocky Linux (0-rescue-0123456789abcdef0123456789abcdef) 9.3 (Blue Onyx)"
id="0123456789abcdef0123456789abcdef-0-rescue"
"""

LOADER_ENTRY = """\
# Boot Loader Specification type#1 entry
title      Debian GNU/Linux 13 (trixie)
version    6.12.0-1-amd64
machine-id 0123
options    root=LABEL=root ro
options    iommu=pt
linux      /0123/6.12.0-1-amd64/linux
"""


def test_grub_cfg_is_read_without_recovery_entries_and_other_systems() -> None:
    found = entries.grub_entries(GRUB_CFG)
    assert list(found) == ["Debian GNU/Linux", "Debian GNU/Linux, with Linux 6.1.0-1-amd64"]
    assert found["Debian GNU/Linux"] == "root=UUID=1 ro console=tty0 pcie_aspm=off iommu=pt quiet"


def test_an_entry_that_lacks_a_parameter_or_still_has_one_is_named() -> None:
    found = entries.wrong(entries.grub_entries(GRUB_CFG), ["pcie_aspm=off", "iommu=pt"], ["console=tty0", "splash"])
    assert found == {
        "Debian GNU/Linux": ["-console=tty0"],
        "Debian GNU/Linux, with Linux 6.1.0-1-amd64": ["iommu=pt", "-console=tty0"],
    }


def test_a_parameter_that_must_be_gone_is_found_by_its_name_too() -> None:
    assert entries.leftover("pcie-aspm=force quiet", ["pcie_aspm", "quiet", "splash"]) == ["pcie_aspm", "quiet"]
    assert entries.leftover("iommu=soft,pt", ["iommu=pt", "iommu=nopt"]) == ["iommu=pt"]


def test_only_this_systems_loader_entries_count_and_all_their_options_lines(tmp_path: Path) -> None:
    (tmp_path / "0123-6.12.0-1-amd64.conf").write_text(LOADER_ENTRY)
    (tmp_path / "renamed.conf").write_text(LOADER_ENTRY.replace("root=LABEL=root", "root=LABEL=copy"))
    (tmp_path / "other.conf").write_text(LOADER_ENTRY.replace("machine-id 0123", "machine-id 4567"))
    (tmp_path / "0123-memtest.conf").write_text("title Memory test\nefi /memtest.efi\n")
    assert entries.loader_entries(tmp_path, "0123") == {
        "0123-6.12.0-1-amd64.conf": "root=LABEL=root ro iommu=pt",
        "renamed.conf": "root=LABEL=copy ro iommu=pt",
    }


def test_grubbys_entries_are_read_with_their_arguments() -> None:
    found = grubby.parse_info(GRUBBY_INFO)
    assert list(found.values())[1:] == ["ro rd.lvm.lv=rl/root iommu=nopt", "ro rd.lvm.lv=rl/root"]


# augeasproviders_grub 95 and sap_install 1081: grub2-mkconfig left the entries of EL >= 9.3 as they were.
def test_all_entries_and_the_kernels_to_come_are_changed_by_grubby() -> None:
    options = grubby.plan(grubby.parse_info(GRUBBY_INFO), ["iommu=pt", "pci=realloc=off"], [])
    assert options == ["--update-kernel=ALL", "--remove-args=iommu=nopt", "--args=iommu=pt pci=realloc=off"]


def test_entries_that_are_as_wanted_need_no_grubby() -> None:
    text = GRUBBY_INFO.replace('args="ro', 'args="ro iommu=pt').replace(" iommu=nopt", "")
    assert grubby.plan(grubby.parse_info(text), ["iommu=pt"], ["quiet"]) == []


def test_an_entry_without_a_kernel_is_no_entry() -> None:
    assert grubby.parse_info('index=0\ntitle="Memory test"\nnon linux entry\n') == {}


def host(root: Path, *paths: str) -> Path:
    """A root with these files; a name that ends in / is a folder."""
    for path in paths:
        if path.endswith("/"):
            (root / path).mkdir(parents=True)
        else:
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).touch()
    return root


GRUB = ("usr/sbin/update-grub", "boot/grub/")
SYSTEMD_BOOT = ("efi/EFI/systemd/systemd-bootx64.efi", "efi/loader/entries/")


@pytest.mark.parametrize(
    ("paths", "name", "boot_root"),
    [
        (GRUB, "grub", None),
        # linutil 1272: systemd-boot hosts have no /etc/default/grub.
        (SYSTEMD_BOOT, "systemd-boot", "/efi"),
        (("boot/efi/loader/loader.conf", "boot/efi/loader/entries/"), "systemd-boot", "/boot/efi"),
        (("usr/sbin/grubby", "boot/loader/entries/"), "grubby", "/boot"),
        ((*GRUB, *SYSTEMD_BOOT), None, "/efi"),
        ((), None, None),
    ],
)
def test_the_boot_loader_is_known_by_its_traces(
    tmp_path: Path, paths: tuple[str, ...], name: str | None, boot_root: str | None
) -> None:
    found = boot_loader.detect(host(tmp_path, *paths))
    assert (found.name, found.boot_root) == (name, boot_root)
    assert bool(found.evidence) == bool(paths)


@pytest.mark.parametrize(
    ("info", "name"), [("systemd-boot 257.13-1~deb13u1", "systemd-boot"), ("GRUB 2.12", "grub"), ("rEFInd", None)]
)
def test_of_two_installed_boot_loaders_the_one_that_started_the_system_counts(
    tmp_path: Path, info: str, name: str | None
) -> None:
    root = host(tmp_path, *GRUB, *SYSTEMD_BOOT, boot_loader.LOADER_INFO)
    (root / boot_loader.LOADER_INFO).write_bytes(b"\x06\0\0\0" + info.encode("utf-16-le"))
    assert boot_loader.detect(root).name == name
