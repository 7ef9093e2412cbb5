"""Forwards of up to 1,600 nodes behind a prompt of 128: how well a line fits."""

import argparse

import numpy as np

from triton_ads.bench.report import Report, Row
from triton_ads.bench.target_model import random_decoder
from triton_ads.bench.target_searches import tree_decoder
from triton_ads.compression.pack_model import uniform
from triton_ads.compression.patterns import Pattern, Values
from triton_ads.serving.target.calibrate import forward_ms

_PROMPT = 128
_SIZES = (1, 20, 100, 200, 400, 800, 1200, 1600)


def measure(report: Report, args: argparse.Namespace) -> None:
    decoder = tree_decoder(random_decoder(uniform(Pattern.DENSE, Values.BF16)), _PROMPT)
    medians = np.median(forward_ms(decoder, _PROMPT, _SIZES, args.rounds), axis=0)
    slope, fixed = np.polyfit(_SIZES, medians, 1)
    residual = medians - (fixed + slope * np.array(_SIZES))
    r2 = 1 - float((residual**2).sum() / ((medians - medians.mean()) ** 2).sum())
    for size, median in zip(_SIZES, medians.tolist(), strict=True):
        report.rows.append(Row("verification", f"{size} nodes", "median", median, "ms", args.rounds))
    report.rows.append(Row("verification", "line", "fixed", float(fixed), "ms", 1))
    report.rows.append(Row("verification", "line", "a node", float(slope), "ms", 1))
    report.claim("verification: R^2 of a line to 1,600 nodes", r2, ">=", 0.98)
