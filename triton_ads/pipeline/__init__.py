"""From a recipe to a model repository, in stages that are redone only when something they depend on has changed:
data -> train (each tier) and baselines -> calibrate (each tier) -> export (each tier) -> router (of a recipe that
learns it) -> release -> repository.

    layout.py      where everything lies under var/
    stages/        one file a stage: what it reads and what it writes
    plan.py        the stages of a recipe, in order, with all that each depends on
    inputs.py      digests of what a stage depends on
    record.py      what a stage was made from, kept beside its outputs
    lock.py        one build at a time
    runner.py      runs what must be run, and says why
    build.py       all of it for a recipe file
"""
