// From a Hugging Face tokenizer.json to the bytes of its tokens: applies the decoder's steps to each token, as in the
// middle of a text. The rules are those of the Python package (vocabulary/huggingface.py).
import { GuiderailError, bytesOf, tokenList, unsigned } from "./errors.js";
import { endTokens } from "./ends.js";

const encoder = new TextEncoder();

/** → {bytes, lengths, special, stops, size}, the parts of a vocabulary. */
export function readTokenizer(json, options) {
  const file = parsed(json, "tokenizer.json");
  const settings = {
    tokenizer: parsed(options.tokenizerConfig ?? {}, "tokenizerConfig"),
    generation: parsed(options.generationConfig ?? {}, "generationConfig"),
    model: parsed(options.config ?? {}, "config"),
  };
  const ids = modelIds(file.model);
  const added = addedTokens(file, ids);
  const spellings = spellingsOf(ids, added);
  const special = specialTokens(added, settings.tokenizer, (text) => added.get(text)?.id ?? ids.get(text));
  const tokens = interpret(steps(file.decoder), spellings);
  // The text of a special token represents it in messages; it is never matched.
  const names = new Map(Array.from(special, ([text, id]) => [id, text]));
  const out = new Joined(spellings.length);
  for (let id = 0; id < spellings.length; id++) {
    const name = names.get(id);
    if (name !== undefined) out.addText(name);
    else if (spellings[id] === null) out.end();
    else tokens(id, out);
  }
  const width = Math.max(configured(settings.model), spellings.length);
  return {
    ...out.parts(),
    special: [...special],
    stops: stopsOf(options.stopTokenIds, settings, special, added, ids),
    size: options.size === undefined ? width : unsigned(options.size, "size"),
  };
}

function refuse(message) {
  throw new GuiderailError("bad-tokenizer-file", message);
}

function parsed(given, what) {
  let value = given;
  if (typeof value === "string" || ArrayBuffer.isView(value) || value instanceof ArrayBuffer) {
    try {
      value = JSON.parse(new TextDecoder().decode(withoutMerges(bytesOf(value, what))));
    } catch (error) {
      refuse(`${what} cannot be read as JSON: ${error.message}`);
    }
  }
  if (value === null || typeof value !== "object" || Array.isArray(value)) refuse(`${what} does not hold a JSON object`);
  return value;
}

// The merges of a byte-pair encoding are most of its file, and nothing here reads them. So they are removed before the
// file is parsed, except for their brackets.
const MERGES = encoder.encode('"merges"');
const [QUOTE, BACKSLASH, COLON, OPEN, CLOSE] = encoder.encode('"\\:[]');
function withoutMerges(bytes) {
  for (let at = bytes.indexOf(QUOTE); at >= 0 && at < bytes.length; ) {
    const end = stringEnd(bytes, at);
    if (end - at === MERGES.length && MERGES.every((byte, i) => bytes[at + i] === byte)) {
      const colon = afterBlanks(bytes, end);
      const from = afterBlanks(bytes, colon + 1);
      if (bytes[colon] === COLON && bytes[from] === OPEN) {
        const rest = bytes.subarray(listEnd(bytes, from) - 1);
        const out = new Uint8Array(from + 1 + rest.length);
        out.set(bytes.subarray(0, from + 1));
        out.set(rest, from + 1);
        return out;
      }
    }
    for (at = end; at < bytes.length && bytes[at] !== QUOTE; ) at++;
  }
  return bytes;
}

// The position after the string that begins here, or the end of a damaged file.
function stringEnd(bytes, at) {
  for (at++; at < bytes.length && bytes[at] !== QUOTE; at++) if (bytes[at] === BACKSLASH) at++;
  return Math.min(at + 1, bytes.length);
}

function afterBlanks(bytes, at) {
  while (bytes[at] === 0x20 || (bytes[at] >= 0x09 && bytes[at] <= 0x0d)) at++;
  return at;
}

function listEnd(bytes, at) {
  for (let depth = 0; at < bytes.length; at++) {
    const byte = bytes[at];
    if (byte === QUOTE) at = stringEnd(bytes, at) - 1;
    else if (byte === OPEN) depth++;
    else if (byte === CLOSE && --depth === 0) return at + 1;
  }
  return at;
}

function modelIds(model) {
  const vocabulary = model?.vocab;
  const ids = new Map();
  const put = (text, id) => {
    if (typeof text !== "string" || !Number.isInteger(id) || id < 0 || id >= 2 ** 28)
      refuse(`tokenizer.json gives token ${JSON.stringify(text)} the id ${JSON.stringify(id)}`);
    ids.set(text, id);
  };
  if (Array.isArray(vocabulary)) {
    vocabulary.forEach((entry, id) => put(entry?.[0], id)); // Unigram: a list of [text, score]
  } else if (vocabulary !== null && typeof vocabulary === "object") {
    for (const text of Object.keys(vocabulary)) put(text, vocabulary[text]);
  } else {
    refuse("tokenizer.json has no model.vocab");
  }
  return ids;
}

// Added tokens by their texts; some have an id in the vocabulary already.
function addedTokens(file, ids) {
  const added = new Map();
  for (const token of file.added_tokens ?? []) {
    const known = ids.get(token?.content);
    const id = known ?? token?.id;
    if (typeof token?.content !== "string" || !Number.isInteger(id) || id < 0 || id >= 2 ** 28)
      refuse(`tokenizer.json has an added token without a text or an id: ${JSON.stringify(token)?.slice(0, 200)}`);
    added.set(token.content, { id, special: token.special === true });
  }
  return added;
}

// The spelling of each token in the order of ids; null: a hole.
function spellingsOf(ids, added) {
  let last = -1;
  for (const id of ids.values()) if (id > last) last = id;
  for (const { id } of added.values()) if (id > last) last = id;
  if (last < 0) throw new GuiderailError("empty-vocabulary", "the tokenizer has no tokens");
  if (last >= 16 * (ids.size + added.size) + 65536) refuse(`tokenizer.json numbers its tokens up to ${last}`);
  const spellings = new Array(last + 1).fill(null);
  for (const [text, id] of ids) spellings[id] = text;
  for (const [text, { id }] of added) spellings[id] = text;
  return spellings;
}

function specialTokens(added, config, idOf) {
  const special = new Map();
  for (const [text, { id, special: is }] of [...added].sort((a, b) => a[1].id - b[1].id)) if (is) special.set(text, id);
  for (const text of declared(config).values())
    if (text !== "" && !special.has(text) && idOf(text) !== undefined) special.set(text, idOf(text));
  for (const text of special.keys())
    if (text.includes("\0")) refuse("the name of a special token has a zero byte");
  return special;
}

// The tokens named by tokenizer_config.json, such as eos_token.
function declared(config) {
  const out = new Map();
  for (const [key, value] of Object.entries(config)) {
    const text = value !== null && typeof value === "object" ? value.content : value;
    if (key.endsWith("_token") && typeof text === "string") out.set(key, text);
  }
  return out;
}

function configured(config) {
  let size = 0;
  for (const part of [config, config.text_config])
    if (Number.isInteger(part?.vocab_size)) size = Math.max(size, part.vocab_size);
  return size;
}

function stopsOf(given, settings, special, added, ids) {
  if (given !== undefined) return tokenList(typeof given === "number" ? [given] : given, "stopTokenIds");
  const eos = declared(settings.tokenizer).get("eos_token");
  const named = eos === undefined ? undefined : (added.get(eos)?.id ?? ids.get(eos));
  const ends = [settings.generation.eos_token_id].flat().filter(Number.isInteger);
  const found = endTokens([named, ...ends].filter((id) => id !== undefined), special, added);
  if (found.length === 0)
    throw new GuiderailError(
      "no-stop-token",
      "the tokenizer declares no stop token; pass {stopTokenIds: [...]} ([] if it cannot end)",
    );
  return tokenList(found, "stopTokenIds");
}

// -- spellings → bytes ---------------------------------------------------------------------------------------------
function steps(decoder) {
  if (decoder === null || decoder === undefined) return [{ type: "Join" }];
  if (decoder.type !== "Sequence") return [decoder];
  if (!Array.isArray(decoder.decoders)) refuse("tokenizer.json has a decoder without its parts");
  return decoder.decoders.flatMap(steps);
}

// Returns a function that appends the bytes of a token to others.
function interpret(decoder, spellings) {
  let texts = spellings.map((text) => text ?? "");
  const add = (id, out) => (raw.has(id) ? out.add(raw.get(id)) : out.addText(texts[id]));
  const raw = new Map();  // tokens that represent one byte
  let fused = false;  // after "Fuse", a step sees the whole text instead of a token
  for (const [number, step] of decoder.entries()) {
    if (step?.type === "ByteLevel") {
      if (decoder.slice(number + 1).some((later) => later?.type !== "Fuse")) unsupported(step);
      return (id, out) => (raw.has(id) || !out.addByteLevel(texts[id]) ? add(id, out) : undefined);
    }
    if (step?.type === "Fuse") {
      fused = true;
    } else if (step?.type === "ByteFallback") {
      texts.forEach((text, id) => {
        const byte = /^<0x([0-9a-fA-F]{2})>$/.exec(text);
        if (byte) raw.set(id, Uint8Array.of(Number.parseInt(byte[1], 16)));
      });
    } else if (!(step?.type === "Strip" && fused)) {
      const change = CHANGES[step?.type]?.(step);
      if (change === undefined) unsupported(step);
      texts = texts.map(change);
    }
  }
  return add;
}

function unsupported(step) {
  throw new GuiderailError(
    "unsupported-tokenizer",
    `the tokenizer's decoder does not work token by token (${step?.type ?? "a step without a type"}); give the bytes ` +
      "of the tokens yourself: Vocabulary.fromTokens(tokens, {...})",
  );
}

const all = (old, fresh) => (text) => text.split(old).join(fresh);
const CHANGES = {
  Replace: (step) => (typeof step.pattern?.String === "string" ? all(step.pattern.String, step.content) : undefined),
  Metaspace: (step) => all(step.replacement, " "),
  BPEDecoder: (step) => all(step.suffix, " "),
  Join: () => (text) => ` ${text}`,
  Strip: (step) => (text) => strip(text, step),
  WordPiece: (step) => (text) => wordPiece(text, step),
};

function strip(text, { content, start, stop }) {
  const characters = Array.from(text);
  let begin = 0;
  let end = characters.length;
  while (begin < Math.min(start, end) && characters[begin] === content) begin++;
  while (end > begin && characters.length - end < stop && characters[end - 1] === content) end--;
  return characters.slice(begin, end).join("");
}

// The library's clean-up of English, in its order.
const CLEANUP = [
  [" .", "."],
  [" ?", "?"],
  [" !", "!"],
  [" ,", ","],
  [" ' ", "'"],
  [" n't", "n't"],
  [" 'm", "'m"],
  [" do not", " don't"],
  [" 's", "'s"],
  [" 've", "'ve"],
  [" 're", "'re"],
];

function wordPiece(text, { prefix, cleanup }) {
  let out = text.startsWith(prefix) ? text.slice(prefix.length) : ` ${text}`;
  if (cleanup) for (const [old, fresh] of CLEANUP) out = out.split(old).join(fresh);
  return out;
}

// Character → byte of byte-level BPE (GPT-2): printable Latin-1 represents itself, other bytes are U+0100 and up.
const BYTES = (() => {
  const table = new Int16Array(0x144).fill(-1);
  let shift = 0;
  for (let byte = 0; byte < 256; byte++) {
    const printable = (byte >= 0x21 && byte < 0x7f) || (byte >= 0xa1 && byte < 0xad) || byte >= 0xae;
    table[printable ? byte : 0x100 + shift++] = byte;
  }
  return table;
})();

/** Concatenated tokens, and their lengths. */
export class Joined {
  constructor(count) {
    this.bytes = new Uint8Array(Math.max(16 * count, 256));
    this.lengths = new Uint32Array(count);
    this.token = this.from = this.at = 0;  // `from`: the beginning of the token
  }
  room(size) {
    if (this.at + size <= this.bytes.length) return;
    const larger = new Uint8Array(Math.max(2 * this.bytes.length, this.at + size));
    larger.set(this.bytes);
    this.bytes = larger;
  }
  end() {
    this.lengths[this.token++] = this.at - this.from;
    this.from = this.at;
  }
  add(bytes) {
    this.room(bytes.length);
    this.bytes.set(bytes, this.at);
    this.at += bytes.length;
    this.end();
  }
  addText(text) {
    this.room(3 * text.length);
    this.at += encoder.encodeInto(text, this.bytes.subarray(this.at)).written;
    this.end();
  }
  // False without adding anything: the text has a character outside the alphabet, and represents its own UTF-8. The
  // libraries decode it so.
  addByteLevel(text) {
    this.room(text.length);
    for (let i = 0; i < text.length; i++) {
      const code = text.charCodeAt(i);
      const byte = code < BYTES.length ? BYTES[code] : -1;
      if (byte < 0) return false;
      this.bytes[this.at + i] = byte;
    }
    this.at += text.length;
    this.end();
    return true;
  }
  parts() {
    return { bytes: this.bytes.subarray(0, this.at), lengths: this.lengths };
  }
}
