"""ONNX models that no wheel ships, made here byte for byte the same every time.

Weights are small integers over a power of two, so they are exact in float32 and depend on no library's
random floats: ``RandomState.randint`` is frozen by NumPy's compatibility policy (NEP 19).
"""

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

from bimetal.model_repo.errors import WeightsError

FloatArray = npt.NDArray[np.float32]

ROPE_HIDDEN = 64
ROPE_HEADS = 4
ROPE_MAX_POSITIONS = 512
ROPE_BASE = 10_000.0  # theta of "RoFormer", Su et al. 2021, section 3.2.2


def _weights(random: np.random.RandomState, shape: Sequence[int], divisor: int) -> FloatArray:
    """Integers in [-128, 127] over ``divisor``, a power of two."""
    return (random.randint(-128, 128, size=tuple(shape)) / divisor).astype(np.float32)


def _rope_tables(head_size: int, positions: int) -> tuple[FloatArray, FloatArray]:
    """Cosines and sines of ``position * base**(-2i/head_size)``: two arrays [positions, head_size / 2]."""
    angles = [
        [position * ROPE_BASE ** (-2 * i / head_size) for i in range(head_size // 2)] for position in range(positions)
    ]
    cosines = np.array([[math.cos(angle) for angle in row] for row in angles], dtype=np.float32)
    sines = np.array([[math.sin(angle) for angle in row] for row in angles], dtype=np.float32)
    return cosines, sines


def rope_attention() -> bytes:
    """One self-attention layer with rotary position embedding, opset 23 (the first with RotaryEmbedding).

    hidden_states FP32 [batch, sequence, 64] and position_ids INT64 [batch, sequence], below 512,
    give attended FP32 [batch, sequence, 64].
    """
    random = np.random.RandomState(23)
    head_size = ROPE_HIDDEN // ROPE_HEADS
    cosines, sines = _rope_tables(head_size, ROPE_MAX_POSITIONS)
    constants = {name: _weights(random, (ROPE_HIDDEN, ROPE_HIDDEN), 512) for name in ("w_q", "w_k", "w_v", "w_out")} | {
        "cos_cache": cosines,
        "sin_cache": sines,
        "scale": np.array(1 / math.sqrt(head_size), dtype=np.float32),
        "split_heads": np.array([0, 0, ROPE_HEADS, head_size], dtype=np.int64),
        "join_heads": np.array([0, 0, ROPE_HIDDEN], dtype=np.int64),
    }
    graph = helper.make_graph(
        _rope_attention_nodes(),
        "rope_attention",
        inputs=[
            helper.make_tensor_value_info("hidden_states", TensorProto.FLOAT, ["batch", "sequence", ROPE_HIDDEN]),
            helper.make_tensor_value_info("position_ids", TensorProto.INT64, ["batch", "sequence"]),
        ],
        outputs=[helper.make_tensor_value_info("attended", TensorProto.FLOAT, ["batch", "sequence", ROPE_HIDDEN])],
        initializer=[numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    return _serialize(graph, opset=23, ir_version=11)


def _rope_attention_nodes() -> list[NodeProto]:
    node = helper.make_node
    nodes = [node("MatMul", ["hidden_states", f"w_{role}"], [role]) for role in "qkv"]
    for role in "qk":
        rope_inputs = [role, "cos_cache", "sin_cache", "position_ids"]
        nodes.append(node("RotaryEmbedding", rope_inputs, [f"{role}_rotated"], num_heads=ROPE_HEADS))
    for tensor, permutation in (
        ("q_rotated", [0, 2, 1, 3]),
        ("k_rotated", [0, 2, 3, 1]),
        ("v", [0, 2, 1, 3]),
    ):
        nodes.append(node("Reshape", [tensor, "split_heads"], [f"{tensor}_split"]))
        nodes.append(node("Transpose", [f"{tensor}_split"], [f"{tensor}_heads"], perm=permutation))
    return [
        *nodes,
        node("MatMul", ["q_rotated_heads", "k_rotated_heads"], ["scores"]),
        node("Mul", ["scores", "scale"], ["scaled_scores"]),
        node("Softmax", ["scaled_scores"], ["probabilities"], axis=-1),
        node("MatMul", ["probabilities", "v_heads"], ["context_heads"]),
        node("Transpose", ["context_heads"], ["context_split"], perm=[0, 2, 1, 3]),
        node("Reshape", ["context_split", "join_heads"], ["context"]),
        node("MatMul", ["context", "w_out"], ["attended"]),
    ]


def qlinear_block() -> bytes:
    """A quantised 3x3 convolution between float tensors: QuantizeLinear, QLinearConv, DequantizeLinear.

    image FP32 [batch, 3, 32, 32] in [-1, 1] gives features FP32 [batch, 8, 32, 32].
    Per-channel int8 weights, uint8 activations: the common result of static post-training quantisation. The weights use
    7 of their 8 bits (onnxruntime's `reduce_range`): x86-64 without VNNI adds two uint8 x int8 products in 16 bits, and
    saturates (onnxruntime's documentation, "Quantize ONNX models", "When and why do I need to try U8U8?").
    """
    random = np.random.RandomState(13)
    # A fixed size: MIGraphX compiles at every new shape.
    channels, size = 8, 32
    constants: dict[str, npt.NDArray[np.generic]] = {
        "image_scale": np.array(1 / 128, dtype=np.float32),
        "image_zero": np.array(128, dtype=np.uint8),
        "kernel": random.randint(-64, 65, size=(channels, 3, 3, 3)).astype(np.int8),
        "kernel_scale": (random.randint(1, 5, size=channels) / 512).astype(np.float32),
        "kernel_zero": np.zeros(channels, dtype=np.int8),
        "bias": random.randint(-2048, 2048, size=channels).astype(np.int32),
        "features_scale": np.array(1 / 16, dtype=np.float32),
        "features_zero": np.array(128, dtype=np.uint8),
    }
    node = helper.make_node
    image, kernel, features = (
        [f"{name}{part}" for part in ("", "_scale", "_zero")] for name in ("image", "kernel", "features")
    )
    nodes = [
        node("QuantizeLinear", image, ["image_quantised"]),
        node(
            "QLinearConv",
            ["image_quantised", *image[1:], *kernel, *features[1:], "bias"],
            ["features_quantised"],
            pads=[1, 1, 1, 1],
        ),
        node("DequantizeLinear", ["features_quantised", *features[1:]], ["features"]),
    ]
    graph = helper.make_graph(
        nodes,
        "qlinear_block",
        inputs=[helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 3, size, size])],
        outputs=[helper.make_tensor_value_info("features", TensorProto.FLOAT, ["batch", channels, size, size])],
        initializer=[numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    return _serialize(graph, opset=13, ir_version=8)


def _serialize(graph: GraphProto, *, opset: int, ir_version: int) -> bytes:
    model: ModelProto = helper.make_model(
        graph,
        producer_name="bimetal",
        # Pinned: onnx would write its own newest, and the bytes would follow its releases.
        ir_version=ir_version,
        opset_imports=[helper.make_opsetid("", opset)],
    )
    return bytes(model.SerializeToString(deterministic=True))


GENERATORS: Mapping[str, Callable[[], bytes]] = {
    "rope_attention": rope_attention,
    "qlinear_block": qlinear_block,
}


def generate(name: str) -> bytes:
    """The serialized ONNX model that ``name`` makes. Raises WeightsError for an unknown generator."""
    if name not in GENERATORS:
        raise WeightsError(f"generator {name!r} is unknown; expected one of {', '.join(sorted(GENERATORS))}")
    return GENERATORS[name]()
