"""Stage 7: where a recipe's router is learned, it is trained on what its high tier gains, and judged.

    python build/07_router.py --recipe build/recipes/adaptive.yaml [--var var] [--force]

Reads:  RECIPE/data, and of both tiers RECIPE/train, RECIPE/calibrate, RECIPE/export in VAR's work folder
Writes: RECIPE/router in VAR's work folder
"""

import sys

from triton_ads.cli import main

sys.exit(main(["build", "--only", "router", *sys.argv[1:]]))
