"""A record, written piece by piece, under a constraint composed of parts. Needs the ``demo`` extra."""

import guiderail as gr

record = gr.sequence(
    "Name: ", gr.regex("[A-Z][a-z]{1,15} [A-Z][a-z]{1,15}"),
    "\nBorn in: ", gr.regex("[A-Z][a-z]{1,15}"),
    "\nKnown for: ", gr.regex("[A-Z][a-z]+(,? [A-Za-z][a-z]*){3,16}[.]"),
)  # fmt: skip

run = gr.stream(None, "Tell me about Albert Einstein.", record)
for piece in run:
    print(piece, end="", flush=True)
print(f"\n({len(run.tokens)} tokens, {run.result.forced_tokens} of them forced; {run.finish_reason})")
