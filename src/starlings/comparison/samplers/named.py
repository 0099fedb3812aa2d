"""What to compare: names, classes, instances or several instances, as samplers with a name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from starlings.samplers import Sampler
from starlings.samplers.names import all_samplers, find_sampler, name_of

Wanted = Any
"""None, a name, a class, an instance, a sequence of these, or a mapping of names to these or to
sequences of instances."""


@dataclass(frozen=True)
class Named:
    """A class of samplers, or instances of it, by the name that it has in the tables."""

    name: str
    kind: type[Sampler]
    given: tuple[Sampler, ...] = ()
    """The settings that were asked for; none if they are to be found."""


def named_samplers(samplers: Wanted) -> list[Named]:
    """Everything that was asked for; all samplers that are known if that is None.

    >>> import starlings as st
    >>> [each.name for each in named_samplers(["dula", st.DSGLD(0.1), st.DSGLD(0.2)])]
    ['dula', 'dsgld', 'dsgld 2']
    """
    if samplers is None:
        return [Named(name, kind) for name, kind in all_samplers().items()]
    if isinstance(samplers, Mapping):
        found = [_named(str(name), wanted) for name, wanted in samplers.items()]
    else:
        alone = isinstance(samplers, (str, type, Sampler)) or not isinstance(samplers, Iterable)
        found = [_named(None, wanted) for wanted in ([samplers] if alone else samplers)]
    if not found:
        raise ValueError("`samplers` is empty; leave it out to compare all samplers.")
    return _with_different_names(found)


def _named(name: str | None, wanted: Any) -> Named:
    """One entry; a name of its own wins over that of the class."""
    if isinstance(wanted, str):
        return Named(name or wanted, find_sampler(wanted))
    if isinstance(wanted, type) and issubclass(wanted, Sampler):
        return Named(name or name_of(wanted), wanted)
    if isinstance(wanted, Sampler):
        return Named(name or name_of(type(wanted)), type(wanted), (wanted,))
    is_list = isinstance(wanted, Sequence) and len(wanted) > 0
    if name is not None and is_list and all(isinstance(each, Sampler) for each in wanted):
        kinds = {type(each) for each in wanted}
        if len(kinds) == 1:
            return Named(name, kinds.pop(), tuple(wanted))
    raise TypeError(
        "`samplers` must hold names, subclasses of `starlings.Sampler` or instances; in a mapping "
        f"also lists of instances of one class. Got {wanted!r}"
        + (f" for {name!r}." if name is not None else ".")
    )


def _with_different_names(found: list[Named]) -> list[Named]:
    """The same, with numbers where several have one name."""
    seen: dict[str, int] = {}
    numbered = []
    for each in found:
        count = seen[each.name] = seen.get(each.name, 0) + 1
        name = each.name if count == 1 else f"{each.name} {count}"
        numbered.append(Named(name, each.kind, each.given))
    return numbered
