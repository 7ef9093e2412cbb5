"""Stage 5: maps that make each tier's probabilities honest are fitted and judged.

    python build/05_calibrate.py [--recipe build/recipes/movielens.yaml] [--var var] [--force]

Reads:  RECIPE/data, RECIPE/train/TIER in VAR's work folder
Writes: RECIPE/calibrate/TIER in VAR's work folder
"""

import sys

from triton_ads.cli import main

sys.exit(main(["build", "--only", "calibrate", *sys.argv[1:]]))
