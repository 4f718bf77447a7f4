"""Where Lark's LALR(1) parser does not accept the language of the grammar: its conflicts."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

__all__ = ["conflicts"]


def conflicts(compiled: Callable[[], tuple[list[Any], list[Any], list[str]]], start: str) -> list[str]:
    """Conflicts of an LALR(1) parser for compiled rules of Lark, one sentence each, without duplicates.

    Lark resolves a conflict between shift and reduce silently, as a shift, and rejects a grammar with a conflict
    between two reductions of equal priority. guiderail allows the whole language in both cases. Anything else that Lark
    rejects when it compiles rules (a duplicate alternative) is reported, too.
    """
    common: Any = import_module("lark.common")
    analysis: Any = import_module("lark.parsers.lalr_analysis")
    errors: Any = import_module("lark.exceptions")
    try:
        _, rules, _ = compiled()
    except errors.GrammarError as error:
        return [f"Lark refuses the grammar: {' '.join(str(error).split())}"]
    analyzer = analysis.LALR_Analyzer(common.ParserConf(rules, {}, [start]))
    analyzer.compute_lr0_states()
    analyzer.compute_reads_relations()
    analyzer.compute_includes_lookback()
    analyzer.compute_lookaheads()
    found: dict[str, None] = {}
    for state in analyzer.lr0_itemsets:
        for terminal, reductions in state.lookaheads.items():
            ended = sorted({_name(rule) for rule in reductions})
            if len(reductions) > 1 and not _decided(reductions):
                found[
                    f"before {terminal.name} Lark's LALR parser cannot tell which of {_listed(ended, reductions)} has "
                    "ended, and refuses the grammar; here either may have"
                ] = None
            elif terminal in state.transitions:
                found[
                    f"before {terminal.name} Lark's LALR parser always continues and never ends {', '.join(ended)}; "
                    "here both are allowed"
                ] = None
    return sorted(found)


def _name(rule: Any) -> str:
    return str(rule.origin.name)


def _listed(names: list[str], reductions: Any) -> str:
    return ", ".join(names) if len(names) > 1 else f"{len(reductions)} alternatives of {names[0]}"


def _decided(reductions: Any) -> bool:
    """Whether priorities decide between reductions."""
    best, second = sorted((rule.options.priority or 0 for rule in reductions), reverse=True)[:2]
    return bool(best > second)
