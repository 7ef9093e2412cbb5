"""Titles as identifiers, and the text around them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from tests.support.titles import text_tokenizer
from triton_ads.features.text_prompt import TextPromptError
from triton_ads.targeting.titles import TitleError, encoder, end_token, title_tree
from triton_ads.trie import TreeError

TOKENIZER = text_tokenizer().to_str()


def written(identifier: list[int]) -> str:
    return str(Tokenizer.from_str(TOKENIZER).decode(identifier, skip_special_tokens=False))


def test_a_tree_of_titles_worked_by_hand() -> None:
    """Tokens: the end of a line is 1; a is 2 and so on; "ab" and " a" have tokens of their own, 257 and 258.

    root ── ab ── \\n            "ab", ad 30         a title that ends where others go on has a leaf of its own
             └─ " a" ─ \\n       "ab a", ad 10
             └─ c ─ \\n          "abc", ad 20
    """
    encode = encoder(TOKENIZER)
    assert encode("ab a") == [257, 258] and encode("abc") == [257, 4] and end_token(encode) == 1
    tree = title_tree(["ab a", "abc", "ab"], [10, 20, 30], TOKENIZER)
    assert tree.token.tolist() == [257, 1, 4, 258, 1, 1]
    assert tree.first.tolist() == [1, 2, 5, 5, 6, 7]
    assert tree.leaf.tolist() == [2, 5, 6] and tree.ad.tolist() == [30, 20, 10]


@given(
    st.lists(
        st.text(st.one_of(st.sampled_from("ab (2)\t"), st.characters(codec="utf-8")), min_size=1, max_size=8).filter(
            str.strip
        ),
        min_size=1,
        max_size=30,
    )
)
def test_every_ad_has_its_own_title(titles: list[str]) -> None:
    tree = title_tree(titles, range(len(titles)), TOKENIZER)
    found = {ad: written(identifier) for ad, identifier in zip(tree.ad.tolist(), tree.identifiers(), strict=True)}
    assert len(set(found.values())) == len(titles)
    seen: set[str] = set()
    for ad, title in enumerate(titles):
        plain = " ".join(title.split())
        assert found[ad].endswith("\n")
        # The first of equal titles is written as it is; nothing else may have taken its place.
        if plain not in seen and not any(found[earlier] == f"{plain}\n" for earlier in range(ad)):
            assert found[ad] == f"{plain}\n"
        assert found[ad].startswith(plain)
        seen.add(plain)


def test_equal_titles_are_numbered_in_the_order_given() -> None:
    tree = title_tree(["Sabrina", "Sabrina", "Sabrina (2)", "Sa\tbrina "], [7, 3, 5, 9], TOKENIZER)
    found = dict(zip(tree.ad.tolist(), map(written, tree.identifiers()), strict=True))
    assert found == {7: "Sabrina\n", 3: "Sabrina (2)\n", 5: "Sabrina (2) (2)\n", 9: "Sa brina\n"}


def test_what_makes_no_titles() -> None:
    with pytest.raises(TreeError, match="title ' ': tokens \\[\\] found"):
        title_tree(["a", " "], [1, 2], TOKENIZER)
    assert title_tree(["a", "bcd"], [1, 2], TOKENIZER, longest=4).ads == 2
    with pytest.raises(TreeError, match="title 'bcde': 5 tokens found with its end, 4 allowed"):
        title_tree(["a", "bcde"], [1, 2], TOKENIZER, longest=4)
    with pytest.raises(TitleError, match="writes an end of line as \\[\\]; titles need one token"):
        title_tree(["a"], [1], text_tokenizer(end_of_line=False).to_str())
    with pytest.raises(TextPromptError, match="the tokenizer cannot be read"):
        title_tree(["a"], [1], "no tokenizer")
