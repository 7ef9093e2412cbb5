"""Stage 2: each tier is trained and measured.

    python build/2_train.py [--recipe build/recipes/movielens.yaml] [--var var] [--force]

Reads:  VAR/work/RECIPE/data
Writes: VAR/work/RECIPE/train/TIER
"""

import sys

from triton_ads.cli import main

sys.exit(main(["build", "--only", "train", *sys.argv[1:]]))
