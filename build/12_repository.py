"""Stage 12: a Triton model repository that serves the release.

    python build/12_repository.py [--recipe build/recipes/movielens.yaml] [--var var] [--force]

Reads:  the release
Writes: VAR/repository
"""

import sys

from triton_ads.cli import main

sys.exit(main(["build", "--only", "repository", *sys.argv[1:]]))
