"""Prompts, token by token."""

import doctest

from triton_ads.features import prompt
from triton_ads.features.prompt import PromptFormat, vocabulary_of


def test_examples() -> None:
    found = doctest.testmod(prompt)
    assert found.attempted and not found.failed


def test_journey_and_query_token_by_token() -> None:
    vocabulary = vocabulary_of(["Space War (1977)", "War of the Roses"])
    assert vocabulary.words == ("1977", "of", "roses", "space", "the", "war")
    assert vocabulary.first_identifier == 11
    form = PromptFormat(vocabulary, events=2, query_words=3)
    journey = [[11, 20], [12, 21], [13, 22]]
    assert form.prompt(journey).tolist() == [1, 3, 12, 21, 13, 22]
    assert form.prompt(journey, "war in space, a long one").tolist() == [1, 2, 10, 4, 8, 3, 12, 21, 13, 22]
    assert form.prompt([]).tolist() == [1, 3]
    assert form.prompt([], "?!").tolist() == [1, 3]
    assert form.prompt([], "roses").tolist() == [1, 2, 7, 3]
    assert len(form.prompt(journey, "a b c d e")) + 2 == form.longest(2)
    assert PromptFormat(vocabulary, 0, 0).prompt(journey, "war").tolist() == [1, 3]
