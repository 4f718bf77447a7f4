// Asks the engine's worker questions; each answer is a promise.
const worker = new Worker(new URL("./engine.js", import.meta.url), { type: "module" });
const waiting = new Map();
let last = 0;

worker.onmessage = ({ data: { number, answer, error } }) => {
  const { resolve, reject } = waiting.get(number);
  waiting.delete(number);
  if (error === undefined) resolve(answer);
  else reject(new Error(error));
};
worker.onerror = (event) => {
  for (const { reject } of waiting.values()) reject(new Error(event.message || "the worker ended"));
  waiting.clear();
};

export const engine = {
  ask(question, given = {}) {
    return new Promise((resolve, reject) => {
      waiting.set(++last, { resolve, reject });
      worker.postMessage({ number: last, question, ...given });
    });
  },
};
