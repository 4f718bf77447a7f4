"""Takes the screenshots of docs/playground.md: ``python playground/pictures.py``, after building the playground."""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "playground")]

import build  # noqa: E402

from browser import Browser, find_browser  # noqa: E402

SECONDS = 300


def until(browser: Browser, code: str) -> None:
    end = time.monotonic() + SECONDS
    while not browser.run(code):
        if time.monotonic() > end:
            raise SystemExit(f"{code} never came true")
        time.sleep(0.2)


def taken(browser: Browser, name: str) -> None:
    """Takes a screenshot of the whole page, with few colours to keep it small."""
    from PIL import Image

    path = ROOT / "docs" / "pictures" / name
    browser.screenshot(path, whole=True)
    Image.open(path).convert("RGB").quantize(64, dither=Image.Dither.NONE).save(path, optimize=True)
    print(path, path.stat().st_size)


def main() -> None:
    server = build.serve(ROOT / "build" / "playground", 0)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_address[1]}/"
    browser = Browser(find_browser())
    browser.open(address, width=390, height=844, dark=True)
    until(browser, "document.body.dataset.ready")
    taken(browser, "playground-phone.png")
    browser.open(address, width=1200, height=900)
    until(browser, "document.body.dataset.ready")
    browser.run("document.getElementById('write').click()")
    until(browser, "document.getElementById('model').dataset.wrote !== undefined")
    # A token whose choice the mask changed shows what it removed. Then a text that fails.
    browser.run(
        "[...document.querySelectorAll('#tokens .changed')].find((e) => /[a-z]{3}/.test(e.textContent)).click()"
    )
    browser.run(
        'const t = document.getElementById(\'text\'); t.value = \'{"name": "Mario Dias", "born": "1990-02-3\';'
        "t.dispatchEvent(new Event('input')); scrollTo(0, 0)"
    )
    until(browser, "document.body.dataset.looked === document.getElementById('text').value")
    taken(browser, "playground.png")
    assert browser.complaints == [], browser.complaints
    browser.close()


if __name__ == "__main__":
    main()
