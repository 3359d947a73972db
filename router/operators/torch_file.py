"""Reads which aten operators a PyTorch file calls, without torch and without running anything.

torch.export archives hold their graph as JSON (models/*.json), TorchScript archives as text
(code/**/*.py). Both are zip files from strangers: every size is bounded before and while it is
read, no member is unpacked to disk, and pickles are not opened.
"""

import json
import lzma
import re
import struct
import zipfile
import zlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from router.operators.errors import ModelFileError

DIRECTORY_LIMIT = 16 * 2**20  # bytes of zip directory: about 100,000 members
MEMBER_LIMIT = 64 * 2**20  # bytes of one member once unpacked
TOTAL_LIMIT = 256 * 2**20  # bytes of all members read

_CALL = re.compile(r"(?<![\w.])(?:torch|ops\.aten)\.([A-Za-z_]\w*)\(")
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
_EXPORT_AGAIN = "Save the model again with torch.export.save or torch.jit.save."


@dataclass(frozen=True)
class TorchModel:
    """The aten operators of a PyTorch file, by how often they are called.

    `dynamic_length` names operators whose first tensor has a symbolic last dimension (known from
    torch.export files only); `opset` is the aten version of the file, 0 where it does not tell.
    """

    file: Path
    format: str
    opset: int
    operators: Mapping[str, int]
    dynamic_length: frozenset[str] = frozenset()


def is_zip(file: Path) -> bool:
    """Whether the file starts as a zip does; False when it cannot be read."""
    try:
        with file.open("rb") as stream:
            return stream.read(4) == b"PK\x03\x04"
    except OSError:
        return False


def read_torch_file(file: Path) -> TorchModel:
    """The operators of a torch.export or TorchScript file.

    Raises:
        ModelFileError: the file is neither, is damaged, or is larger than the limits.
    """
    try:
        with file.open("rb") as stream:
            _check_directory(file, stream)
            with zipfile.ZipFile(stream) as archive:
                return _read(file, _Members(file, archive))
    except OSError as exc:
        raise ModelFileError(f"{file} cannot be read: {exc.strerror}.", "Check the path and its permissions.") from exc
    except ModelFileError:
        raise
    except _DAMAGE as exc:
        raise ModelFileError(f"{file} is a damaged zip file ({exc}).", _EXPORT_AGAIN) from exc


class _Members:
    """The members of an archive without their root folder; reading them counts against the total."""

    def __init__(self, file: Path, archive: zipfile.ZipFile) -> None:
        self._file = file
        self._archive = archive
        self._left = TOTAL_LIMIT
        self._by_name = {info.filename.partition("/")[2] or info.filename: info for info in archive.infolist()}

    def matching(self, pattern: str) -> list[str]:
        return sorted(name for name in self._by_name if re.fullmatch(pattern, name))

    def read(self, name: str) -> bytes:
        info = self._by_name[name]
        limit = min(MEMBER_LIMIT, self._left)
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


def _read(file: Path, members: _Members) -> TorchModel:
    programs = members.matching(r"models/[^/]+\.json") or members.matching(r"serialized_exported_program\.json")
    if programs:
        return _exported(file, members.read(programs[0]))
    sources = members.matching(r"code/.*\.py")
    if sources:
        calls: Counter[str] = Counter()
        for source in sources:
            calls.update(_CALL.findall(members.read(source).decode("utf-8", "replace")))
        return TorchModel(file, "TorchScript", 0, _plain(calls))
    raise ModelFileError(
        f"{file} is a zip file without a graph; expected models/*.json (torch.export) or code/*.py (TorchScript).",
        "A state dict has only weights: save the model with torch.export.save or torch.jit.save.",
    )


def _exported(file: Path, content: bytes) -> TorchModel:
    try:
        program = json.loads(content)
        graph = program["graph_module"]["graph"]
        tensors = graph["tensor_values"]
        calls: Counter[str] = Counter()
        dynamic = set()
        for node in graph["nodes"]:
            operator = _aten_name(node["target"])
            if operator is None:
                continue
            calls[operator] += 1
            if _is_dynamic_length(node, tensors):
                dynamic.add(operator)
        opset = int(program.get("opset_version", {}).get("aten", 0))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as exc:
        raise ModelFileError(
            f"{file}: the exported graph cannot be followed ({type(exc).__name__}: {exc}).", _EXPORT_AGAIN
        ) from exc
    return TorchModel(file, "torch.export", opset, _plain(calls), frozenset(dynamic))


def _aten_name(target: str) -> str | None:
    """torch.ops.aten.conv1d.default -> conv1d; None for what is no aten operator."""
    parts = target.split(".")
    return parts[3] if parts[:3] == ["torch", "ops", "aten"] and len(parts) >= 4 else None


def _is_dynamic_length(node: Mapping[str, Any], tensors: Mapping[str, Any]) -> bool:
    """Whether the last size of the node's first tensor is an expression and not a number."""
    for each in node["inputs"]:
        name = str((each["arg"].get("as_tensor") or {}).get("name"))
        if name in tensors:
            sizes = tensors[name]["sizes"]
            return bool(sizes) and "as_int" not in sizes[-1]
    return False


def _plain(calls: Mapping[str, int]) -> dict[str, int]:
    """Counts by the operator's plain name: relu_ (in place) is relu."""
    plain: Counter[str] = Counter()
    for name, count in calls.items():
        plain[name if name.startswith("__") else name.rstrip("_")] += count
    return dict(sorted(plain.items()))
