import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";

import { Vocabulary } from "../src/index.js";

/** A folder written by tests/js/write_cases.py. */
export const CASES = process.env.GUIDERAIL_JS_CASES;

export const read = (name) => readFileSync(join(CASES, name));
export const readJson = (name) => JSON.parse(read(name).toString());

/** The vocabulary of a tokenizer.json and the files beside it. */
export function fromTokenizer(path) {
  const beside = (name) => {
    const file = join(dirname(path), name);
    return existsSync(file) ? readFileSync(file, "utf8") : {};
  };
  return Vocabulary.fromTokenizerJson(readFileSync(path), {
    tokenizerConfig: beside("tokenizer_config.json"),
    generationConfig: beside("generation_config.json"),
    config: beside("config.json"),
  });
}
