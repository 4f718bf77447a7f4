"""Compares what a backtracking matcher takes with the longest and the shortest match of a pattern.

``re.match`` takes the match that a search in the order of the pattern finds first. The search is simulated by a machine
that follows all threads at once in order of preference (Pike's; Cox 2010, "Regular Expression Matching in the Wild"):
when a thread matches, those after it are cut off. The ordered lists of threads are the states of an automaton. So is
the plain set of threads without cuts, which finds *every* match. Run side by side over all texts, they decide exactly

- *longest*: at no reachable pair does the second match where the first does not;
- *shortest*: after a match of the first, none is ever found again.

If neither holds, the pattern becomes an atomic group: what it matches as a whole is what ``re.match`` takes.

An assertion about what follows is an obligation that a thread carries. If one is still open at the end of a match, the
match depends on the character after it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from guiderail._core import CharSet
from guiderail.frontends.grammar.lark.first_match_states import (
    FREE,
    MATCH,
    Ahead,
    Duties,
    Expanded,
    LookAhead,
    State,
    Thread,
    Unknown,
    edge_of,
    sets_of,
)
from guiderail.frontends.grammar.lark.first_match_undone import undone_for_good
from guiderail.frontends.regex.facts import Facts
from guiderail.frontends.regex.syntax import Alt, Boundary, Cat, Edge, EndNl, Lit, Look, Node, Rep, Set
from guiderail.support.work import spend

__all__ = ["FirstMatch", "Machine", "Unknown", "first_match"]

_THREADS = 1_500_000  # steps of threads spent on one pattern
_THREAD = 20  # steps of work that one takes, or a state
_DUTIES = 2  # obligations that a thread carries along in one step
_WRITTEN = 10  # steps of writing out a thread, or an obligation of one
_EXPANDED = 2  # steps that an expansion takes for each state on its way
_FEW = 8  # states that are followed in one step
_STATES = 20_000
_LOOK_BEHIND = 8  # maximum number of characters that a look-behind may cover
_NONE = CharSet([])


@dataclass(frozen=True, slots=True)
class FirstMatch:
    """What is known of a pattern.

    Attributes:
        longest: ``re.match`` always takes the longest match.
        shortest: ``re.match`` always takes the shortest match.
        depends: characters that undo a match, if no longer one comes; empty: matches do not depend on what follows.
        needs: whether some match needs a character after it, so that it does not count at the end of the text.
        after: characters that may lengthen a match, or undo it.
        narrowed: whether that is so only for the texts that ``re.match`` takes as a whole.
    """

    longest: bool
    shortest: bool
    depends: CharSet = _NONE
    needs: bool = False
    after: CharSet = _NONE
    narrowed: bool = False


def first_match(tree: Node) -> FirstMatch:
    """Decides what ``re.match`` takes of a text.

    Raises:
        Unknown: it depends on the text before, on more than one character after it, or is too large to decide.
    """
    if _greedy(tree, Facts()):
        return FirstMatch(True, False)
    return Machine(tree).decide()


def _greedy(node: Node, facts: Facts) -> bool:
    """Whether the form of the pattern alone shows that the longest match is taken."""
    fact = facts(node)
    if fact.special:
        return False
    if fact.unique and not isinstance(node, Rep):
        return True
    if isinstance(node, Rep):
        item = facts(node.item)
        return node.mode == "greedy" and item.unique and item.least > 0
    if isinstance(node, Cat):
        parts = [facts(item) for item in node.items]
        parts[-1] = parts[-1]._replace(unique=True)
        return _greedy(node.items[-1], facts) and facts.unique_parts(node.items, parts)
    if isinstance(node, Alt):
        seen = CharSet([])
        for branch in node.items:
            begin = facts(branch)
            if not begin.least or len(seen & begin.first) or not _greedy(branch, facts):
                return False
            seen = seen | begin.first
        return True
    return False


class Machine:
    """The threads of one pattern over classes of characters.

    Attributes:
        all: every class of characters, as a set of them.
        table: the automaton of the first match, made by :meth:`decide`: where states go with each class (-1: nowhere),
        matches: whether a match ends there,
        valid_before, valid_at_end: before which classes it counts, and whether it does at the end of the text.
        longest: whether the first match is the longest.
    """

    def __init__(self, tree: Node) -> None:
        self.facts = Facts()
        self.special = self.facts(tree).special
        self.classes: list[CharSet] = []
        self.masks: dict[CharSet, int] = {}
        self.charsets: dict[int, CharSet] = {}
        self._divide(sets_of(tree))
        self.all = (1 << len(self.classes)) - 1
        self.states = [State("match")]
        self.bodies: dict[int, int] = {}  # id of an assertion's body -> its first state
        self.keep: list[Node] = []
        self.history = 0
        self.plain = not self.special  # whether threads are only states: no duties, no empty iterations
        self.start = self.build(tree, MATCH)
        self.work = 0
        self.table: list[list[int]] = []
        self.matches: list[bool] = []
        self.valid_before: list[int] = []
        self.valid_at_end: list[bool] = []
        self.longest = False

    # -- characters
    def _divide(self, sets: list[CharSet]) -> None:
        """Classes of characters that no set of the pattern tells apart; in ``masks``, each set as a set of these."""
        cuts = sorted({0, 0x110000, 0xD800, 0xE000, *(p for s in sets for a, b in s.ranges() for p in (a, b + 1))})
        index = {cut: i for i, cut in enumerate(cuts)}
        signs = [0] * len(cuts)
        for k, chars in enumerate(sets):
            for a, b in chars.ranges():
                spend(5 + index[b + 1] - index[a])
                for i in range(index[a], index[b + 1]):
                    signs[i] |= 1 << k
        ranges: dict[int, list[tuple[int, int]]] = {}
        for i, cut in enumerate(cuts[:-1]):
            if cut != 0xD800:
                ranges.setdefault(signs[i], []).append((cut, cuts[i + 1] - 1))
        self.classes = [CharSet(found) for found in ranges.values()]
        order = list(ranges)
        for k, chars in enumerate(sets):
            self.masks[chars] = sum(1 << i for i, sign in enumerate(order) if sign >> k & 1)

    def chars(self, mask: int) -> CharSet:
        """The characters of a set of classes."""
        found = self.charsets.get(mask)
        if found is None:
            found = self.charsets[mask] = self._chars(mask)
        return found

    def _chars(self, mask: int) -> CharSet:
        return CharSet([r for i, found in enumerate(self.classes) if mask >> i & 1 for r in found.ranges()])

    # -- states
    def add(self, state: State) -> int:
        if len(self.states) >= _STATES:
            raise Unknown("its repetitions are too large to follow", self.special)
        spend(_THREAD)
        self.states.append(state)
        return len(self.states) - 1

    def build(self, node: Node, after: int) -> int:
        if isinstance(node, Lit):
            for char in reversed(node.text):
                after = self.add(State("char", after, mask=self.masks[CharSet([(ord(char), ord(char))])]))
            return after
        if isinstance(node, Set):
            return self.add(State("char", after, mask=self.masks[node.chars]))
        if isinstance(node, Cat):
            for item in reversed(node.items):
                after = self.build(item, after)
            return after
        if isinstance(node, Alt):
            if not node.items:
                return self.add(State("char", after))
            first = self.build(node.items[-1], after)
            for item in reversed(node.items[:-1]):
                first = self.add(State("split", self.build(item, after), first))
            return first
        if isinstance(node, Rep) and node.mode != "possessive":
            return self.repetition(node, after)
        if isinstance(node, Edge | Boundary):
            return self.add(State("assert", after, node=node))
        if isinstance(node, Look) and (edge := edge_of(node)) is not None:
            return self.add(State("assert", after, node=edge))
        if isinstance(node, Look):
            body = self.facts(node.item)
            if body.special:
                raise Unknown("one of its assertions is inside another")
            if node.behind:
                if not 0 <= body.most <= _LOOK_BEHIND:
                    raise Unknown(f"a look-behind looks back more than {_LOOK_BEHIND} characters")
                self.history = max(self.history, body.most)
            self.bodies[id(node)] = self.build(node.item, MATCH)
            self.keep.append(node)
            return self.add(State("assert", after, node=node))
        if isinstance(node, EndNl):
            raise Unknown("a `$` looks past its end")
        raise Unknown("it contains an atomic group or an extension", self.special)

    def repetition(self, node: Rep, after: int) -> int:
        lazy = node.mode == "lazy"

        def split(more: int, done: int) -> int:
            return self.add(State("split", done, more) if lazy else State("split", more, done))

        first = after
        if node.max > 1 and not self.facts(node.item).least:
            raise Unknown("the part that it repeats can be empty", self.special)
        if node.max < 0:
            self.plain = self.plain and self.facts(node.item).least > 0
            loop = self.add(State("loop"))
            more = self.build(node.item, loop)
            inner = (after, more) if lazy else (more, after)
            self.states[loop] = State("loop", *inner, inside=more)
            first = loop
        for _ in range(max(node.max, node.min) - node.min):
            first = split(self.build(node.item, first), after)
        for _ in range(node.min):
            first = self.build(node.item, first)
        return first

    # -- threads
    def close(self, threads: list[Thread], seen: set[Thread], state: int, duties: Duties, past: str) -> None:
        """Adds the threads that ``state`` expands to, in order; ``past``: the last classes read."""
        stack: list[tuple[int, Duties, frozenset[int]]] = [(state, duties, frozenset())]
        while stack:
            state, duties, entered = stack.pop()
            here = (state, duties)
            at = self.states[state]
            if state in entered:  # an empty iteration
                stack.append((at.first if at.second == at.inside else at.second, duties, entered))
                continue
            if here in seen:
                continue
            seen.add(here)
            spend(_THREAD + len(duties) // _DUTIES)
            self.work += 1
            if self.work > _THREADS:
                raise Unknown("it is too large to decide", self.special)
            if at.kind == "split":
                stack += [(at.second, duties, entered), (at.first, duties, entered)]
            elif at.kind == "loop":
                inside = entered | {state}
                for way in (at.second, at.first):
                    stack.append((way, duties, inside if way == at.inside else entered))
            elif at.kind == "assert":
                duty = self.duty(at.node, past)
                if duty is True:
                    stack.append((at.first, duties, entered))
                elif duty is not False:
                    stack.append((at.first, duties | {duty}, entered))
            else:
                threads.append(here)

    def duty(self, node: Node | None, past: str) -> Ahead | LookAhead | bool:
        """What an assertion requires here: nothing (True), the impossible (False), or something about what follows."""
        if isinstance(node, Edge) and not node.behind:
            return Ahead(self.masks[node.chars], node.edge)
        if isinstance(node, Edge | Boundary) and not past:
            raise Unknown("it looks at the text before it")
        if isinstance(node, Edge):
            return bool(self.masks[node.chars] >> ord(past[-1]) & 1)
        if isinstance(node, Boundary):
            words = self.masks[node.chars]
            if bool(words >> ord(past[-1]) & 1) != node.negated:
                return Ahead(self.all & ~words, True)
            return Ahead(words, False)
        assert isinstance(node, Look)
        start = self.bodies[id(node)]
        if node.behind:
            return self.seen_behind(node, start, past)
        states = self.body([start])
        if states is None:
            return not node.negative
        return LookAhead(node.negative, states)

    def seen_behind(self, node: Look, start: int, past: str) -> bool:
        for length in range(len(past) + 1):
            if self.reaches(start, past[len(past) - length :]):
                return not node.negative
        if self.facts(node.item).most > len(past):
            raise Unknown("it looks at the text before it")
        return node.negative

    def reaches(self, start: int, text: str) -> bool:
        """Whether a body matches exactly ``text``."""
        states = self.spread([start])
        for char in text:
            states = self.spread(self.moves(states, ord(char)))
        return MATCH in states

    def spread(self, states: list[int]) -> frozenset[int]:
        """The states that ``states`` expand to, in a body without assertions."""
        found: set[int] = set()
        stack = list(states)
        while stack:
            state = stack.pop()
            if state not in found:
                found.add(state)
                at = self.states[state]
                if at.kind in ("split", "loop"):
                    stack += [at.first, at.second]
        return frozenset(found)

    def body(self, states: list[int]) -> frozenset[int] | None:
        """Like :meth:`spread`; None if the body has matched."""
        found = self.spread(states)
        return None if MATCH in found else found

    def moves(self, states: frozenset[int], k: int) -> list[int]:
        found = [self.states[state] for state in states]
        return [at.first for at in found if at.kind == "char" and at.mask >> k & 1]

    def kept(self, duties: Duties, k: int) -> Duties | None:
        """What is left of ``duties`` once a character of class ``k`` follows; None: they are broken."""
        if not duties:
            return duties
        left: list[Ahead | LookAhead] = []
        for duty in duties:
            if isinstance(duty, Ahead):
                if not duty.mask >> k & 1:
                    return None
                continue
            states = self.body(self.moves(duty.states, k))
            if states is None:
                if duty.negative:
                    return None
            elif not states:
                if not duty.negative:
                    return None
            else:
                left.append(LookAhead(duty.negative, states))
        return frozenset(left)

    @staticmethod
    def at_end(duties: Duties) -> bool:
        """Whether ``duties`` are fulfilled at the end of the text."""
        return all(duty.end if isinstance(duty, Ahead) else duty.negative for duty in duties)

    def step(self, threads: tuple[Thread, ...], k: int, past: str, cut: bool) -> tuple[Thread, ...]:
        """The threads after a character of class ``k``; ``past`` includes it."""
        result: list[Thread] = []
        seen: set[Thread] = set()
        for state, duties in threads:
            at = self.states[state]
            if state == MATCH:
                if self.valid(duties, k) and cut:
                    break
                continue
            if not at.mask >> k & 1:
                continue
            if (left := self.kept(duties, k)) is not None:
                self.close(result, seen, at.first, left, past)
        if cut:
            for i, (state, duties) in enumerate(result):
                if state == MATCH and not duties:
                    return tuple(result[: i + 1])
            return tuple(result)
        if len(result) < 2:
            return tuple(result)
        return self.ordered(result) if self.special else tuple(sorted(set(result)))

    def ordered(self, threads: list[Thread]) -> tuple[Thread, ...]:
        """Each thread once, in an order that is the same in every process."""
        spend(_WRITTEN * sum(1 + len(duties) for _, duties in threads))
        return tuple(sorted(set(threads), key=repr))

    def valid(self, duties: Duties, k: int) -> bool:
        """Whether a match with ``duties`` is valid before a character of class ``k``, or (k < 0) at the end."""
        if k < 0:
            return self.at_end(duties)
        left = self.kept(duties, k)
        if left:
            raise Unknown("it looks more than one character past its end")
        return left is not None

    # -- the decision
    def decide(self) -> FirstMatch:
        """Follows both machines over all texts, and keeps the automaton of the first one."""
        if self.plain:
            return self.decide_plain()
        count = len(self.classes)
        first: list[Thread] = []
        self.close(first, set(), self.start, FREE, "")
        begin = (tuple(first), self.ordered(first), "")
        number = {begin: 0}
        queue = deque([begin])
        longest, needs = True, False
        undone, after = 0, 0
        behind_valid: set[int] = set()
        behind_undone: set[int] = set()
        while queue:
            here, every, past = queue.popleft()
            ends = [duties for state, duties in here if state == MATCH]
            all_ends = [duties for state, duties in every if state == MATCH]
            at_end = any(self.valid(duties, -1) for duties in all_ends)
            self.valid_at_end.append(any(self.valid(duties, -1) for duties in ends))
            longest &= self.valid_at_end[-1] == at_end
            needs |= bool(all_ends) and not at_end
            row = [-1] * count
            spend(10 * count)
            valid_before = 0
            for part in self.parts(here, every):
                k = (part & -part).bit_length() - 1
                any_end = any(self.valid(duties, k) for duties in all_ends)
                valid = any(self.valid(duties, k) for duties in ends)
                valid_before |= part if valid else 0
                longest &= valid == any_end
                if all_ends and not any_end:
                    undone |= part
                then = (past + chr(k))[-self.history - 1 :] if self.special else ""
                target = self.step(here, k, then, True), self.step(every, k, then, False), then
                if not target[1]:
                    continue
                if all_ends:
                    after |= part
                if target not in number:
                    number[target] = len(number)
                    queue.append(target)
                if target[0]:
                    for same in self.bits(part):
                        row[same] = number[target]
                    if ends:
                        (behind_valid if valid else behind_undone).add(number[target])
            self.table.append(row)
            self.matches.append(bool(ends))
            self.valid_before.append(valid_before)
        shortest = not self.reach(behind_valid, self.table, self.matches)
        narrowed = not longest and shortest and self.reach(behind_undone, self.table, self.matches)
        self.longest = longest or narrowed  # of the matches that begin with one another, one counts
        shortest = shortest and not narrowed
        if self.longest:
            undone, needs = undone_for_good(self)
        return FirstMatch(self.longest, shortest, self.chars(undone), needs, self.chars(after | undone), narrowed)

    def decide_plain(self) -> FirstMatch:
        """Decides the same if threads are only states: what each expands to is computed once."""
        masks = [state.mask for state in self.states]
        starts = {state.first for state in self.states if state.kind == "char"}
        found: dict[int, Expanded] = {}
        divisions: dict[frozenset[int], list[int]] = {}
        count = len(self.classes)
        first = self.expanded(self.start, starts).states
        begin = first, frozenset(first)
        number = {begin: 0}
        queue = deque([begin])
        longest, after = True, 0
        behind_match: set[int] = set()
        while queue:
            here, every = queue.popleft()
            ends, all_end = MATCH in here, MATCH in every
            longest &= ends == all_end
            row = [-1] * count
            spend(2 * count + len(every))
            kinds = frozenset([masks[state] for state in every])
            parts = divisions.get(kinds)
            if parts is None:
                parts = divisions[kinds] = self.divided(kinds)
            for part in parts:
                bit = part & -part
                spend(_THREAD + 3 * len(every))
                threads = frozenset(self.after(sorted(every, reverse=True), bit, masks, starts, found))
                if not threads:
                    continue
                self.work += len(threads)
                if self.work > _THREADS:
                    raise Unknown("it is too large to decide", False)
                preferred = self.after(here, bit, masks, starts, found)
                then = tuple(preferred)
                if MATCH in preferred:
                    then = then[: then.index(MATCH) + 1]
                target = then, threads
                if all_end:
                    after |= part
                at = number.get(target)
                if at is None:
                    at = number[target] = len(number)
                    queue.append(target)
                if then:
                    for same in self.bits(part):
                        row[same] = at
                    if ends:
                        behind_match.add(at)
            self.table.append(row)
            self.matches.append(ends)
            self.valid_before.append(self.all if ends else 0)
            self.valid_at_end.append(ends)
        shortest = not self.reach(behind_match, self.table, self.matches)
        self.longest = longest
        return FirstMatch(longest, shortest, _NONE, False, self.chars(after))

    def after(
        self, states: Iterable[int], bit: int, masks: list[int], starts: set[int], found: dict[int, Expanded]
    ) -> dict[int, None]:
        """The states that others lead to by a class, in order, up to a match among the others.

        Args:
            states: the others, in order.
            bit: the class.
            masks: the classes that each state reads.
            starts: what expands is among these.
            found: how these expand, as far as it is known.
        """
        reached: dict[int, None] = {}
        covered: set[int] = set()  # an expansion that holds another one adds all that the other would
        for state in states:
            if state == MATCH:
                break
            if masks[state] & bit:
                follows = self.states[state].first
                if follows in covered:
                    continue
                expanded = found.get(follows)
                if expanded is None:
                    expanded = found[follows] = self.expanded(follows, starts)
                spend(1 + (len(expanded.states) + len(expanded.inside)) // _FEW)
                reached.update(dict.fromkeys(expanded.states))
                covered.update(expanded.inside)
        return reached

    def expanded(self, state: int, starts: set[int]) -> Expanded:
        """What a state expands to, if no iteration is empty; ``starts``: states from which expansions begin."""
        found: list[int] = []
        seen: set[int] = set()
        stack = [state]
        while stack:
            state = stack.pop()
            if state in seen:
                continue
            seen.add(state)
            at = self.states[state]
            if at.kind == "char" or at.kind == "match":
                found.append(state)
            else:
                stack += [at.second, at.first]
        spend(_EXPANDED * len(seen))
        return Expanded(tuple(found), tuple(seen & starts))

    def divided(self, masks: Iterable[int]) -> list[int]:
        """Sets of classes that none of ``masks`` separates, by their least class."""
        found = [self.all]
        for mask in masks:
            if any(part & mask and part & ~mask for part in found):
                found = [piece for part in found for piece in (part & mask, part & ~mask) if piece]
        return sorted(found, key=lambda part: part & -part)

    def parts(self, *lists: tuple[Thread, ...]) -> list[int]:
        """Sets of classes that no thread separates, by their least class. One set for each class if the text before
        matters."""
        if self.special:
            return [1 << k for k in range(len(self.classes))]
        return self.divided({self.states[state].mask for threads in lists for state, _ in threads})

    @staticmethod
    def bits(mask: int) -> Iterator[int]:
        """The members of a set of classes."""
        while mask:
            yield (mask & -mask).bit_length() - 1
            mask &= mask - 1

    @staticmethod
    def reach(starts: set[int], edges: list[list[int]], matches: list[bool]) -> bool:
        seen, stack = set(starts), list(starts)
        while stack:
            state = stack.pop()
            if matches[state]:
                return True
            fresh = [s for s in edges[state] if s >= 0 and s not in seen]
            seen.update(fresh)
            stack += fresh
        return False
