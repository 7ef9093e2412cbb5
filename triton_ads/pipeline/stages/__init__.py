"""The stages, one module each: `run(recipe, layout, ...)` writes the outputs and returns those outside its folder.

A stage's source files are those that its module imports, directly or not (inputs.py): a stage module imports what it
runs and nothing else. The modules are imported when their stage runs, so that skipping everything takes no PyTorch.
"""
