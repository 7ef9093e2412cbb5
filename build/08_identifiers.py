"""Stage 8: where a recipe generates ads, its catalogue becomes an identifier tree; prints whether its shape is fast.

    python build/08_identifiers.py --recipe build/recipes/targeting.yaml [--var var] [--force]

Reads:  the recipe's data
Writes: RECIPE/identifiers in VAR's work folder
"""

import sys

from triton_ads.cli import main

sys.exit(main(["build", "--only", "identifiers", *sys.argv[1:]]))
