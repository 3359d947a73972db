"""Cases that ONNX does not ship: half-precision twins of fp32 cases, and older operator versions.

Most of ONNX's tests are fp32 and at an operator's newest version, while models are half precision
and at any opset.
"""

import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

from bimetal.verify.cases import Case, Value, Variant, by_variant

OLDEST_OPSET = 7
"""Where onnxruntime's kernels begin; so does the operator matrix."""

# Versions that gave the same inputs and attributes a wider meaning.
_WIDENED = frozenset({("Mod", 28)})  # remainders of floats without fmod

_FLOAT = onnx.TensorProto.FLOAT
_HALVES = {"fp16": onnx.TensorProto.FLOAT16, "bf16": onnx.TensorProto.BFLOAT16}


def extremes(cases: Iterable[Case]) -> list[Case]:
    """The case with the fewest and the one with the most input elements; one case when they are the same."""
    ordered = sorted(cases, key=lambda case: case.elements)
    return ordered[:1] if ordered[0].elements == ordered[-1].elements else [ordered[0], ordered[-1]]


def derived_cases(own: Mapping[Variant, list[Case]]) -> dict[Variant, list[Case]]:
    """Half-precision and older variants of ONNX's own ones, where ONNX has no cases for them."""
    cases = [case for group in own.values() for case in group]
    halves = [twin for case in cases for twin in half_precision_twins(case)]
    older = [old for case in (*cases, *halves) for old in older_versions(case)]
    return {variant: found for variant, found in by_variant([*halves, *older]).items() if variant not in own}


def half_precision_twins(case: Case) -> Iterator[Case]:
    """The case in fp16 and bf16: wherever the operator takes that type in place of fp32, it gets it.

    What must come out is what ONNX's reference makes, in fp32, of the inputs rounded to the type.
    """
    tensors = all(isinstance(value, np.ndarray | np.generic) for value in (*case.inputs, *case.outputs))
    if case.variant.type != "fp32" or not case.compare_values or not tensors:
        return
    for name, element_type in _HALVES.items():
        model = _retyped(case, element_type)
        if model is not None:
            twin = _with_expectations(case, model, name)
            if twin is not None:
                yield twin


def older_versions(case: Case) -> Iterator[Case]:
    """The case at each older version of its operator that means the same by it.

    An older version does when all its inputs, outputs and attributes are in the newer one, with the
    same defaults, and the case uses nothing that came later (which ONNX's checker tells).
    """
    node, domain = case.node, case.node.domain
    newer = onnx.defs.get_schema(node.op_type, case.opset, domain)
    if (node.op_type, newer.since_version) in _WIDENED:
        return
    for old in _history(node.op_type, domain):
        replaced_too_early = not domain and _last_opset_of(old) < OLDEST_OPSET
        if replaced_too_early or old.since_version >= newer.since_version or not _means_the_same(old, newer):
            continue
        model = onnx.ModelProto.FromString(case.model)
        for entry in model.opset_import:
            if entry.domain == domain:
                entry.version = max(old.since_version, OLDEST_OPSET) if not domain else old.since_version
        if _is_valid(model):
            yield replace(case, name=f"{case.name}_v{old.since_version}", model=model.SerializeToString())


def _history(operator: str, domain: str) -> list[onnx.defs.OpSchema]:
    return _histories()[domain, operator]


@cache
def _histories() -> dict[tuple[str, str], list[onnx.defs.OpSchema]]:
    found: dict[tuple[str, str], list[onnx.defs.OpSchema]] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        found.setdefault((schema.domain, schema.name), []).append(schema)
    return found


def _last_opset_of(schema: onnx.defs.OpSchema) -> int:
    """The newest opset that selects this version."""
    later = [other.since_version for other in _history(schema.name, schema.domain)]
    return min(
        (version - 1 for version in later if version > schema.since_version), default=onnx.defs.onnx_opset_version()
    )


def _means_the_same(old: onnx.defs.OpSchema, newer: onnx.defs.OpSchema) -> bool:
    formals = ((old.inputs, newer.inputs), (old.outputs, newer.outputs))
    for before, after in formals:
        if len(before) > len(after) or any(a.option != b.option for a, b in zip(before, after, strict=False)):
            return False
    return all(
        (new := newer.attributes.get(name)) is not None
        and (new.type, new.default_value) == (attribute.type, attribute.default_value)
        for name, attribute in old.attributes.items()
    )


def _is_valid(model: onnx.ModelProto) -> bool:
    try:
        onnx.checker.check_model(model)
        onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError):
        return False
    return True


def _retyped(case: Case, element_type: int) -> onnx.ModelProto | None:
    """The model with the type in place of fp32 at every input that may have it; None where none may."""
    model = onnx.ModelProto.FromString(case.model)
    schema = onnx.defs.get_schema(case.node.op_type, case.opset, case.node.domain)
    name = onnx.helper.tensor_dtype_to_string(element_type).removeprefix("TensorProto.").lower()
    allowed = {c.type_param_str for c in schema.type_constraints if f"tensor({name})" in c.allowed_type_strs}
    formal = dict(zip(case.node.input, _formal_types(schema, len(case.node.input)), strict=True))
    changed = False
    for value in model.graph.input:
        tensor = value.type.tensor_type
        if tensor.elem_type == _FLOAT and formal.get(value.name) in allowed:
            tensor.elem_type = element_type
            changed = True
    if not changed or model.graph.initializer:
        return None
    return _with_inferred_outputs(model)


def _formal_types(schema: onnx.defs.OpSchema, count: int) -> list[str]:
    """The type constraint of each of a node's inputs; the last formal one repeats when it is variadic."""
    names = [formal.type_str for formal in schema.inputs]
    return (names + names[-1:] * count)[:count]


def _with_inferred_outputs(model: onnx.ModelProto) -> onnx.ModelProto | None:
    declared = [value.name for value in model.graph.output]
    del model.graph.output[:]
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in declared)
    try:
        inferred = onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True)
    except onnx.shape_inference.InferenceError:
        return None
    typed = all(value.type.tensor_type.elem_type for value in inferred.graph.output)
    return inferred if typed and _is_valid(inferred) else None


def _with_expectations(case: Case, model: onnx.ModelProto, name: str) -> Case | None:
    """The twin with rounded inputs and what must come of them; None where the reference cannot tell."""
    names = [value.name for value in case.proto.graph.input]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numbers beyond the type's range become infinite, in a model too
        inputs = _as_types(case.inputs, model.graph.input)
        widened = [value.astype(original.dtype) for value, original in zip(inputs, case.inputs, strict=True)]
        try:
            wanted = ReferenceEvaluator(case.proto).run(None, dict(zip(names, widened, strict=True)))
        except Exception:  # noqa: BLE001 - the reference has gaps and each operator raises what it likes
            return None
        expected = _as_types(wanted, model.graph.output)
    return replace(
        case,
        name=f"{case.name}_{name}",
        model=model.SerializeToString(),
        inputs=inputs,
        outputs=expected,
    )


def _as_types(values: Iterable[Value], declared: Iterable[onnx.ValueInfoProto]) -> tuple[Value, ...]:
    kinds = [onnx.helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type) for info in declared]
    return tuple(np.asarray(value).astype(kind) for value, kind in zip(values, kinds, strict=True))
