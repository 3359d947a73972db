"""Follows the code of a TorchScript archive without running it: which operators it calls, on tensors of which shapes.

An interpreter over descriptions. A tensor is its type and what is known of its sizes; a call of an operator becomes
a node. Where a condition is not known both branches are followed, and a loop of open length is followed once. No
operator computes anything, no number of a weight is read (but constants of one element, which sizes are computed from).
"""

import ast
from collections.abc import Mapping, Sequence
from typing import Any

from bimetal.operators.errors import NotFollowedError
from bimetal.operators.sizes import UNKNOWN
from bimetal.operators.torch.archive import Code, dotted
from bimetal.operators.torch.graph import Collector
from bimetal.operators.torch.join import Function, Method, described, joined_values, parts_of, truth
from bimetal.operators.torch.pickle import Thing
from bimetal.operators.torch.record import Recorder
from bimetal.operators.torch.scalars import NO_SCALAR, NOT_TOLD, scalar

_STEP_LIMIT = 1_000_000  # expressions and statements: some seconds of work
_DEPTH_LIMIT = 60  # calls inside calls
Environment = dict[str, Any]


class _Returned(Exception):  # noqa: N818 - no error: how a function ends
    def __init__(self, value: Any) -> None:
        self.value = value


class _Raised(Exception):  # noqa: N818 - the model's own error, which ends a branch
    pass


class Follower:
    """Follows one model.

    Args:
        constants: the values of CONSTANTS.c0, c1, ...
        paths: the attribute path of every module, by identity.
    """

    def __init__(self, code: Code, collector: Collector, constants: Sequence[Any], paths: Mapping[int, str]) -> None:
        self._code = code
        self._collector = collector
        self._recorder = Recorder(collector)
        self._constants = constants
        self._paths = paths
        self._scopes: list[str] = []
        self._steps = 0
        self.notes: dict[str, None] = {}

    def call(self, owner: Thing, method: str, arguments: Sequence[Any]) -> Any:
        """What a method of a module returns.

        Raises:
            NotFollowedError: the class, or something in its code, is not understood.
                ModelFileError: it calls more operators than are analysed.
        """
        definition = self._method(owner, method)
        if definition is None:
            raise NotFollowedError(f"{owner.class_name} has no method {method}")
        try:
            return self._run(definition, [owner, *arguments], {}, self._paths.get(id(owner), ""))
        except _Raised as raised:
            raise NotFollowedError("it ends in an error of its own, whatever it is given") from raised

    def _method(self, owner: Thing, name: str) -> ast.FunctionDef | None:
        found = self._code.class_(owner.class_name)
        return found.methods.get(name) if found else None

    def _run(self, function: ast.FunctionDef, arguments: Sequence[Any], keywords: Environment, scope: str) -> Any:
        if len(self._scopes) >= _DEPTH_LIMIT:
            raise NotFollowedError(f"calls are nested more than {_DEPTH_LIMIT} deep")
        names = [argument.arg for argument in function.args.args]
        defaults = function.args.defaults
        env: Environment = {
            name: self._value(default, {})
            for name, default in zip(names[len(names) - len(defaults) :], defaults, strict=True)
        }
        env.update(zip(names, arguments, strict=False))
        env.update(keywords)
        self._scopes.append(scope or (self._scopes[-1] if self._scopes else ""))
        try:
            self._body(function.body, env)
        except _Returned as returned:
            return returned.value
        finally:
            self._scopes.pop()
        return None

    def _body(self, statements: Sequence[ast.stmt], env: Environment) -> None:
        for statement in statements:
            self._step()
            match statement:
                case ast.Assign(targets=[target], value=value):
                    self._assign(target, self._value(value, env), env)
                case ast.AnnAssign(target=target, value=ast.expr() as value):
                    self._assign(target, self._value(value, env), env)
                case ast.Expr(value=value):
                    self._value(value, env)
                case ast.Return(value=value):
                    raise _Returned(self._value(value, env) if value else None)
                case ast.If():
                    self._choose(statement, env)
                case ast.For(target=target, iter=iterated):
                    self._repeat(target, self._value(iterated, env), statement.body, env)
                case ast.While(test=test):
                    self._while(test, statement.body, env)
                case ast.With():
                    self._body(statement.body, env)
                case ast.Pass() | ast.AnnAssign() | ast.Assert():
                    pass
                case ast.Raise():
                    raise _Raised
                case _:
                    raise NotFollowedError(f"a statement {type(statement).__name__}")

    def _step(self) -> None:
        self._steps += 1
        if self._steps > _STEP_LIMIT:
            raise NotFollowedError(f"it takes more than {_STEP_LIMIT:,} steps")

    def _assign(self, target: ast.expr, value: Any, env: Environment) -> None:
        if isinstance(target, ast.Name):
            env[target.id] = value
        elif isinstance(target, ast.Tuple):
            for each, part in zip(target.elts, parts_of(value, len(target.elts)), strict=True):
                self._assign(each, part, env)
        elif isinstance(target, ast.Attribute):
            owner = self._value(target.value, env)
            if isinstance(owner, Thing):
                owner.state[target.attr] = value

    def _choose(self, statement: ast.If, env: Environment) -> None:
        condition = truth(self._value(statement.test, env))
        if condition is not None:
            self._body(statement.body if condition else statement.orelse, env)
            return
        before = len(self._collector.nodes)
        ends, grew = [], 0
        for body in (statement.body, statement.orelse):
            branch, start = dict(env), len(self._collector.nodes)
            try:
                self._body(body, branch)
            except _Raised:
                self._collector.forget(start)
                continue
            grew += len(self._collector.nodes) > start
            ends.append(branch)
        if not ends:
            raise _Raised
        if len(ends) == 2 and grew and len(self._collector.nodes) > before:
            self.notes["conditions that the file does not decide: both branches are counted"] = None
        env.update({name: joined_values([end[name] for end in ends if name in end]) for end in ends for name in end})

    def _repeat(self, target: ast.expr, iterated: Any, body: Sequence[ast.stmt], env: Environment) -> None:
        if isinstance(iterated, range | list | tuple):
            for item in iterated:
                self._step()
                self._assign(target, item, env)
                self._body(body, env)
            return
        self._assign(target, UNKNOWN, env)
        self._once(body, env)

    def _while(self, test: ast.expr, body: Sequence[ast.stmt], env: Environment) -> None:
        while (again := truth(self._value(test, env))) is True:
            self._step()
            self._body(body, env)
        if again is None:
            self._once(body, env)

    def _once(self, body: Sequence[ast.stmt], env: Environment) -> None:
        start, after = len(self._collector.nodes), dict(env)
        self._body(body, after)
        if len(self._collector.nodes) > start:
            self.notes["loops whose length the file does not tell: their bodies are counted once"] = None
        env.update({name: joined_values([env[name], value]) if name in env else value for name, value in after.items()})

    def _value(self, expression: ast.expr, env: Environment) -> Any:
        self._step()
        match expression:
            case ast.Constant():
                found: Any = expression.value
            case ast.Name(id=name):
                found = self._recorder.latest(env[name]) if name in env else _WORDS.get(name, NOT_TOLD)
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                values_ = [self._value(part, env) for part in parts]
                found = values_ if isinstance(expression, ast.List) else tuple(values_)
            case ast.Dict(keys=keys, values=parts):
                found = self._dictionary(keys, parts, env)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                found = scalar("neg", [self._value(operand, env)])
            case ast.Attribute():
                found = self._attribute(expression, env)
            case ast.Subscript(value=value, slice=position):
                found = scalar("__getitem__", [self._value(value, env), self._value(position, env)])
            case ast.Call():
                found = self._call(expression, env)
            case _:
                raise NotFollowedError(f"an expression {type(expression).__name__}")
        return found

    def _dictionary(self, keys: Sequence[ast.expr | None], parts: Sequence[ast.expr], env: Environment) -> Any:
        found = [self._value(key, env) if key else NOT_TOLD for key in keys]
        content = [self._value(part, env) for part in parts]
        known = all(isinstance(key, str | int | float) for key in found)
        return dict(zip(found, content, strict=True)) if known else NOT_TOLD

    def _attribute(self, expression: ast.Attribute, env: Environment) -> Any:
        name = dotted(expression)
        if name is not None and name.startswith("CONSTANTS."):
            return self._constant(name.removeprefix("CONSTANTS.c"))
        if name is not None and name.startswith(("__torch__.", "torch.", "ops.")):
            return Function(name)
        return self._member(self._value(expression.value, env), expression.attr)

    def _constant(self, number: str) -> Any:
        if not number.isdecimal() or int(number) >= len(self._constants):
            raise NotFollowedError(f"there is no constant {number}")
        return self._constants[int(number)]

    def _member(self, owner: Any, name: str) -> Any:
        if not isinstance(owner, Thing):
            return NOT_TOLD
        if name in owner.state:
            path = self._paths.get(id(owner), "")
            return described(owner.state[name], f"{path}.{name}" if path else name)
        found = self._code.class_(owner.class_name)
        if found is not None and name in found.methods:
            return Method(owner, name)
        return found.constants.get(name, NOT_TOLD) if found else NOT_TOLD

    def _call(self, call: ast.Call, env: Environment) -> Any:
        name = dotted(call.func)
        if name in {"annotate", "unchecked_cast"}:
            return self._value(call.args[1], env)
        if name in {"uninitialized", "isinstance"}:
            return NOT_TOLD
        function = self._function(call.func, env)
        arguments = [self._value(argument, env) for argument in call.args]
        keywords = {keyword.arg: self._value(keyword.value, env) for keyword in call.keywords if keyword.arg}
        match function:
            case Method(owner=owner, name=method):
                definition = self._method(owner, method)
                assert definition is not None
                return self._run(definition, [owner, *arguments], keywords, self._paths.get(id(owner), ""))
            case Function(name=called):
                return self._called(called, arguments, keywords)
            case str():
                return self._builtin(function, arguments)
        return NOT_TOLD

    def _function(self, expression: ast.expr, env: Environment) -> Any:
        if isinstance(expression, ast.Name) and expression.id not in env:
            return expression.id
        return self._value(expression, env)

    def _builtin(self, name: str, arguments: Sequence[Any]) -> Any:
        if name == "getattr" and len(arguments) == 2 and isinstance(arguments[1], str):
            return self._member(arguments[0], arguments[1])
        if name == "range":
            known = all(isinstance(argument, int) for argument in arguments)
            return range(*arguments) if known and 1 <= len(arguments) <= 3 else NOT_TOLD
        if name in {"int", "float", "bool"}:
            found = scalar(name.title(), arguments)
            return UNKNOWN if found is NO_SCALAR and name == "int" else found
        return NOT_TOLD

    def _called(self, name: str, arguments: Sequence[Any], keywords: Environment) -> Any:
        if name.startswith("__torch__."):
            return self._torch_function(name, arguments, keywords)
        domain, _, operator = name.rpartition(".")
        if operator == "RaiseException":
            raise _Raised
        found = scalar(operator, arguments) if domain in {"torch", "ops.prim", "ops.aten"} else NO_SCALAR
        if found is not NO_SCALAR:
            return found
        return self._recorder.call(domain, operator, arguments, keywords, self._scopes[-1])

    def _torch_function(self, name: str, arguments: Sequence[Any], keywords: Environment) -> Any:
        function = self._code.function(name)
        if function is not None:
            return self._run(function, arguments, keywords, "")
        found = self._code.class_(name)
        if found is None:
            raise NotFollowedError(f"{name} is not in the archive")
        if "__init__" not in found.methods:
            return tuple(arguments)  # a NamedTuple
        made = Thing(name)
        self._run(found.methods["__init__"], [made, *arguments], keywords, "")
        return made


_WORDS = {"inf": float("inf"), "nan": float("nan")}
