"""Stage 11: tiers, vocabularies and store become one release, which is never changed.

    python build/11_release.py [--recipe build/recipes/movielens.yaml] [--var var] [--force]

Reads:  RECIPE/data, RECIPE/export, RECIPE/router, RECIPE/identifiers, RECIPE/pack in VAR's work folder
Writes: VAR/releases/RECIPE-ID
"""

import sys

from triton_ads.cli import main

sys.exit(main(["build", "--only", "release", *sys.argv[1:]]))
