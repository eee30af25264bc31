"""Runs the demo: ``make demo``.

``ARGS=--stay`` keeps the query and its live page until Enter is pressed, ``ARGS="--picture docs/images/page.png"`` takes the
picture of the README.
"""

from __future__ import annotations

import sys
from pathlib import Path

# At the end of the path: what is shown is the installed package, not the tree.
sys.path.append(str(Path(__file__).resolve().parents[2]))

from tools.demo.run import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
