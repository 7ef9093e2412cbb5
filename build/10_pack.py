"""Stage 10: where a recipe generates ads, the generator's weights are packed, and its answers judged.

    python build/10_pack.py --recipe build/recipes/targeting.yaml [--var var] [--force]

Reads:  the recipe's data, RECIPE/identifiers and RECIPE/generator in VAR's work folder
Writes: RECIPE/pack in VAR's work folder
"""

import sys

from triton_ads.cli import main

sys.exit(main(["build", "--only", "pack", *sys.argv[1:]]))
