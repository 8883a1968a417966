"""Packs the programs that PROGRAMS names as scripts, for the systems of TAG."""

from __future__ import annotations

import os
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Programs(BuildHookInterface[Any]):
    """Adds the programs."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Name the programs and the systems."""
        for program in os.environ["PROGRAMS"].split(os.pathsep):
            build_data["shared_scripts"][program] = os.path.basename(program)
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{os.environ['TAG']}"
