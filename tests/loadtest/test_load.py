"""The load generator: percentiles, schedules, and both loops against a server whose times are known."""

import asyncio
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.loadtest.servers import NONE, post, respond, server
from triton_ads.loadtest.generator import Generator
from triton_ads.loadtest.load import (
    CONNECTIONS,
    ROUNDS,
    Load,
    LoadError,
    Outcome,
    Running,
    apply_load,
    percentile,
    poisson_arrivals,
)
from triton_ads.loadtest.requests import Prepared, write_requests


def test_percentiles_are_those_of_the_nearest_rank():
    hundred = [float(i) for i in range(100, 0, -1)]
    assert [percentile(hundred, q) for q in (0.5, 0.95, 0.99, 1.0)] == [50.0, 95.0, 99.0, 100.0]
    assert percentile([15.0, 20.0, 35.0, 40.0, 50.0], 0.3) == 20.0
    assert percentile([15.0, 20.0, 35.0, 40.0, 50.0], 0.4) == 20.0
    assert percentile([15.0, 20.0, 35.0, 40.0, 50.0], 0.41) == 35.0
    assert np.isnan(percentile([], 0.5))


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=300), st.floats(0.01, 1))
def test_a_percentile_is_the_smallest_value_that_a_share_does_not_exceed(values, q):
    found = percentile(values, q)
    at_most = [value for value in values if value <= found]
    assert found in values
    assert len(at_most) / len(values) >= q - 1e-9
    assert sum(value < found for value in values) / len(values) < q + 1e-9


def test_arrivals_are_the_running_sums_of_exponential_gaps():
    gaps = np.random.default_rng(4).exponential(1 / 50, 10_000)
    times = poisson_arrivals(50, 3, np.random.default_rng(4))
    np.testing.assert_allclose(times, np.cumsum(gaps)[: len(times)])
    assert times[-1] < 3 <= np.cumsum(gaps)[len(times)]


def test_arrivals_have_the_rate_and_the_spread_of_a_poisson_process():
    counts = [len(poisson_arrivals(40, 5, np.random.default_rng(seed))) for seed in range(400)]
    # Mean and variance of the count are both 200; their standard errors over 400 draws are 0.7 and 14.
    assert abs(np.mean(counts) - 200) < 4
    assert abs(np.var(counts) - 200) < 70


@given(st.floats(0.01, 5000), st.floats(0.01, 5), st.integers(0, 1000))
def test_arrivals_increase_within_their_window(rate, seconds, seed):
    times = poisson_arrivals(rate, seconds, np.random.default_rng(seed))
    assert np.all(np.diff(times) > 0)
    assert np.all((times >= 0) & (times < seconds))


def test_an_outcome_travels_as_json():
    outcome = Outcome(2.0, [1.5, 2.5], 2, 1, "HTTP 500: no", 7, 0.25)
    again = Outcome.from_json(outcome.to_json())
    assert (again.ms, again.rate, again.errors, again.served) == ([1.5, 2.5], 1.0, 1, 7)


def generate(load: Load, port: int, requests=(b"a",)) -> Outcome:
    return asyncio.run(Generator(load, [Prepared(post(body)) for body in requests]).run(port))


def test_a_closed_loop_has_one_request_a_client_under_way():
    under_way, most = 0, 0

    async def answer(writer, body):
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0.02)
        under_way -= 1
        respond(writer, 200, b"x" * 10)

    with server(answer) as port:
        outcome = generate(Load("closed", 5, 0.5), port)
    assert most == 5
    assert under_way == 0
    assert min(outcome.ms) >= 19
    assert outcome.rate <= 5 / 0.02
    assert outcome.answered == len(outcome.ms) >= 5 * ROUNDS
    assert outcome.served > outcome.answered  # the warm-up is served and not counted
    assert outcome.errors == 0


def test_a_closed_loop_lasts_until_every_client_was_answered_some_times():
    async def answer(writer, body):
        await asyncio.sleep(0.2)
        respond(writer, 200, b"")

    with server(answer) as port:
        outcome = generate(Load("closed", 3, 0.01), port)
    assert outcome.answered >= 3 * ROUNDS
    # Lumps of 3 answers every 0.2 s, counted from a lump to a lump: 15 a second, less what the loop adds.
    assert outcome.seconds >= 0.2 * ROUNDS * 0.95
    assert outcome.rate <= 3 / 0.2 * 1.01


def test_a_stall_is_counted_for_every_request_that_was_due_during_it():
    """Coordinated omission: a server that stalls once must not look good because nobody could ask meanwhile."""
    asked, stalled_at = [], []
    gate = asyncio.Lock()

    async def answer(writer, body):
        asked.append(body)
        async with gate:
            if not stalled_at and len(asked) > 150:
                stalled_at.append(len(asked))
                await asyncio.sleep(0.5)
        respond(writer, 200, b"")

    with server(answer) as port:
        outcome = generate(Load("open", 200, 1.5, seed=3), port)
    assert outcome.errors == 0
    # About 100 of 300 requests were due in the stall; those waited 0 to 500 ms, evenly: 60 of them more than 200 ms,
    # give or take the chance of the arrivals. What a closed loop would have seen is one.
    assert sum(ms > 200 for ms in outcome.ms) >= 35
    assert max(outcome.ms) >= 480


def test_an_open_loop_asks_at_its_rate_however_slow_the_server_is():
    async def answer(writer, body):
        await asyncio.sleep(0.1)
        respond(writer, 200, b"")

    with server(answer) as port:
        outcome = generate(Load("open", 300, 1.0, seed=1), port)
    due = poisson_arrivals(300, 1.5, fresh(1))
    assert len(outcome.ms) == int(np.sum(due >= 0.5))
    assert outcome.kept_up
    assert outcome.errors == 0
    assert min(outcome.ms) >= 99


def fresh(seed: int) -> np.random.Generator:
    """The generator's random numbers after it has chosen among one request."""
    random = np.random.default_rng(seed)
    random.integers(1)
    return random


def test_what_a_saturated_server_never_answers_is_an_error_and_counts_as_waiting():
    gate = asyncio.Lock()

    async def answer(writer, body):
        async with gate:
            await asyncio.sleep(0.02)  # 50 a second, and 400 are due
        respond(writer, 200, b"")

    with server(answer) as port:
        outcome = generate(Load("open", 400, 1.0), port)
    assert outcome.rate <= 51
    assert not outcome.kept_up
    # About 150 of 400 are answered or under way at the end; all others are given up.
    assert outcome.errors > 200
    assert "could not be sent" in outcome.first_error
    assert outcome.percentile(0.99) > 500
    assert CONNECTIONS < 100  # what the figures above rest on


def test_errors_are_counted_and_the_first_is_told():
    async def answer(writer, body):
        respond(writer, 500 if body == b"bad" else 200, b"why " + body)

    with server(answer) as port:
        outcome = generate(Load("closed", 1, 0.2), port, [b"good", b"bad"])
    assert outcome.first_error == "HTTP 500: why bad"
    assert [bool(failure) for failure in outcome.failures] == [number == 1 for number in outcome.numbers]
    assert abs(outcome.errors - len(outcome.ms) / 2) <= 1
    assert outcome.answered == len(outcome.ms) - outcome.errors


def test_responses_may_come_in_pieces():
    async def answer(writer, body):
        for byte in b"HTTP/1.1 200 OK\r\ncontent-length:  3\r\n\r\nabc":
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(0)

    with server(answer) as port:
        outcome = generate(Load("closed", 2, 0.1), port)
    assert outcome.errors == 0
    assert outcome.answered > 0


@pytest.mark.parametrize("kind", ["closed", "open"])
def test_a_server_that_closes_a_connection_ends_the_load(kind, tmp_path):
    async def answer(writer, body):
        writer.close()

    write_requests([Prepared(post(b"a"))], tmp_path / "requests")
    with server(answer) as port, pytest.raises(LoadError, match="the server closed a connection"):
        apply_load(Load(kind, 20, 0.1), Running(port, session=NONE), tmp_path / "requests")


def test_the_generator_runs_in_a_process_of_its_own(tmp_path):
    async def answer(writer, body):
        respond(writer, 200, b"")

    write_requests([Prepared(post(b"a"))], tmp_path / "requests")
    with server(answer) as port:
        outcome = apply_load(Load("closed", 2, 0.1), Running(port, session=NONE), tmp_path / "requests")
    assert outcome.answered > 0
    assert 0 < outcome.busy <= 1.5
    assert outcome.core_ms == 0  # no process of the server was found


def test_processor_time_is_that_of_all_processes_of_a_session():
    burn = "import time\nwhile time.process_time() < 0.3: pass\nprint(flush=True)\ninput()"
    script = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {burn!r}])"
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, start_new_session=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        parent.stdout.readline()
        used = Running(0, parent.pid).cpu_s()
        parent.communicate(b"\n")
    assert 0.28 <= used < 3  # 0.3 s by the child, two ticks of 10 ms of error, and the start of both
