"""Stage 2: a model of your own is tried before it is trained: is it row-wise, can it be split and exported?

    python build/02_check.py [--recipe build/recipes/movielens.yaml] [--var var] [--force]

Reads:  RECIPE/data in VAR's work folder
Writes: RECIPE/check/TIER in VAR's work folder
"""

import sys

from triton_ads.cli import main

sys.exit(main(["build", "--only", "check", *sys.argv[1:]]))
