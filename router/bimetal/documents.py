"""JSON documents that other runs and other hosts wrote: read and validated, with errors that name file and field."""

from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from bimetal.errors import BimetalError

_Document = TypeVar("_Document", bound=BaseModel)


def read_document(
    file: Path, model: type[_Document], what: str, error: type[BimetalError], next_step: str
) -> _Document:
    """The document in `file`.

    Args:
        what: what it should be, for the error: "calibration".
        error: raised when it cannot be read; names the file, the first bad field and what was expected.
        next_step: what the reader of the error can do.
    """
    try:
        return model.model_validate_json(file.read_bytes())
    except OSError as exc:
        raise error(f"{file}: cannot be read ({exc.strerror}).", next_step) from exc
    except ValidationError as exc:
        first = exc.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"])) or "the document"
        raise error(f"{file}: no {what}: {where}: {first['msg']}.", next_step) from exc
