"""What a person sees of plans and builds; beside each table stands its --json."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table

from bimetal.images.bases import origin
from bimetal.images.build import Built
from bimetal.images.matrix import Matrix, Row

Line = dict[str, Any]


def plan_lines(matrix: Matrix, rows: Sequence[Row], environment: Mapping[str, str], *, offline: bool) -> list[Line]:
    """One line per row: what would be built of what."""
    return [
        {
            "image": row.name,
            "variant": row.variant_name,
            "vendor": row.image.vendor,
            "base": origin(row.variant.base, matrix.bases[row.variant.base], environment, offline=offline),
            "versions": row.variant.versions,
            "packages": len(row.variant.packages),
            "budget_mb": row.variant.budget_mb,
            "proven": row.variant.proven,
        }
        for row in rows
    ]


def plan_table(lines: Sequence[Line]) -> Table:
    """One row per image and variant; budgets in MB of the unpacked image."""
    table = Table("image", "base", "versions", "budget", "proven")
    for line in lines:
        versions = " ".join(f"{name} {version}" for name, version in line["versions"].items())
        name = f"{line['image']}:{line['variant']}"
        table.add_row(name, line["base"], versions, f"{line['budget_mb']} MB", line["proven"])
    return table


def built_table(results: Sequence[Built]) -> Table:
    """What was built: names, sizes against their budgets, times."""
    table = Table("image", "tag", "size", "of budget", "time", "")
    for built in results:
        table.add_row(
            f"{built.repository}:{built.variant}",
            built.tag,
            f"{built.size / 1e6:.0f} MB",
            f"{built.size / built.budget:.0%}",
            f"{built.seconds:.1f} s",
            built.status,
        )
    return table
