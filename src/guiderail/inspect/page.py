"""Shows a record as one self-contained HTML file: no requests, no libraries, light and dark.

The page is ``page.html`` of this folder with the record in it as JSON. Texts of models, schemas and prompts are not
trusted. In the JSON, ``<``, ``>`` and ``&`` are escaped, so nothing in it can end its element. The script inserts texts
only as text. The page's Content-Security-Policy runs no other script and loads nothing from outside the file.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from functools import lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING

from guiderail.support.arguments import checked

if TYPE_CHECKING:
    from guiderail.inspect.record import Record

__all__ = ["page", "page_headers"]

_MARK = re.compile(r"<!--\[(\w+)\]-->|\[\[(\w+)\]\]")


@checked
def page(record: Record | str) -> str:
    """Returns a complete HTML document that shows a record.

    Write it as UTF-8. If a server sends it, add :func:`page_headers`.

    Args:
        record: the record, or its JSON (:meth:`Record.to_json`).
    """
    if isinstance(record, str):
        known = json.loads(record)
        written, text, title = record, known["text"], known["prompt"] or known["text"]
    else:
        written, text, title = record.to_json(), record.text, record.prompt or record.text
    data = written.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    filled = {
        "title": _escaped(" ".join(title.split())[:80] or "an empty text"),
        "policy": _escaped(_policy()),
        "record": data,
        "text": _escaped(text),
    }
    # One pass: inserted text is not searched for marks.
    return _MARK.sub(lambda match: filled[match[1] or match[2]], _template())


def page_headers() -> dict[str, str]:
    """Returns the HTTP headers to send a page with."""
    return {
        "Content-Type": "text/html; charset=utf-8",
        "Content-Security-Policy": _policy() + "; frame-ancestors 'none'",
        "Cache-Control": "no-store",
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
    }


@lru_cache(maxsize=1)
def _template() -> str:
    return (files("guiderail.inspect") / "page.html").read_text(encoding="utf-8")


@lru_cache(maxsize=1)
def _policy() -> str:
    """Allows the template's own script and style, by their hashes, and nothing else."""
    template = _template()
    style = _hash(re.findall(r"<style>(.*?)</style>", template, re.DOTALL))
    script = _hash(re.findall(r"<script>(.*?)</script>", template, re.DOTALL))
    return f"default-src 'none'; style-src {style}; script-src {script}; base-uri 'none'; form-action 'none'"


def _hash(found: list[str]) -> str:
    (text,) = found
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _escaped(text: str) -> str:
    """Text for an element or an attribute; what has no UTF-8 form (half a surrogate pair) becomes a question mark."""
    return html.escape(text.encode("utf-8", "replace").decode(), quote=True).replace("\0", "\N{REPLACEMENT CHARACTER}")
