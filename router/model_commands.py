"""`bimetal model` with all its commands."""

from router.operators.cli import model_app
from router.split.cli import split

model_app.command()(split)

__all__ = ["model_app"]
