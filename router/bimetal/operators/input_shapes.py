"""Shapes of a model's inputs that its file does not tell: from the person, or from the model's config.pbtxt."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2

from bimetal.operators.errors import ModelFileError
from bimetal.operators.sizes import Sizes, input_size

InputShapes = Mapping[str, Sizes]


def parse_shapes(texts: Iterable[str]) -> dict[str, Sizes]:
    """ "tokens=batch,128" gives the shape [batch, 128] of the input tokens.

    Raises:
        ModelFileError: a text is not of that form.
    """
    return dict(_parsed(text) for text in texts)


def _parsed(text: str) -> tuple[str, Sizes]:
    name, separator, sizes = text.partition("=")
    parts = [part.strip() for part in sizes.split(",")] if sizes else []
    if not name or not separator or not all(part.isdecimal() or part.isidentifier() for part in parts):
        raise ModelFileError(
            f"{text!r} is no input shape; expected NAME=SIZE,SIZE,... with numbers, or names for open sizes.",
            "For example: --input tokens=batch,128",
        )
    return name, Sizes(
        tuple(int(part) if part.isdecimal() else input_size(part, axis) for axis, part in enumerate(parts))
    )


def configured_shapes(file: Path) -> list[tuple[str, Sizes]]:
    """Name and shape of each input in the config.pbtxt of MODEL/VERSION/file; none where there is no such file.

    Raises:
        ModelFileError: it cannot be read.
    """
    path = file.resolve().parent.parent / "config.pbtxt"
    if not path.is_file():
        return []
    config = model_config_pb2.ModelConfig()
    try:
        text_format.Parse(path.read_bytes(), config, allow_unknown_field=True)
    except (OSError, text_format.ParseError) as exc:
        raise ModelFileError(
            f"{path} cannot be read: {exc}.", "Correct it, or move the model out of its folder."
        ) from exc
    batched = config.max_batch_size > 0
    return [(entry.name, _configured(list(entry.dims), batched=batched)) for entry in config.input]


def _configured(dims: list[int], *, batched: bool) -> Sizes:
    sizes = [-1, *dims] if batched else dims
    names = ["batch" if axis == 0 and batched else f"size{axis}" for axis in range(len(sizes))]
    return Sizes(tuple(size if size > 0 else input_size(names[axis], axis) for axis, size in enumerate(sizes)))
