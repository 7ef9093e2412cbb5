"""Stage 6: each tier is split in a part per user and a part per ad, exported to ONNX and checked.

    python build/06_export.py [--recipe build/recipes/movielens.yaml] [--var var] [--force]

Reads:  RECIPE/data, RECIPE/train/TIER, RECIPE/calibrate/TIER in VAR's work folder
Writes: RECIPE/export/TIER in VAR's work folder
"""

import sys

from triton_ads.cli import main

sys.exit(main(["build", "--only", "export", *sys.argv[1:]]))
