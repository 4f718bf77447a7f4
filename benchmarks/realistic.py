"""A language model writes objects for twenty realistic schemas; each is parsed and validated by ``jsonschema``.

    python benchmarks/realistic.py --objects 100 --json objects.json
    python benchmarks/realistic.py --schemas invoice,geojson --temperature 1.0 --show

The schemas are those of ``tests/data/schemas``: invoices, Kubernetes objects, tool calls, recursive threads … The
model is the embedded one unless ``--model`` names another. What a small model writes is often nonsense; the point is
that all of it is valid.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import asdict, dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

SCHEMAS = Path(__file__).parents[1] / "tests" / "data" / "schemas"
# Two schemas are recursive, and numbers and times have no maximum length: a model must be stopped somewhere.
CAPS = {"max_depth": 8, "max_integer_digits": 9, "max_fraction_digits": 4, "max_string_length": 120}


@dataclass(frozen=True)
class Written:
    """One generated object: the text, whether it is valid, and the cost."""

    schema: str
    seed: int
    text: str
    fault: str  # empty: it parses and validates
    tokens: int
    forced_tokens: int
    seconds: float
    constraint_seconds: float


def schemas(names: list[str] | None = None) -> dict[str, Any]:
    """Returns all schemas or some, by name."""
    files = {path.stem: path for path in sorted(SCHEMAS.glob("*.json"))}
    return {name: json.loads(files[name].read_text(encoding="utf-8")) for name in names or files}


def prompt_of(schema: Any) -> str:
    return f"Write {schema['description']}, as JSON."


def exact(number: str) -> Any:
    """Returns a number's value without rounding."""
    value = Fraction(Decimal(number))
    return value.numerator if value.denominator == 1 else value


def fault_of(schema: Any, text: str) -> str:
    """Returns why a text is not a value of the schema; an empty text if it is one. Formats are checked.

    Numbers are compared exactly. ``jsonschema`` alone divides floats and reports that 19.99 is not a multiple of 0.01.
    """
    import jsonschema

    def multiple(_: Any, divisor: Any, instance: Any, __: Any) -> Any:
        counts = isinstance(instance, int | Fraction) and not isinstance(instance, bool)
        if counts and (Fraction(instance) / Fraction(divisor)).denominator != 1:
            yield jsonschema.ValidationError(f"{instance} is not a multiple of {divisor}")

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len({name for name, _ in pairs}) < len(pairs):
            raise ValueError(f"a name is written twice: {[name for name, _ in pairs]}")
        return dict(pairs)

    try:
        value = json.loads(text, parse_float=exact, object_pairs_hook=unique)
    except ValueError as error:
        return f"{type(error).__name__}: {error}"
    schema = json.loads(json.dumps(schema), parse_float=exact)  # 0.19 in an enum is 19/100
    kind = jsonschema.validators.extend(jsonschema.Draft202012Validator, {"multipleOf": multiple})
    errors = kind(schema, format_checker=jsonschema.FormatChecker()).iter_errors(value)
    return "; ".join(f"{error.json_path}: {error.message}" for error in errors)


def write_objects(
    model: Any, wanted: dict[str, Any], objects: int, *, temperature: float = 0.8, max_tokens: int = 1500
) -> list[Written]:
    """Writes ``objects`` texts. The schemas take turns, each time with another seed."""
    import guiderail as gr

    out: list[Written] = []
    names = list(wanted)
    for number in range(objects):
        name, seed = names[number % len(names)], number // len(names)
        constraint = gr.json_schema(wanted[name], property_order="declared", **CAPS)
        [row] = gr.generations(
            model, [prompt_of(wanted[name])], constraint, temperature=temperature, seed=seed, max_tokens=max_tokens
        )
        fault = fault_of(wanted[name], row.text) if row.matched else f"not finished ({row.finish_reason})"
        cost = (len(row.tokens), row.forced_tokens, row.seconds, row.constraint_seconds)
        out.append(Written(name, seed, row.text, fault, *cost))
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--objects", type=int, default=100, help="number to write; the schemas take turns")
    parser.add_argument("--schemas", default="", help="names, comma-separated (default: all)")
    parser.add_argument("--model", help="path or name, as for gr.load_model (default: the embedded model)")
    parser.add_argument("--temperature", type=float, default=0.8)
    parser.add_argument("--max-tokens", type=int, default=1500)
    parser.add_argument("--show", action="store_true", help="print every object")
    parser.add_argument("--json", type=Path, help="write every object and its cost to this file")
    options = parser.parse_args()

    from guiderail.generation.models import load_model

    model = load_model(options.model)
    wanted = schemas([name for name in options.schemas.split(",") if name] or None)
    started = time.monotonic()
    rows = write_objects(model, wanted, options.objects, temperature=options.temperature, max_tokens=options.max_tokens)
    for row in rows:
        if options.show or row.fault:
            print(f"{row.schema}, seed {row.seed}: {row.fault or 'right'}\n    {row.text}")
    tokens, right = sum(row.tokens for row in rows), sum(not row.fault for row in rows)
    forced = sum(row.forced_tokens for row in rows)
    masks = sum(row.constraint_seconds for row in rows)
    print(
        f"{right} of {len(rows)} objects for {len(wanted)} schemas parse and validate; {tokens:,} tokens, of which "
        f"{100 * forced / max(1, tokens):.0f} % forced; {time.monotonic() - started:.1f} s, {masks:.2f} s of it masks"
    )
    if options.json:
        options.json.write_text(json.dumps([asdict(row) for row in rows], ensure_ascii=False, indent=1))
    raise SystemExit(right != len(rows))


if __name__ == "__main__":
    main()
