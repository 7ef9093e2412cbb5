"""The learned router: what it knows of a request, what it predicts, and how it spends a budget by that.

    journey.py      user, context and journey as numbers; the same code in training and serving
    gain.py         the model: what the high tier gains on such a request
    threshold.py    the least gain per cost that the budget can pay for just now
    load.py         how much of the budget may be spent under the load just now

NumPy only, and nothing of Triton: docs/routing.md tells the whole.
"""
