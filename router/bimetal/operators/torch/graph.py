"""Collects the operators of a PyTorch file, in the order in which they would run, as an operator graph."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from bimetal.operators.errors import ModelFileError
from bimetal.operators.graph import NODE_LIMIT, AttributeValue, Graph, Node, Tensor
from bimetal.operators.torch.value import Value, values

ATEN = "aten"
_SAME_OPERATOR = {
    "_log_softmax": "log_softmax",
    "_native_batch_norm_legit_no_training": "batch_norm",
    "_softmax": "softmax",
    "_to_copy": "to",
    "_unsafe_view": "view",
    "concat": "cat",
    "divide": "div",
    "max_pool2d_with_indices": "max_pool2d",
    "max_pool3d_with_indices": "max_pool3d",
    "multiply": "mul",
    "native_layer_norm": "layer_norm",
    "subtract": "sub",
    "unsafe_chunk": "chunk",
    "unsafe_split": "split",
}
"""Names that one operator has after export or decomposition; the matrix knows it by the other."""


def plain_name(operator: str, arguments: Mapping[str, object]) -> str:
    """The operator's name as the matrix has it: relu_ (in place) is relu, a convolution tells its dimensions."""
    name = operator if operator.startswith("__") else operator.rstrip("_")
    weight = arguments.get("weight")
    if (
        name in {"_convolution", "_convolution_mode", "convolution"}
        and isinstance(weight, Value)
        and not weight.sizes.leading
    ):
        kind = "conv_transpose" if arguments.get("transposed") is True else "conv"
        return f"{kind}{len(weight.sizes) - 2}d"
    return _SAME_OPERATOR.get(name, name)


class Collector:
    """The nodes so far. What a node waits for are the nodes that made its tensors."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.nodes: list[Node] = []
        self._makers: dict[str, int] = {}
        self._parent: int | None = None

    def add(
        self,
        operator: str,
        arguments: Mapping[str, object],
        results: Sequence[Value],
        *,
        domain: str = ATEN,
        scope: str = "",
        opset: int = 0,
    ) -> int:
        """A node; its index.

        Raises:
            ModelFileError: there are more nodes than are analysed.
        """
        index = len(self.nodes)
        if index >= NODE_LIMIT:
            raise ModelFileError(f"{self._file} calls more than {NODE_LIMIT:,} operators.", "Split the model.")
        inputs = values(arguments)
        waits = {self._makers[value.name]: None for value in inputs if value.name in self._makers}
        self.nodes.append(
            Node(
                index=index,
                name=f"{scope}/{operator}" if scope else "",
                operator=operator,
                domain=domain,
                version=1,
                opset=opset,
                inputs=tuple(value.tensor for value in inputs),
                outputs=tuple(value.tensor for value in results),
                attributes=_attributes(arguments),
                predecessors=tuple(waits),
                parent=self._parent,
            )
        )
        self._makers.update((value.name, index) for value in results)
        return index

    @contextmanager
    def body_of(self, parent: int) -> Iterator[None]:
        """What is added meanwhile is in a body of that node, and waits for nothing outside of it."""
        outside = self._makers, self._parent
        self._makers, self._parent = {}, parent
        try:
            yield
        finally:
            self._makers, self._parent = outside

    def forget(self, count: int) -> None:
        """Drop all nodes but the first `count`."""
        del self.nodes[count:]
        self._makers = {name: index for name, index in self._makers.items() if index < count}

    def graph(
        self,
        format_: str,
        *,
        opset: int = 0,
        inputs: Sequence[Tensor] = (),
        outputs: Sequence[Tensor] = (),
        notes: Sequence[str] = (),
    ) -> Graph:
        """The operators that were collected, as an operator graph of that format."""
        return Graph(
            file=self._file,
            opsets={ATEN: opset} if opset else {},
            inputs=tuple(inputs),
            outputs=tuple(outputs),
            nodes=tuple(self.nodes),
            notes=tuple(notes),
            format=format_,
            timed=bool(inputs) and all(tensor.shape is not None for tensor in inputs),
        )


def _attributes(arguments: Mapping[str, object]) -> dict[str, AttributeValue]:
    """The numbers and texts among the arguments, and lists of whole numbers."""
    found: dict[str, AttributeValue] = {}
    for name, value in arguments.items():
        if isinstance(value, bool):
            found[name] = int(value)
        elif isinstance(value, int | float | str):
            found[name] = value
        elif isinstance(value, list | tuple) and value and all(isinstance(each, int) for each in value):
            found[name] = tuple(value)
    return found
