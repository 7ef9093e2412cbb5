"""Words of a text: what queries and descriptions of ads are made of."""

import re
import unicodedata

_WORD = re.compile(r"[a-z0-9]+")


def words(text: str) -> list[str]:
    """Lower-case words and numbers of a text, accents dropped, in order.

    >>> words("Les Misérables (1995), Drama|Musical")
    ['les', 'miserables', '1995', 'drama', 'musical']
    """
    plain = unicodedata.normalize("NFKD", text.casefold())
    return _WORD.findall("".join(c for c in plain if not unicodedata.combining(c)))
