"""Prompts in text, token by token."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import processors

from tests.support.titles import TOKENS, text_tokenizer
from triton_ads.features.text_prompt import TextPromptError, TextPromptFormat
from triton_ads.recipe.target import PromptText

TEXT = PromptText(journey="Seen:\n", query="Seen, of {query} kind:\n")


def form(text: PromptText = TEXT, begins: bool = False, events: int = 2, query_tokens: int = 4) -> TextPromptFormat:
    tokenizer = text_tokenizer()
    if begins:  # as llama's own tokenizers put a first token before every text
        tokenizer.post_processor = processors.TemplateProcessing("<end> $A", special_tokens=[("<end>", 0)])
    return TextPromptFormat.of(tokenizer.to_str(), text, events, query_tokens)


def written(tokens: list[int]) -> str:
    return str(text_tokenizer().decode(tokens, skip_special_tokens=False))


def test_a_list_that_goes_on() -> None:
    made = form()
    titles = [made.encode(f"{title}\n") for title in ("Jaws", "Alien", "Up")]
    assert written(made.prompt(titles).tolist()) == "Seen:\nAlien\nUp\n"
    assert written(made.prompt(titles[:1], " a  cab\n").tolist()) == "Seen, of a cab kind:\nJaws\n"
    # Four tokens: " a", a space, "c" and "ab".
    assert written(made.prompt([], "a cab for two").tolist()) == "Seen, of a cab kind:\n"
    assert written(made.prompt([], "\t").tolist()) == "Seen:\n"
    assert (made.asks("a"), made.asks(" \n"), made.unknown("anything")) == (True, False, 0)
    assert made.vocabulary_size == len(TOKENS)


def test_a_query_begins_a_line_where_the_text_says_so() -> None:
    made = form(PromptText(query="{query}:\n"))
    assert written(made.prompt([], "a cab").tolist()) == "a cab:\n"
    assert made.prompt([], "a").tolist() == made.encode("a:\n")
    assert form().prompt([], "a").tolist() == form().encode("Seen, of a kind:\n")


def test_what_a_tokenizer_puts_first_comes_first_and_once() -> None:
    made = form(begins=True)
    title = made.encode("Up\n")
    assert made.prompt([title]).tolist() == [0, *form().prompt([title]).tolist()]
    assert made.longest(4) == form().longest(4) + 1


@given(st.text(max_size=30), st.lists(st.integers(1, 6), max_size=5), st.booleans())
def test_no_prompt_is_longer_than_the_longest(query: str, lengths: list[int], begins: bool) -> None:
    made = form(begins=begins)
    prompt = made.prompt([[3] * length for length in lengths], query)
    assert len(prompt) + 6 <= made.longest(6)


def test_no_tokenizer() -> None:
    with pytest.raises(TextPromptError, match="the tokenizer cannot be read"):
        TextPromptFormat.of("{}", TEXT, 1, 1)
