// Replays, in Node or in a browser, the cases that tests/js/write_cases.py has recorded, and compares: accepted tokens,
// every mask bit for bit, whether a text may end, and what must come next.
import { Guide, Program } from "../src/index.js";

/**
 * @param cases those of cases.json
 * @param {(name: string) => Promise<Uint8Array>} read reads a file beside cases.json
 * @param vocabularies by name
 * @returns the number of results that agree; raises an error for one that does not
 */
export async function replay(cases, read, vocabularies) {
  const done = { programs: 0, texts: 0, masks: 0 };
  for (const { name, program, vocabulary, texts } of cases) {
    const guide = new Guide(Program.fromFile(await read(program)), vocabularies[vocabulary]);
    for (const [i, text] of texts.entries()) {
      const { masks, ...found } = replayText(guide, text.tokens);
      found.digest = hex(await crypto.subtle.digest("SHA-256", masks));
      for (const [what, value] of Object.entries(found))
        if (value !== text[what]) throw new Error(`${name}, text ${i}: ${what} is ${value}, not ${text[what]}`);
      done.texts++;
      done.masks += masks.length / guide.vocabulary.bitmaskWords;
    }
    guide.free();
    done.programs++;
  }
  return done;
}

function replayText(guide, tokens) {
  const matcher = guide.matcher();
  const words = guide.vocabulary.bitmaskWords;
  const masks = new Int32Array(words * (tokens.length + 1));
  let rows = 0;
  let accepted = 0;
  for (const token of [...tokens, null]) {
    if (matcher.isTerminated()) break;
    matcher.fillNextTokenBitmask(masks, rows++);
    if (token === null || !matcher.acceptToken(token)) break;
    accepted++;
  }
  const forced = matcher.isTerminated() ? "" : matcher.findJumpForwardString();
  const found = { masks: masks.subarray(0, words * rows), accepted, accepting: matcher.isAccepting(), forced };
  matcher.free();
  return found;
}

const hex = (bytes) => Array.from(new Uint8Array(bytes), (byte) => byte.toString(16).padStart(2, "0")).join("");
