"""Search in the identifier tree with a decoder: which ads are likeliest to follow a prompt.

    prompt -> decoder.session -> search.py     beam by beam, one forward a level
                                   trigger.py      when is it cheaper to score all that is left at once?
                                   verification.py ... and that
                                   layers.py       what was scored, and the best of it
                              or best_first.py  the true best of the whole tree
    together.py   several requests, step by step together
    packed.py     the decoder that is served; calibrate.py what its forwards cost

A search is a generator: it yields a Step, which says what to run and what to ask, and is sent the log-probabilities.
So it knows nothing of the decoder, and whoever drives it may batch, stop or measure between steps.

Scores are sums of log-probabilities over the whole vocabulary, without a length penalty. Finished identifiers keep
competing with their sum: a beam is a finished identifier or a prefix.
"""
