"""A record, written piece by piece: the constraint is composed of parts. Needs the ``demo`` extra."""

import guiderail as gr

record = gr.sequence(
    "Name: ", gr.regex("[A-Z][a-z]{1,15} [A-Z][a-z]{1,15}"),
    "\nBorn: ", gr.patterns.date(),
    "\nKnown for: ", gr.regex("[A-Z][A-Za-z ]{20,60}[.]"),
)  # fmt: skip

run = gr.stream(None, "Write a record about Neil Armstrong: name, date of birth, known for.", record)
for piece in run:
    print(piece, end="", flush=True)
print(f"\n({len(run.tokens)} tokens, {run.result.forced_tokens} of them forced; {run.finish_reason})")
