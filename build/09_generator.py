"""Stage 9: where a recipe generates ads, a small llama learns to continue journeys and queries with identifiers.

    python build/09_generator.py --recipe build/recipes/targeting.yaml [--var var] [--force]

Reads:  the recipe's data, RECIPE/identifiers in VAR's work folder
Writes: RECIPE/generator in VAR's work folder
"""

import sys

from triton_ads.cli import main

sys.exit(main(["build", "--only", "generator", *sys.argv[1:]]))
