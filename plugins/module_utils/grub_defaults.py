"""Reads and edits shell assignments in /etc/default/grub and its drop-ins, in whatever quoting they use.

Standard library only; it reads the host's files and changes none. grub-mkconfig sources these files with a shell (its
10_linux puts GRUB_CMDLINE_LINUX before GRUB_CMDLINE_LINUX_DEFAULT), so a value may be bare, in single or double quotes,
in several pieces, appended to with += or built of other variables, and it may not be there at all.
An edit takes characters out and puts none in: quotes, comments and everything else stay as they were.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ansible_collections.bimetal.cluster.plugins.module_utils.config_file import read
from ansible_collections.bimetal.cluster.plugins.module_utils.kernel_cmdline import Span, cut, missing, obsolete_spans

MARKER = "# Managed by Ansible (bimetal, role kernel_cmdline): change the inventory, not this file."
VARIABLES = ("GRUB_CMDLINE_LINUX", "GRUB_CMDLINE_LINUX_DEFAULT")
# Stands for an expansion whose result cannot be known from the file; no parameter contains it.
OPAQUE = "\0"

_ASSIGNMENT = re.compile(r"(?:export[ \t]+)?([A-Za-z_][A-Za-z0-9_]*)(\+?)=")
_EXPANSION = re.compile(r"\$(?:([A-Za-z_][A-Za-z0-9_]*)|\{([A-Za-z_][A-Za-z0-9_]*)\})")
_WORD_END = frozenset(" \t\n;&|<>()")


@dataclass(frozen=True)
class Unit:
    """One character of a value, or one expansion in it, with its range in the file's text."""

    text: str
    start: int
    end: int
    variable: str | None = None


@dataclass(frozen=True)
class Assignment:
    """One `NAME=value` or `NAME+=value`."""

    variable: str
    appends: bool
    units: tuple[Unit, ...]

    def value(self, environment: Mapping[str, str]) -> str:
        """The value in a shell with these variables."""
        return "".join(environment.get(unit.variable, "") if unit.variable else unit.text for unit in self.units)


def assignments(text: str) -> list[Assignment]:
    """All assignments that stand at the start of a command, in order."""
    found: list[Assignment] = []
    position = 0
    while position < len(text):
        position = _skip_blanks_and_comments(text, position)
        match = _ASSIGNMENT.match(text, position)
        if match:
            units, position = _word(text, match.end())
            found.append(Assignment(match[1], match[2] == "+", tuple(units)))
        else:
            position = _end_of_command(text, position)
    return found


def _skip_blanks_and_comments(text: str, position: int) -> int:
    while position < len(text) and (text[position] in " \t\n;" or text[position] == "#"):
        if text[position] == "#":
            newline = text.find("\n", position)
            position = len(text) if newline < 0 else newline
        else:
            position += 1
    return position


def _end_of_command(text: str, position: int) -> int:
    """Past the words up to the next newline or `;` that no quote holds."""
    while position < len(text) and text[position] not in "\n;":
        _, after = _word(text, position)
        position = max(after, position + 1)
    return position


def _word(text: str, position: int) -> tuple[list[Unit], int]:
    """The units of the shell word at `position`, and where it ends."""
    units: list[Unit] = []
    quote = ""
    while position < len(text):
        character = text[position]
        if not quote and character in _WORD_END:
            break
        if character == quote:
            quote = ""
            position += 1
        elif not quote and character in "'\"":
            quote = character
            position += 1
        elif quote != "'" and character in "\\$`":
            unit = _special(text, position, in_quotes=bool(quote))
            if unit.text:
                units.append(unit)
            position = unit.end
        else:
            units.append(Unit(character, position, position + 1))
            position += 1
    return units, position


def _special(text: str, position: int, *, in_quotes: bool) -> Unit:
    """The escape or expansion at `position`; empty text for an escaped newline."""
    if text[position] == "\\":
        escaped = text[position + 1 : position + 2]
        if escaped == "\n":
            return Unit("", position, position + 2)
        if in_quotes and escaped not in {'"', "\\", "$", "`"}:
            return Unit("\\", position, position + 1)
        return Unit(escaped or "\\", position, position + 1 + len(escaped))
    match = _EXPANSION.match(text, position)
    if match:
        return Unit(OPAQUE, position, match.end(), variable=match[1] or match[2])
    return Unit(OPAQUE, position, _end_of_opaque(text, position))


def _end_of_opaque(text: str, position: int) -> int:
    """Past a command substitution or an expansion with operators."""
    if text[position] == "`":
        closing = text.find("`", position + 1)
        return len(text) if closing < 0 else closing + 1
    opening = text[position + 1 : position + 2]
    if opening not in {"(", "{"}:
        return position + 1
    closer, depth = {"(": ")", "{": "}"}[opening], 0
    for index in range(position + 1, len(text)):
        depth += (text[index] == opening) - (text[index] == closer)
        if depth == 0:
            return index + 1
    return len(text)


def words(assignment: Assignment) -> list[tuple[Unit, ...]]:
    """The value's words, split as the kernel splits them."""
    found: list[tuple[Unit, ...]] = []
    word: list[Unit] = []
    quoted = False
    for unit in assignment.units:
        if unit.text == '"':
            quoted = not quoted
        if unit.text.isspace() and not quoted:
            found.append(tuple(word))
            word = []
        else:
            word.append(unit)
    return [word for word in [*found, tuple(word)] if word]


def without_obsolete(text: str, wanted: Sequence[str], absent: Sequence[str] = ()) -> str:
    """The file without what contradicts `wanted` or is named by `absent`.

    A word that an expansion takes part in stays: the file does not say what it is.
    """
    ranges: list[Span] = []
    for assignment in assignments(text):
        if assignment.variable in VARIABLES:
            for word in words(assignment):
                ranges += _ranges_to_cut(assignment, word, wanted, absent)
    return cut(text, ranges)


def _ranges_to_cut(
    assignment: Assignment, word: tuple[Unit, ...], wanted: Sequence[str], absent: Sequence[str]
) -> list[Span]:
    spelled = "".join(unit.text for unit in word)
    if OPAQUE in spelled:
        return []
    spans = obsolete_spans(spelled, wanted, absent)
    ranges = [(unit.start, unit.end) for start, end in spans for unit in word[start:end]]
    if spans == [(0, len(spelled))]:  # with one of the spaces around it
        first, last = assignment.units.index(word[0]), assignment.units.index(word[-1])
        neighbours = assignment.units[last + 1 : last + 2] or assignment.units[max(first - 1, 0) : first]
        ranges += [(unit.start, unit.end) for unit in neighbours]
    return ranges


def command_line(texts: Sequence[str]) -> str:
    """The parameters that grub-mkconfig gives a kernel after sourcing these files in order."""
    environment: dict[str, str] = {}
    for text in texts:
        for assignment in assignments(text):
            before = environment.get(assignment.variable, "") if assignment.appends else ""
            environment[assignment.variable] = before + assignment.value(environment)
    return " ".join(environment.get(variable, "") for variable in VARIABLES)


def drop_in(texts: Sequence[str], wanted: Sequence[str], marker: str) -> str | None:
    """A file that adds what `wanted` has and the files before it lack; None where they lack nothing.

    It refers to the variable instead of repeating its value, so a later edit of the other files counts.
    """
    lacking = missing(command_line(texts), wanted)
    if not lacking:
        return None
    added = re.sub(r'([\\"$`])', r"\\\1", " ".join(lacking))
    return f'{marker}\nGRUB_CMDLINE_LINUX="${{GRUB_CMDLINE_LINUX:+$GRUB_CMDLINE_LINUX }}{added}"\n'


def sources(defaults_file: Path, own: Path) -> list[Path]:
    """The files that grub-mkconfig sources before our drop-in, in its order."""
    drop_ins = sorted(path for path in own.parent.glob("*.cfg") if path != own)
    return [path for path in [defaults_file, *drop_ins] if path.is_file()]


def plan(defaults_file: Path, own: Path, wanted: Sequence[str], absent: Sequence[str]) -> list[tuple[Path, str | None]]:
    """The text that every file should have; None for a drop-in that is not needed.

    What is added stands in a drop-in of our own. What contradicts it is cut out of the files where it stands, because
    a kernel given two values of one parameter is a riddle for whoever reads it.
    """
    files = sources(defaults_file, own)
    edited = [without_obsolete(path.read_text(), wanted, absent) for path in files]
    return [*zip(files, edited, strict=True), (own, drop_in(edited, wanted, MARKER))]


def foreign(own: Path) -> bool:
    """Whether somebody else wrote a file of our drop-in's name."""
    text = read(own)
    return text is not None and not text.startswith(MARKER)
