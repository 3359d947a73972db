"""A finding: what was looked at, how it is, and what to do about it."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from .reading import Json

OK, WARN, FAIL = "ok", "warn", "fail"


@dataclass(frozen=True)
class Finding:
    """`status` is ok, warn or fail; `subject` a GPU, an interface or the host; `next_step` is empty for ok."""

    layer: str
    check: str
    status: str
    subject: str
    message: str
    next_step: str = ""

    def as_json(self) -> Json:
        """For the document."""
        return asdict(self)
