"""The option that names the fleet file, for every command that has it."""

from pathlib import Path
from typing import Annotated

import typer

DEFAULT_FLEET = Path(".bimetal/fleet.yaml")
FleetOption = Annotated[Path, typer.Option("--fleet", envvar="BIMETAL_FLEET", help="The fleet file.")]
