"""`bimetal model` with all its commands."""

from bimetal.operators.cli import model_app
from bimetal.split.cli import split

model_app.command()(split)

__all__ = ["model_app"]
