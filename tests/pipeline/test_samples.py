"""The rows that an export is checked with, where the data is as poor as can be."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.support.logs import planted_log, planted_recipe
from triton_ads.data import Examples
from triton_ads.data.prepare import write
from triton_ads.export.tier import with_edges
from triton_ads.pipeline.stages.export import LEAST, samples


@pytest.mark.parametrize("users", [1, 2, 3])
def test_few_users_give_several_rows_each(users: int, tmp_path: Path) -> None:
    log = planted_log()
    write(planted_recipe(), replace(log, user=(log.user % users).astype(np.int32)), tmp_path)
    rows = samples(Examples.load(planted_recipe(), tmp_path / "examples"))
    assert {len(tensor) for tensor in rows.values()} == {LEAST}
    edged = with_edges(rows)
    assert (edged["sequence_ids"][LEAST] == 0).all()  # no history
    assert len(edged["item_ids"].unique(dim=0)) > users  # other ads of the same user
