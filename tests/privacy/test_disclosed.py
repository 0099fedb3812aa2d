"""What a result says of what left its sites, and that it is the whole truth."""

from __future__ import annotations

import ast
import importlib
import json
from pathlib import Path

import networkx as nx
import numpy as np
import pytest

import starlings as st
import starlings.network.gossip as gossip_module
from starlings.comparison.site_likelihood import local_vectors
from starlings.errors import PrivacyError
from starlings.network.communicator import LocalCommunicator
from starlings.network.opening import KEY, LIMIT
from starlings.privacy.secrecy import Secrecy
from starlings.research.privacy.on_rounds import ROUNDS, of_result
from starlings.research.privacy.runs import EVERY_ROUND
from starlings.research.privacy.table import WITHIN_GUARD_RAILS
from starlings.results import disclosed as account
from starlings.results.disclosed import disclosed_in_words
from starlings.results.kinds import CHECKSUMS, KINDS, MESSAGES, RESIDUALS, RESULT, ROWS
from starlings.sampling.private import MOMENTS
from tests.quick import quick_cases

SOURCES = Path(st.__file__).parent


@pytest.mark.parametrize("privacy", ["none", "totals"])
@pytest.mark.slow
def test_a_result_of_rounds_determines_rows_and_says_that_it_does(privacy):
    """Masks hide messages; the draws of an agent say as much, and are in the result."""
    problem, sampler = WITHIN_GUARD_RAILS.problem(), st.DSGLD(0.01)
    network = st.Network.ring(3).matched_to(problem.sites)
    result = st.sample(problem, network, sampler, draws=ROUNDS, **EVERY_ROUND, privacy=privacy)
    score = of_result(result, problem, network, sampler).score
    assert (score.recovered, score.total) == (12, 12)
    own = result.disclosed().loc["2"].set_index("kind").loc[RESULT]
    assert own["numbers"] == ROUNDS * problem.dim
    assert own["readable by"] == "process 0 and whoever gets the result"
    assert "determine the rows of a small site" in own["what follows"]
    assert any("even of a masked run" in line for line in disclosed_in_words(result.attrs))


@pytest.mark.parametrize("method", quick_cases(["weights", "hmc"], ["weights"]))
def test_draws_that_are_the_same_at_all_agents_are_nothing_of_one_site(method):
    problem = WITHIN_GUARD_RAILS.problem()
    how = {"draws": 8, "chains": 16, "check": False, "progress": False, "privacy": "totals"}
    result = st.sample(problem, st.Network.ring(3), method=method, **how)
    draws = result.posterior["beta"]
    assert (draws == draws.isel(agent=0)).all()
    assert RESULT not in set(result.disclosed()["kind"])
    assert "In the clear, to all sites" in disclosed_in_words(result.attrs)[1]
    assert len(disclosed_in_words(result.attrs)) == 2


class Keeping(LocalCommunicator):
    """A runtime in which every process keeps its own draws."""

    collects = False


@pytest.mark.slow
def test_draws_that_are_not_collected_have_not_left_their_site():
    problem = WITHIN_GUARD_RAILS.problem()
    network = st.Network.ring(3).matched_to(problem.sites).distributed([0, 1, 2], Keeping())
    result = st.sample(problem, network, st.DSGLD(0.01), draws=4, **EVERY_ROUND)
    assert set(result.disclosed()["kind"]) == {LIMIT, MESSAGES}


class First(LocalCommunicator):
    """What process 0 of three has, which broadcasts to nobody here."""

    size = 3


@pytest.mark.parametrize(
    ("how", "is_refused"),
    [({"method": "weights"}, False), ({"sampler": st.DSGLD(0.01), "burn_in": 0}, True)],
)
def test_draws_of_single_agents_are_not_shown_to_other_processes(how, is_refused, monkeypatch):
    problem = WITHIN_GUARD_RAILS.problem()
    network = st.Network.ring(3).matched_to(problem.sites)
    result = st.sample(problem, network, draws=20, check=False, progress=False, **how)
    clear = network.distributed([0, 1, 2], First())
    masked = clear.masked(Secrecy.agreed(network))
    assert len(local_vectors(problem, clear, result)) == 3
    if not is_refused:
        assert len(local_vectors(problem, masked, result)) == 3
        return
    monkeypatch.setattr(First, "broadcast", _refuse_arrays)
    with pytest.raises(PrivacyError, match=r"draws that every agent made by itself.*'weights'"):
        local_vectors(problem, masked, result)


def _refuse_arrays(self, value):
    assert isinstance(value, bool), "draws were shown to other processes"
    return value


def sent_kinds() -> dict[str, str]:
    """What the library's calls of `note`, and of sums with a description, say; with the place."""
    found = {}
    for path in SOURCES.rglob("*.py"):
        tree = ast.parse(path.read_text("utf-8"))
        for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
            is_part = getattr(call.func, "id", None) == "Parts"  # of the agreement on a formula
            name = "note" if is_part else getattr(call.func, "attr", None)
            place = {"note": 0, "sum": 1, "max": 1, "largest": 1}.get(name)
            if place is not None and len(call.args) > place:
                what, module = call.args[place], path.relative_to(SOURCES.parent)
                if (kind := kind_of(what, ".".join(module.with_suffix("").parts))) is not None:
                    found[kind] = f"{module}:{call.lineno}"
    return found


def kind_of(what: ast.expr, module: str) -> str | None:
    """The text of a literal or of a constant of the module; None for what is handed on."""
    if isinstance(what, ast.Constant):
        return what.value if isinstance(what.value, str) else None
    if isinstance(what, ast.Name) and what.id.isupper():
        return getattr(importlib.import_module(module), what.id)
    return None


def test_every_kind_of_number_that_the_code_sends_is_described():
    found = sent_kinds()
    assert set(found) == set(KINDS), "each kind that is sent is described, and no other"
    assert len(found) > 15


def of_site(result: st.Result, site: str) -> dict[str, str]:
    return result.disclosed().loc[[site]].set_index("kind")["readable by"].to_dict()


def run_of(graph: nx.Graph, kinds: dict[str, int], privacy: str = "none", **attrs) -> dict:
    """The attributes of a run that has sent these kinds."""
    edges = [[str(a), str(b)] for a, b in graph.edges]
    network = {"agents": [str(node) for node in graph.nodes], "edges": edges}
    texts = {"network": json.dumps(network), "disclosed": json.dumps(kinds)}
    return {**texts, "privacy": privacy, "disclosed_by": "{}", **attrs}


def readers(graph: nx.Graph, kind: str, **how) -> dict[str, str]:
    """Who reads numbers of a kind, by the site that sent them."""
    table = account.disclosed(run_of(graph, {kind: 5}, **how), [str(node) for node in graph.nodes])
    return table["readable by"].to_dict()


TREE = nx.Graph([("a", "b"), ("b", "c"), ("c", "d"), ("d", "e"), ("d", "f")])
"""Its centre is c; e and f are behind d, and a behind b."""
BOTH = nx.Graph([("a", "b"), ("a", "c"), ("b", "d"), ("c", "d"), ("a", "e")])
"""Its centre is a, and d has two ways to it."""


def test_parts_of_a_sum_are_read_on_the_way_to_the_centre():
    found = readers(TREE, "derivatives")
    assert found == {
        "a": "b; everybody: the total",
        "b": "c, added to those of a; everybody: the total",
        "c": "nobody by itself: the site is the centre; everybody: the total",
        "d": "c, added to those of e, f; everybody: the total",
        "e": "d; everybody: the total",
        "f": "d; everybody: the total",
    }
    assert readers(BOTH, "derivatives")["d"] == "b, c; everybody: the total"
    assert set(readers(nx.complete_graph(4), "derivatives").values()) == {"everybody"}
    on_mpi = set(readers(TREE, "derivatives", processes=3).values())
    assert on_mpi == {"every process of the MPI job, on the way; everybody: the total"}


def test_messages_and_maxima_are_read_by_all_neighbours():
    assert readers(TREE, MESSAGES)["d"] == "c, e, f"
    assert readers(TREE, "smallest penalty")["a"] == "b; everybody: the largest"
    star = readers(nx.star_graph(9), MESSAGES)
    assert star["0"] == "1, 2, 3, 4, 5, 6 and 3 more"
    no_links = nx.empty_graph(2)
    assert set(readers(no_links, MESSAGES).values()) == {"nobody: the site has no neighbours"}


def test_totals_that_masks_leave_are_named():
    ring = nx.cycle_graph(4)
    assert readers(ring, MESSAGES, privacy="totals")["0"] == (
        "nobody by itself; 1: the total over 0, 2; 3: the total over 0, 2"
    )
    whole = {"nobody by itself; everybody: the total over 0, 1, 2, 3"}
    assert set(readers(ring, "derivatives", privacy="totals").values()) == whole
    assert set(readers(ring, MOMENTS, privacy="totals").values()) == {"everybody"}


def test_what_only_some_sites_sent_is_in_their_tables_only():
    attrs = run_of(TREE, {"draws shown to all": 5}, disclosed_by='{"draws shown to all": ["d"]}')
    assert list(account.disclosed(attrs, list(TREE.nodes)).index) == ["d"]


def test_a_site_on_the_rim_shows_exactly_the_numbers_that_its_table_says(monkeypatch):
    """The messages of site 0 of a path of three are its own numbers, and 1 gets all of them."""
    heard, climb = [], gossip_module._climb

    def tapped(wiring, level, parents, depth, parts):
        heard.append(np.array(parts[0]))
        return climb(wiring, level, parents, depth, parts)

    monkeypatch.setattr(gossip_module, "_climb", tapped)
    network = st.Network.path(3).matched_to(WITHIN_GUARD_RAILS.problem().sites)
    how = {"draws": 50, "check": False, "progress": False}
    result = st.sample(WITHIN_GUARD_RAILS.problem(), network, method="weights", **how)
    sums = {"derivatives", "potentials", "potentials at shared candidates"}
    table = result.disclosed().loc[network.names[0]].set_index("kind")
    named = table[table.index.isin(sums)]
    assert set(named["readable by"]) == {f"{network.names[1]}; everybody: the total"}
    assert sum(np.count_nonzero(part) for part in heard) <= named["numbers"].sum()
    assert sum(len(part) for part in heard) >= named["numbers"].sum()


def test_a_result_names_rows_checksums_keys_and_limits():
    problem, network = WITHIN_GUARD_RAILS.problem(), st.Network.ring(3)
    how = {"method": "weights", "draws": 50, "check": False, "progress": False}
    plain, masked = (st.sample(problem, network, **how, privacy=p) for p in ("none", "totals"))
    site = problem.sites[1]
    model = json.loads(plain.attrs["model"])
    own = plain.disclosed().loc[site].set_index("kind")["numbers"]
    assert (own[ROWS], own[CHECKSUMS]) == (1, 1 + len(model["columns"][site]))
    assert of_site(plain, site)[ROWS] == "process 0 and whoever gets the result"
    hidden = masked.disclosed().loc[site].set_index("kind")
    assert not {ROWS, CHECKSUMS, RESIDUALS, RESULT} & set(hidden.index)
    assert (hidden.loc[KEY, "numbers"], hidden.loc[KEY, "readable by"]) == (4, "everybody")
    assert hidden.loc[LIMIT, "numbers"] == 2


@pytest.mark.parametrize("privacy", ["none", "totals"])
def test_sums_of_standardised_covariates_are_disclosed(privacy):
    """They are formed before masks are, so that a masked run has them in the clear."""
    problem = WITHIN_GUARD_RAILS.problem()
    moments = {"age": {"mean": 50.0, "sd": 9.0}, "dose": {"mean": 2.0, "sd": 1.0}}
    problem = problem.with_description(standardised=moments)
    how = {"method": "weights", "draws": 50, "check": False, "progress": False}
    result = st.sample(problem, st.Network.ring(3), **how, privacy=privacy)
    own = result.disclosed().loc[problem.sites[0]].set_index("kind").loc[MOMENTS]
    assert (own["numbers"], own["readable by"]) == (2 * 5, "everybody")
    assert "entries of single rows" in own["what follows"]
    assert any(MOMENTS in line for line in disclosed_in_words(result.attrs))
