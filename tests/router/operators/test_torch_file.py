"""PyTorch files, read without torch: the archives here are shaped as torch 2.13.0 writes them."""

import json
import struct
import tracemalloc
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from router.operators.errors import ModelFileError
from router.operators.matrix import default_matrix
from router.operators.targets import Target
from router.operators.torch_file import MEMBER_LIMIT, TorchModel, read_torch_file
from router.operators.torch_verdict import torch_verdict, unmentioned


def node(target: str, **inputs: str) -> dict[str, Any]:
    arguments = [{"name": name, "arg": {"as_tensor": {"name": tensor}}, "kind": 1} for name, tensor in inputs.items()]
    return {"target": f"torch.ops.aten.{target}", "inputs": arguments, "outputs": [], "metadata": {}}


def program(nodes: list[dict[str, Any]], sizes: Mapping[str, list[int | str]]) -> bytes:
    def size(value: int | str) -> dict[str, Any]:
        return {"as_int": value} if isinstance(value, int) else {"as_expr": {"expr_str": value, "hint": {"as_int": 16}}}

    tensors = {name: {"dtype": 7, "sizes": [size(value) for value in values]} for name, values in sizes.items()}
    graph = {"inputs": [], "outputs": [], "nodes": nodes, "tensor_values": tensors}
    whole = {"graph_module": {"graph": graph}, "opset_version": {"aten": 10}, "torch_version": "2.13.0+cpu"}
    return json.dumps(whole).encode()


def archive(file: Path, members: Mapping[str, bytes], compression: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(file, "w", compression) as target:
        for name, content in members.items():
            target.writestr(f"root/{name}", content)
    return file


def exported(tmp_path: Path, nodes: list[dict[str, Any]], sizes: Mapping[str, list[int | str]]) -> TorchModel:
    return read_torch_file(
        archive(tmp_path / "model.pt2", {"archive_format": b"pt2", "models/model.json": program(nodes, sizes)})
    )


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


def test_an_exported_graph_tells_its_operators_and_dynamic_lengths(tmp_path: Path) -> None:
    nodes = [
        node("conv1d.default", input="x", weight="w"),
        node("relu.default", self="y"),
        node("relu_.default", self="y"),
    ]
    model = exported(tmp_path, nodes, {"x": [1, 4, "s77"], "w": [8, 4, 3], "y": ["s53", 8]})
    assert (model.format, model.opset) == ("torch.export", 10)
    assert model.operators == {"conv1d": 1, "relu": 2}
    assert model.dynamic_length == {"conv1d"}


def test_torchscript_tells_its_operators_by_its_text(tmp_path: Path) -> None:
    model = read_torch_file(archive(tmp_path / "model.pt", {"code/__torch__.py": SCRIPT, "data.pkl": b"\x80\x02."}))
    assert model.format == "TorchScript"
    assert model.operators == {"relu": 2, "scaled_dot_product_attention": 1, "transpose": 1}


def test_pickles_are_never_opened(tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple[Any, ...]:
            return (pytest.fail, ("the pickle was opened",))

    import pickle  # noqa: PLC0415 - only to set the trap

    members = {"code/__torch__.py": SCRIPT, "data.pkl": pickle.dumps(Trap()), "constants.pkl": pickle.dumps(Trap())}
    assert read_torch_file(archive(tmp_path / "model.pt", members)).operators


def test_dynamic_conv1d_is_dangerous_on_rocm_and_not_on_cuda(tmp_path: Path) -> None:
    """remsky/Kokoro-FastAPI PR #518, and the practitioners' time-out on ROCm 5.6."""
    model = exported(tmp_path, [node("conv1d.default", input="x")], {"x": [1, 4, "s77"]})
    rocm = torch_verdict(model, Target.TORCH_ROCM, default_matrix())
    assert (rocm.score, rocm.reasons[0].operator) == (1, "conv1d")
    assert "Kokoro-FastAPI PR #518" in rocm.reasons[0].source
    assert torch_verdict(model, Target.TORCH_CUDA, default_matrix()).score == 4


@pytest.mark.parametrize(
    ("operator", "thread", "at_most"),
    [
        ("scaled_dot_product_attention", "pytorch/pytorch #147460", 3),  # a custom 4-D mask
        ("scaled_dot_product_attention", "pytorch/pytorch #119772", 3),  # head dimension 8
        ("scaled_dot_product_attention", "pytorch/pytorch #138300", 3),  # masks over 1024 keys and more
        ("scaled_dot_product_attention", "ROCm/aotriton #54", 3),  # large bf16 inputs
        ("scaled_dot_product_attention", "ROCm/aotriton #183", 3),  # fp32 with head dimension 80
        ("scaled_dot_product_attention", "pytorch/pytorch #141958", 3),  # no fused kernel on gfx908
        ("_grouped_mm", "pytorch/torchtitan #1523", 3),
        ("_scaled_mm", "pytorch/pytorch #143465", 3),
        ("conv_transpose2d", "ROCm/TheRock #7621", 2),
        ("conv_transpose2d", "ROCm/MIOpen #3952", 2),
        ("conv3d", "pytorch/pytorch #146998", 3),
        ("lstm", "pytorch/pytorch #177834", 3),
    ],
)
def test_operators_with_reports_on_rocm_are_warned_of(tmp_path: Path, operator: str, thread: str, at_most: int) -> None:
    model = exported(tmp_path, [node(f"{operator}.default", input="x")], {"x": [1, 4, 8, 8]})
    verdict = torch_verdict(model, Target.TORCH_ROCM, default_matrix())
    assert verdict.score <= at_most
    assert any(thread in warning.source for warning in verdict.warnings)


def test_sparse_int8_products_are_warned_of_on_cuda(tmp_path: Path) -> None:
    """ROCm/rocm-libraries #5752: hipSPARSELt takes what cuSPARSELt rejects."""
    model = exported(tmp_path, [node("_cslt_sparse_mm.default", input="x")], {"x": [8, 8]})
    warnings = torch_verdict(model, Target.TORCH_CUDA, default_matrix()).warnings
    assert "rocm-libraries #5752" in warnings[0].source


def test_the_practitioners_grouped_gemm_is_shown_beside_the_fact(tmp_path: Path) -> None:
    model = exported(tmp_path, [node("_grouped_mm.default", input="x")], {"x": [8, 8]})
    text = torch_verdict(model, Target.TORCH_ROCM, default_matrix()).reasons[0].text
    assert "practitioners agree (Grouped GEMM is strong on AMD)" in text


def test_operators_that_no_source_mentions_are_listed_and_do_not_count(tmp_path: Path) -> None:
    model = exported(tmp_path, [node("frobnicate.default", input="x"), node("relu.default", self="x")], {"x": [1]})
    assert unmentioned(model, default_matrix()) == ("frobnicate",)
    assert torch_verdict(model, Target.TORCH_CUDA, default_matrix()).score == 4


def test_a_state_dict_is_refused_with_what_to_save_instead(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match=r"without a graph.*torch\.export\.save"):
        read_torch_file(archive(tmp_path / "weights.pt", {"data.pkl": b"\x80\x02.", "data/0": bytes(16)}))


def test_a_zip_bomb_is_refused_by_its_declared_size(tmp_path: Path) -> None:
    bomb = archive(tmp_path / "bomb.pt2", {"models/model.json": bytes(MEMBER_LIMIT + 1)}, zipfile.ZIP_DEFLATED)
    assert bomb.stat().st_size < 100_000
    with pytest.raises(ModelFileError, match="unpacks to more than 67,108,864 bytes"):
        read_torch_file(bomb)


def test_a_zip_bomb_that_lies_about_its_size_is_refused(tmp_path: Path) -> None:
    bomb = archive(tmp_path / "bomb.pt2", {"models/model.json": bytes(MEMBER_LIMIT + 1)}, zipfile.ZIP_DEFLATED)
    declared = struct.pack("<L", MEMBER_LIMIT + 1)
    bomb.write_bytes(bomb.read_bytes().replace(declared, struct.pack("<L", 100)))
    tracemalloc.start()
    try:
        with pytest.raises(ModelFileError, match="damaged"):
            read_torch_file(bomb)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2_000_000


def test_many_members_together_have_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("router.operators.torch_file.TOTAL_LIMIT", 1000)
    members = {f"code/m{i}.py": b"#" * 400 for i in range(5)}
    with pytest.raises(ModelFileError, match=r"code/m2\.py' unpacks to more than 200 bytes"):
        read_torch_file(archive(tmp_path / "model.pt", members))


def test_a_huge_zip_directory_is_refused_before_it_is_read(tmp_path: Path) -> None:
    file = archive(tmp_path / "model.pt2", {"models/model.json": b"{}"})
    content = bytearray(file.read_bytes())
    end = content.rfind(b"PK\x05\x06")
    struct.pack_into("<L", content, end + 12, 2**31)
    file.write_bytes(content)
    with pytest.raises(ModelFileError, match="directory has 2,147,483,648 bytes"):
        read_torch_file(file)


@pytest.mark.parametrize(
    "content",
    [b"{}", b"[]", b"not json", b'{"graph_module": {"graph": {"nodes": [1], "tensor_values": {}}}}', b"[" * 100_000],
)
def test_a_graph_that_cannot_be_followed_is_refused(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(ModelFileError, match="cannot be followed"):
        read_torch_file(archive(tmp_path / "model.pt2", {"models/model.json": content}))


@pytest.mark.parametrize("kept", [0.2, 0.6, 0.95])
def test_an_archive_that_is_cut_short_is_refused(tmp_path: Path, kept: float) -> None:
    file = archive(tmp_path / "model.pt", {"code/__torch__.py": SCRIPT})
    content = file.read_bytes()
    file.write_bytes(content[: int(len(content) * kept)])
    with pytest.raises(ModelFileError):
        read_torch_file(file)


def test_an_encrypted_or_damaged_member_is_refused(tmp_path: Path) -> None:
    file = archive(tmp_path / "model.pt", {"code/__torch__.py": SCRIPT}, zipfile.ZIP_DEFLATED)
    content = bytearray(file.read_bytes())
    position = content.find(b"code/__torch__.py") + 30
    content[position : position + 8] = bytes(8)
    file.write_bytes(content)
    with pytest.raises(ModelFileError, match="damaged"):
        read_torch_file(file)
