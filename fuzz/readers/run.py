"""Fuzzes readers with atheris, each in its own process.

    python fuzz/readers/run.py --seconds 60                  # every reader, in turn
    python fuzz/readers/run.py --seconds 60 regex gbnf
    python fuzz/readers/run.py --once regex FILE             # repeats one input

Inputs that reached new code are kept in ``build/fuzz-corpus/NAME``, failing ones in ``build/fuzz-found/NAME-…``. Each
input has a limit of ten seconds and each process one of two gigabytes.
"""

from __future__ import annotations

import argparse
import re
import resource
import subprocess
import sys
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "fuzz"))

from ledger import note  # noqa: E402

MEMORY = 6 << 30  # address space; libraries reserve much that they never touch
LONGEST = 4096
SLOWEST = 10  # seconds


def child(name: str, arguments: list[str]) -> None:
    import atheris

    with atheris.instrument_imports(include=["guiderail"]):
        from targets import TARGETS

        import guiderail as gr

    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    target = TARGETS[name]

    def one(data: bytes) -> None:
        with suppress(gr.GuiderailError):  # guiderail refused it, with a code
            target.read(data)

    atheris.Setup([sys.argv[0], *arguments], one)
    atheris.Fuzz()


def once(name: str, file: str) -> None:
    from targets import TARGETS

    import guiderail as gr

    try:
        TARGETS[name].read(Path(file).read_bytes())
    except gr.GuiderailError as error:
        print(f"refused: {error.code}")
    else:
        print("read")


def names() -> list[str]:
    from targets import TARGETS

    return list(TARGETS)


def seed(name: str, folder: Path) -> None:
    """The texts to start from, as files."""
    from targets import TARGETS

    folder.mkdir(parents=True, exist_ok=True)
    kept = ROOT / "fuzz" / "corpus" / name
    for data in [*TARGETS[name].seeds(), *(path.read_bytes() for path in sorted(kept.glob("*")))]:
        if len(data) <= LONGEST:
            (folder / sha256(data).hexdigest()[:20]).write_bytes(data)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("readers", nargs="*")
    parser.add_argument("--seconds", type=int, default=600, help="in total")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--once", metavar="READER")
    parser.add_argument("--ledger", action="store_true", help="add a line for each reader to fuzz/ledger.md")
    options, rest = parser.parse_known_args()
    if options.child:
        child(options.child, rest + options.readers)
        return 0
    if options.once:
        once(options.once, options.readers[0])
        return 0
    chosen = options.readers or names()
    names()
    found = ROOT / "build" / "fuzz-found"
    found.mkdir(parents=True, exist_ok=True)
    each, failed = max(1, options.seconds // len(chosen)), []
    for name in chosen:
        corpus = ROOT / "build" / "fuzz-corpus" / name
        seed(name, corpus)
        limits = [f"-max_total_time={each}", f"-timeout={SLOWEST}", "-rss_limit_mb=2000", f"-max_len={LONGEST}"]
        command = [sys.executable, __file__, "--child", name, *limits, f"-artifact_prefix={found}/{name}-", str(corpus)]
        done = subprocess.run(
            command, cwd=ROOT, text=True, errors="replace", stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        runs = [int(n) for n in re.findall(r"(?:^#|Done )(\d+)", done.stdout, re.MULTILINE)] or [0]
        print(f"{name}: {max(runs):,} inputs in {each} s{'' if done.returncode == 0 else ', FAILED'}", flush=True)
        if done.returncode != 0:
            failed.append(name)
            print("\n".join(done.stdout.splitlines()[-40:]), flush=True)
        if options.ledger:
            note(f"reader: {name}", each, max(runs), int(done.returncode != 0))
    print(f"{len(chosen)} readers, {len(failed)} failed {failed}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
