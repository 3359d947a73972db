"""The generated models against NumPy, which knows nothing of ONNX."""

import hashlib
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import numpy_helper

from bimetal.model_repo.generate import GENERATORS, ROPE_HEADS, ROPE_HIDDEN, generate
from bimetal.model_repo.sources import GeneratedSource, load_sources


def run(model: bytes, **inputs: Any) -> Any:
    return ort.InferenceSession(model, providers=["CPUExecutionProvider"]).run(None, inputs)[0]


def constants(model: bytes) -> dict[str, Any]:
    graph = onnx.load_model_from_string(model).graph
    return {initializer.name: numpy_helper.to_array(initializer) for initializer in graph.initializer}


@pytest.mark.parametrize("name", GENERATORS)
def test_a_generated_model_is_valid_and_byte_for_byte_the_pinned_one(name: str) -> None:
    model = generate(name)
    onnx.checker.check_model(onnx.load_model_from_string(model), full_check=True)
    source = load_sources()[name].source
    assert source == GeneratedSource(generator=name, sha256=hashlib.sha256(model).hexdigest())


def rotate(heads: Any, positions: Any) -> Any:
    """RoPE as complex multiplication, "rotate half" layout: heads [batch, sequence, heads, size]."""
    half = heads.shape[-1] // 2
    angles = positions[..., None] * 10_000.0 ** (-np.arange(half) / half)
    rotated = (heads[..., :half] + 1j * heads[..., half:]) * np.exp(1j * angles)[:, :, None, :]
    return np.concatenate([rotated.real, rotated.imag], axis=-1)


def attention(hidden: Any, positions: Any, weights: dict[str, Any]) -> Any:
    batch, sequence, _ = hidden.shape
    q, k, v = (
        (hidden @ weights[f"w_{role}"]).reshape(batch, sequence, ROPE_HEADS, ROPE_HIDDEN // ROPE_HEADS)
        for role in "qkv"
    )
    scores = np.einsum("bqhd,bkhd->bhqk", rotate(q, positions), rotate(k, positions)) / np.sqrt(q.shape[-1])
    probabilities = np.exp(scores - scores.max(axis=-1, keepdims=True))
    probabilities /= probabilities.sum(axis=-1, keepdims=True)
    context = np.einsum("bhqk,bkhd->bqhd", probabilities, v).reshape(batch, sequence, ROPE_HIDDEN)
    return context @ weights["w_out"]


def test_rope_attention_is_attention_over_rotated_queries_and_keys(random: np.random.RandomState) -> None:
    model = generate("rope_attention")
    hidden = random.standard_normal((3, 7, ROPE_HIDDEN)).astype(np.float32)
    positions = np.stack([np.arange(7), np.arange(100, 107), np.array([0, 5, 511, 2, 9, 40, 41])])
    expected = attention(hidden.astype(np.float64), positions, constants(model))
    attended = run(model, hidden_states=hidden, position_ids=positions)
    np.testing.assert_allclose(attended, expected, rtol=1e-3, atol=1e-4)
    unrotated = attention(hidden.astype(np.float64), np.zeros_like(positions), constants(model))
    assert not np.allclose(attended, unrotated, rtol=1e-3, atol=1e-4)


def convolution(image: Any, kernel: Any, bias: Any) -> Any:
    """A 3x3 convolution with a border of zeros: image [batch, in, h, w], kernel [out, in, 3, 3]."""
    padded = np.pad(image, ((0, 0), (0, 0), (1, 1), (1, 1)))
    height, width = image.shape[2:]
    taps = [
        np.einsum("bihw,oi->bohw", padded[:, :, row : row + height, column : column + width], kernel[:, :, row, column])
        for row in range(3)
        for column in range(3)
    ]
    return np.sum(taps, axis=0) + bias[None, :, None, None]


def test_qlinear_block_is_the_float_convolution_within_the_quantisation_error(
    random: np.random.RandomState,
) -> None:
    model = generate("qlinear_block")
    values = constants(model)
    kernel = values["kernel"] * values["kernel_scale"][:, None, None, None].astype(np.float64)
    bias = values["bias"] * (values["kernel_scale"] * values["image_scale"]).astype(np.float64)
    image = random.uniform(-0.99, 0.99, (2, 3, 32, 32)).astype(np.float32)
    features = run(model, image=image)
    # Half a step of the image, through every weight of a channel, and half a step of the output.
    allowed = np.abs(kernel).sum(axis=(1, 2, 3)) * values["image_scale"] / 2 + values["features_scale"] / 2
    difference = np.abs(features - convolution(image.astype(np.float64), kernel, bias))
    assert (difference <= allowed[None, :, None, None] * (1 + 1e-6)).all()
    assert features.std() > 4 * allowed.max(), "the features should stand out of the error"


def test_no_two_products_of_qlinear_block_leave_16_bits_where_a_processor_without_vnni_adds_them() -> None:
    # VPMADDUBSW: uint8 x int8 + uint8 x int8 in a signed 16-bit lane; which two weights meet is the kernel's choice.
    largest = np.sort(np.abs(constants(generate("qlinear_block"))["kernel"].astype(int)).ravel())[-2:]
    assert 255 * largest.sum() <= 2**15 - 1
