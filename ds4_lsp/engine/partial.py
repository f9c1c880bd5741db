"""Where text might still become a match of a pattern: what has to be held back while more text comes.

``re`` has no partial match. The pattern is turned into a nondeterministic automaton over an upper bound of what it
matches (assertions are taken as fulfilled), and each state knows the earliest position that leads to it.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from typing import Any

# re's parser has no public name; its result is only read here, and an unknown construct counts as "anything".
_parser: Any = importlib.import_module("re._parser")

_Test = Callable[[str], bool]
_CATEGORIES = {
    "CATEGORY_DIGIT": re.compile(r"\d"),
    "CATEGORY_NOT_DIGIT": re.compile(r"\D"),
    "CATEGORY_SPACE": re.compile(r"\s"),
    "CATEGORY_NOT_SPACE": re.compile(r"\S"),
    "CATEGORY_WORD": re.compile(r"\w"),
    "CATEGORY_NOT_WORD": re.compile(r"\W"),
}
_MAX_COPIES = 256
"""Copies of a repeated part; a match is at most that many characters long anyway."""


def _anything(_character: str) -> bool:
    return True


def _same(code: int) -> _Test:
    return chr(code).__eq__


def _not(test: _Test) -> _Test:
    return lambda character: not test(character)


def _between(low: int, high: int) -> _Test:
    return lambda character: low <= ord(character) <= high


def _of_category(name: str) -> _Test:
    pattern = _CATEGORIES.get(name)
    return _anything if pattern is None else lambda character: pattern.match(character) is not None


def _any_of(items: Any) -> _Test:
    """A character class, as re parsed it."""
    tests: list[_Test] = []
    negated = False
    for kind, value in items:
        match str(kind):
            case "NEGATE":
                negated = True
            case "LITERAL":
                tests.append(_same(value))
            case "RANGE":
                tests.append(_between(*value))
            case _:
                tests.append(_of_category(str(value)))
    return lambda character: any(test(character) for test in tests) != negated


class PartialMatcher:
    """Fed text piece by piece; ``earliest`` is the position of the first character that may begin a match."""

    def __init__(self, pattern: str) -> None:
        self._empty: list[list[int]] = []
        self._steps: list[tuple[_Test, int] | None] = []
        parsed = _parser.parse(pattern)
        self._ignore_case = bool(parsed.state.flags & re.IGNORECASE)
        self._end = self._state()
        start = self._sequence(parsed, self._end)
        self._start = self._closure(start)
        self._active: dict[int, int] = {}

    # --- building, from the end backwards -------------------------------------------------------------------------

    def _state(self, *empty: int, step: tuple[_Test, int] | None = None) -> int:
        self._empty.append(list(empty))
        self._steps.append(step)
        return len(self._empty) - 1

    def _sequence(self, items: Any, after: int) -> int:
        for operation, argument in reversed(list(items)):
            after = self._part(str(operation), argument, after)
        return after

    def _part(self, operation: str, argument: Any, after: int) -> int:
        match operation:
            case "LITERAL" | "NOT_LITERAL" | "ANY" | "IN":
                begin = self._state(step=(self._test(operation, argument), after))
            case "BRANCH":
                begin = self._state(*(self._sequence(branch, after) for branch in argument[1]))
            case "SUBPATTERN":
                begin = self._sequence(argument[3], after)
            case "ATOMIC_GROUP":
                begin = self._sequence(argument, after)
            case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
                least, most, items = argument
                begin = self._repeat(least, most, items, after)
            case "AT" | "ASSERT" | "ASSERT_NOT":
                begin = after
            case _:
                begin = self._star(lambda next_: self._state(step=(_anything, next_)), after)
        return begin

    def _star(self, body: Callable[[int], int], after: int) -> int:
        loop = self._state(after)
        self._empty[loop].append(body(loop))
        return loop

    def _repeat(self, least: int, most: Any, items: Any, after: int) -> int:
        least = min(int(least), _MAX_COPIES)
        if int(most) - least > _MAX_COPIES:
            after = self._star(lambda next_: self._sequence(items, next_), after)
        else:
            final = after
            for _ in range(int(most) - least):
                after = self._state(final, self._sequence(items, after))
        for _ in range(least):
            after = self._sequence(items, after)
        return after

    def _test(self, operation: str, argument: Any) -> _Test:
        exact: _Test
        match operation:
            case "ANY":
                exact = _anything
            case "IN":
                exact = _any_of(argument)
            case "LITERAL":
                exact = _same(argument)
            case _:
                exact = _not(_same(argument))
        if not self._ignore_case:
            return exact
        return lambda c: exact(c) or exact(c.lower()) or exact(c.upper())

    def _closure(self, state: int) -> tuple[int, ...]:
        """The states with a step that are reached without reading."""
        seen, todo = {state}, [state]
        while todo:
            for next_ in self._empty[todo.pop()]:
                if next_ not in seen:
                    seen.add(next_)
                    todo.append(next_)
        return tuple(s for s in seen if self._steps[s] is not None)

    # --- matching -------------------------------------------------------------------------------------------------

    @property
    def earliest(self) -> int | None:
        return min(self._active.values(), default=None)

    def reset(self) -> None:
        self._active = {}

    def state(self) -> dict[int, int]:
        """For ``set_state``: to go back to where it stands now."""
        return dict(self._active)

    def set_state(self, state: dict[int, int]) -> None:
        self._active = dict(state)

    def feed(self, text: str, position: int) -> None:
        """Text that begins at ``position``; it follows what was fed before."""
        for offset, character in enumerate(text):
            for state in self._start:
                self._active.setdefault(state, position + offset)
            following: dict[int, int] = {}
            for state, begun in self._active.items():
                step = self._steps[state]
                if step is None or not step[0](character):
                    continue
                for reached in self._closure(step[1]):
                    following[reached] = min(begun, following.get(reached, begun))
            self._active = following
