"""Journeys and examples: nothing of the future, and every token where it belongs."""

import dataclasses

import numpy as np
import pytest

from tests.support.logs import planted_log
from triton_ads.data.split import TimeSplit
from triton_ads.features.prompt import JOURNEY, QUERY, PromptFormat, vocabulary_of
from triton_ads.targeting.examples import ExampleMaker
from triton_ads.targeting.journeys import Journeys

LOG = planted_log()
#: Eight events, two of them in one second; user 0 meets ads 1 2 3 5, user 1 ads 9 1 4.
SMALL = dataclasses.replace(
    LOG,
    time=np.array([10, 20, 30, 30, 40, 50, 60, 70]),
    user=np.array([0, 1, 0, 0, 1, 0, 1, 0], np.int32),
    item=np.array([1, 9, 2, 3, 1, 5, 4, 2], np.int32),
    labels={"cvr": np.ones(8, np.float32)},
    sequences={"liked": np.array([1, 1, 1, 1, 0, 1, 1, 1], np.bool_)},
)
JOURNEYS = Journeys.of(SMALL, TimeSplit(5, 6, 8), "liked")


def test_training_journeys_end_with_training() -> None:
    assert JOURNEYS.training() == [[1, 2, 3], [9]]


def test_whole_journeys() -> None:
    whole = JOURNEYS.whole(3)
    assert whole[:2] == [[3, 5, 2], [9, 4]]
    assert whole[2:] == [[]] * 38


def test_questions_know_what_is_strictly_earlier() -> None:
    (one,) = JOURNEYS.questions("validation", 9)
    assert (one.journey, one.seen, one.answer) == ((1, 2, 3), {1, 2, 3}, 5)
    # Event 7 is of an ad that user 0 met before: no discovery. Event 4 is no member, but was seen.
    (two,) = JOURNEYS.questions("test", 9)
    assert (two.journey, two.seen, two.answer) == ((9,), {9, 1}, 4)


def test_the_same_second_is_not_known() -> None:
    questions = Journeys.of(SMALL, TimeSplit(2, 4, 8), "liked").questions("validation", 9)
    assert [(q.journey, q.answer) for q in questions] == [((1,), 2), ((1,), 3)]


def test_questions_are_spread() -> None:
    journeys = Journeys.of(LOG, TimeSplit(1000, 2000, 6000), "liked")
    questions = journeys.questions("train", 50)
    assert 0 < len(questions) <= 50
    for question in questions:
        assert question.answer not in question.seen
        assert set(question.journey) <= question.seen


def test_a_sequence_that_there_is_not() -> None:
    with pytest.raises(ValueError, match="'bought' is not known; allowed: liked"):
        Journeys.of(LOG, TimeSplit(1, 2, 3), "bought")


TEXTS = [f"film {chr(97 + i)}" for i in range(10)]
FORM = PromptFormat(vocabulary_of(TEXTS), events=2, query_words=2)
IDENTIFIERS = [[100 + ad, 200 + ad] for ad in range(10)]
MAKER = ExampleMaker(FORM, IDENTIFIERS, TEXTS)


def test_windows_learn_every_event_once() -> None:
    for seed in range(20):
        examples = dataclasses.replace(MAKER, query_share=0.0).epoch([[1, 2, 3, 4, 5]], np.random.default_rng(seed))
        learned = [token for example in examples for token in example.tokens[example.learn_from :].tolist()]
        assert sorted(learned) == sorted(token for ad in range(1, 6) for token in IDENTIFIERS[ad])
        for example in examples:
            assert example.tokens[: example.learn_from].tolist() == FORM.prompt([]).tolist()
            assert len(example.tokens) <= FORM.longest(2)
            ads = [int(token) - 100 for token in example.tokens[example.learn_from :: 2]]
            assert ads == list(range(ads[0], ads[0] + len(ads)))


def test_queries_ask_for_their_answer_with_its_own_words() -> None:
    maker = dataclasses.replace(MAKER, query_share=1.0)
    seen = set()
    for seed in range(30):
        examples = [e for e in maker.epoch([[1, 2, 3]], np.random.default_rng(seed)) if QUERY in e.tokens[:2]]
        assert len(examples) == 3
        for example in examples:
            tokens = example.tokens.tolist()
            ad = tokens[-2] - 100
            assert tokens[-2:] == IDENTIFIERS[ad] and example.learn_from == len(tokens) - 2
            asked, known = tokens[2 : tokens.index(JOURNEY)], tokens[tokens.index(JOURNEY) + 1 : -2]
            assert asked and set(asked) <= set(FORM.vocabulary.query(TEXTS[ad], 9))
            before = [token for other in range(1, ad) for token in IDENTIFIERS[other]]
            assert known == before[len(before) - len(known) :]
            seen.add((ad, len(asked), len(known)))
    assert {(3, 1, 0), (3, 2, 4), (2, 1, 2), (1, 1, 0)} <= seen


def test_the_same_seed_gives_the_same_epoch() -> None:
    one, two = (MAKER.epoch([[1, 2, 3], [4]], np.random.default_rng(3)) for _ in range(2))
    assert [e.tokens.tolist() for e in one] == [e.tokens.tolist() for e in two]


def test_no_journey_and_no_words() -> None:
    assert MAKER.epoch([], np.random.default_rng(0)) == []
    silent = dataclasses.replace(MAKER, texts=[""] * 10, query_share=1.0)
    assert all(QUERY not in example.tokens[:2] for example in silent.epoch([[1, 2]], np.random.default_rng(0)))
