"""Whether the numbers can be relied on, in words for people who have not met the diagnostics."""

from __future__ import annotations

from dataclasses import dataclass

from starlings.diagnostics.verdict import Check
from starlings.results.about import about_in_words
from starlings.results.result import Result
from starlings.results.summary import Summary

UNTESTED = "the law of these draws has not been tested"
"""What a verdict says where nothing is wrong and not everything is known."""
FIRST = ("Incomplete", "Convergence", "Not converged", "Too short", "Fewer")
"""How problems of the first question begin."""
SECOND = ("The agents",)
"""How problems of the second question begin."""
ANSWERS = {True: "yes", False: "no"}


@dataclass(frozen=True)
class Asked:
    """One of the three questions of a verdict."""

    question: str
    meaning: str
    """What the question is about, in words."""
    found: str
    """The numbers."""
    answer: str
    """"yes", "no" or "not tested"."""


@dataclass(frozen=True)
class Trust:
    """The verdict on a result."""

    check: Check
    notes: list[str]
    """Whose data it is about, where that is not all sites."""

    @classmethod
    def of(cls, result: Result, summary: Summary) -> Trust:
        """That of a result."""
        return cls(summary.check, about_in_words(result.attrs))

    @property
    def level(self) -> str:
        """ "good", "untested" or "bad"."""
        if self.check.problems:
            return "bad"
        return "untested" if UNTESTED in str(self.check) else "good"

    @property
    def headline(self) -> str:
        """The verdict in one line."""
        if self.check.interrupted is not None:
            return "Do not rely on these numbers yet: the run was interrupted"
        return {
            "good": "The computation passed its checks",
            "untested": "No problem was found, but not everything could be tested",
            "bad": "Do not rely on these numbers yet: the computation failed a check",
        }[self.level]

    @property
    def explanation(self) -> str:
        """What the headline means, and what it does not."""
        if self.level == "bad":
            return (
                "What follows is shown for completeness. Somebody who knows the analysis has to "
                "deal with what is listed here and run it again, before anybody uses the numbers."
            )
        if self.level == "untested":
            return (
                "The calculations agree with each other. Whether they agree with the exact answer "
                "was not tested in this run."
            )
        return (
            "The calculations agree with each other and between the sites. This is about the "
            "arithmetic: whether the right question was asked, of suitable data, is for people to "
            "judge."
        )

    @property
    def questions(self) -> list[Asked]:
        """The three questions, each with its answer."""
        found = dict(line.split(": ", 1) for line in str(self.check).splitlines()[:3])
        parts: list[list[str]] = [[], [], []]
        for problem in self.check.problems:
            place = 0 if problem.startswith(FIRST) else 1 if problem.startswith(SECOND) else 2
            parts[place].append(problem)
        texts = (
            (
                "converged",
                "Did the calculation run long enough?",
                "The answer is computed by many small random steps, several times over from "
                "different starting points. It has run long enough when all of these runs give the "
                "same answer: R-hat is then close to 1. The number of effective draws says how "
                "finely the answer is known.",
            ),
            (
                "agreed",
                "Do the sites agree?",
                "Every site computes the answer for all sites together. Their answers should be "
                "the same, up to small random differences. These are measured in standard "
                "deviations (sd): parts of the uncertainty that remains anyway.",
            ),
            (
                "right",
                "Is it the right answer?",
                "What came out was compared with what is known of the exact answer.",
            ),
        )
        return [
            Asked(title, meaning, found[name], self._answer(found[name], own))
            for (name, title, meaning), own in zip(texts, parts, strict=True)
        ]

    @staticmethod
    def _answer(found: str, problems: list[str]) -> str:
        return "not tested" if found.startswith("not ") and not problems else ANSWERS[not problems]
