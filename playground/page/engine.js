// A worker that runs guiderail's front ends in Python, and the core. It answers questions one at a time.
import { loadPyodide } from "./pyodide/pyodide.mjs";
import { openCore } from "./core.js";

const FOLDER = "/lib/python3.13/site-packages";
let python, answers, core, masks;

async function start() {
  // The snapshot of a Python that has imported everything; the archive is for later imports.
  const [snapshot, archive] = ["./snapshot.bin", "./python.zip"].map((name) =>
    fetch(name).then((response) => {
      if (!response.ok) throw new Error(`${name} is missing (${response.status})`);
      return response.arrayBuffer();
    }),
  );
  const opened = openCore();
  python = await loadPyodide({
    indexURL: new URL("./pyodide/", import.meta.url).href,
    _loadSnapshot: new Uint8Array(await snapshot),
  });
  python.unpackArchive(await archive, "zip", { extractDir: FOLDER });
  core = await opened;
  python.registerJsModule("guiderail_link", core.link);
  python.runPython(`
import guiderail_link
from guiderail import _core

class Link:
    def number(self, operation, handle, arguments):
        made = guiderail_link.call(operation, handle, arguments.decode("latin-1"))
        if made < 0:
            raise _core.CoreError(*guiderail_link.fault().split("\\0", 1))
        return made

    def data(self, operation, handle, arguments):
        self.number(operation, handle, arguments)
        return guiderail_link.answer().encode("latin-1")

_core.connect(Link())
`);
  answers = python.pyimport("answers");
}

const questions = {
  read: ({ kind, text, options }) => JSON.parse(answers.read(kind, text, JSON.stringify(options ?? {}))),
  look: ({ text }) => JSON.parse(answers.look(text)),
  tokens: () => core.masks.open(),
  begin: () => core.masks.begin(answers.program_handle()),
  mask: ({ left }) => core.masks.mask(left),
  accept: ({ token }) => core.masks.accept(token),
};

const ready = start();
onmessage = async ({ data: { number, question, ...given } }) => {
  try {
    await ready;
    postMessage({ number, answer: question === "ready" ? true : await questions[question](given) });
  } catch (error) {
    postMessage({ number, error: String(error?.message ?? error) });
  }
};
