// Examples, by kind of constraint.
const json = (value) => JSON.stringify(value, null, 2);

export const EXAMPLES = [
  {
    kind: "schema", name: "A person", prompt: "Invent a character: a musician from Brazil.",
    text: '{"name": "Mario Dias", "born": "1990-02-3', options: { property_order: "declared" },
    source: json({
      type: "object",
      properties: {
        name: { type: "string", pattern: "^[A-Z][a-z]+ [A-Z][a-z]+$", maxLength: 30 },
        born: { type: "string", format: "date", pattern: "^19" },
        home: {
          type: "object",
          properties: {
            city: { type: "string", pattern: "^[A-Z][a-z]+( [A-Z][a-z]+)?$", maxLength: 24 },
            country: { enum: ["Brazil", "Canada", "Egypt", "France", "India", "Japan", "Kenya", "Norway", "USA"] },
          },
          required: ["city", "country"],
          additionalProperties: false,
        },
        occupations: {
          type: "array",
          items: { enum: ["astronaut", "engineer", "mathematician", "musician", "painter", "pilot", "writer"] },
          minItems: 1,
          maxItems: 3,
          uniqueItems: true,
        },
        height_cm: { type: "integer", minimum: 150, maximum: 200 },
        married: { type: "boolean" },
      },
      required: ["name", "born", "home", "occupations", "height_cm", "married"],
      additionalProperties: false,
    }),
  },
  {
    kind: "schema", name: "A planet", prompt: "Tell me about the planet Mars.", text: '{"name": "Mars", "color": ',
    options: { property_order: "declared" },
    source: json({
      type: "object",
      properties: {
        name: { type: "string", pattern: "^[A-Z][a-z]+$", maxLength: 12 },
        color: { enum: ["blue", "brown", "red", "white", "yellow"] },
        moons: { type: "integer", minimum: 0, maximum: 99 },
        rings: { type: "boolean" },
      },
      required: ["name", "color", "moons", "rings"],
      additionalProperties: false,
    }),
  },
  {
    kind: "schema", name: "A port that is free", prompt: "Which port does a web server listen on?", text: "8",
    source: json({ type: "integer", minimum: 1, maximum: 65535, not: { enum: [22, 80] } }),
  },
  {
    kind: "schema", name: "Distinct colours", prompt: "Name three colours.", text: '["red", "r',
    source: json({ type: "array", items: { enum: ["red", "green", "blue", "grey"] }, uniqueItems: true, minItems: 3 }),
  },
  {
    kind: "schema", name: "No value fits", prompt: "",
    source: json({ allOf: [{ type: "integer", maximum: 9 }, { minimum: 9.5 }] }),
  },
  {
    kind: "regex", name: "A sentence", prompt: "Write one sentence about the sea.", text: "The sea, a",
    source: "[A-Z][a-z]+(,? [a-z]+){4,12}[.]",
  },
  {
    kind: "regex", name: "A password", prompt: "Invent a password.", text: "abc",
    source: "(?=.*\\d)(?=.*[A-Z])[A-Za-z0-9]{8,12}",
  },
  { kind: "regex", name: "A version", prompt: "Which version?", text: "1.0", source: "(0|[1-9]\\d*)(\\.(0|[1-9]\\d*)){2}(-[a-z]+\\.\\d+)?" },
  { kind: "regex", name: "A faulty pattern", prompt: "", text: "", source: "(a|b" },
  {
    kind: "grammar", name: "Sums (Lark)", prompt: "What is three plus four?", text: "3 + (4",
    source: `start: sum
?sum: product | sum "+" product | sum "-" product
?product: atom | product "*" atom
?atom: NUMBER | "(" sum ")"
NUMBER: /[0-9]+/
%ignore " "
`,
  },
  {
    kind: "grammar", name: "Sums (GBNF)", prompt: "What is three plus four?", text: "1+23",
    source: 'root ::= root "+" number | number\nnumber ::= [0-9]+\n',
  },
  {
    kind: "grammar", name: "A greeting (EBNF)", prompt: "Greet Ada.", text: "Hello ", options: { syntax: "ebnf-w3c" },
    source: 'root ::= "Hello " name ("!" | " and " name "!")\nname ::= "Ada" | "Grace" | "Alan"\n',
  },
];
