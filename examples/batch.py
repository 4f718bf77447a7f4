"""Several prompts at once, each with its own constraint, on the embedded model.

Needs the ``demo`` extra. The path of a GGUF file as an argument runs that model instead.
"""

import sys

import guiderail as gr

model = gr.load_model(sys.argv[1] if len(sys.argv) > 1 else None)
questions = {
    "What colour is the sky on a clear day?": gr.choice(["red", "green", "blue"]),
    "In which year did Apollo 11 land on the Moon?": gr.regex("(19|20)[0-9]{2}"),
    "Write one sentence about the sea.": gr.regex("[A-Z][a-z]+(,? [a-z]+){4,12}[.]"),
}
answers = gr.generate(model, list(questions), list(questions.values()))
for (question, constraint), answer in zip(questions.items(), answers, strict=True):
    print(f"{question:45} {answer}")
    assert constraint.matches(answer)
