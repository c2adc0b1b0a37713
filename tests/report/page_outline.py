"""A page as a strict reader sees it: what is open, what is named, what it would load."""

from __future__ import annotations

from html.parser import HTMLParser

_VOID = {"meta", "br", "img", "link", "input", "hr", "source"}
_SELF_CLOSED = {"rect", "line", "circle"}  # in SVG


class Outline(HTMLParser):
    """Feed it a page, then look at its lists. AssertionError where elements are not closed in order."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.children: list[tuple[str, list[str]]] = []  # of each svg and figure: tags inside, in order
        self._inside: list[tuple[str, list[str]]] = []
        self.text: list[str] = []
        self.feed(page)
        self.close()
        assert self.open == [], f"never closed: {self.open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), f"{tag} has an attribute twice"
        self.tags.append((tag, dict(attrs)))
        for _, inside in self._inside:
            inside.append(tag)
        if tag in _VOID:
            return
        self.open.append(tag)
        if tag in ("svg", "figure", "table"):
            self._inside.append((tag, []))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in _SELF_CLOSED, f"{tag} closes itself outside of SVG"
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open[-1] == tag, f"</{tag}> closes <{self.open[-1]}>"
        self.open.pop()
        if self._inside and self._inside[-1][0] == tag:
            self.children.append(self._inside.pop())

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.text.append(data)

    def all(self, *tags: str) -> list[tuple[str, dict[str, str | None]]]:
        return [(tag, attrs) for tag, attrs in self.tags if tag in tags]
