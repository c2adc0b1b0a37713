"""The meaning of a plain dataclass field, from the comment beside it: settings that are not declared with
`setting` still explain themselves in the skeleton."""

from __future__ import annotations

import ast
import functools
import inspect
import io
import textwrap
import tokenize


@functools.cache
def comments_of(settings_class: type) -> dict[str, str]:
    """The comment on the lines of each field, those of parent classes included."""
    found: dict[str, str] = {}
    for parent in reversed(settings_class.__mro__[:-1]):
        try:
            found |= _comments_in(textwrap.dedent(inspect.getsource(parent)))
        except (OSError, TypeError):  # no source, as in an interpreter session
            continue
    return found


def _comments_in(source: str) -> dict[str, str]:
    by_line: dict[int, str] = {}
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            by_line[token.start[0]] = token.string.lstrip("# ").rstrip()
    body = ast.parse(source).body[0]
    found = {}
    for node in body.body if isinstance(body, ast.ClassDef) else []:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            lines = range(node.lineno, (node.end_lineno or node.lineno) + 1)
            comment = " ".join(by_line[line] for line in lines if line in by_line)
            if comment:
                found[node.target.id] = comment
    return found
