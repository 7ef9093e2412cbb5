"""Numbers for people."""


def count(number: float) -> str:
    """Three digits and a decimal prefix.

    >>> count(24_739_872), count(980)
    ('24.7 M', '980')
    """
    power = 0
    while number >= 1000 and power < 4:
        number, power = number / 1000, power + 1
    return f"{number:.3g} {'kMGT'[power - 1]}" if power else f"{number:g}"


def size(number: int) -> str:
    """Bytes.

    >>> size(80_420), size(980)
    ('80.4 kB', '980 B')
    """
    return f"{count(number)}{'' if number >= 1000 else ' '}B"
