"""The ranking rule: what may be written, and that it means what Python means by it."""

import doctest
import math
from functools import reduce

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from triton_ads.recipe import expression as module
from triton_ads.recipe.expression import ExpressionError, parse_expression

NAMES = ["cvr", "dcvr", "bid"]
COLUMNS = {
    "cvr": np.array([0.5, 0.25, 0.0, 1.0]),
    "dcvr": np.array([0.1, 0.2, 0.0, 0.5]),
    "bid": np.array([2.0, 4.0, -1.0, 0.0]),
}


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("cvr", [0.5, 0.25, 0.0, 1.0]),
        ("bid * cvr", [1.0, 1.0, 0.0, 0.0]),
        ("bid * (cvr + 0.5 * dcvr)", [1.1, 1.4, 0.0, 0.0]),
        ("log1p(bid) * cvr", [math.log(3) / 2, math.log(5) / 4, math.nan, 0.0]),  # log1p(-1) * 0 = -inf * 0
        ("log(bid)", [math.log(2), math.log(4), math.nan, -math.inf]),
        ("cvr / bid", [0.25, 0.0625, 0.0, math.inf]),
        ("-bid ** 2", [-4.0, -16.0, -1.0, 0.0]),
        ("2 ** -bid", [0.25, 0.0625, 2.0, 1.0]),
        ("bid ** 0.5", [math.sqrt(2), 2.0, math.nan, 0.0]),
        ("sqrt(bid)", [math.sqrt(2), 2.0, math.nan, 0.0]),
        ("exp(bid)", [math.exp(2), math.exp(4), math.exp(-1), 1.0]),
        ("exp(1000 * bid)", [math.inf, math.inf, 0.0, 1.0]),
        ("clip(bid, 0, 3)", [2.0, 3.0, 0.0, 0.0]),
        ("min(bid, cvr, 0.3)", [0.3, 0.25, -1.0, 0.0]),
        ("max(bid, cvr)", [2.0, 4.0, 0.0, 1.0]),
        ("bid - cvr - dcvr", [1.4, 3.55, -1.0, -1.5]),
        ("bid / 2 / 2", [0.5, 1.0, -0.25, 0.0]),
        ("+bid", [2.0, 4.0, -1.0, 0.0]),
        (" ( bid\n * cvr ) ", [1.0, 1.0, 0.0, 0.0]),
    ],
)
def test_worked_values(text, values):
    rule = parse_expression(text, NAMES)
    found = rule({name: COLUMNS[name] for name in rule.names})
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, values, rtol=1e-15)


def test_names_are_those_that_are_read_in_order():
    assert parse_expression("bid * (cvr + bid)", NAMES).names == ("bid", "cvr")


def test_a_bare_name_is_itself_whatever_python_means_by_it():
    rule = parse_expression(" lambda ", ["lambda"])
    assert (rule.text, rule.names) == ("lambda", ("lambda",))
    assert rule({"lambda": np.array([0.1], np.float32)}).tolist() == [float(np.float32(0.1))]


def test_a_column_may_have_the_name_of_a_function():
    assert parse_expression("log(log)", ["log"])({"log": np.array([1.0])}).tolist() == [0.0]


def test_values_of_float32_are_computed_with_in_float64():
    a = np.array([1.0], np.float32)
    assert parse_expression("x + 1e-12", ["x"])({"x": a}).tolist() == [1.0 + 1e-12]


def test_no_candidates():
    assert parse_expression("2 * x + log(0)", ["x"])({"x": np.empty(0)}).shape == (0,)


ALLOWED = "names, numbers, + - * / **, parentheses, min, max, clip, log, log1p, exp, sqrt"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", f"'' is no expression (invalid syntax); allowed: {ALLOWED}"),
        ("ctr", "'ctr' is not known; allowed: cvr, dcvr, bid"),
        ("bid * ctr", "'ctr' is not known; allowed: cvr, dcvr, bid"),
        ("bid cvr", "'bid cvr' is no expression (invalid syntax)"),
        ("bid * (cvr", "'bid * (cvr' is no expression ('(' was never closed)"),
        ("cvr\0", "is no expression (source code string cannot contain null bytes)"),
        ("if * 2", "'if * 2' is no expression (invalid syntax)"),
        ("__import__('os').system('true')", "is not allowed; allowed: names, numbers"),
        ("bid.real", f"'bid.real' is not allowed; allowed: {ALLOWED}"),
        ("bid[0]", "'bid[0]' is not allowed"),
        ("print(bid)", "'print(bid)' is not allowed"),
        ("(log)(bid).real", "'(log)(bid).real' is not allowed"),
        ("2 * (lambda: bid)()", "'(lambda: bid)()' is not allowed"),
        ("bid if cvr else 0", "'bid if cvr else 0' is not allowed"),
        ("bid > cvr", "'bid > cvr' is not allowed"),
        ("bid and cvr", "'bid and cvr' is not allowed"),
        ("not bid", "'not bid' is not allowed"),
        ("~bid", "'~bid' is not allowed"),
        ("bid // cvr", "'bid // cvr' is not allowed"),
        ("bid % cvr", "'bid % cvr' is not allowed"),
        ("bid @ cvr", "'bid @ cvr' is not allowed"),
        ("bid, cvr", "'bid, cvr' is not allowed"),
        ("[bid for bid in cvr]", "'[bid for bid in cvr]' is not allowed"),
        ("(bid := cvr)", "'bid := cvr' is not allowed"),
        ("bid + 'x'", "\"'x'\" is no finite number"),
        ("bid * True", "'True' is no finite number"),
        ("bid * None", "'None' is no finite number"),
        ("bid * 1j", "'1j' is no finite number"),
        ("bid * 1e999", "'1e999' is no finite number"),
        ("bid * " + "9" * 400, f"'{'9' * 60}...' is no finite number"),
        ("log(bid, 2)", "'log(bid, 2)' log takes 1, 2 found"),
        ("log()", "'log()' log takes 1, 0 found"),
        ("min(bid)", "'min(bid)' min takes two or more, 1 found"),
        ("clip(bid, 1)", "'clip(bid, 1)' clip takes 3: value, lowest, highest, 2 found"),
        ("min(*bid, cvr)", "'*bid' is not allowed"),
        ("clip(bid, 0, high=1)", "'clip(bid, 0, high=1)' is not allowed"),
        ("2 + 2", "'2 + 2' reads nothing; at least one name is needed: cvr, dcvr, bid"),
        ("bid + " * 90 + "bid", "543 characters found, at most 500 allowed"),
        ("bid+" * 60 + "bid", "more than 50 operations inside one another; simplify it"),
        ("-" * 400 + "bid", "more than 50 operations inside one another; simplify it"),
        ("(" * 240 + "bid" + ")" * 240, "is no expression (too many nested parentheses)"),
    ],
)
def test_what_is_refused(text, message):
    with pytest.raises(ExpressionError) as caught:
        parse_expression(text, NAMES)
    assert message in str(caught.value)


def trees(functions):
    """(our text, Python's text) of random rules; operators stand without parentheses, so that precedence decides."""
    numbers = st.sampled_from(["0", "1", "2", "0.5", "3.25", ".25"])
    leaves = st.sampled_from(NAMES).map(lambda n: (n, n)) | numbers.map(lambda n: (n, f"number({n})"))

    def larger(inner):
        return st.one_of(
            st.tuples(inner, st.sampled_from([" + ", " - ", "*", "/"]), inner).map(
                lambda t: (t[0][0] + t[1] + t[2][0], t[0][1] + t[1] + t[2][1])
            ),
            inner.map(lambda t: (f"({t[0]})", f"({t[1]})")),
            inner.map(lambda t: (f"-{t[0]}", f"-{t[1]}")),
            st.tuples(st.sampled_from(list(functions)), st.lists(inner, min_size=3, max_size=3)).map(
                lambda t: tuple(f"{t[0]}({', '.join(a[i] for a in t[1][: functions[t[0]]])})" for i in (0, 1))
            ),
        )

    return st.recursive(leaves, larger, max_leaves=12).filter(lambda t: any(name in t[0] for name in NAMES))


columns = st.lists(st.tuples(*[st.integers(-32, 32)] * 3), min_size=1, max_size=5).map(
    lambda rows: {name: np.array(column) / 4 for name, column in zip(NAMES, zip(*rows, strict=True), strict=True)}
)


@given(trees({"min": 2, "max": 3, "clip": 3, "log": 1, "log1p": 1, "exp": 1, "sqrt": 1}), columns)
def test_the_tree_is_pythons(tree, values):
    """Bit for bit what Python's own eval makes of the text, over NumPy's arithmetic."""
    ours, pythons = tree
    scope = {name: getattr(np, name) for name in ("log", "log1p", "exp", "sqrt")}
    scope |= {"min": lambda *a: reduce(np.minimum, a), "max": lambda *a: reduce(np.maximum, a)}
    scope |= {"clip": lambda x, low, high: np.minimum(np.maximum(x, low), high), "number": np.float64}
    with np.errstate(all="ignore"):
        expected = eval(pythons, {"__builtins__": {}}, {**scope, **values})
    np.testing.assert_array_equal(parse_expression(ours, NAMES)(values), expected)


@given(trees({"min": 2, "max": 3, "clip": 3, "sqrt": 1}), columns)
def test_the_arithmetic_is_pythons_own(tree, values):
    """One candidate after the other over Python's floats, with operations that IEEE 754 rounds in one way only. Where
    Python raises, a division by 0 may still become a number further up: clip(1 / 0, 0, 1)."""
    ours, pythons = tree
    scope = {"min": min, "max": max, "sqrt": math.sqrt, "number": float}
    scope |= {"clip": lambda x, low, high: min(max(x, low), high)}
    found = parse_expression(ours, NAMES)(values)
    for i in range(len(found)):
        try:
            expected = eval(pythons, {"__builtins__": {}}, {**scope, **{n: float(v[i]) for n, v in values.items()}})
        except (ZeroDivisionError, ValueError):
            continue
        assert found[i] == expected


def test_powers_and_logarithms_are_maths_to_the_last_digits():
    x = np.linspace(0.01, 30, 400)
    for text, function in {
        "x ** 1.7": lambda v: v**1.7,
        "2 ** x ** 0.5": lambda v: 2**v**0.5,
        "log(x)": math.log,
        "log1p(x)": math.log1p,
        "exp(-x)": lambda v: math.exp(-v),
    }.items():
        np.testing.assert_allclose(
            parse_expression(text, ["x"])({"x": x}), [function(v) for v in x.tolist()], rtol=1e-14, err_msg=text
        )


def test_the_examples_of_the_docstrings():
    result = doctest.testmod(module)
    assert (result.attempted > 0, result.failed) == (True, 0)
