"""Configuration text means what it shows."""

import pytest

from xmcspark.config.yaml_text import parse
from xmcspark.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-3", 0.001),
        ("1E6", 1e6),
        ("-.5", -0.5),
        ("1.", 1.0),
        ("007", 7),
        ("+3", 3),
        ("no", "no"),
        ("on", "on"),
        ("true", True),
        ("2024-01-31", "2024-01-31"),
        ("12:30", "12:30"),
        ("1_000", "1_000"),
        ("0x10", "0x10"),
        ("", None),
        ("~", None),
        ("null", None),
        ("'1'", "1"),
        ("[1, a, {b: null}]", [1, "a", {"b": None}]),
        ("s3://bucket/key", "s3://bucket/key"),
        ('{"a": "\\ud83d\\ude00"}', {"a": "😀"}),
        ("{a: 1}", {"a": 1}),
        ("<<: 1", {"<<": 1}),
    ],
)
def test_plain_values_have_the_types_of_yaml_1_2(text, value):
    found = parse(text, "f")
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb: 2\na: 3", "f, line 3, column 1: the key a is there twice"),
        ("a:\n  b: 1\n  b: 2", "f, line 3, column 3: the key b is there twice"),
        ('{"a": 1, "a": 2}', "f: the key a is there twice"),
        ("a: &x 1\nb: *x", "f, line 2, column 4: aliases"),
        ("a: &x [*x]", "aliases"),
        ("1: 2", "the key 1 must be text"),
        ("[1]: 2", "must be text"),
        ("a: [1", "f, line"),
        ("a: b: c", "f, line 1"),
        ("a: !!python/object/apply:os.system [x]", "f, line 1"),
        ("a: !secret 1", "f, line 1"),
        ("\x00", "f: not readable"),
        ("9" * 5000, "f: not readable"),
        ("[" * 1000, "f: nested too deeply"),
        ('{"a":' * 1000, "f: nested too deeply"),
        ("a: 1\n---\nb: 2", "f, line 2"),
    ],
)
def test_text_with_no_clear_meaning_is_refused_with_the_place(text, message):
    with pytest.raises(ConfigError) as caught:
        parse(text, "f")
    assert len(caught.value.problems) == 1
    assert message in caught.value.problems[0]
