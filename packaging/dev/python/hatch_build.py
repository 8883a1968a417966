"""Packs the program that PROGRAM names as a script, for the systems of TAG."""

from __future__ import annotations

import os
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Program(BuildHookInterface[Any]):
    """Adds the program."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Name the program and the systems."""
        program = os.environ["PROGRAM"]
        build_data["shared_scripts"][program] = os.path.basename(program)
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{os.environ['TAG']}"
