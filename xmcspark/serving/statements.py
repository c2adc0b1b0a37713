"""Where SQL statements end: at a semicolon that is in no text, name or comment."""

from __future__ import annotations

import re

_COMMENT = r"--[^\n]*|/\*.*?\*/"
_WHOLE = rf"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`[^`]*`|{_COMMENT}"""
# What is whole is passed over; a quote or a comment that is only begun ends nowhere yet.
_TOKEN = re.compile(rf"(?P<whole>{_WHOLE})|(?P<end>;)|(?P<begun>['\"`]|/\*)", re.DOTALL)


def split_statements(text: str) -> tuple[list[str], str]:
    """(the statements that ended, the rest). Statements of comments alone are left out."""
    ended, start = [], 0
    for token in _TOKEN.finditer(text):
        if token["begun"]:
            break
        if token["end"]:
            ended.append(text[start : token.start()])
            start = token.end()
    rest = text[start:]
    return [said for statement in ended if (said := statement.strip()) and not is_blank(said)], rest


def is_blank(statement: str) -> bool:
    """Whether there is nothing in it but comments."""
    return not re.sub(_COMMENT, "", statement, flags=re.DOTALL).strip()
