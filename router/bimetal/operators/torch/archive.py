"""The members of a PyTorch archive, and the code in it: a zip file from a stranger.

Every size is bounded before and while it is read, no member is unpacked to disk, and nothing in it is run: TorchScript
writes its code as Python, of which only the syntax tree is made here.
"""

import ast
import lzma
import re
import struct
import warnings
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from bimetal.operators.errors import ModelFileError

DIRECTORY_LIMIT = 16 * 2**20  # bytes of zip directory: about 100,000 members
MEMBER_LIMIT = 64 * 2**20  # bytes of one member once unpacked
TOTAL_LIMIT = 256 * 2**20  # bytes of all members read
SAVE_AGAIN = "Save the model again with torch.export.save or torch.jit.save."

# What zipfile lets through when a file lies about itself (found by flipping bytes).
_DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    struct.error,
    NotImplementedError,
    RuntimeError,
    EOFError,
    ValueError,
    OverflowError,
)


def is_zip(file: Path) -> bool:
    """Whether the file starts as a zip does; False when it cannot be read."""
    try:
        with file.open("rb") as stream:
            return stream.read(4) == b"PK\x03\x04"
    except OSError:
        return False


@contextmanager
def open_archive(file: Path) -> Iterator["Members"]:
    """The members of an archive, for as long as it is open.

    Raises:
        ModelFileError: the file cannot be read, is damaged, or is larger than the limits.
    """
    try:
        with file.open("rb") as stream:
            _check_directory(file, stream)
            with zipfile.ZipFile(stream) as archive:
                yield Members(file, archive)
    except OSError as exc:
        raise ModelFileError(f"{file} cannot be read: {exc.strerror}.", "Check the path and its permissions.") from exc
    except ModelFileError:
        raise
    except _DAMAGE as exc:
        raise ModelFileError(f"{file} is a damaged zip file ({exc}).", SAVE_AGAIN) from exc


class Members:
    """The members of an archive without their root folder; reading them counts against the total."""

    def __init__(self, file: Path, archive: zipfile.ZipFile) -> None:
        self._file = file
        self._archive = archive
        self._left = TOTAL_LIMIT
        self._by_name = {info.filename.partition("/")[2] or info.filename: info for info in archive.infolist()}

    def matching(self, pattern: str) -> list[str]:
        """Names of members that the pattern (a regular expression) fits as a whole, sorted."""
        return sorted(name for name in self._by_name if re.fullmatch(pattern, name))

    def __contains__(self, name: str) -> bool:
        return name in self._by_name

    def read(self, name: str, at_most: int = 0) -> bytes:
        """A member's content; `at_most` bytes where a smaller limit than MEMBER_LIMIT holds for it."""
        info = self._by_name[name]
        limit = min(at_most or MEMBER_LIMIT, self._left)
        if info.file_size > limit:
            raise ModelFileError(
                f"{self._file}: member {name!r} unpacks to more than {limit:,} bytes.", "Do not trust this file."
            )
        with self._archive.open(info) as stream:
            # Read with a size: without one, zipfile unpacks all there is before it looks at what was declared.
            content = stream.read(info.file_size)
        self._left -= len(content)
        return content


def _check_directory(file: Path, stream: BinaryIO) -> None:
    """Refuses a zip whose directory alone would not fit: Python reads it as a whole."""
    size = stream.seek(0, 2)
    stream.seek(max(0, size - 2**16 - 22))
    tail = stream.read()
    stream.seek(0)
    end = tail.rfind(b"PK\x05\x06")
    if end < 0 or len(tail) - end < 22:
        raise ModelFileError(f"{file} is a zip file without its end; it was cut short.", "Copy the file again.")
    (length,) = struct.unpack_from("<L", tail, end + 12)
    if length == 0xFFFFFFFF:
        length = _zip64_directory(stream, tail, end)
    if length > DIRECTORY_LIMIT:
        raise ModelFileError(
            f"{file}: the zip directory has {length:,} bytes; at most {DIRECTORY_LIMIT:,} are read.",
            "Do not trust this file.",
        )


def _zip64_directory(stream: BinaryIO, tail: bytes, end: int) -> int:
    """The directory's length as the 64-bit end record has it (APPNOTE 4.3.14 and 4.3.15)."""
    (position,) = struct.unpack_from("<Q", tail, max(0, end - 20) + 8)
    stream.seek(min(position, 2**62))
    record = stream.read(56)
    stream.seek(0)
    return int(struct.unpack_from("<Q", record, 40)[0])


CODE_LIMIT = 8 * 2**20  # bytes of code of one archive; a syntax tree takes about fifty times as much memory


@dataclass
class ClassCode:
    """Methods by name, and the attributes that the class itself holds."""

    methods: dict[str, ast.FunctionDef] = field(default_factory=dict)
    constants: dict[str, Any] = field(default_factory=dict)
    fields: list[str] = field(default_factory=list)


class Code:
    """Parses a file of the archive when something in it is first asked for."""

    def __init__(self, file: str, members: Members) -> None:
        self._file = file
        self._members = members
        self._left = CODE_LIMIT
        self._functions: dict[str, ast.FunctionDef] = {}
        self._classes: dict[str, ClassCode] = {}
        self._parsed: set[str] = set()

    def function(self, name: str) -> ast.FunctionDef | None:
        """A function by its qualified name, such as `__torch__.torch.nn.functional.relu`."""
        self._load(name)
        return self._functions.get(name)

    def class_(self, name: str) -> ClassCode | None:
        """A class by its qualified name; None when the archive has none. Raises ModelFileError for what is no code."""
        self._load(name)
        return self._classes.get(name)

    def _load(self, name: str) -> None:
        module = name.rpartition(".")[0]
        member = f"code/{module.replace('.', '/')}.py"
        if module in self._parsed or member not in self._members:
            return
        self._parsed.add(module)
        source = self._members.read(member, at_most=self._left or 1)
        self._left -= len(source)
        try:
            tree = syntax_tree(source)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as exc:
            raise ModelFileError(f"{self._file}: {member} is no TorchScript ({exc}).", SAVE_AGAIN) from exc
        for statement in tree.body:
            if isinstance(statement, ast.FunctionDef):
                self._functions[f"{module}.{statement.name}"] = statement
            elif isinstance(statement, ast.ClassDef):
                self._classes[f"{module}.{statement.name}"] = _class(statement)


def syntax_tree(source: bytes | str, mode: str = "exec") -> Any:
    """Python's parser, without its warnings: what a stranger's code looks like is no business of a reader of the log.

    Raises:
        SyntaxError, ValueError, RecursionError, MemoryError: it is no Python, or nested too deep.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)
        return ast.parse(source, mode=mode)


def _class(definition: ast.ClassDef) -> ClassCode:
    code = ClassCode()
    for statement in definition.body:
        if isinstance(statement, ast.FunctionDef):
            code.methods[statement.name] = statement
        elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            code.fields.append(statement.target.id)
            if statement.value is not None:
                code.constants[statement.target.id] = _literal(statement.value)
    return code


def _literal(expression: ast.expr) -> Any:
    try:
        return ast.literal_eval(expression)
    except (ValueError, RecursionError):
        return None


def dotted(expression: ast.expr) -> str | None:
    """`a.b.c` as text; None for any other expression."""
    parts = []
    while isinstance(expression, ast.Attribute):
        parts.append(expression.attr)
        expression = expression.value
    if not isinstance(expression, ast.Name):
        return None
    return ".".join([expression.id, *reversed(parts)])
