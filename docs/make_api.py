"""Writes docs/api.md, the reference of every public name, from signatures and docstrings.

    python docs/make_api.py

mkdocstrings makes the same reference for the site, but only for a site. This file is for readers of the repository,
and for language models.
"""

from __future__ import annotations

import inspect
import json
import re
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import guiderail as gr

OUT = Path(__file__).with_name("api.md")
SECTIONS = ("Args", "Attributes", "Example", "Examples", "Raises", "Returns", "Yields", "Note")
GROUPS: list[tuple[str, str]] = [
    ("Constraints", r"guiderail\.(constraint|frontends|extensions|explain|program)"),
    ("Bitmasks", r"guiderail\.matching\.bitmask"),
    ("Compiling and matching", r"guiderail\.(matching|support\.(disk_cache|work))"),
    ("Vocabularies", r"guiderail\.vocabulary"),
    ("Generating", r"guiderail\.(generation|inspect)"),
    ("Errors", r"guiderail\.errors"),
]


class Plain:
    """A text that a signature shows without quotes."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def signature(value: Any) -> str:
    try:
        found = inspect.signature(value)
    except (TypeError, ValueError):
        return "(…)"
    shown = [
        one.replace(annotation=plain(one.annotation), default=default(one.default)) for one in found.parameters.values()
    ]
    result = found.empty if isinstance(value, type) else plain(found.return_annotation)
    text = str(found.replace(parameters=shown, return_annotation=result))
    return re.sub(r"<object object at 0x[0-9a-f]+>|<factory>", "…", text)


def plain(annotation: Any) -> Any:
    return Plain(annotation.replace("'", "")) if isinstance(annotation, str) else annotation


def default(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(default, value))
    return Plain(json.dumps(value, ensure_ascii=False)) if isinstance(value, str) else value


def prose(doc: str | None) -> str:
    """Converts a Google-style docstring to Markdown."""
    lines: list[str] = []
    section, code, indent = "", False, 0
    for line in inspect.cleandoc(doc or "").splitlines():
        bare = line.strip()
        if bare.startswith((">>>", "...")) and not code:
            lines += ["", "```pycon"]
            code, indent = True, len(line) - len(line.lstrip())
        elif code and not bare:
            lines += ["```", ""]
            code = False
            continue
        if code:
            lines.append(line[indent:])
        elif bare.rstrip(":") in SECTIONS and bare.endswith(":") and line == bare:
            section = bare.rstrip(":")
            lines += ["", f"**{section}**", ""]
        elif section and line.startswith("    ") and not line.startswith("     "):
            item = re.match(r"    ([\w.*, ]+?)(?: \(.*?\))?: (.*)", line)
            lines.append(f"- `{item[1]}`: {item[2]}" if item else f"- {bare}" if section == "Raises" else bare)
        else:
            if line and not line.startswith(" "):
                section = ""
            lines.append(f"  {bare}" if section and bare else line)
    if code:
        lines.append("```")
    text = re.sub(r":(?:func|class|meth|mod|data):`~?([^`]+)`", r"`\1`", "\n".join(lines))
    return re.sub(r"(?<!`)``(?!`)", "`", text)


def members(kind: type) -> Iterator[tuple[str, Any]]:
    for name, value in vars(kind).items():
        if name.startswith("_"):
            continue
        if isinstance(value, classmethod | staticmethod):
            value = value.__func__
        if isinstance(value, types.FunctionType | property) and value.__doc__:
            yield name, value


def bases_of(kind: type) -> list[type]:
    """What a class derives from, as far as readers can know it: a private base is left out for its own bases."""
    known: list[type] = []
    for base in kind.__bases__:
        private = base.__module__.startswith("guiderail") and not hasattr(gr, base.__name__)
        known += bases_of(base) if private else [base]
    return [
        one for one in dict.fromkeys(known) if not any(issubclass(other, one) for other in known if other is not one)
    ]


def entry(name: str, value: Any) -> Iterator[str]:
    if isinstance(value, type):
        bases = ", ".join(b.__name__ for b in bases_of(value) if b is not object)
        made_by_users = "Args:" in (value.__doc__ or "") or name.endswith("Options")
        made = f"`{name}{signature(value)}`\n\n" if made_by_users else ""
        yield f"### `gr.{name}`\n\n{made}{f'Derives from {bases}. ' if bases else ''}{prose(value.__doc__)}"
        if not issubclass(value, Exception):
            for member, what in members(value):
                shown = "" if isinstance(what, property) else signature(what)
                yield f"#### `{name}.{member}`\n\n`{member}{shown}`\n\n{prose(what.__doc__)}"
    elif isinstance(value, types.ModuleType):
        yield f"### `gr.{name}`\n\n{prose(value.__doc__)}"
        for member in value.__all__:
            what = getattr(value, member)
            yield f"#### `{name}.{member}`\n\n`{member}{signature(what)}`\n\n{prose(what.__doc__)}"
    else:
        yield f"### `gr.{name}`\n\n`{name}{signature(value)}`\n\n{prose(value.__doc__)}"


def reference() -> str:
    """Returns the text of docs/api.md."""
    groups: dict[str, list[str]] = {title: [] for title, _ in GROUPS} | {"More": []}
    for name in sorted(gr.__all__, key=str.lower):
        if name == "__version__":
            continue
        value = getattr(gr, name)
        home = getattr(value, "__module__", "") or ""
        if isinstance(value, types.ModuleType):
            home = value.__name__
        title = next((title for title, pattern in GROUPS if re.match(pattern, home)), "More")
        groups[title].append(name)
    parts = ["# Reference\n\nEvery public name, as `import guiderail as gr` gives it. Made by `make docs`."]
    for title, names in groups.items():
        if names:
            parts.append(f"## {title}")
            parts += [text for name in names for text in entry(name, getattr(gr, name))]
    text = "\n\n".join(re.sub(r"\n{3,}", "\n\n", part.strip()) for part in parts)
    return "\n".join(line.rstrip() for line in text.splitlines()) + "\n"


def main() -> None:
    text = reference()
    OUT.write_text(text, encoding="utf-8")
    print(f"{OUT.name}: {len(gr.__all__)} names, {len(text):,} characters")


if __name__ == "__main__":
    main()
