"""Builds the wheel: what is no code but needed goes along, to where `bimetal.resources` looks for it."""

from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ShippedFiles(BuildHookInterface):  # type: ignore[misc]  # hatchling, untyped, is there while a wheel is built only
    """An editable install needs none of it: there the files are in the checkout."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "standard":
            build_data["force_include"].update({name: f"bimetal/shipped/{name}" for name in self.config["shipped"]})
