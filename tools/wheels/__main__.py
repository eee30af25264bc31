"""Builds them: ``make wheels``."""

from __future__ import annotations

import sys
from pathlib import Path

# This folder's own modules by their full names; Cohort itself is not imported.
sys.path.append(str(Path(__file__).resolve().parents[2]))

from tools.wheels.run import main

if __name__ == "__main__":
    sys.exit(main())
