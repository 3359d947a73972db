"""The operator matrix: its data file, its loader and what its facts come to."""

from pathlib import Path

import onnx
import pytest

from bimetal.operators.errors import MatrixError
from bimetal.operators.matrix.build import build, write
from bimetal.operators.matrix.matrix import MATRIX_FILE, SOURCES_FILE, Evidence, Matrix, default_matrix, load_matrix
from bimetal.operators.matrix.targets import PROVIDER_TARGETS, Target
from bimetal.operators.onnx.reader import operator_version


@pytest.fixture(scope="module")
def matrix() -> Matrix:
    return default_matrix()


def score(matrix: Matrix, operator: str, opset: int, target: Target, domain: str = "ai.onnx") -> int:
    version = operator_version(operator, domain, opset) if domain == "ai.onnx" else 1
    judgement = matrix.judge(domain, operator, version, target)
    assert judgement is not None
    return judgement.score


def test_the_data_file_is_what_its_facts_give(tmp_path: Path) -> None:
    write(build(), tmp_path / "matrix.csv")
    assert (tmp_path / "matrix.csv").read_bytes() == MATRIX_FILE.read_bytes()


def test_every_onnx_operator_is_judged_for_every_execution_provider(matrix: Matrix) -> None:
    onnx_operators = {pair for pair in matrix.operators() if pair[0] != "aten"}
    assert len(onnx_operators) >= 237
    cells = {(cell.domain, cell.operator, cell.target) for cell in matrix if cell.evidence is not Evidence.PRACTITIONER}
    assert cells >= {(*pair, target) for pair in onnx_operators for target in PROVIDER_TARGETS.values()}


def test_every_version_that_onnx_defines_has_exactly_one_fact_per_provider(matrix: Matrix) -> None:
    schemas = [schema for schema in onnx.defs.get_all_schemas_with_history() if schema.domain == ""]
    for schema in schemas:
        for target in PROVIDER_TARGETS.values():
            judgement = matrix.judge("ai.onnx", schema.name, schema.since_version, target)
            assert judgement is not None, (schema.name, schema.since_version, target)
            assert judgement.fact is not None, (schema.name, schema.since_version, target)


@pytest.mark.parametrize(
    ("operator", "opset", "target", "expected"),
    [
        ("Add", 6, Target.CPU, 0),  # onnxruntime's kernels begin at opset 7
        ("Add", 6, Target.CUDA, 0),
        ("Add", 7, Target.CPU, 4),
        ("Relu", 6, Target.CPU, 4),  # that version lasts until opset 12
        ("Softplus", 21, Target.CUDA, 5),
        ("Softplus", 22, Target.CUDA, 1),  # an open-ended kernel matches one operator version only
        ("LSTM", 22, Target.CUDA, 1),
        ("Pad", 18, Target.CUDA, 5),
        ("Pad", 19, Target.CUDA, 1),
        ("Conv", 22, Target.CUDA, 5),
        ("Conv", 22, Target.ROCM, 1),
        ("RoiAlign", 22, Target.CPU, 0),
        ("RoiAlign", 22, Target.CUDA, 0),  # nothing to fall back on either
        ("Attention", 23, Target.CUDA, 5),
        ("Attention", 23, Target.TENSORRT, 3),
        ("Attention", 23, Target.MIGRAPHX, 2),  # the parser of that name reads com.microsoft's
        ("RotaryEmbedding", 23, Target.MIGRAPHX, 2),
        ("RMSNormalization", 23, Target.MIGRAPHX, 1),
        ("Mish", 18, Target.CUDA, 2),  # its function body is inlined
        ("Mish", 22, Target.TENSORRT, 5),
        ("QLinearConv", 13, Target.CUDA, 1),
        ("QLinearConv", 13, Target.MIGRAPHX, 4),
        ("Tan", 22, Target.CUDA, 1),
        ("Tan", 22, Target.MIGRAPHX, 5),
    ],
)
def test_the_operator_version_that_the_opset_selects_decides(
    matrix: Matrix, operator: str, opset: int, target: Target, expected: int
) -> None:
    assert score(matrix, operator, opset, target) == expected


@pytest.mark.parametrize("operator", ["MoE", "QMoE", "PagedAttention", "SparseAttention", "PackedAttention"])
def test_only_cuda_runs_the_sparse_and_paged_contrib_operators(matrix: Matrix, operator: str) -> None:
    assert score(matrix, operator, 1, Target.CUDA, "com.microsoft") >= 4
    assert score(matrix, operator, 1, Target.MIGRAPHX, "com.microsoft") <= 1


def test_a_documented_fact_wins_over_a_finding_and_the_finding_stays_visible(matrix: Matrix) -> None:
    judgement = matrix.judge("com.microsoft", "SparseAttention", 1, Target.MIGRAPHX)
    assert judgement is not None
    assert judgement.score == 1
    assert judgement.finding is not None
    assert judgement.finding.score == 5
    assert "Block Sparse" in judgement.finding.limits


def test_a_finding_decides_between_native_and_fast_where_no_fact_contradicts(matrix: Matrix) -> None:
    judgement = matrix.judge("aten", "layer_norm", 1, Target.TORCH_CUDA)
    assert judgement is not None
    assert judgement.fact is not None
    assert (judgement.fact.score, judgement.score) == (4, 5)
    assert judgement.decided_by.evidence is Evidence.PRACTITIONER


@pytest.mark.parametrize(
    ("operator", "cuda", "rocm"),
    [
        ("scaled_dot_product_attention", 5, 3),
        ("linalg_eig", 4, 3),
        ("sin", 3, 4),
        ("frexp", 4, 0),
        ("_scaled_dot_product_cudnn_attention", 4, 0),
        ("_grouped_mm", 4, 3),
    ],
)
def test_aten_operators_are_judged_for_both_builds_of_torch(
    matrix: Matrix, operator: str, cuda: int, rocm: int
) -> None:
    assert score(matrix, operator, 1, Target.TORCH_CUDA, "aten") == cuda
    assert score(matrix, operator, 1, Target.TORCH_ROCM, "aten") == rocm


def test_every_cell_names_where_it_comes_from(matrix: Matrix) -> None:
    assert all(cell.sources and set(cell.sources) <= set(matrix.sources) for cell in matrix)


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        (",cpu,1,12,4,", ",tpu,1,12,4,", "2: column 'target' is 'tpu'; expected one of cuda, "),
        (",cpu,1,12,4,", ",cpu,1,12,9,", "2: column 'score' is '9'; expected a whole number from 0 to 5"),
        (",cpu,1,12,4,", ",cpu,one,12,4,", "2: column 'first_version' is 'one'; expected an operator version"),
        ("documented", "hearsay", "2: column 'evidence' is 'hearsay'; expected one of measured"),
        (",ort-cpu", ",rumours", "2: column 'sources' is 'rumours'; expected ids of the sources file"),
        (",ort-cpu", "", "2: expected 10 columns"),
        ("domain,", "dom,", "1: column 'domain' is missing"),
    ],
)
def test_a_bad_row_is_refused_with_its_line_and_column(tmp_path: Path, before: str, after: str, message: str) -> None:
    header = MATRIX_FILE.read_text().splitlines()[0]
    text = f"{header}\nai.onnx,Abs,cpu,1,12,4,,,documented,ort-cpu\n"
    file = tmp_path / "matrix.csv"
    file.write_text(text)
    assert len(list(load_matrix(file, SOURCES_FILE))) == 1
    file.write_text(text.replace(before, after, 1))
    with pytest.raises(MatrixError) as caught:
        load_matrix(file, SOURCES_FILE)
    assert f"{file}:{message}" in str(caught.value)


def test_two_rows_for_one_version_are_refused(tmp_path: Path) -> None:
    header = MATRIX_FILE.read_text().splitlines()[0]
    row = "ai.onnx,Abs,cpu,{first},{last},4,,,documented,ort-cpu\n"
    file = tmp_path / "matrix.csv"
    file.write_text(f"{header}\n{row.format(first=1, last=12)}{row.format(first=12, last='')}")
    with pytest.raises(MatrixError, match=r"Abs on cpu has two rows for version 12"):
        load_matrix(file, SOURCES_FILE)


def test_a_missing_matrix_file_says_how_to_build_it(tmp_path: Path) -> None:
    with pytest.raises(MatrixError, match=r"matrix\.build"):
        load_matrix(tmp_path / "none.csv", SOURCES_FILE)
