"""For tests and benchmarks of distributions: tasks, a model with cached logits, the truth, a chi-square test."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np

import guiderail as gr

# the task of Park et al. 2024, §4: five bits; the model would write 00000, or begin with 1
BINARY = (
    "Generate a random binary string of length 5. "
    "Do not let it begin with 0, except if the whole string is 00000. Answer with the string alone."
)
TASKS = {
    "binary_len_5": (BINARY, "00000|1[01]{4}", 5),
    "yes or no": ("Is the Moon larger than the Earth? Answer yes or no.", "(yes|no|Yes|No)", 3),
    "a day": ("Which day comes after Monday?", "(Mon|Tues|Wednes|Thurs|Fri)day", 5),
    "a number": ("How many legs does a spider have?", "[1-9][0-9]?", 3),
}


class Kept:
    """A model that computes the logits after each prefix only once, so thousands of draws are cheap.

    Attributes:
        asked: the number of queries; ``computed``: the number of queries that reached the model itself.
    """

    max_batch = None

    def __init__(self, model):
        self.model, self.known, self.asked, self.computed = model, {}, 0, 0
        self.vocabulary, self.logits_size, self.name = model.vocabulary, model.logits_size, model.name
        self.context_length = model.context_length
        self._session, self._read, self._first = None, (), 0

    def encode(self, prompt, *, chat, system=None):
        return self.model.encode(prompt, chat=chat, system=system)

    def new_session(self, batch, length):
        return KeptSession(self, batch)

    def logits(self, tokens):
        key = tuple(tokens)
        if key not in self.known:
            self.known[key] = self._compute(key).copy()
            self.computed += 1
        return self.known[key]

    def _compute(self, key):
        """By one row that keeps what it has read; single tokens after what is read at once first."""
        common = 0
        while common < min(len(self._read), len(key) - 1) and self._read[common] == key[common]:
            common += 1
        if self._session is None or common < self._first:
            if self._session is not None:
                self._session.close()
            self._session, self._first, self._read = self.model.new_session(1, 256), len(key), key
            return self._session.feed([list(key)])[0]
        self._session.cut_row(0, common)
        for token in key[common:]:
            logits = self._session.feed([[token]])
        self._read = key
        return logits[0]

    def close(self):
        self.model.close()


class KeptSession:
    def __init__(self, model, batch):
        self.model, self.batch, self.rows = model, batch, [[] for _ in range(batch)]

    def feed(self, rows):
        found = np.zeros((self.batch, self.model.logits_size), np.float32)
        for i, more in enumerate(rows):
            if more:
                self.rows[i] += more
                self.model.asked += 1
                found[i] = self.model.logits(self.rows[i])
        return found

    def feed_each(self, rows, counts):
        told = []
        for row, more, count in zip(self.rows, rows, counts, strict=True):
            row += more
            each = [self.model.logits(row[: len(row) - back]) for back in range(count - 1, -1, -1)]
            told.append(np.array(each, np.float32).reshape(count, self.model.logits_size))
        return told

    def cut_row(self, row, length):
        del self.rows[row][length:]

    def copy_rows(self, pairs):
        for source, target in pairs:
            self.rows[target] = list(self.rows[source])

    def close(self):
        pass


def softmax(logits, temperature=1.0):
    wide = np.asarray(logits, float) / temperature
    weights = np.exp(wide - wide.max())
    return weights / weights.sum()


def truth(logits_of, constraint, vocabulary, limit, temperature=1.0):
    """Returns the token sequences of a constraint that end within ``limit`` tokens, with their probabilities under the
    model alone, and under masks.

    A stop token that must be chosen is one of the tokens. A text that nothing can follow has none.

    Args:
        logits_of: maps the tokens of a text to logits.
    """
    alone, masked = {}, {}
    stops = set(gr.compile(constraint, vocabulary).matcher().stop_token_ids())
    mask = gr.allocate_token_bitmask(1, vocabulary.size)

    def walk(matcher, tokens, chance, under):
        chances = softmax(logits_of(tokens)[: vocabulary.size], temperature)
        if matcher.is_complete():
            alone[tuple(tokens)] = chance * float(chances[sorted(stops)].sum())
            masked[tuple(tokens)] = under
            return
        if len(tokens) >= limit:
            return
        matcher.fill_next_token_bitmask(mask, 0)
        ids = np.flatnonzero(gr.bitmask_to_bool(mask, vocabulary.size)[0])
        left = chances[ids].sum()
        for token in map(int, ids):
            if token in stops:
                key = (*tokens, token)
                alone[key], masked[key] = chance * float(chances[token]), under * float(chances[token] / left)
                continue
            after = matcher.fork()
            after.accept_token(token)
            walk(after, [*tokens, token], chance * float(chances[token]), under * float(chances[token] / left))

    walk(gr.compile(constraint, vocabulary).matcher(), [], 1.0, 1.0)
    return alone, masked


def chi_square(drawn, expected):
    """Returns the statistic and its degrees of freedom. Texts expected fewer than 5 times share a cell."""
    count, total = len(drawn), sum(expected.values())
    seen = Counter(drawn)
    assert set(seen) <= set(expected)
    cells, rest, rare = [], 0.0, 0
    for key, chance in expected.items():
        wanted = count * chance / total
        if wanted < 5:
            rest, rare = rest + wanted, rare + seen[key]
        else:
            cells.append((seen[key], wanted))
    if rest > 0.5 or (rest and not cells):
        cells.append((rare, rest))
    return sum((got - wanted) ** 2 / wanted for got, wanted in cells), len(cells) - 1


def far_out(freedom, deviations=4.0):
    """Returns a chi-square statistic with a probability of less than 1 in 30,000 (Wilson & Hilferty 1931)."""
    if freedom < 1:
        return 1e-9
    return freedom * (1 - 2 / (9 * freedom) + deviations * math.sqrt(2 / (9 * freedom))) ** 3


def divergence(of, from_):
    """Returns the Kullback-Leibler divergence KL(of ‖ from_) in nats of unnormalized tables."""
    a, b = sum(of.values()), sum(from_.values())
    return sum(p / a * math.log((p / a) / (from_[key] / b)) for key, p in of.items() if p > 0)
