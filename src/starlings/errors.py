"""The errors that a run can end with, and the small checks that every input shares."""

from __future__ import annotations

import dataclasses
import difflib
import functools
import math
import numbers
from collections.abc import Callable, Iterable
from typing import Any, ParamSpec, TypeVar

Arguments = ParamSpec("Arguments")
Returned = TypeVar("Returned")

RENAMED = {"prior_var": ("prior_std", "a standard deviation, the square root of the variance")}
"""Old names of arguments and keys, each with the new name and what it means."""


class DivergenceError(RuntimeError):
    """A run was stopped because its iterates are no longer meaningful."""


class StabilityError(ValueError):
    """A step size beyond the limit at which the sampler explodes on this problem."""


class LocalParametersError(ValueError):
    """Parameters are local, and something needs all of them to be shared."""


class LossyLinksError(ValueError):
    """What waits for every message was asked to run where messages are lost; or the reverse."""


class NoLawError(ValueError):
    """No exact law of a sampler with these settings is known; see `theory.register_law`."""


class ContractError(AssertionError):
    """A sampler breaks a rule that all samplers keep; see `starlings.testing`."""


class TuningError(RuntimeError):
    """The agents could not tune; for example they found no mode to centre the sampler on."""


class CandidateError(RuntimeError):
    """Weighted candidates cannot stand for the posterior, or differ between the sites."""


class SubposteriorError(RuntimeError):
    """A site's own rows determine no posterior by themselves, or its chains have not found it."""


class NoModeError(TuningError):
    """No mode was found to centre a sampler on: there is none, or the search cannot reach it."""


class PrivacyError(ValueError):
    """What was asked for would tell neighbours more than totals, or breaks a guard rail."""


class FixedPointError(PrivacyError):
    """A number does not fit into the integers of a masked sum."""


class MaskError(PrivacyError):
    """The masks of a sum do not cancel: a site is missing, or a key is wrong."""


class SiteError(RuntimeError):
    """A site cannot go on, or cannot take part in a run."""


class ProtocolError(RuntimeError):
    """A neighbour sent something that does not belong there; the link is opened again."""


class PeerRefusedError(SiteError):
    """A site did not accept who another one says it is."""


class UnfinishedNeighbourWarning(UserWarning):
    """A site is done, and a neighbour that is away may still need messages of it."""


class UnreadableFileError(ValueError):
    """A file cannot be used: it is damaged, cut short, of another version, or not ours."""


class NoRoomError(OSError):
    """A file could not be written because its disk is full, or its owner's share of it."""


class CheckpointError(UnreadableFileError):
    """A checkpoint is of another run, incomplete, or damaged."""


class CheckpointWarning(UserWarning):
    """A checkpoint is damaged, and the run goes on from an older one."""


class FormulaError(ValueError):
    """A formula that cannot be read, or rows that do not fit it."""


class CollinearColumnsWarning(UserWarning):
    """Columns of a regression add up to another one: only the prior tells their coefficients."""


class ConstantColumnWarning(UserWarning):
    """A column is constant, like the intercept."""


class PosteriorWarning(UserWarning):
    """Draws that should not be trusted as they are."""


class InterruptedWarning(UserWarning):
    """A run was ended by Ctrl-C and returns the draws that it had."""


class DisconnectedNetworkWarning(UserWarning):
    """The network has no edges, so its agents cannot agree."""


def check_positive(**values: Any) -> None:
    """Raise for the first value that is a plain number and not positive and finite.

    Traced values pass: inside jit, where a sampler may be made too, numbers are not known.
    """
    for name, value in values.items():
        not_numbers = (bool, str, list, tuple, dict)
        if value is None or isinstance(value, not_numbers) or dataclasses.is_dataclass(value):
            raise TypeError(f"`{name}` must be a number, got {value!r}.")
        if getattr(value, "shape", ()) != ():
            raise TypeError(f"`{name}` must be one number, got an array of shape {value.shape}.")
        is_traced = type(value).__name__.endswith("Tracer")
        known = isinstance(value, numbers.Real) or (hasattr(value, "shape") and not is_traced)
        if known and not 0 < float(value) < math.inf:
            raise ValueError(f"`{name}` must be positive and finite, got {value}.")


def check_count(least: int, **values: Any) -> None:
    """Raise for the first value that is not a whole number of at least `least`."""
    for name, value in values.items():
        whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
        if not whole or value < least:
            raise ValueError(f"`{name}` must be a whole number of at least {least}, got {value!r}.")


def check_choice(choices: Iterable[str], **values: Any) -> None:
    """Raise for the first value that is not among the choices, with the nearest valid one."""
    options = list(choices)
    for name, value in values.items():
        if value not in options:
            raise ValueError(
                f"`{name}` must be one of {options}, got {value!r}.{nearest(value, options)}"
            )


def nearest(word: Any, choices: Iterable[str]) -> str:
    """A hint such as " Did you mean 'ring'?", or no text if no choice is close.

    >>> nearest("prior_var", ["prior_std"])
    ' `prior_var` is now `prior_std`, a standard deviation, the square root of the variance.'
    """
    options = list(choices)
    new_name, meaning = RENAMED.get(str(word), (None, ""))
    if new_name in options:
        return f" `{word}` is now `{new_name}`, {meaning}."
    close = difflib.get_close_matches(str(word), options, n=1)
    return f" Did you mean {close[0]!r}?" if close else ""


def first_of(names: Iterable[Any], most: int = 10) -> str:
    """Names separated by commas, of the first ones and the number of others if there are many.

    >>> first_of(["age", "ward", "stay"], most=2)
    'age, ward and 1 more'
    """
    every = [str(name) for name in names]
    more = len(every) - most
    return ", ".join(every[:most]) + (f" and {more} more" if more > 0 else "")


def refusing_old_names(function: Callable[Arguments, Returned]) -> Callable[Arguments, Returned]:
    """Decorate a function so that an argument under its old name is refused with the new one."""

    @functools.wraps(function)
    def checked(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Returned:
        for name in kwargs.keys() & RENAMED.keys():
            new_name, meaning = RENAMED[name]
            raise TypeError(
                f"`{name}` is now `{new_name}`, {meaning}; got {name}={kwargs[name]!r}."
            )
        return function(*args, **kwargs)

    return checked


def in_one_line(error: BaseException) -> str:
    """Format an error for the command line: expected errors by text, others also by type."""
    text = " ".join(str(error).split())
    of_runs = (DivergenceError, TuningError, CandidateError, SubposteriorError, SiteError)
    if isinstance(error, (ValueError, TypeError, OSError, ImportError, *of_runs)):
        return f"Error: {text}"
    return f"Unexpected {type(error).__name__}: {text} (STARLINGS_DEBUG=1 shows where)"
