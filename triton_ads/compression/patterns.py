"""The vocabulary of the packed layout: patterns, value kinds and its constants."""

from enum import StrEnum
from typing import Final

#: Rows of a tile: two halves of 16 lanes, one 32-bit lane for each row.
TILE_ROWS: Final = 32
#: Kept values that a row holds in one step of the layout.
STEP_VALUES: Final = 16
#: Columns over which a group scale may extend. The smallest is one step of 2:4; one step of 1:4 is 64 columns.
GROUP_SIZES: Final = (32, 64, 128, 256)
#: Width of the blocks in which scales are stated before packing: the smallest group.
SCALE_COLUMNS: Final = 32
#: Bytes of the group scales of a tile: one float16 for each of its rows.
SCALE_BYTES: Final = 2 * TILE_ROWS
#: Bytes of the 2-bit indices of a tile in one step.
INDEX_BYTES: Final = STEP_VALUES * TILE_ROWS // 4
#: Neighbours among which a pattern keeps some.
QUAD: Final = 4


class Pattern(StrEnum):
    """How many of four neighbouring columns are kept."""

    DENSE = "dense"
    TWO_OF_FOUR = "2:4"
    ONE_OF_FOUR = "1:4"

    @property
    def kept(self) -> int:
        """Values kept of each four."""
        return {Pattern.DENSE: 4, Pattern.TWO_OF_FOUR: 2, Pattern.ONE_OF_FOUR: 1}[self]

    @property
    def sparse(self) -> bool:
        """Whether the layout holds indices."""
        return self is not Pattern.DENSE

    @property
    def step_columns(self) -> int:
        """Columns that one step of the layout covers: 16, 32 or 64."""
        return STEP_VALUES * QUAD // self.kept

    @property
    def group_sizes(self) -> tuple[int, ...]:
        """Allowed group sizes: those made of whole steps."""
        return tuple(size for size in GROUP_SIZES if size % self.step_columns == 0)


class Values(StrEnum):
    """How a kept value is stored."""

    INT4 = "int4"
    BF16 = "bf16"

    @property
    def step_bytes(self) -> int:
        """Bytes of the values of a tile in one step."""
        return STEP_VALUES * TILE_ROWS * (1 if self is Values.INT4 else 4) // 2


def step_bytes(pattern: Pattern, values: Values) -> int:
    """Bytes of one step of a tile: its values, and its indices where there are any."""
    return values.step_bytes + (INDEX_BYTES if pattern.sparse else 0)


def tile_bytes(pattern: Pattern, values: Values, columns: int, group_size: int) -> int:
    """Bytes of one tile of 32 rows. `group_size` is 0 for BF16 values, which have no scales."""
    if values is Values.BF16:
        return -(-columns // pattern.step_columns) * step_bytes(pattern, values)
    steps = group_size // pattern.step_columns
    return -(-columns // group_size) * (steps * step_bytes(pattern, values) + SCALE_BYTES)
