"""The request-oriented compiler: a row-wise model becomes a part per user and a part per candidate.

    nn.Module, one row = one user x one ad
      -> capture.py     exported graph with a free batch axis, functional
           lower.py     composite operators in terms of those that have rules (einsum.py: products)
           unmerge.py   the batch kept apart from heads and time
      -> propagate.py   every value is labelled: static, user, item, or blocks of user and item along one axis
           rules/       what each operator does with blocks and with a user met by an item
           emit.py      the two graphs under construction (part.py), and the three ways in which a user meets items
      -> cut.py         the values that the item part reads become one flat state per user
      -> check.py       the model is row-wise; the parts equal the model
           locate.py    the line to blame where they do not
      -> report.py      what is shared, what is not and why

Legend of this package: M rows of the row-wise model, B users, C tiles, P candidates in a tile (all of one user).
In the item part a row-wise value keeps its shape with M = C x P rows: an operator on items alone is copied as it is.
"""

from triton_ads.split.check import SplitMismatchError, check_parity, check_row_independence
from triton_ads.split.compile import Split, split
from triton_ads.split.errors import SplitError

__all__ = ["Split", "SplitError", "SplitMismatchError", "check_parity", "check_row_independence", "split"]
