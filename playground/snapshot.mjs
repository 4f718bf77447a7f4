// Writes a memory snapshot of Python with everything imported, so that the page starts from there:
//   node playground/snapshot.mjs build/playground
import { readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";

const folder = resolve(process.argv[2]);
const { loadPyodide } = await import(pathToFileURL(join(folder, "pyodide", "pyodide.mjs")).href);
const python = await loadPyodide({ indexURL: join(folder, "pyodide") + "/", _makeSnapshot: true });
const archive = new Uint8Array(readFileSync(join(folder, "python.zip")));
python.unpackArchive(archive, "zip", { extractDir: "/lib/python3.13/site-packages" });
python.runPython("import answers; answers.warm()");
writeFileSync(join(folder, "snapshot.bin"), python.makeMemorySnapshot());
