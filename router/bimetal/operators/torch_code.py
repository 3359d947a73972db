"""The code of a TorchScript archive: classes and functions by their qualified names, as Python's own parser sees them.

TorchScript writes its code as Python, of which only the syntax tree is made here.
"""

import ast
import warnings
from dataclasses import dataclass, field
from typing import Any

from bimetal.operators.errors import ModelFileError
from bimetal.operators.torch_archive import SAVE_AGAIN, Members

CODE_LIMIT = 8 * 2**20  # bytes of code of one archive; a syntax tree takes about fifty times as much memory


@dataclass
class ClassCode:
    """Methods by name, and the attributes that the class itself holds."""

    methods: dict[str, ast.FunctionDef] = field(default_factory=dict)
    constants: dict[str, Any] = field(default_factory=dict)
    fields: list[str] = field(default_factory=list)


class Code:
    """Parses a file of the archive when something in it is first asked for."""

    def __init__(self, file: str, members: Members) -> None:
        self._file = file
        self._members = members
        self._left = CODE_LIMIT
        self._functions: dict[str, ast.FunctionDef] = {}
        self._classes: dict[str, ClassCode] = {}
        self._parsed: set[str] = set()

    def function(self, name: str) -> ast.FunctionDef | None:
        """A function by its qualified name, such as `__torch__.torch.nn.functional.relu`."""
        self._load(name)
        return self._functions.get(name)

    def class_(self, name: str) -> ClassCode | None:
        self._load(name)
        return self._classes.get(name)

    def _load(self, name: str) -> None:
        module = name.rpartition(".")[0]
        member = f"code/{module.replace('.', '/')}.py"
        if module in self._parsed or member not in self._members:
            return
        self._parsed.add(module)
        source = self._members.read(member, at_most=self._left or 1)
        self._left -= len(source)
        try:
            tree = syntax_tree(source)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as exc:
            raise ModelFileError(f"{self._file}: {member} is no TorchScript ({exc}).", SAVE_AGAIN) from exc
        for statement in tree.body:
            if isinstance(statement, ast.FunctionDef):
                self._functions[f"{module}.{statement.name}"] = statement
            elif isinstance(statement, ast.ClassDef):
                self._classes[f"{module}.{statement.name}"] = _class(statement)


def syntax_tree(source: bytes | str, mode: str = "exec") -> Any:
    """Python's parser, without its warnings: what a stranger's code looks like is no business of a reader of the log.

    Raises:
        SyntaxError, ValueError, RecursionError, MemoryError: it is no Python, or nested too deep.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)
        return ast.parse(source, mode=mode)


def _class(definition: ast.ClassDef) -> ClassCode:
    code = ClassCode()
    for statement in definition.body:
        if isinstance(statement, ast.FunctionDef):
            code.methods[statement.name] = statement
        elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            code.fields.append(statement.target.id)
            if statement.value is not None:
                code.constants[statement.target.id] = _literal(statement.value)
    return code


def _literal(expression: ast.expr) -> Any:
    try:
        return ast.literal_eval(expression)
    except (ValueError, RecursionError):
        return None


def dotted(expression: ast.expr) -> str | None:
    """`a.b.c` as text; None for any other expression."""
    parts = []
    while isinstance(expression, ast.Attribute):
        parts.append(expression.attr)
        expression = expression.value
    if not isinstance(expression, ast.Name):
        return None
    return ".".join([expression.id, *reversed(parts)])
