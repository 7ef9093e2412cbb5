"""Stage 3: each tier is trained and measured.

    python build/03_train.py [--recipe build/recipes/movielens.yaml] [--var var] [--force]

Reads:  RECIPE/data in VAR's work folder
Writes: RECIPE/train/TIER in VAR's work folder
"""

import sys

from triton_ads.cli import main

sys.exit(main(["build", "--only", "train", *sys.argv[1:]]))
