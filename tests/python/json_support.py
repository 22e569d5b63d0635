"""Objects of JSON that commands print are held against docs/schemas/."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

SCHEMAS = Path(__file__).resolve().parents[2] / "docs" / "schemas"


def checked(name: str, text: str) -> Any:
    """Return the object in a text, once it fits the schema of that name."""
    jsonschema = pytest.importorskip("jsonschema")
    value, schema = json.loads(text, parse_constant=pytest.fail), json.loads((SCHEMAS / f"{name}.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    wrong = [f"{error.json_path}: {error.message}" for error in jsonschema.Draft202012Validator(schema).iter_errors(value)]
    assert wrong == []
    return value
