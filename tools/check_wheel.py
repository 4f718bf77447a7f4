"""Checks what an installed guiderail must be able to do. Every wheel must pass, in an otherwise empty environment.

python check_wheel.py            # match, compile, masks, the command line
python check_wheel.py --model    # and generate with the embedded model
"""

from __future__ import annotations

import json
import subprocess
import sys
import sysconfig
from importlib import resources
from pathlib import Path

import numpy as np

import guiderail as gr
from guiderail import grammars

SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "pattern": "^[A-Z][a-z]+$", "maxLength": 12}, "n": {"enum": [1, 2, 3]}},
    "required": ["name", "n"],
    "additionalProperties": False,
}


def command(*arguments: str) -> str:
    """Returns the output of a guiderail command."""
    done = subprocess.run(
        [sys.executable, "-m", "guiderail", *arguments], capture_output=True, text=True, check=True, timeout=300
    )
    return done.stdout


def main() -> None:
    """Runs the checks, and prints where guiderail was found."""
    assert "site-packages" in gr.__file__, f"not the installed package: {gr.__file__}"
    assert gr.regex("[a-c]+").matches("abc") and not gr.regex("[a-c]+").matches("abd")
    assert gr.json_schema(SCHEMA).matches('{"name": "Ada", "n": 3}')
    assert grammars.sql().matches("SELECT name FROM people WHERE age > 30")  # the package's data files
    assert gr.tool_calls([{"name": "f", "parameters": {"type": "object"}}], format="hermes", choice="required")

    vocabulary = gr.Vocabulary([b"ye", b"yes", b"no", b"s", b"<eos>"], stop_token_ids=4)
    matcher = gr.compile(gr.choice(["yes", "no"]), vocabulary).matcher()
    bitmask = gr.allocate_token_bitmask(1, vocabulary.size)
    matcher.fill_next_token_bitmask(bitmask, 0)
    assert np.array_equal(gr.bitmask_to_bool(bitmask, vocabulary.size)[0], [True, True, True, False, False])

    frontend = sys.modules["guiderail.frontends.json_schema.normal_form.algebra"].__file__ or ""
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        assert not sys._is_gil_enabled(), "importing guiderail enabled the interpreter lock again"
    else:
        assert not frontend.endswith(".py"), "front ends are not compiled"
    assert gr.__version__ in command("--version")
    command("match", "--regex", "[0-9]+", "42")
    for name in ("py.typed", "__init__.pyi", "_core.pyi"):
        assert resources.files("guiderail").joinpath(name).is_file(), name
    if "--model" in sys.argv:
        made = command("generate", "--schema", json.dumps(SCHEMA), "--prompt", "Name a person.")
        assert gr.json_schema(SCHEMA).accepts(json.loads(made)), made
    print(f"guiderail {gr.__version__} in {Path(gr.__file__).parent}, Python {sys.version.split()[0]}")


if __name__ == "__main__":
    main()
