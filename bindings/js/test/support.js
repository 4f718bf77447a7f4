import { readFileSync } from "node:fs";
import { join } from "node:path";

/** A folder that tests/js/write_cases.py has written. */
export const CASES = process.env.GUIDERAIL_JS_CASES;

export const read = (name) => readFileSync(join(CASES, name));
export const readJson = (name) => JSON.parse(read(name).toString());
