"""A program whose threads all make their first use of guiderail at the same time: all must see the same (see
test_shared_objects.py). Prints how many answers each thread compared.
"""

from __future__ import annotations

import sys
import threading
from dataclasses import dataclass
from typing import Any

THREADS = 8
SCHEMA = {
    "type": "object",
    "properties": {
        "when": {"type": "string", "format": "date-time"},
        "host": {"type": "string", "format": "idn-hostname", "maxLength": 20},
        "size": {"type": "number", "multipleOf": 0.25, "minimum": -3, "exclusiveMaximum": 12.5},
        "name": {"type": "string", "pattern": r"^\p{Lu}[\w ]{1,9}$"},
        "list": {"type": "array", "uniqueItems": True, "items": {"enum": [1, 2, "x"]}, "minItems": 2},
        "more": {"anyOf": [{"$ref": "#"}, {"not": {"type": ["object", "string"]}}]},
    },
    "required": ["when", "size"],
}
SMALL = '{"when": "2026-01-02T03:04:05Z", "size": -3}'
GOOD = f'{SMALL[:-3]}12.25, "name": "Ada L", "list": [1, "x"], "more": {SMALL}}}'
BAD = [GOOD.replace("12.25", "12.3"), GOOD.replace("Ada", "ada"), GOOD.replace('"x"', "1"), GOOD.replace("-3", "13")]
LARK = 'start: pair ("," pair)*\npair: NAME "=" NUMBER\nNAME: /[a-z]+/\nNUMBER: /[0-9]+/\n%ignore / +/'

sys.setswitchinterval(1e-5)
barrier = threading.Barrier(THREADS)
answers: list[list[Any]] = [[] for _ in range(THREADS)]


@dataclass
class Point:
    x: int
    label: str | None = None


def use(found: list[Any]) -> None:
    barrier.wait()
    import guiderail as gr

    vocabulary = gr.Vocabulary([*(bytes([b]) for b in range(256)), b"<eos>"], stop_token_ids=[256])
    schema = gr.json_schema(SCHEMA)
    pattern = gr.regex(r"(?i)straße|\w+(?<!ω)[^\W\d]{2}")
    pairs = gr.grammar(LARK, "lark")
    sql = gr.grammars.sql()
    found += [schema.matches(GOOD), *(not schema.matches(text) for text in BAD)]
    found += [pattern.matches("STRAßE"), pairs.matches("a = 1,b=22"), sql.matches("SELECT a FROM b WHERE c > 3")]
    constraints = [
        *(schema, pattern, pairs, sql),
        gr.grammar('root ::= "a" root? "b"', "gbnf"),
        gr.python_type(Point),
        gr.tool_calls([{"name": "f", "parameters": SCHEMA}], format="hermes", choice="required"),
    ]
    for constraint in constraints:
        matcher = gr.compile(constraint, vocabulary).matcher()
        for _ in range(12):
            row = gr.allocate_token_bitmask(1, vocabulary.size)
            matcher.fill_next_token_bitmask(row, 0)
            found.append(row.tobytes())
            allowed = [i for i in range(256) if row[0, i // 32] >> (i % 32) & 1]
            if not allowed or not matcher.accept_token(allowed[len(found) % len(allowed)]):
                break


threads = [threading.Thread(target=use, args=(found,)) for found in answers]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert all(found == answers[0] for found in answers), "the threads disagree"
assert answers[0][:8] == [True] * 8, answers[0][:8]
print(len(answers[0]))
