"""Matches regular expressions in time linear in the text, whatever the pattern.

A client chooses the pattern and a broker has one loop: one that backtracks would let any client
stop it with `(a+)+b`.  All the ways through the pattern are followed at once, a set of states for
each character; sets and the steps between them are remembered, as RE2 does, so that most texts
cost a look-up a character.
"""

from __future__ import annotations

from dataclasses import dataclass

from kwire.txn.pattern_syntax import (
    Accepts,
    At,
    Either,
    InvalidPattern,
    Node,
    One,
    Place,
    Repeat,
    Sequence,
    is_word,
    parse,
)

SIZE_MAX = 5_000
"""How many nodes a pattern may have, its repetitions written out: much more than people write."""
STEPS_REMEMBERED = 10_000
"""Then all is forgotten and learned anew: a megabyte or two."""


@dataclass(slots=True)
class _State:
    """Consumes a character, or leads to other states, at some place if there is one."""

    accepts: Accepts | None = None
    place: Place | None = None
    targets: tuple[int, ...] = ()


States = frozenset[int]
_BEGIN = _END = ""
"""The neighbour of the first and of the last character."""
_DONE = 0
"""The state at the end of the pattern."""


class _Reached:
    """What is reached behind some text: all that matters of it to what follows."""

    __slots__ = ("before", "behind", "states")

    def __init__(self, states: States, before: str) -> None:
        self.states = states
        self.before = before
        """The last character, or one that is the same to all places."""
        self.behind: dict[str, _Reached] = {}
        """By the next character, as far as is known yet."""


class Pattern:
    """A compiled pattern.  Raises InvalidPattern."""

    def __init__(self, pattern: str) -> None:
        self._states = [_State()]
        self._size = 0
        self._start = _Reached(frozenset({self._compile(parse(pattern), _DONE)}), _BEGIN)
        self._known: dict[tuple[States, str], _Reached] = {}
        self._steps = 0

    def matches(self, text: str) -> bool:
        """Whether it matches the whole of `text`."""
        reached = self._start
        for char in text:
            behind = reached.behind.get(char)
            reached = self._step(reached, char) if behind is None else behind
            if not reached.states:
                return False
        end = reached.behind.get(_END) or self._step(reached, _END)
        return _DONE in end.states

    # -- matching

    def _step(self, reached: _Reached, char: str) -> _Reached:
        """Go on behind `char`, and remember it; at the end of the text, without one."""
        if self._steps >= STEPS_REMEMBERED:
            self._steps = 0
            self._known.clear()
            self._start = _Reached(self._start.states, _BEGIN)
        self._steps += 1
        key = (self._follow(reached.states, reached.before, char), _like(char))
        behind = self._known.setdefault(key, _Reached(*key))
        reached.behind[char] = behind
        return behind

    def _follow(self, states: States, before: str, char: str) -> States:
        reached: set[int] = set()
        behind: set[int] = set()
        to_do = [*states]
        while to_do:
            number = to_do.pop()
            if number in reached:
                continue
            reached.add(number)
            state = self._states[number]
            if state.accepts is not None:
                if char and state.accepts(char):
                    behind.update(state.targets)
            elif state.place is None or _is_at(state.place, before, char):
                to_do += state.targets
        return frozenset(behind if char else reached)

    # -- compiling: each node is given the state behind it, and gives the one before it

    def _compile(self, node: Node, behind: int) -> int:
        self._size += 1
        if self._size > SIZE_MAX:
            raise InvalidPattern("the pattern is too large")
        match node:
            case One(accepts=accepts):
                return self._add(_State(accepts=accepts, targets=(behind,)))
            case At(place=place):
                return self._add(_State(place=place, targets=(behind,)))
            case Sequence(parts=parts):
                for part in reversed(parts):
                    behind = self._compile(part, behind)
                return behind
            case Either(ways=ways):
                targets = tuple(self._compile(way, behind) for way in ways)
                return self._add(_State(targets=targets))
        return self._repeat(node, behind)

    def _repeat(self, node: Repeat, behind: int) -> int:
        if node.most is None:
            again = self._add(_State())
            self._states[again].targets = (self._compile(node.part, again), behind)
            behind = again
        else:
            end = behind
            for _ in range(node.most - node.least):
                behind = self._add(_State(targets=(self._compile(node.part, behind), end)))
        for _ in range(node.least):
            behind = self._compile(node.part, behind)
        return behind

    def _add(self, state: _State) -> int:
        self._states.append(state)
        return len(self._states) - 1


def _like(char: str) -> str:
    """A character that no place can tell from `char` when it is behind it."""
    if char in (_BEGIN, "\n"):
        return char
    return "w" if is_word(char) else "."


def _is_at(place: Place, before: str, char: str) -> bool:
    """Whether the place between two neighbours is such a place."""
    match place:
        case Place.TEXT_BEGIN:
            return before == _BEGIN
        case Place.TEXT_END:
            return char == _END
        case Place.LINE_BEGIN:
            return before in (_BEGIN, "\n")
        case Place.LINE_END:
            return char in (_END, "\n")
    boundary = is_word(before) != is_word(char)
    return boundary == (place is Place.WORD_BOUNDARY)
