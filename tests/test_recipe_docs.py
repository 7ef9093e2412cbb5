"""docs/recipe.md says of every field what triton_ads/recipe/ says; the schema for editors is the recipe's."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from triton_ads.recipe import parse_recipe, recipe_schema

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "docs" / "recipe.md").read_text()
SCHEMA = recipe_schema()
NAME, OWN = r"^[a-z][a-z0-9_]{0,62}$", r"^.+\.py:[A-Za-z_][A-Za-z0-9_]*$"
PARTS: dict[str, Any] = {"Recipe": SCHEMA, **SCHEMA["$defs"]}


def allowed(field: dict[str, Any]) -> str:
    """What a field of the schema allows, in the words of the document."""
    options = field.get("anyOf", field.get("oneOf"))
    if options is not None:
        return " or ".join(allowed(option) for option in options if option != {"type": "null"})
    if "$ref" in field:
        return f"[{part_of(field)}](#{part_of(field).lower()})"
    if "const" in field:
        return f"`{field['const']}`"
    if "enum" in field:
        return ", ".join(f"`{value}`" for value in field["enum"])
    if field["type"] == "array":
        return f"list of {allowed(field['items'])}{bounds(field, 'Items')}"
    if field["type"] == "object":
        named = list(field.get("patternProperties", {}).values())
        what = allowed(named[0]) if named else ""
        each = "to strings" if what == "string" else f"each a {what}"
        return f"names, {each}{bounds(field, 'Properties')}" if named else "a mapping"
    if field["type"] == "string":
        return {None: "string", NAME: "name", OWN: "`FILE.py:CLASS`"}[field.get("pattern")]
    if field["type"] == "boolean":
        return "true or false"
    return field["type"] + bounds(field, "imum")


def part_of(field: dict[str, Any]) -> str:
    return str(field["$ref"]).rsplit("/", 1)[1]


def bounds(field: dict[str, Any], unit: str) -> str:
    """`, 1 to 100`, `, above 0`, ... from minimum/maximum, minItems/maxItems, ..."""
    low, high = field.get(f"min{unit}"), field.get(f"max{unit}")
    words = []
    if low is not None and high is not None:
        words.append(f"{low} to {high}")
    elif low is not None:
        words.append(f"{low} or more")
    if "exclusiveMinimum" in field:
        words.append(f"above {field['exclusiveMinimum']}")
    if low is None and high is not None:
        words.append(f"at most {high}")
    if "exclusiveMaximum" in field:
        words.append(f"below {field['exclusiveMaximum']}")
    if "multipleOf" in field:
        words.append(f"a multiple of {field['multipleOf']}")
    return "".join(f", {word}" for word in words)


def default(part: dict[str, Any], name: str) -> str:
    if name in part.get("required", []):
        return "required"
    value = part["properties"][name].get("default")
    return "" if value in (None, [], {}) or isinstance(value, dict) else f"`{json.dumps(value).strip(chr(34))}`"


def documented(part: str) -> dict[str, list[str]]:
    """Field -> the other cells of its row."""
    section = TEXT.split(f"\n## {part}\n", 1)[1].split("\n## ", 1)[0]
    rows = [line for line in section.splitlines() if line.startswith("| `")]
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    return {row[0].strip("`"): row[1:] for row in cells}


@pytest.mark.parametrize("part", PARTS)
def test_every_field_is_documented_with_what_it_allows_and_its_default(part: str) -> None:
    fields = PARTS[part]["properties"]
    found = documented(part)
    assert list(found) == list(fields)
    for name, field in fields.items():
        assert found[name][:2] == [allowed(field), default(PARTS[part], name)], name
        assert found[name][2], f"{name} has no meaning"


def test_no_section_is_left_of_a_part_that_is_gone() -> None:
    sections = set(re.findall(r"\n## ([A-Z][A-Za-z]+)\n", TEXT))
    assert sections == set(PARTS)


def test_the_schema_file_is_the_schema() -> None:
    file = ROOT / "build" / "recipes" / "recipe.schema.json"
    assert json.loads(file.read_text()) == SCHEMA, (
        "write it: triton-ads inspect schema > build/recipes/recipe.schema.json"
    )


def test_the_example_of_the_document_is_a_recipe() -> None:
    example = re.search(r"```yaml\n(.*?)```", TEXT, re.DOTALL)
    assert example is not None
    parse_recipe(yaml.safe_load(example[1]))
