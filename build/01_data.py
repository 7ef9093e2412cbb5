"""Stage 1: a published data set becomes examples, vocabularies and the server's store.

    python build/01_data.py [--recipe build/recipes/movielens.yaml] [--var var] [--force]

Reads:  the data set, fetched by pip once
Writes: VAR/downloads, RECIPE/data in VAR's work folder
"""

import sys

from triton_ads.cli import main

sys.exit(main(["build", "--only", "data", *sys.argv[1:]]))
