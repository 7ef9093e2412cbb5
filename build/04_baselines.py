"""Stage 4: logistic regression and a factorization machine on the same split, to compare the tiers with.

    python build/04_baselines.py [--recipe build/recipes/movielens.yaml] [--var var] [--force]

Reads:  RECIPE/data in VAR's work folder
Writes: RECIPE/baselines in VAR's work folder
"""

import sys

from triton_ads.cli import main

sys.exit(main(["build", "--only", "baselines", *sys.argv[1:]]))
