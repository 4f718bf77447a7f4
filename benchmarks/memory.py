"""Compares the memory that guides and a vocabulary report with the growth of the process.

Compiles every schema, writes texts under each guide (its own instances, and random ones sampled from the masks), and
keeps all guides. *Reported* is the sum of ``Guide.memory_size_bytes`` and the growth of
``Vocabulary.core.memory_size_bytes``. *Native* is the growth of the core's heap and pages. *Process* is the growth of
the resident memory, including Python's objects. *Trimmed* is the same after the heap has returned its free memory to
the system, which happens at each line. Then the guides are dropped, first one half and then the rest, and finally the
caches.

    python benchmarks/memory.py                                            # schemas of the tests, with variations
    python benchmarks/memory.py --data maskbench.jsonl.gz --schemas 2000 --texts 200
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import os
import random
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path[0] = str(Path(__file__).parent / "support")
from schema_data import choose, load  # noqa: E402

import guiderail as gr  # noqa: E402
from guiderail import _core  # noqa: E402

SCHEMAS = Path(__file__).parent.parent / "tests" / "data" / "schemas"
STEPS = 40  # tokens of a random text
MIB = 1 << 20

MALLINFO2 = ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost")


class MallInfo(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in MALLINFO2]


libc = ctypes.CDLL(None)
libc.mallinfo2.restype = MallInfo


def native_bytes() -> int:
    """Returns the bytes in use: the heap including its large blocks, and the pages of the core."""
    info = libc.mallinfo2()
    return int(info.uordblks + info.hblkhd) + _core.pages_in_use()


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def documents(path: Path | None, count: int, seed: int) -> list[dict[str, Any]]:
    if path:
        rows = load(path)
        return [rows[name] for name in choose(list(rows), count, seed)]
    base = [json.loads(file.read_text()) for file in sorted(SCHEMAS.glob("*.json"))]
    rng = random.Random(seed)
    return [{"schema": varied(base[i % len(base)], rng if i >= len(base) else None)} for i in range(count or len(base))]


def varied(schema: Any, rng: random.Random | None) -> Any:
    """Returns the schema with some names and bounds changed, so that no two guides are equal."""
    if rng is None:
        return schema
    names: dict[str, str] = {}

    def change(node: Any) -> Any:
        if isinstance(node, list):
            return [change(item) for item in node]
        if not isinstance(node, dict):
            return node
        made = {}
        for key, value in node.items():
            if key == "properties" and isinstance(value, dict):
                names.update({name: f"{name}_{rng.randrange(1000)}" for name in value if rng.random() < 0.3})
                made[key] = {names.get(name, name): change(inner) for name, inner in value.items()}
            elif key in ("maxLength", "maxItems") and isinstance(value, int):
                made[key] = value + rng.randrange(20)
            else:
                made[key] = change(value)
        if isinstance(made.get("required"), list):
            own = made.get("properties", {})
            made["required"] = [names[n] if names.get(n) in own else n for n in made["required"]]
        return made

    return change(schema)


def write(guide: gr.Guide, tokens: list[int] | None, bitmask: Any, rng: np.random.Generator) -> int:
    """Writes one text: these tokens while they are allowed, then random ones."""
    matcher = guide.matcher()
    row = bitmask[0].view(np.uint8)
    for step in range(STEPS if tokens is None else len(tokens)):
        matcher.fill_next_token_bitmask(bitmask)
        if tokens is None:
            # A random set bit of a random nonzero byte of the mask.
            set_bytes = np.flatnonzero(row)
            if not len(set_bytes):
                return step
            at = int(set_bytes[rng.integers(len(set_bytes))])
            bits = [bit for bit in range(8) if row[at] >> bit & 1]
            token = at * 8 + bits[rng.integers(len(bits))]
        else:
            token = tokens[step]
        if not matcher.accept_token(token) or matcher.is_terminated():
            return step
    return STEPS if tokens is None else len(tokens)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="a .jsonl.gz or a folder of {schema, tests}")
    parser.add_argument("--schemas", type=int, default=100, help="number of sampled schemas")
    parser.add_argument("--texts", type=int, default=50, help="number per schema")
    parser.add_argument("--tokenizer", type=Path, help="folder of a Hugging Face tokenizer (default: Llama 3's)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--parts", action="store_true", help="also show what each part of the guides reports")
    options = parser.parse_args()

    vocabulary = load_vocabulary(options.tokenizer)
    rows = documents(options.data, options.schemas, options.seed)
    bitmask = gr.allocate_token_bitmask(1, vocabulary.size)
    rng = np.random.default_rng(options.seed)
    texts = [
        [vocabulary.encode(json.dumps(t["data"], separators=(",", ":"))) for t in row.get("tests", []) if t["valid"]]
        for row in rows
    ]
    # Memory that Python and its libraries keep in any case.
    warm = gr.compile(gr.json_schema({"type": "object"}), vocabulary, cache=False)
    write(warm, None, bitmask, rng)
    del warm
    gc.collect()
    _core.trim_heap()
    empty = (vocabulary.core.memory_size_bytes(), native_bytes(), resident_bytes())
    guides: list[gr.Guide] = []

    def show(what: str) -> None:
        gc.collect()
        shared = vocabulary.core.memory_size_bytes() - empty[0]
        own = sum(guide.memory_size_bytes() for guide in guides)
        native, process = native_bytes() - empty[1], resident_bytes() - empty[2]
        _core.trim_heap()
        trimmed = resident_bytes() - empty[2]
        ratios = [f"{(own + shared) / of:6.1%}" if of > MIB else "     -" for of in (native, process, trimmed)]
        print(
            f"{what:>22}  guides {own / MIB:8.1f}  vocabulary {shared / MIB:7.1f}  reported {(own + shared) / MIB:8.1f}"
            f"  native {native / MIB:8.1f}  process {process / MIB:8.1f}  trimmed {trimmed / MIB:8.1f} MiB"
            f"  reported/native {ratios[0]}  /process {ratios[1]}  /trimmed {ratios[2]}",
            flush=True,
        )

    began = time.perf_counter()
    steps = refused = 0
    every = max(1, len(rows) // 10)
    for i, row in enumerate(rows):
        try:
            guide = gr.compile(gr.json_schema(row["schema"]), vocabulary, cache=False)
        except gr.GuiderailError:
            refused += 1
            continue
        guides.append(guide)
        for n in range(options.texts):
            of = texts[i]
            steps += write(guide, of[n // 2 % len(of)] if of and n % 2 == 0 else None, bitmask, rng)
        if (i + 1) % every == 0:
            show(f"{i + 1} schemas")
    print(f"{steps:,} tokens in {time.perf_counter() - began:.0f} s; {refused} schemas refused")
    if options.parts and hasattr(guides[0].core.program, "memory_parts"):
        parts: dict[str, int] = {}
        for guide in guides:
            for name, size in guide.core.program.memory_parts().items():
                parts[name] = parts.get(name, 0) + size
        for name, size in sorted(parts.items(), key=lambda part: -part[1]):
            print(f"{size / MIB:10.2f} MiB  {name}")
    del guides[::2]
    _core.trim_heap()
    show("half of them dropped")
    guides.clear()
    del guide
    gr.clear_cache()
    _core.trim_heap()
    show("all of them dropped")
    vocabulary.core.clear_cache()
    _core.trim_heap()
    show("and the caches")


def load_vocabulary(folder: Path | None) -> gr.Vocabulary:
    if folder is None:
        from engines import llama3_tokenizer

        return gr.Vocabulary.from_huggingface(llama3_tokenizer())
    from transformers import AutoTokenizer

    return gr.Vocabulary.from_huggingface(AutoTokenizer.from_pretrained(str(folder)))


if __name__ == "__main__":
    main()
