"""From a catalogue to a tree and a decoder that walks it: the offline side of generative targeting.

representation.py   what ads are like: by what they say, by who met them
identifiers.py      ads -> identifiers, from clusters or from titles
"""
