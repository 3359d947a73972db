"""An analysis as JSON and as a tree for people."""

from collections.abc import Iterable, Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text
from rich.tree import Tree

from bimetal.operators.blocks import Block, blocks
from bimetal.operators.graph import Tensor
from bimetal.operators.placement import Placement
from bimetal.operators.profile import Profile
from bimetal.operators.verdict import Reason, Verdict, operator_label

_COLOURS = {5: "green", 4: "green", 3: "yellow", 2: "yellow", 1: "red", 0: "bold red"}
_REASONS_SHOWN = 3


def as_json(profile: Profile, placement: Placement) -> dict[str, Any]:
    """Everything that is known of a model, as plain values."""
    graph = profile.graph
    parts = blocks(graph)
    return {
        "file": str(graph.file),
        "format": graph.format,
        "opsets": dict(graph.opsets),
        "flops": profile.flops,
        "bytes": profile.bytes,
        "uncounted_nodes": profile.uncounted,
        "dynamic_inputs": [_tensor(tensor) for tensor in profile.dynamic_inputs],
        "notes": list(graph.notes),
        "nodes": [
            {
                "name": node.label,
                "operator": node.operator,
                "domain": node.domain,
                "version": node.version,
                "block": parts[node.index],
                "parent": node.parent,
                "predecessors": list(node.predecessors),
                "inputs": [_tensor(tensor) for tensor in node.inputs],
                "outputs": [_tensor(tensor) for tensor in node.outputs],
                "flops": profile.costs[node.index].flops,
                "bytes": profile.costs[node.index].bytes,
                "critical": node.index in profile.critical_path,
            }
            for node in graph.nodes
        ],
        "verdicts": {provider: _verdict(verdict) for provider, verdict in placement.verdicts.items()},
        "must": dict(placement.must),
        "may": {label: list(providers) for label, providers in placement.may.items()},
        "fallback": list(placement.fallback),
        "preference": dict(placement.preference),
    }


def _tensor(tensor: Tensor | None) -> dict[str, Any] | None:
    if tensor is None:
        return None
    shape = None if tensor.shape is None else list(tensor.shape)
    return {"name": tensor.name, "type": tensor.type, "shape": shape, "constant": tensor.constant}


def _verdict(verdict: Verdict) -> dict[str, Any]:
    return {
        "score": verdict.score,
        "value": round(verdict.value, 3),
        "reasons": [_reason(reason) for reason in verdict.reasons],
        "warnings": [_reason(reason) for reason in verdict.warnings],
        "fallback": list(verdict.fallback),
    }


def _reason(reason: Reason) -> dict[str, Any]:
    return {
        "operator": reason.operator,
        "domain": reason.domain,
        "version": reason.version,
        "opset": reason.opset,
        "score": reason.score,
        "nodes": reason.nodes,
        "share": round(reason.share, 4),
        "text": reason.text,
        "source": reason.source,
    }


def as_tree(profile: Profile, placement: Placement) -> Group:
    """Blocks with their operators and each operator's score per provider, then the verdicts."""
    graph = profile.graph
    opsets = ", ".join(f"{domain} {version}" for domain, version in sorted(graph.opsets.items())) or graph.format
    size = f"{len(graph.nodes)} nodes, {_amount(profile.flops)}FLOP, {_amount(profile.bytes)}B"
    tree = Tree(Text(f"{graph.file.name}: {size} ({opsets})"))
    scores = {provider: _scores(verdict) for provider, verdict in placement.verdicts.items()}
    parts = blocks(graph)
    for block in Block:
        members = [node for node in graph.nodes if parts[node.index] is block]
        if not members:
            continue
        flops = sum(profile.costs[node.index].flops or 0 for node in members)
        share = f", {flops / profile.flops:.0%} of the FLOPs" if profile.flops else ""
        branch = tree.add(Text(f"{block}: {len(members)} nodes{share}", style="bold"))
        counts: dict[str, int] = {}
        for node in members:
            label = operator_label(node.domain, node.operator, node.version)
            counts[label] = counts.get(label, 0) + 1
        for label, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
            branch.add(_operator_line(label, count, scores))
    return Group(tree, *_verdict_lines(placement.verdicts), *_notes(profile, placement))


def _scores(verdict: Verdict) -> dict[str, int]:
    """The worst score of each operator."""
    scores: dict[str, int] = {}
    for reason in verdict.reasons:
        if reason not in verdict.warnings:
            scores[reason.label] = min(reason.score, scores.get(reason.label, 5))
    return scores


def _operator_line(label: str, count: int, scores: Mapping[str, Mapping[str, int]]) -> Text:
    line = Text(f"{label} x{count}".ljust(36))
    for provider, known in scores.items():
        score = known.get(label)
        line.append(f" {_short(provider)} ")
        line.append("-" if score is None else str(score), style=_COLOURS[score] if score is not None else "dim")
    return line


def _verdict_lines(verdicts: Mapping[str, Verdict]) -> Iterable[RenderableType]:
    for provider, verdict in verdicts.items():
        line = Text(f"\n{_short(provider)}: ", style="bold")
        line.append(str(verdict.score), style=_COLOURS[verdict.score])
        yield line
        worst = [reason for reason in verdict.reasons if reason.effect < 4] or list(verdict.reasons)[:1]
        for reason in worst[:_REASONS_SHOWN]:
            yield Padding(Text(reason.text), (0, 0, 0, 2), expand=False)
            yield Padding(Text(f"source: {reason.source}", style="dim"), (0, 0, 0, 4), expand=False)
        if len(worst) > _REASONS_SHOWN:
            yield Text(f"  and {len(worst) - _REASONS_SHOWN} more (--json has them all)", style="dim")


def _notes(profile: Profile, placement: Placement) -> Iterable[Text]:
    if placement.must:
        pairs = (f"{label} on {_short(provider)}" for label, provider in placement.must.items())
        yield Text(f"\nmust run: {', '.join(pairs)}")
    if shares := [f"{_short(provider)} {share:.0%}" for provider, share in placement.preference.items() if share]:
        yield Text(f"\npreference, if the devices were equal: {', '.join(shares)}")
    if placement.fallback:
        yield Text(f"on the CPU everywhere: {', '.join(placement.fallback)}")
    for tensor in profile.dynamic_inputs:
        yield Text(f"dynamic input: {tensor.name} {list(tensor.shape or ())}")
    if profile.uncounted:
        yield Text(f"{profile.uncounted} nodes have unknown shapes and are not in the sums")
    for note in profile.graph.notes:
        yield Text(f"note: {note}")


def _short(provider: str) -> str:
    return provider.removesuffix("ExecutionProvider")


def _amount(number: float) -> str:
    """1234567 -> "1.2 M"."""
    for unit in ("", "k", "M", "G", "T"):
        if number < 1000:
            return f"{number:.0f} {unit}" if number == int(number) and unit == "" else f"{number:.1f} {unit}"
        number /= 1000
    return f"{number:.1f} P"
