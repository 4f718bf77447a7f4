"""Draws the pictures of docs/how_it_works.md from the engine's own states and masks.

python docs/draw.py

Every expression, mask and branch in a picture is what the engine says of it; only the layout is made here.
The files are the same on every machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

import guiderail as gr

OUT = Path(__file__).with_name("pictures")
TOKENS = ["1", "12", ".", ".5", "50", "a", "n", "ok", "if", "=", " ", '"', '{"', '":', ',"', '"}', "}", "true", "12}"]
VOCABULARY = gr.Vocabulary([*(token.encode() for token in TOKENS), b"</s>"], stop_token_ids=len(TOKENS))

PRICE = gr.regex(r"[0-9]{1,3}\.[0-9]{2}")
STRING = gr.json_schema(
    {"type": "object", "properties": {"n": {"type": "string"}}, "required": ["n"], "additionalProperties": False},
    layout="compact",
)
OBJECT = gr.json_schema(
    {
        "type": "object",
        "properties": {"ok": {"type": "boolean"}, "n": {"type": "integer", "minimum": 0, "maximum": 99}},
        "required": ["ok"],
        "additionalProperties": False,
    },
    layout="compact",
)
SCRIPT = gr.grammar('start: "if" NAME | NAME "=" NUMBER\nNAME: /[a-z]+/\nNUMBER: /[0-9]+/\n%ignore " "', syntax="lark")

INK, FAINT, ALLOWED, CHOSEN, PAPER = "#1b1f24", "#9aa4af", "#cfe8d5", "#1a7f37", "#ffffff"
CHAR = 7.2  # width of a character of the 12 px monospace face, pixels
ROW = 26  # height of a line, pixels


@dataclass
class Picture:
    """Shapes on a white sheet that grows to hold them. Lengths are pixels; y points down."""

    shapes: list[str] = field(default_factory=list)
    width: float = 0
    height: float = 0

    def _grow(self, x: float, y: float) -> None:
        self.width, self.height = max(self.width, x + 14), max(self.height, y + 14)

    def text(self, x: float, y: float, text: str, *, colour: str = INK, bold: bool = False) -> None:
        """Writes ``text`` with its left end at ``x`` and its baseline at ``y``."""
        weight = ' font-weight="bold"' if bold else ""
        self.shapes.append(f'<text x="{x:g}" y="{y:g}" fill="{colour}"{weight}>{escape(text, quote=False)}</text>')
        self._grow(x + CHAR * len(text), y)

    def box(self, x: float, y: float, text: str, *, fill: str = PAPER, edge: str = INK, colour: str = INK) -> float:
        """A box around ``text`` with its upper left corner at (x, y); returns its right end."""
        width = CHAR * len(text) + 12
        self.shapes.append(
            f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="20" rx="4" fill="{fill}" stroke="{edge}"/>'
        )
        self.text(x + 6, y + 14, text, colour=colour)
        self._grow(x + width, y + 20)
        return x + width

    def line(self, x: float, y: float, to_x: float, to_y: float, *, colour: str = INK, tip: bool = True) -> None:
        end = ' marker-end="url(#tip)"' if tip else ""
        self.shapes.append(f'<path d="M{x:g} {y:g}L{to_x:g} {to_y:g}" stroke="{colour}" fill="none"{end}/>')
        self._grow(max(x, to_x), max(y, to_y))

    def svg(self) -> str:
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{self.width:.0f}" height="{self.height:.0f}" '
            f'viewBox="0 0 {self.width:.0f} {self.height:.0f}" font-family="ui-monospace,Menlo,Consolas,monospace" '
            'font-size="12" xml:space="preserve">'
        )
        tip = (
            '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" '
            'orient="auto"><path d="M0 0L8 4L0 8z"/></marker></defs>'
        )
        paper = f'<rect width="100%" height="100%" rx="8" fill="{PAPER}"/>'
        return "\n".join([head, tip, paper, *self.shapes, "</svg>", ""])


def visible(token: str) -> str:
    return token.replace(" ", "␣")


def chain(constraint: gr.Constraint, text: str) -> Picture:
    """The state before each byte of ``text``, and its expression."""
    picture, program = Picture(), constraint.program()
    state = program.start
    for line, byte in enumerate([*text, ""]):
        y = 14 + line * 44
        right = picture.box(14, y, program.dump(state), fill=ALLOWED if not byte else PAPER)
        if not byte:
            picture.text(right + 10, y + 14, "nothing is left to write: a match", colour=FAINT)
            break
        picture.line(40, y + 20, 40, y + 43)
        picture.text(50, y + 36, f"read {byte!r}", colour=FAINT)
        state = program.read(state, byte)
    return picture


@dataclass
class Branch:
    """A node of the prefix trie: the bytes from its parent, and the token that ends here."""

    label: str
    path: str
    token: int | None = None
    children: dict[str, Branch] = field(default_factory=dict)


def prefix_trie() -> Branch:
    root = Branch("", "")
    for number, token in enumerate(TOKENS):
        node = root
        for char in token:
            node = node.children.setdefault(char, Branch(char, node.path + char))
        node.token = number
    return root


def trie(constraint: gr.Constraint) -> Picture:
    """The vocabulary's prefix trie, walked from the constraint's first state."""
    picture, program = Picture(), constraint.program()
    line = 0

    def draw(node: Branch, state: int, x: float) -> float:
        """Draws the subtree and returns the y of its root."""
        nonlocal line
        y = 14.0 + line * ROW
        live = state != 0
        picture.box(
            x,
            y,
            visible(node.label) or "start",
            fill=ALLOWED if live and node.token is not None else PAPER,
            edge=INK if live else FAINT,
            colour=INK if live else FAINT,
        )
        end = 176.0
        if live:
            note = f"{'token ' + repr(node.path) + ': ' if node.token is not None else ''}{program.dump(state)}"
            picture.text(end, y + 14, note)
        else:
            picture.text(end, y + 14, "no match begins like this: nothing below is looked at", colour=FAINT)
        line += 1
        if not live:
            return y
        for child in sorted(node.children.values(), key=lambda branch: branch.label):
            below = draw(child, program.read(state, child.label), x + 42)
            picture.line(x + 10, y + 20, x + 10, below + 10, colour=FAINT, tip=False)
            picture.line(x + 10, below + 10, x + 41, below + 10, colour=FAINT)
        return y

    draw(prefix_trie(), program.start, 14)
    return picture


def film(constraint: gr.Constraint, tokens: list[str]) -> Picture:
    """A generation, token by token: the state, the mask over the whole vocabulary, and the token taken."""
    picture = Picture()
    matcher = gr.compile(constraint, VOCABULARY).matcher()
    bitmask = gr.allocate_token_bitmask(1, VOCABULARY.size)
    ids = [*(TOKENS.index(token) for token in tokens), len(TOKENS)]
    for line, chosen in enumerate(ids):
        y = 14 + line * 64
        picture.text(14, y + 14, repr("".join(tokens[:line])), bold=True)
        picture.text(14 + CHAR * 24, y + 14, matcher.dump())
        matcher.fill_next_token_bitmask(bitmask, 0)
        allowed = gr.bitmask_to_bool(bitmask, VOCABULARY.size)[0]
        x = 14.0
        for number, token in enumerate([*TOKENS, "end"]):
            picture.shapes.append("<g>")
            x = 4 + picture.box(
                x,
                y + 22,
                visible(token),
                fill=ALLOWED if allowed[number] else PAPER,
                edge=CHOSEN if number == chosen else FAINT,
                colour=INK if allowed[number] else FAINT,
            )
            if number == chosen:
                picture.shapes[-2] = picture.shapes[-2].replace("/>", ' stroke-width="2.5"/>')
            picture.shapes.append("</g>")
        if not matcher.accept_token(chosen):
            raise ValueError(f"{tokens} is not a text of the constraint")
    return picture


def string_tokens() -> Picture:
    """Inside a JSON string: the tokens that stay, those that leave by the quote, and the others."""
    picture, program = Picture(), STRING.program()
    inside = program.read(program.start, '{"n":"')
    columns: dict[str, list[tuple[str, str]]] = {"stay inside": [], "leave by the quote": [], "cannot follow": []}
    for token in TOKENS:
        after = program.read(inside, token)
        where = "stay inside" if after == inside else "leave by the quote" if after else "cannot follow"
        columns[where].append((visible(token), program.dump(after) if after else ""))
    picture.text(14, 28, program.dump(inside), bold=True)
    for column, (title, entries) in enumerate(columns.items()):
        x = 14 + column * 250
        picture.text(x, 56, f"{title}: {len(entries)}", colour=CHOSEN)
        for line, (token, after) in enumerate(entries):
            right = picture.box(x, 66 + line * ROW, token, fill=PAPER if column == 2 else ALLOWED)
            if column == 1:
                picture.text(right + 8, 80 + line * ROW, f"then {after}")
    return picture


PICTURES: dict[str, Callable[[], Picture]] = {
    "derivatives": lambda: chain(PRICE, "12.50"),
    "trie": lambda: trie(PRICE),
    "regex": lambda: film(PRICE, ["12", ".", "50"]),
    "string": string_tokens,
    "object": lambda: film(OBJECT, ['{"', "ok", '":', "true", ',"', "n", '":', "12}"]),
    "lexeme": lambda: film(SCRIPT, ["if", "a", " ", "=", "12"]),
}


def pictures() -> Iterator[tuple[str, str]]:
    """Name and SVG text of every picture."""
    for name, draw in PICTURES.items():
        yield name, draw().svg()


def main() -> None:
    OUT.mkdir(exist_ok=True)
    for name, svg in pictures():
        (OUT / f"{name}.svg").write_text(svg, encoding="utf-8")
        print(f"{name}.svg: {len(svg):,} characters")


if __name__ == "__main__":
    main()
