"""Adds what mkdocs lacks: pages of the repository's root are pages of the site, too."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parent.parent
ROOT_PAGES = ("ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
NOTE_FOR_TESTS = re.compile(r"^<!-- needs: .* -->\n", re.MULTILINE)


def on_files(files: Files, config: Any) -> Files:
    """Adds the pages of the root, with links as from within docs/."""
    for name in ROOT_PAGES:
        text = (ROOT / name).read_text(encoding="utf-8")
        files.append(File.generated(config, name, content=re.sub(r"\]\(docs/", "](", text)))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Links to the root's pages stay within the site; notes for the tests are not shown."""
    return NOTE_FOR_TESTS.sub("", re.sub(r"\]\(\.\./(\w+\.md)", r"](\1", markdown))
