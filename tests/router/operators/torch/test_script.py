"""TorchScript files of torch 2.13.0, followed without torch and without running them."""

import json
import pickle
import random
import re
import zipfile
from pathlib import Path
from typing import Any

import pytest

from bimetal.operators import default_matrix, place
from bimetal.operators.errors import ModelFileError
from bimetal.operators.graph import Node
from bimetal.operators.input_shapes import parse_shapes
from bimetal.operators.profile import Profile, analyze
from bimetal.operators.torch.file import read_torch_graph

FILES = Path(__file__).parent / "files"
EXPECTED: dict[str, dict[str, Any]] = json.loads((FILES / "expected.json").read_text())
_COUNTED_BY_TORCH = {"linear", "matmul", "conv2d", "conv_transpose2d", "scaled_dot_product_attention"}


def followed(name: str, *shapes: str) -> Profile:
    return analyze(FILES / f"{name}.pt", parse_shapes(shapes))


def operators(profile: Profile) -> list[str]:
    return [node.operator for node in profile.graph.nodes]


def node_of(profile: Profile, operator: str) -> Node:
    return next(node for node in profile.graph.nodes if node.operator == operator)


def shape_of(profile: Profile, operator: str) -> Any:
    (tensor, *_) = node_of(profile, operator).outputs
    return tensor.shape if tensor else None


@pytest.mark.parametrize(
    ("file", "model", "argument"),
    [
        ("encoder_scripted", "encoder", "tokens"),
        ("encoder_traced", "encoder", "tokens"),
        ("decoder_scripted_fp16", "decoder", "x"),
        ("convolutions_scripted", "convolutions", "x"),
        ("convolutions_frozen", "convolutions", "x"),
        ("convolutions_traced", "convolutions", "x"),
        ("segmentation_scripted", "segmentation", "x"),
        ("segmentation_traced", "segmentation", "x"),
        ("library_scripted", "library", "src"),
        ("library_traced", "library", "src"),
    ],
)
def test_flops_and_output_shape_are_those_that_pytorch_itself_counts(file: str, model: str, argument: str) -> None:
    truth = EXPECTED[model]
    profile = followed(file, f"{argument}={','.join(map(str, truth['input']))}")
    counted = [
        cost.flops
        for cost, node in zip(profile.costs, profile.graph.nodes, strict=True)
        if node.operator in _COUNTED_BY_TORCH
    ]
    assert sum(flops or 0 for flops in counted) == truth["flops"]
    assert [list(tensor.shape or ()) for tensor in profile.graph.outputs] == [truth["output"]]
    # A scripted encoder of the library has a fast way and a slow one: which is taken is not in the file.
    both = ("conditions that the file does not decide: both branches are counted",)
    assert profile.graph.notes == (both if file == "library_scripted" else ())


@pytest.mark.parametrize(
    ("file", "program", "shape"),
    [
        ("encoder_scripted", "encoder", "tokens=batch,length"),
        ("decoder_scripted_fp16", "decoder", "x=2,7,32"),
        ("convolutions_scripted", "convolutions", "x=1,3,32,32"),
    ],
)
def test_the_code_gives_the_shapes_that_torch_export_writes_down(file: str, program: str, shape: str) -> None:
    exported = analyze(FILES / f"{program}.pt2").graph

    def counted(nodes: tuple[Node, ...]) -> list[tuple[str, list[Any]]]:
        return [(node.operator, [tensor.assumed for tensor in node.outputs if tensor]) for node in nodes]

    script = [each for each in counted(followed(file, shape).graph.nodes) if each[0] != "slice"]
    assert script == [each for each in counted(exported.nodes) if each[0] != "slice"]


def test_weights_are_described_and_named_by_their_module() -> None:
    linear = node_of(followed("decoder_scripted_fp16"), "linear")
    _, weight, bias = linear.inputs
    assert weight is not None
    assert (linear.name, weight.name, weight.shape, weight.type, weight.constant) == (
        "qkv/linear", "qkv.weight", (96, 32), "fp16", True,
    )  # fmt: skip
    assert bias is not None
    assert bias.shape == (96,)


def test_without_input_shapes_products_are_counted_for_one_row_and_the_note_says_so() -> None:
    profile = followed("encoder_scripted")
    assert shape_of(profile, "linear") == ("...", 32)
    assert profile.costs[node_of(profile, "linear").index].flops == 2 * 32 * 32
    assert shape_of(profile, "matmul") == (None, 4, None, None)
    assert profile.graph.notes[0].startswith("no shape is known of tokens: its sizes count as one (--input")


def test_a_traced_file_counts_open_sizes_as_in_its_example() -> None:
    (sound,) = followed("speech_traced").graph.inputs
    assert (sound.shape, sound.assumed, sound.type) == (("x0", "x1", "x2"), (1, 4, 50), "fp32")


def test_the_models_config_tells_shapes_too(tmp_path: Path) -> None:
    version = tmp_path / "encoder" / "1"
    version.mkdir(parents=True)
    (version / "model.pt").write_bytes((FILES / "encoder_scripted.pt").read_bytes())
    (tmp_path / "encoder" / "config.pbtxt").write_text(
        'max_batch_size: 8\ninput [{ name: "INPUT__0" data_type: TYPE_INT64 dims: [ 384 ] }]\n'
    )
    assert analyze(version / "model.pt").graph.inputs[0].shape == ("batch", 384)
    given = analyze(version / "model.pt", parse_shapes(["tokens=2,5"]))
    assert given.graph.inputs[0].shape == (2, 5)


@pytest.mark.parametrize("text", ["x", "x=", "=1,2", "x=1,,2", "x=1;2", "x=1,-1"])
def test_an_input_shape_of_another_form_is_refused(text: str) -> None:
    if text == "x=":
        assert parse_shapes([text])["x"].shape == ()
        return
    with pytest.raises(ModelFileError, match=r"is no input shape; expected NAME=SIZE,SIZE"):
        parse_shapes([text])


def test_a_shape_for_an_input_that_is_not_there_names_those_that_are() -> None:
    with pytest.raises(ModelFileError, match="has no input 'pixels'; its inputs are tokens"):
        followed("encoder_scripted", "pixels=1,2")


def test_a_mask_that_may_be_left_out_is_left_out_unless_its_shape_is_given() -> None:
    without = node_of(followed("decoder_scripted_fp16", "x=2,7,32"), "scaled_dot_product_attention")
    given = node_of(followed("decoder_scripted_fp16", "x=2,7,32", "mask=7,7"), "scaled_dot_product_attention")
    assert (len(without.inputs), len(given.inputs)) == (3, 4)


def test_recurrent_layers_know_their_weights_and_directions() -> None:
    for file in ("speech_traced", "speech_scripted"):
        profile = followed(file, "x=1,4,50")
        lstm = node_of(profile, "lstm")
        assert (lstm.attributes["num_layers"], lstm.attributes["bidirectional"]) == (2, 1)
        assert [tensor.shape for tensor in lstm.outputs if tensor] == [(1, 50, 12), (4, 1, 6), (4, 1, 6)]
        layers = 2 * (24 * 8 + 24 * 6) + 2 * (24 * 12 + 24 * 6)
        assert profile.costs[lstm.index].flops == 2 * 50 * layers


def test_a_loop_and_a_condition_that_data_decide_are_followed_once_each_and_said() -> None:
    profile = followed("repeated_scripted", "x=3,8")
    assert operators(profile) == ["linear", "tanh", "sum", "gt", "neg"]
    assert profile.graph.notes == (
        "loops whose length the file does not tell: their bodies are counted once",
        "conditions that the file does not decide: both branches are counted",
    )


def script(tmp_path: Path, body: str, *, functions: str = "", data: bytes | None = None) -> Path:
    """An archive whose model is one forward method."""
    code = f"class M(Module):\n  def forward(self: __torch__.M,\n    x: Tensor) -> Tensor:\n{body}{functions}"
    thing = b"\x80\x02c__torch__\nM\nq\x00)\x81}b." if data is None else data
    file = tmp_path / "model.pt"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("m/code/__torch__.py", code)
        archive.writestr("m/data.pkl", thing)
    return file


def lines(*statements: str) -> str:
    return "".join(f"    {statement}\n" for statement in statements)


def test_both_branches_of_an_open_condition_are_counted_and_what_is_common_stays_known(tmp_path: Path) -> None:
    file = script(
        tmp_path,
        lines(
            "if bool(torch.gt(torch.sum(x), 0)):", "  y = torch.relu(x)", "else:", "  y = torch.tanh(x)",
            "return torch.flatten(y, 1)",
        ),
    )  # fmt: skip
    graph = read_torch_graph(file, parse_shapes(["x=2,3,4"]))
    assert [node.operator for node in graph.nodes] == ["sum", "gt", "relu", "tanh", "flatten"]
    assert graph.outputs[0].shape == (2, 12)
    assert graph.notes == ("conditions that the file does not decide: both branches are counted",)


def test_a_branch_that_ends_in_the_models_own_error_does_not_count(tmp_path: Path) -> None:
    body = lines("if torch.ne(torch.dim(x), 4):", "  y = torch.tanh(x)", '  ops.prim.RaiseException("4-D only")')
    graph = read_torch_graph(script(tmp_path, body + lines("else:", "  y = torch.relu(x)", "return y")))
    assert [node.operator for node in graph.nodes] == ["relu"]


def test_loops_of_known_length_are_unrolled(tmp_path: Path) -> None:
    body = lines("y = x", "for i in range(torch.size(x, 0)):", "  y = torch.relu(y)", "return y")
    graph = read_torch_graph(script(tmp_path, body), parse_shapes(["x=3,2"]))
    assert [node.predecessors for node in graph.nodes] == [(), (0,), (1,)]


def test_after_an_operator_in_place_the_tensor_is_its_result(tmp_path: Path) -> None:
    graph = read_torch_graph(script(tmp_path, lines("_0 = torch.relu_(x)", "return torch.tanh(x)")))
    assert [(node.operator, node.predecessors) for node in graph.nodes] == [("relu", ()), ("tanh", (0,))]


@pytest.mark.parametrize(
    ("expression", "shape"),
    [
        ("torch.view(x, [2, -1])", (2, 12)),
        ("torch.view(x, torch.size(x))", (2, 3, 4)),
        ("torch.reshape(x, [torch.size(x, 0), torch.mul(torch.size(x, 1), torch.size(x, 2))])", (2, 12)),
        ("torch.permute(x, [2, 0, 1])", (4, 2, 3)),
        ("torch.transpose(x, 0, -1)", (4, 3, 2)),
        ("torch.unsqueeze(x, -1)", (2, 3, 4, 1)),
        ("torch.squeeze(torch.unsqueeze(x, 0), 0)", (2, 3, 4)),
        ("torch.expand(torch.unsqueeze(x, 0), [5, -1, -1, -1])", (5, 2, 3, 4)),
        ("torch.slice(x, 1, -2)", (2, 2, 4)),
        ("torch.select(x, 1, 0)", (2, 4)),
        ("torch.cat([x, x], -1)", (2, 3, 8)),
        ("torch.stack([x, x])", (2, 2, 3, 4)),
        ("torch.split(x, 2, -1)[0]", (2, 3, 2)),
        ("torch.split_with_sizes(x, [1, 3], 2)[1]", (2, 3, 3)),
        ("torch.unbind(x, 1)[2]", (2, 4)),
        ("torch.mean(x, [0, -1])", (3,)),
        ("torch.sum(x, [1], True)", (2, 1, 4)),
        ("torch.argmax(x, -1)", (2, 3)),
        ("torch.max(x, 2)[1]", (2, 3)),
        ("torch.topk(x, 2)[0]", (2, 3, 2)),
        ("torch.bmm(x, torch.transpose(x, 1, 2))", (2, 3, 3)),
        ('torch.einsum("bij,bkj->bik", [x, x])', (2, 3, 3)),
        ("torch.add(x, torch.zeros([4], dtype=6))", (2, 3, 4)),
        ("torch.pad(x, [1, 2])", (2, 3, 7)),
        ("torch.repeat(x, [2, 1, 3])", (4, 3, 12)),
        ("torch.glu(x)", (2, 3, 2)),
        ("torch.upsample_nearest1d(x, None, [2.0])", (2, 3, 8)),
        ("torch.upsample_linear1d(x, [9], False, None)", (2, 3, 9)),
        ('torch._convolution_mode(x, torch.zeros([5, 3, 2]), None, [1], "same", [1], 1)', (2, 5, 4)),
        ("torch._native_multi_head_attention(x, x, x, 4, 1)[0]", (2, 3, 4)),
        ("torch.max_pool1d(x, [2], [2])", (2, 3, 2)),
        ("torch.embedding(torch.zeros([9, 6], dtype=6), torch.to(x, 4))", (2, 3, 4, 6)),
        ("torch.index_select(x, 1, torch.arange(2))", (2, 2, 4)),
        ("torch.frobnicate(x)", None),
    ],
)
def test_shapes_of_results(tmp_path: Path, expression: str, shape: Any) -> None:
    graph = read_torch_graph(script(tmp_path, lines(f"return {expression}")), parse_shapes(["x=2,3,4"]))
    assert graph.outputs[0].shape == shape


@pytest.mark.parametrize(
    ("expression", "kind"),
    [
        ("torch.to(torch.zeros([2]), 5)", "fp16"),
        ("torch.gt(torch.zeros([2]), 0)", "bool"),
        ("torch.argmax(torch.zeros([2]))", "int64"),
        ("torch.add(torch.zeros([2], dtype=5), torch.zeros([2], dtype=6))", "fp32"),
        ("torch.add(torch.zeros([2], dtype=5), torch.zeros([], dtype=7))", "fp16"),
        ("torch.add(torch.zeros([2], dtype=5), torch.zeros([2], dtype=15))", "fp32"),
        ("torch.zeros([2], dtype=ops.prim.dtype(torch.zeros([1], dtype=15)))", "bf16"),
        ("torch.relu(x)", None),
    ],
)
def test_types_of_results(tmp_path: Path, expression: str, kind: str | None) -> None:
    assert read_torch_graph(script(tmp_path, lines(f"return {expression}"))).outputs[0].type == kind


def sprung(text: str) -> None:
    pytest.fail(text)


def test_pickles_are_read_as_data_and_call_nothing(tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple[Any, ...]:
            return (sprung, ("the pickle was run",))

    file = script(tmp_path, lines("return torch.relu(x)"), data=pickle.dumps(Trap(), protocol=2))
    graph = read_torch_graph(file)
    assert [node.operator for node in graph.nodes] == ["relu"]
    assert "could not be followed" in graph.notes[0]


_HOSTILE_PICKLES: dict[str, bytes] = {
    "an opcode that TorchScript does not write": b"\x80\x04\x8c\x02os\x8c\x06system\x93.",
    "cut short": b"\x80\x02c__torch__\nM\nq\x00)\x81}",
    "an empty stack": b"\x80\x02R.",
    "a mark that is missing": b"\x80\x02Nt.",
    "a list as a key": b"\x80\x02}](K\x01es.",
    "a text with a length of 4 GiB": b"\x80\x02X\xff\xff\xff\xffabc.",
    "a memo index of 4 billion that was not set": b"\x80\x02j\xff\xff\xff\xff.",
    "a tensor of negative size": (
        b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n((X\x07\x00\x00\x00storagectorch\nFloatStorage\n"
        b"X\x01\x00\x00\x000X\x03\x00\x00\x00cpuK\x01tQK\x00J\xff\xff\xff\xff\x85)\x89NtR."
    ),
}


@pytest.mark.parametrize("data", _HOSTILE_PICKLES.values(), ids=_HOSTILE_PICKLES.keys())
def test_a_pickle_that_cannot_be_followed_is_refused(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(ModelFileError, match=r"data\.pkl: the pickle cannot be followed"):
        read_torch_graph(script(tmp_path, lines("return x"), data=data))


@pytest.mark.parametrize(
    ("body", "functions", "why"),
    [
        (lines("while True:", "  x = torch.relu(x)", "return x"), "", "nodes"),
        (lines("for i in range(1000000000):", "  pass", "return x"), "", "steps"),
        (lines("return (self).forward(x, )"), "", "nested more than"),
        (lines("return [y for y in x]"), "", "ListComp"),
        (lines("import os", "return x"), "", "Import"),
        (lines("return __torch__.missing(x)"), "", "not in the archive"),
    ],
)
def test_code_that_never_ends_or_is_not_understood_falls_back_to_names_and_says_why(
    tmp_path: Path, body: str, functions: str, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bimetal.operators.torch.script._STEP_LIMIT", 20_000)
    monkeypatch.setattr("bimetal.operators.torch.graph.NODE_LIMIT", 500)
    file = script(tmp_path, body, functions=functions)
    if why == "nodes":
        with pytest.raises(ModelFileError, match="calls more than 500 operators"):
            read_torch_graph(file)
        return
    (note,) = read_torch_graph(file).notes
    assert "operators are counted as they are written" in note
    assert why in note


def test_code_that_is_no_python_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match=r"code/__torch__\.py is no TorchScript"):
        read_torch_graph(script(tmp_path, lines("return (((")))


def test_parentheses_without_end_are_refused(tmp_path: Path) -> None:
    nested = f"return {'torch.relu(' * 500}x{')' * 500}"
    with pytest.raises(ModelFileError, match="no TorchScript"):
        read_torch_graph(script(tmp_path, lines(nested)))


def test_signs_without_end_are_not_followed(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match="no TorchScript"):
        read_torch_graph(script(tmp_path, lines(f"return {'-' * 20_000}x")))


def test_every_flipped_byte_gives_a_graph_or_a_model_file_error(tmp_path: Path) -> None:
    source = zipfile.ZipFile(FILES / "decoder_scripted_fp16.pt")
    members = {name: source.read(name) for name in source.namelist()}
    pickled = next(name for name in members if name.endswith("data.pkl"))
    content = members[pickled]
    for position in range(0, len(content), 3):
        file = tmp_path / "flipped.pt"
        changed = bytes([*content[:position], content[position] ^ 0xA5, *content[position + 1 :]])
        with zipfile.ZipFile(file, "w") as archive:
            for name, data in members.items():
                archive.writestr(name, changed if name == pickled else data)
        try:
            read_torch_graph(file)
        except ModelFileError:
            continue


_PUT_IN = ["0", "-1", "None", "[]", "()", "x", "self", "9" * 20, "CONSTANTS.c9", "[1, [2]]", "{}", "torch.size(x)"]


@pytest.mark.parametrize("name", ["encoder_traced", "speech_scripted", "library_scripted", "repeated_scripted"])
def test_code_with_other_words_gives_a_graph_or_a_model_file_error(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Words of the code in each other's places, and values that no operator takes."""
    monkeypatch.setattr("bimetal.operators.torch.script._STEP_LIMIT", 20_000)
    dice = random.Random(name)
    with zipfile.ZipFile(FILES / f"{name}.pt") as source:
        members = {member: source.read(member) for member in source.namelist()}
    codes = [member for member in members if member.endswith(".py")]
    for _ in range(30):
        changed = dict(members)
        member = dice.choice(codes)
        text = changed[member].decode()
        words = [match.span() for match in re.finditer(r"[\w.]+", text)]
        start, end = dice.choice(words)
        other = dice.choice([text[slice(*dice.choice(words))], *_PUT_IN])
        changed[member] = f"{text[:start]}{other}{text[end:]}".encode()
        file = tmp_path / "changed.pt"
        with zipfile.ZipFile(file, "w") as archive:
            for each, content in changed.items():
                archive.writestr(each, content)
        try:
            place(analyze(file), default_matrix())
        except ModelFileError:
            continue


def test_more_code_than_is_parsed_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A syntax tree takes fifty times the memory of its text."""
    monkeypatch.setattr("bimetal.operators.torch.archive.CODE_LIMIT", 1000)
    file = script(tmp_path, lines("return x", f"# {'x' * 1000}"))
    with pytest.raises(ModelFileError, match="unpacks to more than 1,000 bytes"):
        read_torch_graph(file)


def test_constants_of_one_element_are_read_for_the_sizes_that_depend_on_them() -> None:
    """A traced model divides its hidden size by a constant tensor."""
    assert shape_of(followed("encoder_traced", "tokens=2,7"), "view") == (2, 7, 4, 8)
