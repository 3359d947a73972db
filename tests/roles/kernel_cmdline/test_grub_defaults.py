"""/etc/default/grub in every quoting; a real shell is the judge of what a file says."""

import shlex
import subprocess
from pathlib import Path

import pytest
from ansible_collections.bimetal.cluster.plugins.module_utils import grub_defaults as grub
from hypothesis import given
from hypothesis import strategies as st

WANTED = ["pcie_aspm=off", "iommu=pt", "pci=realloc=off"]
MARKER = "# Ours."

# One value, `console=tty0 pcie_aspm=force x="a b"`, as different people write it.
STYLES = [
    'GRUB_CMDLINE_LINUX="console=tty0 pcie_aspm=force x=\\"a b\\""',
    "GRUB_CMDLINE_LINUX='console=tty0 pcie_aspm=force x=\"a b\"'",
    'GRUB_CMDLINE_LINUX=console=tty0\\ pcie_aspm=force\\ x=\\"a\\ b\\"',
    'export GRUB_CMDLINE_LINUX="console=tty0 "pcie_aspm=force\' x="a b"\'  # with a comment',
    'GRUB_CMDLINE_LINUX="console=tty0 \\\npcie_aspm=force x=\\"a b\\""',
    'GRUB_CMDLINE_LINUX="console=tty0"\nGRUB_CMDLINE_LINUX+=\' pcie_aspm=force x="a b"\'',
    'EXTRA=\'x="a b"\'; GRUB_CMDLINE_LINUX="console=tty0 pcie_aspm=force $EXTRA"',
    'GRUB_CMDLINE_LINUX=console=tty0\nGRUB_CMDLINE_LINUX="${GRUB_CMDLINE_LINUX} pcie_aspm=force x=\\"a b\\""',
]


def shell_says(*texts: str | None) -> str:
    """What grub-mkconfig gives a kernel: a shell sources the files in order."""
    script = "\n".join(
        [*(text or "" for text in texts), 'printf "%s %s" "$GRUB_CMDLINE_LINUX" "$GRUB_CMDLINE_LINUX_DEFAULT"']
    )
    return subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True, env={}).stdout


@pytest.mark.parametrize("style", STYLES)
def test_every_quoting_is_read_as_a_shell_reads_it(style: str) -> None:
    assert grub.command_line([style]) == shell_says(style) == 'console=tty0 pcie_aspm=force x="a b" '


@pytest.mark.parametrize("value", [r'"a\b \$c \\ \`d\`"', r"'a\b $c'", r"a\b\$c", r'"a\"b"'])
def test_every_escape_is_read_as_a_shell_reads_it(value: str) -> None:
    text = f"GRUB_CMDLINE_LINUX={value}"
    assert grub.command_line([text]) == shell_says(text)


@pytest.mark.parametrize("style", STYLES)
def test_what_contradicts_is_cut_out_of_every_quoting(style: str) -> None:
    edited = grub.without_obsolete(style, WANTED)
    assert shell_says(edited).split() == ["console=tty0", 'x="a', 'b"']
    assert edited.count('"') == style.count('"')
    assert grub.without_obsolete(edited, WANTED) == edited


@given(
    value=st.lists(st.sampled_from(["quiet", "pcie_aspm=force", "pci=a,realloc=on", 'x="$HOME `id`"', "it's"])).map(
        " ".join
    ),
    tail=st.sampled_from(["", " # a comment with 'quotes\"", "; GRUB_TIMEOUT=5", "\nGRUB_DEFAULT=0\n"]),
)
def test_any_value_in_any_shell_quoting_is_read_as_a_shell_reads_it(value: str, tail: str) -> None:
    text = f"GRUB_CMDLINE_LINUX={shlex.quote(value)}{tail}"
    assert grub.command_line([text]) == shell_says(text) == f"{value} "
    assert "pcie_aspm=force" not in shell_says(grub.without_obsolete(text, WANTED))


# stackhpc linux 18: without a GRUB_CMDLINE line the result was a literal None.
def test_without_any_line_the_drop_in_alone_makes_the_value() -> None:
    text = "GRUB_DEFAULT=0\n"
    assert grub.without_obsolete(text, WANTED) == text
    own = grub.drop_in([text], WANTED, MARKER)
    assert shell_says(text, own) == "pcie_aspm=off iommu=pt pci=realloc=off "


def test_the_drop_in_adds_to_what_the_other_files_say_now_and_later() -> None:
    own = grub.drop_in(["GRUB_CMDLINE_LINUX=quiet"], ["iommu=pt"], MARKER)
    assert shell_says("GRUB_CMDLINE_LINUX=quiet", own) == "quiet iommu=pt "
    assert shell_says("GRUB_CMDLINE_LINUX=verbose", own) == "verbose iommu=pt "


def test_a_parameter_that_the_user_has_set_is_not_set_twice() -> None:
    texts = ['GRUB_CMDLINE_LINUX_DEFAULT="quiet iommu=pt"']
    assert grub.drop_in(texts, ["iommu=pt"], MARKER) is None
    own = grub.drop_in(texts, WANTED, MARKER)
    assert shell_says(*texts, own).split().count("iommu=pt") == 1


def test_a_drop_in_with_characters_of_the_shell_says_them_literally() -> None:
    parameter = 'dyndbg="file $HOME `id` +p"'
    assert shell_says(grub.drop_in([], [parameter], MARKER)) == f"{parameter} "


@pytest.mark.parametrize(
    "text",
    [
        'GRUB_CMDLINE_LINUX="$(cat /etc/pcie_aspm=force) quiet"',
        'GRUB_CMDLINE_LINUX="`echo pcie_aspm=force`"',
        'GRUB_CMDLINE_LINUX="pcie_aspm=$(cat /etc/mode) quiet"',
        'GRUB_CMDLINE_LINUX="${UNSET:-pcie_aspm=force}"',
        "# GRUB_CMDLINE_LINUX=pcie_aspm=force",
        "GRUB_DISTRIBUTOR=`echo GRUB_CMDLINE_LINUX=pcie_aspm=force`",
        "echo GRUB_CMDLINE_LINUX=pcie_aspm=force",
        'OTHER="pcie_aspm=force"',
        "GRUB_CMDLINE_LINUX_RECOVERY=pcie_aspm=force",
    ],
)
def test_what_the_file_does_not_itself_give_a_kernel_is_left_alone(text: str) -> None:
    assert grub.without_obsolete(text, WANTED) == text


def test_debians_own_file_is_read() -> None:
    text = (
        "GRUB_DEFAULT=0\nGRUB_TIMEOUT=5\nGRUB_DISTRIBUTOR=`( . /etc/os-release && echo ${NAME} )`\n"
        'GRUB_CMDLINE_LINUX_DEFAULT="quiet"\nGRUB_CMDLINE_LINUX=""\n\n#GRUB_BADRAM="0x01234567,0xfefefefe"\n'
    )
    assert [found.variable for found in grub.assignments(text)] == [
        "GRUB_DEFAULT",
        "GRUB_TIMEOUT",
        "GRUB_DISTRIBUTOR",
        "GRUB_CMDLINE_LINUX_DEFAULT",
        "GRUB_CMDLINE_LINUX",
    ]
    assert grub.command_line([text]) == " quiet"


class TestFiles:
    """The plan that the module makes of a host's files."""

    @pytest.fixture
    def defaults(self, tmp_path: Path) -> Path:
        (tmp_path / "grub.d").mkdir()
        return tmp_path / "grub"

    def test_drop_ins_are_read_in_order_after_the_file_and_our_own_is_not(self, defaults: Path) -> None:
        defaults.write_text("")
        own = defaults.parent / "grub.d/zz.cfg"
        for name in ("50-b.cfg", "10-a.cfg", "zz.cfg", "notes.txt"):
            (defaults.parent / "grub.d" / name).write_text("")
        assert [path.name for path in grub.sources(defaults, own)] == ["grub", "10-a.cfg", "50-b.cfg"]

    def test_a_host_without_the_file_gets_the_drop_in_only(self, defaults: Path) -> None:
        own = defaults.parent / "grub.d/zz.cfg"
        [(path, text)] = grub.plan(defaults, own, ["iommu=pt"], [])
        assert path == own
        assert shell_says(text) == "iommu=pt "

    def test_a_drop_in_that_is_not_needed_is_removed(self, defaults: Path) -> None:
        defaults.write_text("GRUB_CMDLINE_LINUX=iommu=pt\n")
        own = defaults.parent / "grub.d/zz.cfg"
        assert grub.plan(defaults, own, ["iommu=pt"], [])[-1] == (own, None)

    # gpu-operator (ROCm) 93: a tool took the user's own file of its name for its own.
    def test_a_file_of_our_name_that_we_did_not_write_is_foreign(self, tmp_path: Path) -> None:
        own = tmp_path / "zz.cfg"
        assert not grub.foreign(own)
        own.write_text("GRUB_TIMEOUT=1\n")
        assert grub.foreign(own)
        own.write_text(f"{grub.MARKER}\nGRUB_CMDLINE_LINUX=x\n")
        assert not grub.foreign(own)
