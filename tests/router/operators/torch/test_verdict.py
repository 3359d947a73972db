"""Verdicts on PyTorch files, and the public reports about aten operators."""

import json
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from bimetal.operators import Verdict, analyze, default_matrix, place, verdict
from bimetal.operators.dangers.dangers import REPORTS_FILE
from bimetal.operators.dangers.onnx_rules import RULES
from bimetal.operators.input_shapes import parse_shapes
from bimetal.operators.matrix.matrix import read_rows

CUDA, ROCM = "torch_cuda", "torch_rocm"
FILES = Path(__file__).parent / "files"
_TYPES = {"fp16": 6, "fp32": 7, "bf16": 13, "fp8e4m3fn": 29, "fp8e4m3fnuz": 31}
Sizes = Sequence[int | str]


def exported(folder: Path, operator: str, tensors: Mapping[str, Sizes], **arguments: Any) -> Path:
    """A torch.export file of one operator; "fp16:x" is a tensor's type and name, fp32 without a type."""
    names = [label.rpartition(":")[2] for label in tensors]
    values = {}
    for label, sizes in tensors.items():
        kind, _, name = label.rpartition(":")
        entries = [{"as_int": s} if isinstance(s, int) else {"as_expr": {"expr_str": s}} for s in sizes]
        values[name] = {"dtype": _TYPES[kind or "fp32"], "sizes": entries}
    inputs = [{"name": name, "arg": {"as_tensor": {"name": name}}} for name in names]
    for name, value in arguments.items():
        inputs.append({"name": name, "arg": {{bool: "as_bool", int: "as_int"}[type(value)]: value}})
    node = {
        "target": f"torch.ops.aten.{operator}.default",
        "inputs": inputs,
        "outputs": [{"as_tensor": {"name": "y"}}],
        "metadata": {},
    }
    graph = {
        "inputs": [{"as_tensor": {"name": name}} for name in names],
        "outputs": [{"as_tensor": {"name": "y"}}],
        "nodes": [node],
        "tensor_values": {**values, "y": values[names[0]]},
    }
    file = folder / "model.pt2"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("m/models/model.json", json.dumps({"graph_module": {"graph": graph}}))
    return file


def judged(file: Path, build: str) -> Verdict:
    return verdict(analyze(file), build, default_matrix())


@dataclass(frozen=True)
class Case:
    """The reports (by number), the rule, the best score that is left, and the same operator without the condition."""

    reports: tuple[int, ...]
    rule: str
    operator: str
    tensors: Mapping[str, Sizes]
    at_most: int = 5
    build: str = ROCM
    arguments: Mapping[str, Any] = field(default_factory=dict)
    harmless: Mapping[str, Sizes] | None = None
    harmless_arguments: Mapping[str, Any] | None = None


def qkv(kind: str, *sizes: int, mask: bool = False) -> dict[str, Sizes]:
    tensors: dict[str, Sizes] = {f"{kind}:{name}": sizes for name in "qkv"}
    return {**tensors, "mask": (7, 7)} if mask else tensors


def conv(kind: str, x: Sizes, weight: Sizes) -> dict[str, Sizes]:
    return {f"{kind}:x": x, f"{kind}:weight": weight}


_DEEP = {"num_layers": 4, "bidirectional": True, "batch_first": True}
_FLAT = {**_DEEP, "num_layers": 2}
CASES = [
    # pytorch/pytorch #177834: wrong from batch 110 on
    Case((1,), "lstm-bidirectional-half", "lstm", {"fp16:x": (128, 5, 60)}, 1, arguments=_DEEP,
         harmless_arguments=_FLAT),
    # pytorch/pytorch #147460 and #138300: masks
    Case((2, 4), "aten-sdpa-mask", "scaled_dot_product_attention", qkv("fp16", 2, 4, 7, 64, mask=True), 3,
         harmless=qkv("fp16", 2, 4, 7, 64)),
    # pytorch/pytorch #119772 and ROCm/aotriton #183: head sizes 8 and 80
    Case((3, 6), "aten-sdpa-head-size", "scaled_dot_product_attention", qkv("fp32", 2, 4, 7, 80), 3,
         harmless=qkv("fp32", 2, 4, 7, 64)),
    # ROCm/aotriton #54: NaN on large bf16 inputs
    Case((5,), "aten-sdpa-bf16", "scaled_dot_product_attention", qkv("bf16", 2, 4, 7, 64), 3,
         harmless=qkv("fp16", 2, 4, 7, 64)),
    # ROCm/rocm-libraries #7024: a 23x23 kernel
    Case((8,), "conv-large-kernel-half", "conv2d", conv("fp16", (1, 1, 48, 50), (1, 1, 23, 23)), 3,
         harmless=conv("fp16", (1, 1, 48, 50), (1, 1, 7, 7))),
    # ROCm/rocm-libraries #12334: depthwise 3x3
    Case((9,), "conv-depthwise-half", "conv2d", conv("fp16", (1, 8, 9, 9), (8, 1, 3, 3)), 3, arguments={"groups": 8},
         harmless=conv("fp32", (1, 8, 9, 9), (8, 1, 3, 3))),
    # ROCm/rocm-libraries #4998: groups
    Case((10,), "conv-grouped-half", "conv2d", conv("fp16", (1, 8, 9, 9), (8, 4, 3, 3)), 3, arguments={"groups": 2},
         harmless_arguments={"groups": 1}),
    # ROCm/TheRock #7621 and ROCm/MIOpen #3952
    Case((11, 12), "conv-transpose-2d", "conv_transpose2d", conv("fp32", (1, 4, 5, 5), (4, 8, 3, 3)), 2,
         harmless=conv("fp32", (1, 4, 5), (4, 8, 3))),
    # pytorch/pytorch #146998: 70 s a call
    Case((13,), "conv-3d-half", "conv3d", conv("bf16", (1, 4, 5, 9, 9), (4, 4, 3, 3, 3)), 2,
         harmless=conv("fp32", (1, 4, 5, 9, 9), (4, 4, 3, 3, 3))),
    # remsky/Kokoro-FastAPI PR #518, and the practitioners' time-out on ROCm 5.6
    Case((14,), "conv-1d-dynamic", "conv1d", conv("fp32", (1, 4, "s77"), (4, 4, 3)), 1,
         harmless=conv("fp32", (1, 4, 100), (4, 4, 3))),
    # ROCm/MIOpen #3650
    Case((15,), "conv-1d", "conv1d", conv("fp32", (1, 4, 100), (4, 4, 3)), 3,
         harmless=conv("fp32", (1, 4, 10, 10), (4, 4, 3, 3))),
    # ROCm/MIOpen #717
    Case((16,), "conv-tiny", "conv2d", conv("fp32", (1, 3, 2, 2), (4, 3, 1, 1)),
         harmless=conv("fp32", (1, 3, 32, 32), (4, 3, 1, 1))),
    # unslothai/unsloth #11636: with cudnn.benchmark on
    Case((17,), "aten-conv-2d-dynamic", "conv2d", conv("fp32", (1, 3, "s1", "s2"), (4, 3, 3, 3)),
         harmless=conv("fp32", (1, 3, 32, 32), (4, 3, 3, 3))),
    # pytorch/torchtitan #1523
    Case((29,), "aten-grouped-mm", "_grouped_mm", {"bf16:x": (8, 8), "bf16:w": (2, 8, 8)}, 3),
    # pytorch/pytorch #143465
    Case((30,), "aten-scaled-mm", "_scaled_mm", {"fp8e4m3fnuz:x": (8, 8), "fp8e4m3fnuz:w": (8, 8)}, 3),
    # sgl-project/sglang #28889: the two encodings do not mix
    Case((31,), "fp8-mixed", "_scaled_mm", {"fp8e4m3fn:x": (8, 8), "fp8e4m3fnuz:w": (8, 8)}, 1,
         harmless={"fp8e4m3fnuz:x": (8, 8), "fp8e4m3fnuz:w": (8, 8)}),
    # ROCm/TheRock #6281
    Case((32,), "topk-narrow", "topk", {"x": (64, 256)}, harmless={"x": (64, 4096)}),
    # pytorch/pytorch #141958: gfx908
    Case((33,), "aten-sdpa-device", "scaled_dot_product_attention", qkv("fp16", 2, 4, 7, 64), 3),
    # ROCm/rocm-libraries #5752: what hipSPARSELt takes and cuSPARSELt rejects
    Case((40,), "aten-sparse-int8", "_cslt_sparse_mm", {"x": (8, 8)}, build=CUDA),
]  # fmt: skip


def warned(verdict: Verdict, rule: str) -> bool:
    warning = next(known.warning for known in RULES if known.name == rule)
    return any(warning in reason.text for reason in verdict.warnings)


@pytest.mark.parametrize("case", CASES, ids=[case.rule for case in CASES])
def test_a_condition_that_a_report_names_is_warned_of_with_its_thread(tmp_path: Path, case: Case) -> None:
    found = judged(exported(tmp_path, case.operator, case.tensors, **case.arguments), case.build)
    assert warned(found, case.rule)
    assert found.score <= case.at_most
    threads = {row["thread"] for _, row in read_rows(REPORTS_FILE, ("thread",)) if int(row["number"]) in case.reports}
    sources = "; ".join(warning.source for warning in found.warnings)
    assert all(thread in sources for thread in threads)


@pytest.mark.parametrize("case", CASES, ids=[case.rule for case in CASES])
def test_without_the_condition_there_is_no_warning(tmp_path: Path, case: Case) -> None:
    if case.harmless is None and case.harmless_arguments is None:
        other = exported(tmp_path, "relu", {"x": (8, 8)})
    else:
        arguments = case.arguments if case.harmless_arguments is None else case.harmless_arguments
        other = exported(tmp_path, case.operator, case.harmless or case.tensors, **arguments)
    assert not warned(judged(other, case.build), case.rule)


@pytest.mark.parametrize("case", CASES, ids=[case.rule for case in CASES])
def test_the_other_build_is_not_warned_of(tmp_path: Path, case: Case) -> None:
    file = exported(tmp_path, case.operator, case.tensors, **case.arguments)
    assert judged(file, CUDA if case.build == ROCM else ROCM).warnings == ()


def test_what_a_file_does_not_tell_counts_as_if_it_showed_the_condition() -> None:
    """A scripted attention without input shapes: its type and head size may be those of a report."""
    found = verdict(analyze(FILES / "decoder_scripted_fp16.pt"), ROCM, default_matrix())
    assert warned(found, "aten-sdpa-head-size")
    known = analyze(FILES / "decoder_scripted_fp16.pt", parse_shapes(["x=2,7,32"]))
    assert known.graph.nodes[8].inputs[0].shape == (2, 4, 7, 8)  # type: ignore[union-attr]  # there is one


def test_every_rule_about_aten_operators_has_a_case() -> None:
    ours = {rule.name for rule in RULES if rule.name.startswith("aten-")}
    assert ours == {case.rule for case in CASES if case.rule.startswith("aten-")}


def test_a_speech_model_of_open_length_belongs_to_cuda() -> None:
    """The practitioners' time-out on ROCm 5.6; the length of a scripted model's input is always open."""
    placement = place(analyze(FILES / "speech_scripted.pt"), default_matrix())
    assert (placement.verdicts[CUDA].score, placement.verdicts[ROCM].score) == (4, 1)
    assert placement.preference == {CUDA: 1.0, ROCM: 0.0}
    assert "Kokoro-FastAPI PR #518" in placement.verdicts[ROCM].reasons[0].source


def test_with_shapes_an_operators_share_of_the_time_counts() -> None:
    profile = analyze(FILES / "convolutions_scripted.pt", parse_shapes(["x=1,3,32,32"]))
    reasons = verdict(profile, CUDA, default_matrix()).reasons
    assert "% of the time" in reasons[0].text
    assert sum(reason.share for reason in reasons) == pytest.approx(1, abs=0.5)


def test_without_shapes_the_weakest_operator_decides_and_no_share_is_claimed() -> None:
    """The embedding is one of 54 nodes."""
    reasons = verdict(analyze(FILES / "encoder_scripted.pt"), CUDA, default_matrix()).reasons
    assert "embedding" in {reason.operator for reason in reasons}
    assert not [reason for reason in reasons if "of the time" in reason.text or reason.effect != reason.score]


def test_the_practitioners_grouped_gemm_is_shown_beside_the_fact(tmp_path: Path) -> None:
    file = exported(tmp_path, "_grouped_mm", {"bf16:x": (8, 8), "bf16:w": (2, 8, 8)})
    texts = [reason.text for reason in judged(file, ROCM).reasons if reason.operator == "_grouped_mm"]
    assert any("practitioners agree (Grouped GEMM is strong on AMD)" in text for text in texts)


def test_of_operators_that_no_source_mentions_nothing_is_claimed(tmp_path: Path) -> None:
    """What is unknown counts neither as 0 nor as the best."""
    found = judged(exported(tmp_path, "frobnicate", {"x": (1,)}), CUDA)
    assert (found.score, found.reasons) == (3, ())
