"""Elements of HTML as text; whatever is put into one is escaped, unless it is an element itself."""

from __future__ import annotations

import html
import json
from collections.abc import Iterable, Sequence
from typing import Any


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


_VOID = {"input", "img", "br"}


def tag(name: str, *children: object, **attributes: object) -> Markup:
    """Return an element; `class_` and `aria_label` are the attributes class and aria-label.

    None and False leave an attribute or a child out, True gives an attribute without a value.
    """
    given = "".join(
        f" {key}" if value is True else f' {key}="{html.escape(str(value))}"'
        for key, value in ((k.rstrip("_").replace("_", "-"), v) for k, v in attributes.items())
        if value is not None and value is not False
    )
    if name in _VOID:
        return Markup(f"<{name}{given}>")
    return Markup(f"<{name}{given}>{join(children)}</{name}>")


def join(children: Iterable[object], between: str = "") -> Markup:
    """Return the children one after the other, escaped where they are plain text."""
    shown = (child for child in children if child is not None and child is not False)
    return Markup(between.join(c if isinstance(c, Markup) else html.escape(str(c)) for c in shown))


def table(
    caption: str, head: Sequence[object], rows: Iterable[Sequence[object]], first_is_head: bool = True
) -> Markup:
    """Return a table that scrolls by itself where it is too wide."""

    def cells(row: Sequence[object]) -> Markup:
        first = tag("th", row[0], scope="row") if first_is_head else tag("td", row[0])
        return tag("tr", first, *(tag("td", cell) for cell in row[1:]))

    return tag(
        "div",
        tag(
            "table",
            tag("caption", caption),
            tag("thead", tag("tr", *(tag("th", cell, scope="col") for cell in head))),
            tag("tbody", *(cells(row) for row in rows)),
        ),
        class_="scroll",
        tabindex="0",
        role="region",
        aria_label=caption,
    )  # fmt: skip


def embedded_json(document: Any) -> Markup:
    """Return JSON that no text inside it can end or break: not even `</script>`, which is spelt out."""
    text = json.dumps(document, allow_nan=False, separators=(",", ":"))  # escapes all beyond ASCII
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)
