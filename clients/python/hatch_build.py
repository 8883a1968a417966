"""What is packed that is no file of this folder: the function library, which src has a link to."""

from __future__ import annotations

import pathlib
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

LIBRARY = "redis_throttle/_server/throttle.lua"


class Library(BuildHookInterface[Any]):
    """Packs the file behind the link: in the source package, whose wheel is built from it, the link would lead
    nowhere."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Name the file and its place."""
        there = pathlib.Path(self.root, "src", LIBRARY).resolve(strict=True)
        build_data["force_include"][str(there)] = LIBRARY if self.target_name == "wheel" else f"src/{LIBRARY}"
