"""From a catalogue to a tree and a decoder that walks it: the offline side of generative targeting.

representation.py   what ads are like: by what they say, by who met them
identifiers.py titles.py   ads -> identifiers, from clusters or from titles
catalogue.py preview.py    a log -> tree, words and journeys in a folder
journeys.py         a log -> journeys to learn from, questions to be judged on
examples.py train.py tokenizer.py   journeys -> a llama-family checkpoint
published.py        a model that there is already
pack.py             a checkpoint -> packed weights
recall.py quality.py  how good the answers of the served search are, beside baselines
"""
