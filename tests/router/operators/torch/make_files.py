"""Makes files/: `python tests/router/operators/torch/make_files.py`, in an environment with torch 2.13.0.

The tests read the files without torch. They are small, so that they can be kept: two layers, 32 channels, and of each
archive only what a reader of the structure needs; weights and debug information are left out.
"""

# mypy: ignore-errors
# torch is not in the project's environment.

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.attention import SDPBackend
from torch.utils.flop_counter import FlopCounterMode

FILES = Path(__file__).parent / "files"


class SelfAttention(nn.Module):
    """Attention written out, as BERT's is."""

    def __init__(self, hidden: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.out = (nn.Linear(hidden, hidden) for _ in range(4))

    def split(self, x: Tensor) -> Tensor:
        batch, length, hidden = x.size()
        return x.view(batch, length, self.heads, hidden // self.heads).permute(0, 2, 1, 3)

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = self.split(self.query(x)), self.split(self.key(x)), self.split(self.value(x))
        scores = torch.matmul(query, key.transpose(-1, -2)) / float(query.size(-1)) ** 0.5
        mixed = torch.matmul(torch.softmax(scores, dim=-1), value)
        return self.out(mixed.permute(0, 2, 1, 3).contiguous().flatten(2))


class Layer(nn.Module):
    def __init__(self, hidden: int, heads: int) -> None:
        super().__init__()
        self.attention = SelfAttention(hidden, heads)
        self.attention_norm, self.mlp_norm = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.mlp = nn.Sequential(nn.Linear(hidden, 4 * hidden), nn.GELU(), nn.Linear(4 * hidden, hidden))

    def forward(self, x: Tensor) -> Tensor:
        x = self.attention_norm(x + self.attention(x))
        return self.mlp_norm(x + self.mlp(x))


class Encoder(nn.Module):
    """A BERT of two layers."""

    def __init__(self, hidden: int = 32, heads: int = 4) -> None:
        super().__init__()
        self.embeddings = nn.Embedding(100, hidden)
        self.layers = nn.ModuleList([Layer(hidden, heads) for _ in range(2)])
        self.head = nn.Linear(hidden, 10)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embeddings(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.head(x[:, 0])


class Decoder(nn.Module):
    """A layer with PyTorch's own attention, which takes a mask or none."""

    def __init__(self, hidden: int = 32, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        batch, length, hidden = x.shape
        query, key, value = self.qkv(x).chunk(3, dim=-1)
        size = [batch, length, self.heads, hidden // self.heads]
        query, key, value = (
            query.view(size).transpose(1, 2),
            key.view(size).transpose(1, 2),
            value.view(size).transpose(1, 2),
        )
        mixed = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        return self.out(mixed.transpose(1, 2).reshape(batch, length, hidden))


class Convolutions(nn.Module):
    """An image classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.BatchNorm2d(8), nn.ReLU(inplace=True))
        self.pool = nn.MaxPool2d(2)
        self.depthwise = nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.up = nn.ConvTranspose2d(8, 4, 2, stride=2)
        self.head = nn.Linear(4, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.pool(self.stem(x))
        x = torch.cat([x, self.depthwise(x)], dim=1)[:, :8]
        x = functional.adaptive_avg_pool2d(self.up(x), 1)
        return self.head(torch.flatten(x, 1))


class Speech(nn.Module):
    """A convolution over sound of any length, then a bidirectional LSTM."""

    def __init__(self) -> None:
        super().__init__()
        self.front = nn.Conv1d(4, 8, 3, padding=1)
        self.lstm = nn.LSTM(8, 6, num_layers=2, bidirectional=True, batch_first=True)
        self.head = nn.Linear(12, 5)

    def forward(self, x: Tensor) -> Tensor:
        x, _ = self.lstm(torch.relu(self.front(x)).transpose(1, 2))
        return self.head(x)


class Segmentation(nn.Module):
    """Down, up and a bridge between, with the paddings and resizings that others have."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Conv2d(3, 8, 3, padding=1)
        self.middle, self.norm = nn.Conv2d(8, 16, 3, padding="same"), nn.GroupNorm(4, 16)
        self.up, self.head = nn.Upsample(scale_factor=2, mode="bilinear"), nn.Conv2d(24, 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        bridge = torch.relu(self.down(x))
        small = functional.silu(self.norm(self.middle(functional.avg_pool2d(bridge, 2))))
        return torch.sigmoid(self.head(torch.cat([bridge, self.up(small)], 1)))


def library_encoder() -> nn.Module:
    """PyTorch's own encoder layers, which have a fast way and a slow one."""
    layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)


class Chosen(nn.Module):
    """Branches that torch.export keeps."""

    def __init__(self) -> None:
        super().__init__()
        self.near = nn.Linear(8, 8)
        self.far = nn.Sequential(nn.Linear(8, 4), nn.Linear(4, 8))

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(torch.cond(x.sum() > 0, self.near, self.far, (x,)))


class Repeated(nn.Module):
    """A loop whose length the input decides."""

    def __init__(self) -> None:
        super().__init__()
        self.step = nn.Linear(8, 8)

    def forward(self, x: Tensor, steps: int) -> Tensor:
        for _ in range(steps):
            x = torch.tanh(self.step(x))
        if x.sum() > 0:
            x = -x
        return x


def keep(name: str, save: Callable[[Path], None]) -> None:
    """Saves a model and keeps its structure."""
    with TemporaryDirectory() as folder:
        whole = Path(folder) / name
        save(whole)
        with zipfile.ZipFile(whole) as source, zipfile.ZipFile(FILES / name, "w", zipfile.ZIP_DEFLATED) as target:
            for member in source.namelist():
                if "/data/" not in member and not member.endswith(".debug_pkl"):
                    # Dates and paths of the machine would make every run's file another one.
                    info = zipfile.ZipInfo(member, (1980, 1, 1, 0, 0, 0))
                    target.writestr(info, without_traces(source.read(member), member), zipfile.ZIP_DEFLATED)


def without_traces(content: bytes, member: str) -> bytes:
    """An exported program without the paths of the code that made it."""
    if not member.endswith("models/model.json"):
        return content
    program = json.loads(content)
    _forget_traces(program["graph_module"]["graph"])
    return json.dumps(program).encode()


def _forget_traces(graph: Any) -> None:
    for node in graph["nodes"]:
        node["metadata"].pop("stack_trace", None)
        for each in node["inputs"]:
            if "as_graph" in each["arg"]:
                _forget_traces(each["arg"]["as_graph"]["graph"])


def main() -> None:
    torch.manual_seed(0)
    FILES.mkdir(exist_ok=True)
    tokens, states = torch.zeros(1, 7, dtype=torch.int64), torch.zeros(2, 7, 32)
    image, sound = torch.zeros(1, 3, 32, 32), torch.zeros(1, 4, 50)
    encoder, decoder, images, speech = (make().eval() for make in (Encoder, Decoder, Convolutions, Speech))
    half = Decoder().eval().half()
    keep("encoder_traced.pt", torch.jit.trace(encoder, tokens).save)
    keep("convolutions_traced.pt", torch.jit.trace(images, image).save)
    keep("speech_traced.pt", torch.jit.trace(speech, sound).save)
    keep("encoder_scripted.pt", torch.jit.script(encoder).save)
    keep("decoder_scripted_fp16.pt", torch.jit.script(half).save)
    keep("convolutions_scripted.pt", torch.jit.script(images).save)
    keep("convolutions_frozen.pt", torch.jit.freeze(torch.jit.script(images)).save)
    keep("speech_scripted.pt", torch.jit.script(speech).save)
    keep("repeated_scripted.pt", torch.jit.script(Repeated().eval()).save)
    pixels, library = Segmentation().eval(), library_encoder().eval()
    keep("segmentation_scripted.pt", torch.jit.script(pixels).save)
    keep("segmentation_traced.pt", torch.jit.trace(pixels, image).save)
    keep("library_scripted.pt", torch.jit.script(library).save)
    keep("library_traced.pt", torch.jit.trace(library, states, check_trace=False).save)
    batch, length = torch.export.Dim("batch", max=64), torch.export.Dim("length", min=2, max=512)
    two = torch.zeros(2, 7, dtype=torch.int64)
    open_ = ({0: batch, 1: length},)
    programs = {
        "encoder.pt2": torch.export.export(encoder, (two,), dynamic_shapes=open_),
        "chosen.pt2": torch.export.export(Chosen().eval(), (torch.zeros(3, 8),)),
        "convolutions_decomposed.pt2": torch.export.export(images, (image,)).run_decompositions(),
        "encoder_decomposed.pt2": torch.export.export(
            encoder, (torch.zeros(3, 11, dtype=torch.int64),)
        ).run_decompositions(),
        "decoder.pt2": torch.export.export(decoder, (states,)),
        "convolutions.pt2": torch.export.export(images, (image,)),
        "speech.pt2": torch.export.export(Speech().front.eval(), (sound,), dynamic_shapes=({2: length},)),
    }
    for name, program in programs.items():
        keep(name, lambda file, program=program: torch.export.save(program, file))
    (FILES / "expected.json").write_text(json.dumps(expected(), indent=1) + "\n")


def expected() -> dict[str, dict[str, object]]:
    """FLOPs of products and convolutions, and the shape of the output, as PyTorch itself counts them."""
    runs = {
        "encoder": (Encoder(), torch.zeros(3, 11, dtype=torch.int64)),
        "decoder": (Decoder(), torch.zeros(3, 11, 32)),
        "convolutions": (Convolutions(), torch.zeros(2, 3, 48, 64)),
        "segmentation": (Segmentation(), torch.zeros(2, 3, 48, 64)),
    }
    found: dict[str, dict[str, object]] = {}
    for name, (model, example) in runs.items():
        with FlopCounterMode(display=False) as counter, torch.nn.attention.sdpa_kernel(SDPBackend.MATH):
            output = model.eval()(example)
        found[name] = {
            "input": list(example.shape),
            "output": list(output.shape),
            "flops": counter.get_total_flops(),
        }
    # The slow way alone: PyTorch counts nothing inside the fast one.
    library = library_encoder().train()
    with FlopCounterMode(display=False) as counter, torch.nn.attention.sdpa_kernel(SDPBackend.MATH):
        output = library(torch.zeros(3, 11, 32))
    found["library"] = {"input": [3, 11, 32], "output": list(output.shape), "flops": counter.get_total_flops()}
    return found


if __name__ == "__main__":
    main()
