"""A record as one HTML file that needs nothing else: no requests, no libraries, light and dark.

The page is the file ``page.html`` of this folder with the record in it as JSON. Texts of a model, schemas and prompts
are not to be trusted: in the JSON, ``<``, ``>`` and ``&`` are escapes, so that nothing in it can end the element it
stands in; the script puts texts into the page as texts only; and the page's own Content-Security-Policy runs no script
and loads only what the file itself has.
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

if TYPE_CHECKING:
    from guiderail.inspect.record import Record

__all__ = ["page", "page_headers"]

_MARK = re.compile(r"<!--\[(\w+)\]-->|\[\[(\w+)\]\]")


def page(record: Record | str) -> str:
    """A page that shows a record: a complete HTML document.

    Write it as UTF-8; a server sends it with :func:`page_headers`.

    Args:
        record: or the JSON of one (:meth:`Record.to_json`).
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
    # One pass: what is filled in is not looked at again.
    return _MARK.sub(lambda match: filled[match[1] or match[2]], _template())


def page_headers() -> dict[str, str]:
    """The HTTP headers that a page is to be sent with."""
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
