"""Titles as text: SmolLM2-135M continues a list of films with one of 1,682; verification beside stepping.

What a verification saves is forwards; the nodes are the same. So its gain is what the fixed cost of a forward is beside
the cost of a token, which the calibrated line of this decoder says.
"""

import argparse

import numpy as np

from triton_ads.bench.decode import smollm2
from triton_ads.bench.report import Report, Row
from triton_ads.bench.target_searches import BEAM, OurSearch, Prompted, time_searches
from triton_ads.compression.checkpoint import open_checkpoint
from triton_ads.compression.pack_model import pack_model, uniform
from triton_ads.compression.patterns import Pattern, Values
from triton_ads.data.movielens import fetch, read
from triton_ads.features.text_prompt import TextPromptFormat
from triton_ads.recipe.target import PromptText
from triton_ads.serving.decoder import Decoder
from triton_ads.serving.target.calibrate import calibrate
from triton_ads.serving.target.packed import PackedTreeDecoder
from triton_ads.targeting.titles import title_tree

_EVENTS, _USERS = 10, 4


def measure(report: Report, args: argparse.Namespace) -> None:
    log, checkpoint = read(fetch(args.downloads)), open_checkpoint(smollm2())
    tree = title_tree([log.titles[ad] for ad in log.item_ids.tolist()], log.item_ids, checkpoint.tokenizer)
    form = TextPromptFormat.of(checkpoint.tokenizer, PromptText(journey="A list of great films:\n"), _EVENTS, 0)
    longest = form.longest(tree.length)
    decoder = PackedTreeDecoder(Decoder(pack_model(checkpoint, uniform(Pattern.DENSE, Values.INT4))), longest, 4_000)
    prompts = []
    for user in range(_USERS):
        liked = log.item_ids[log.item[(log.user == user) & log.sequences["conversions"]]][-_EVENTS:]
        journey = [tree.path(int(leaf)) for leaf in tree.leaves_of(liked)[0]]
        prompts.append(form.prompt(journey))
    cost = calibrate(decoder, int(np.mean([len(prompt) for prompt in prompts])), BEAM)
    behind = [Prompted.of(decoder, prompt) for prompt in prompts]
    searches = {"stepping": OurSearch(decoder, tree, cost, at=0), "trigger": OurSearch(decoder, tree, cost)}
    name = f"{tree.ads} titles, SmolLM2-135M INT4, {_USERS} users"
    for label, one in searches.items():
        found = [one.after(prompted) for prompted in behind]
        for metric, values in (("forwards", [f.forwards for f in found]), ("nodes run", [f.tokens for f in found])):
            report.rows.append(Row(name, label, f"{metric}, mean", float(np.mean(values)), "", _USERS))
    report.rows.append(Row(name, "a forward", "fixed", cost.fixed_ms, "ms", 1))
    report.rows.append(Row(name, "a forward", "a node", cost.token_ms, "ms", 1))
    timings = time_searches(searches, behind, args.rounds)
    report.add_timings(name, timings)
    report.claim("titles as text: stepping / trigger", timings.ratio("stepping", "trigger"), ">=", 1.7)
