"""PyTorch archives that are not what they seem: each gets a clear error, in bounded memory."""

import struct
import tracemalloc
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from bimetal.operators.errors import ModelFileError
from bimetal.operators.torch.archive import MEMBER_LIMIT
from bimetal.operators.torch.file import read_torch_graph


def archive(file: Path, members: Mapping[str, bytes], compression: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(file, "w", compression) as target:
        for name, content in members.items():
            target.writestr(f"root/{name}", content)
    return file


SCRIPT = b"""\
class Block(Module):
  def forward(self: __torch__.Block,
    x: Tensor) -> Tensor:
    conv = self.conv
    y = torch.transpose((conv).forward(x, ), 1, 2)
    _0 = torch.scaled_dot_product_attention(y, y, y)
    z = __torch__.torch.nn.functional.pad(_0, [1, 1])
    return ops.aten.relu_(torch.relu(z))
"""


def test_a_state_dict_is_refused_with_what_to_save_instead(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match=r"without a graph.*torch\.export\.save"):
        read_torch_graph(archive(tmp_path / "weights.pt", {"data.pkl": b"\x80\x02.", "data/0": bytes(16)}))


def test_a_zip_bomb_is_refused_by_its_declared_size(tmp_path: Path) -> None:
    bomb = archive(tmp_path / "bomb.pt2", {"models/model.json": bytes(MEMBER_LIMIT + 1)}, zipfile.ZIP_DEFLATED)
    assert bomb.stat().st_size < 100_000
    with pytest.raises(ModelFileError, match="unpacks to more than 67,108,864 bytes"):
        read_torch_graph(bomb)


def test_a_zip_bomb_that_lies_about_its_size_is_refused(tmp_path: Path) -> None:
    bomb = archive(tmp_path / "bomb.pt2", {"models/model.json": bytes(MEMBER_LIMIT + 1)}, zipfile.ZIP_DEFLATED)
    declared = struct.pack("<L", MEMBER_LIMIT + 1)
    bomb.write_bytes(bomb.read_bytes().replace(declared, struct.pack("<L", 100)))
    tracemalloc.start()
    try:
        with pytest.raises(ModelFileError, match="damaged"):
            read_torch_graph(bomb)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2_000_000


def test_many_members_together_have_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bimetal.operators.torch.archive.TOTAL_LIMIT", 1000)
    members = {f"code/m{i}.py": b"#" * 400 for i in range(5)}
    with pytest.raises(ModelFileError, match=r"code/m2\.py' unpacks to more than 200 bytes"):
        read_torch_graph(archive(tmp_path / "model.pt", members))


def test_a_huge_zip_directory_is_refused_before_it_is_read(tmp_path: Path) -> None:
    file = archive(tmp_path / "model.pt2", {"models/model.json": b"{}"})
    content = bytearray(file.read_bytes())
    end = content.rfind(b"PK\x05\x06")
    struct.pack_into("<L", content, end + 12, 2**31)
    file.write_bytes(content)
    with pytest.raises(ModelFileError, match="directory has 2,147,483,648 bytes"):
        read_torch_graph(file)


@pytest.mark.parametrize(
    "content",
    [b"{}", b"[]", b"not json", b'{"graph_module": {"graph": {"nodes": [1], "tensor_values": {}}}}', b"[" * 100_000],
)
def test_a_graph_that_cannot_be_followed_is_refused(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(ModelFileError, match="cannot be followed"):
        read_torch_graph(archive(tmp_path / "model.pt2", {"models/model.json": content}))


@pytest.mark.parametrize("kept", [0.2, 0.6, 0.95])
def test_an_archive_that_is_cut_short_is_refused(tmp_path: Path, kept: float) -> None:
    file = archive(tmp_path / "model.pt", {"code/__torch__.py": SCRIPT})
    content = file.read_bytes()
    file.write_bytes(content[: int(len(content) * kept)])
    with pytest.raises(ModelFileError):
        read_torch_graph(file)


def test_an_encrypted_or_damaged_member_is_refused(tmp_path: Path) -> None:
    file = archive(tmp_path / "model.pt", {"code/__torch__.py": SCRIPT}, zipfile.ZIP_DEFLATED)
    content = bytearray(file.read_bytes())
    position = content.find(b"code/__torch__.py") + 30
    content[position : position + 8] = bytes(8)
    file.write_bytes(content)
    with pytest.raises(ModelFileError, match="damaged"):
        read_torch_graph(file)
