"""A whole trial against a server whose answers are known: what is found, and that nothing of it is left out."""

import asyncio
import json

import pytest

from tests.loadtest.servers import NONE, post, respond, server
from triton_ads.cli import main
from triton_ads.loadtest.figures import failed_holds
from triton_ads.loadtest.load import Running
from triton_ads.loadtest.observe import Observer
from triton_ads.loadtest.report import Contender
from triton_ads.loadtest.requests import Prepared, write_requests
from triton_ads.loadtest.run import BACK_OFF, PATIENCE, Trial
from triton_ads.loadtest.schedule import Schedule

SCHEDULE = Schedule(total_s=6, warm_up_s=0.5, step_s=0.5, rising_s=2, chunk_s=0.5)
PAGES = {"/v2/models/any/config": b"{}", "/v2/models/stats": json.dumps({"model_stats": []}).encode()}


def trial(tmp_path, failing: int) -> tuple[Contender, list[str]]:
    """A server that refuses everything while the first `failing` rates are held; and what was said."""
    said: list[str] = []

    def rates_held() -> int:
        return sum(text.startswith("holding") for text in said)

    async def answer(writer, body):
        await asyncio.sleep(0.02)
        if 1 <= rates_held() <= failing:
            respond(writer, 500, b'{"error":"deadline exceeded"}')
        else:
            respond(writer, 200, b"")

    write_requests([Prepared(post(b"a"), candidates=3)], tmp_path / "requests")
    with server(answer, PAGES) as port:
        observer = Observer(f"127.0.0.1:{port}", "any")
        found = Trial(
            "any", "", Running(port, NONE), tmp_path / "requests", observer, 2000.0, visible=False, say=said.append
        ).run(SCHEDULE)
    return found, said


def test_a_rate_that_failed_when_held_is_in_the_report(tmp_path):
    found, said = trial(tmp_path, failing=1)
    assert found.held is not None
    rose = max(step.offered for step in found.steps if step.phase == "rising" and step.holds)
    (failed,) = found.failed_holds
    assert failed.offered == rose
    assert (failed.in_time, failed.answered_well) == (0.0, 0)
    assert failed.requests > 0
    assert found.held.window.offered == pytest.approx(rose * BACK_OFF)
    assert [step for step in found.steps if step.phase == "held"] == [found.held.window, failed]
    assert found.held.window.holds
    assert found.held.window.requests == found.held.window.answered_well
    assert found.held.before_parts > 0
    assert len(failed_holds(found)) == 1
    # What was said while it ran is what the report has: a line for each window, but the held parts are one.
    lines = [line for line in said if "offered for" in line]
    assert sum("does not hold" in line for line in lines) == sum(not step.holds for step in found.steps)
    assert any(f"due {failed.requests:5}, answered     0" in line for line in lines)


def test_all_that_failed_is_in_the_report_where_no_rate_held(tmp_path):
    found, _ = trial(tmp_path, failing=PATIENCE + 1)
    assert found.held is None
    assert len(found.failed_holds) == PATIENCE + 1


def test_compare_may_be_left_out_and_the_usage_says_so(capsys):
    with pytest.raises(SystemExit):
        main(["loadtest", "--help"])
    assert capsys.readouterr().out.startswith(
        "usage: triton-ads loadtest [options]\n       triton-ads loadtest compare [--html FILE] A.json B.json\n"
    )
    with pytest.raises(SystemExit):
        main(["loadtest", "compare", "--help"])
    assert capsys.readouterr().out.startswith("usage: triton-ads loadtest compare [-h] [--html FILE] A.json B.json\n")
