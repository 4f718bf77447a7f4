// Identifiers, whose meaning depends on the text so far: the columns of a query are those of its table.
//
// A Binding is a grammar with variables, such as "the table", and a set of possible values for each variable. The
// grammar contains no identifiers. It contains placeholders: "a column of the table". An identifier is a terminal that
// stands for a set of values: the tables that have this column. Where a placeholder may come, so may each identifier
// that shares a value with the placeholder's variable. Reading an identifier restricts the variable to the shared
// values. So one grammar serves all values, and each derivative is shared between them.
//
// Identifiers are lexemes of their own. They compete with each other and with the terminals whose keywords they are,
// and with nothing else that the grammar expects. So between two lexemes the state is a union. One member reads the
// grammar's own terminals, whatever the variables. Each other member reads the identifiers of one relation to one set
// of values, anywhere in the grammar.
//
// If the grammar can be completed, it can be completed for any values: each value has an identifier in each relation,
// and variables are independent. So deciding emptiness takes no search.
//
// The *shape* of a place in the grammar is the place with all values unknown (kAnyDomains). What follows the grammar's
// own terminals is computed once for each shape, up to the next identifier (see mask/lexed/outcomes.cpp).
#include <algorithm>

#include "lexed/lexing.hpp"

namespace guiderail {
namespace {

constexpr u32 kMostVariables = 64, kMostRelations = 1 << 16;

bool meet(const Bits& a, const Bits& b) {
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    if (a[i] & b[i]) return true;
  return false;
}

}  // namespace

void Lexed::check_identifiers(Lexer& lexer) const {
  if (lexer.identifiers.empty() && lexer.placeholders.empty()) return;
  if (lexer.identifiers.empty() || lexer.identifiers.size() >= lexer.terminals.size() ||
      lexer.first_identifier > kIdentifiers)
    throw Error("bad-shape", "a lexer with identifiers takes 1 to 253 other terminals");
  for (u32 t = lexer.first_identifier; t < lexer.terminals.size(); ++t) {
    const Terminal& of = lexer.terminals[t];
    const bool trap = std::find(lexer.traps.begin(), lexer.traps.end(), t) != lexer.traps.end();
    if (of.text == kEmpty || of.ends != Terminal::Ends::Last || of.guard_of != kNone || lexer.ignored[t] || trap)
      throw Error("bad-shape", "an identifier has a text and ends with its longest match");
  }
  auto add_named = [&](u32 relation, const Bits& values) {
    if (relation >= kMostRelations) throw Error("bad-bound", "identifiers have at most 65,536 relations");
    auto it =
        std::find_if(lexer.named.begin(), lexer.named.end(), [&](const auto& of) { return of.first == relation; });
    if (it == lexer.named.end()) it = lexer.named.insert(it, {relation, {}});
    if (it->second.size() < values.size()) it->second.resize(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) it->second[i] |= values[i];
  };
  for (const Placeholder& p : lexer.placeholders) {
    if (p.terminal >= lexer.first_identifier || lexer.terminals[p.terminal].text != kEmpty)
      throw Error("bad-shape", "a placeholder is a terminal without a text");
    lexer.placeholder_symbols.add(static_cast<u8>(p.terminal));
    add_named(p.relation, {});
  }
  for (const Identifier& one : lexer.identifiers) add_named(one.relation, value_sets_.values[one.values].bits);
}

u32 Lexed::value_set(Bits values) {
  while (!values.empty() && values.back() == 0) values.pop_back();
  return value_sets_.id({std::move(values)});
}

Id Lexed::binding(u32 lexer_id, std::vector<Bits> domains, Id body) {
  const Lexer& lexer = lexer_at(lexer_id);
  if (lexer.identifiers.empty()) throw Error("bad-shape", "the lexer has no identifiers");
  if (domains.empty() || domains.size() > kMostVariables)
    throw Error("bad-shape", "a binding has 1 to " + std::to_string(kMostVariables) + " variables");
  NumberList sets;
  for (Bits& domain : domains) {
    for (const auto& [relation, values] : lexer.named)
      for (std::size_t i = 0; i < domain.size(); ++i)
        if (domain[i] & ~(i < values.size() ? values[i] : 0))
          throw Error("bad-shape", "each value of a variable needs an identifier in each relation");
    if (std::all_of(domain.begin(), domain.end(), [](u64 word) { return word == 0; }))
      throw Error("bad-shape", "a variable has at least one value");
    sets.list.push_back(value_set(std::move(domain)));
  }
  return bind(lexer_id, domains_.id(std::move(sets)), body);
}

Id Lexed::bind(u32 lexer, u32 domains, Id body) {
  if (body == kEmpty || body == kEpsilon) return body;
  Draft d = draft(Kind::Binding);
  d.a = index_of(body);
  d.b = lexer;
  d.min = domains;
  absorb(d, body, true);
  d.flags |= kHasRef;
  if (has(body, kNullable)) d.flags |= kNullable;
  if (has(body, kBarren)) d.flags |= kBarren;
  d.shortest = node(body).shortest;
  d.longest = node(body).longest;
  return intern(d);
}

// Replaces placeholders, which no text is read as, by kIdentifiers.
ByteSet Lexed::seen_from_outside(u32 lexer, ByteSet symbols) const {
  const ByteSet& inside = lexers_[lexer].placeholder_symbols;
  bool any = false;
  for (std::size_t i = 0; i < symbols.words.size(); ++i) {
    any = any || (symbols.words[i] & inside.words[i]);
    symbols.words[i] &= ~inside.words[i];
  }
  if (any) symbols.add(kIdentifiers);
  return symbols;
}

Id Lexed::derive_binding(Id e, u8 symbol) {
  const Node& n = node(e);
  if (symbol == kIdentifiers || lexers_[binding_lexer(n)].placeholder_symbols.has(symbol)) return kEmpty;
  return bind(binding_lexer(n), binding_domains(n), derive(binding_body(n), symbol));
}

Id Lexed::derive_identifier(Id e, u32 terminal) {
  const Node& n = node(e);
  const Lexer& lexer = lexers_[binding_lexer(n)];
  const Identifier& read = lexer.identifiers[terminal - lexer.first_identifier];
  const ByteSet symbols = first(binding_body(n));
  Ids parts;
  for (const Placeholder& p : lexer.placeholders) {
    if (p.relation != read.relation || !symbols.has(static_cast<u8>(p.terminal))) continue;
    const Id rest = derive(binding_body(n), static_cast<u8>(p.terminal));
    if (rest == kEmpty) continue;
    NumberList domains = domains_.values[binding_domains(n)];
    if (binding_domains(n) == kAnyDomains) parts.push_back(bind(binding_lexer(n), kAnyDomains, rest));
    if (p.variable >= domains.list.size()) continue;
    Bits values = value_sets_.values[domains.list[p.variable]].bits;
    const Bits& of = value_sets_.values[read.values].bits;
    if (!meet(values, of)) continue;
    for (std::size_t i = 0; i < values.size(); ++i) values[i] &= i < of.size() ? of[i] : 0;
    domains.list[p.variable] = value_set(std::move(values));
    parts.push_back(bind(binding_lexer(n), domains_.id(std::move(domains)), rest));
  }
  if (symbols.has(kIdentifiers)) {  // of a Binding inside this one
    const Id rest = derive_symbol(binding_body(n), terminal);
    if (rest != kEmpty) parts.push_back(bind(binding_lexer(n), binding_domains(n), rest));
  }
  return unite(parts);
}

// -- what may begin --
// The start of a lexeme where identifiers of this relation to these values may come. The terminals whose keywords they
// are compete, so that a longer word is not an identifier.
u32 Lexed::identifier_start(u32 lexer_id, u32 values, u32 relation) {
  const u64 key = u64{values} << 32 | u64{relation} << 16 | lexer_id;
  if (const u32* known = identifier_starts_.find(key)) return *known;
  const Lexer& lexer = lexers_[lexer_id];
  Bits context((lexer.terminals.size() + 63) / 64), rivals = context;
  for (u32 t = lexer.first_identifier; t < lexer.terminals.size(); ++t) {
    const Identifier& one = lexer.identifiers[t - lexer.first_identifier];
    if (one.relation != relation || !meet(value_sets_.values[one.values].bits, value_sets_.values[values].bits))
      continue;
    set_bit(context, t);
    for (u32 owner : lexer.terminals[t].keyword_of) {
      set_bit(context, owner);
      set_bit(rivals, owner);
    }
  }
  const u32 start = lex_start(lexer_id, context, rivals);
  if (!finalized()) return start;
  identifier_starts_.set(key, start);
  for (const auto& [of, all] : lexer.named) {  // what holds for all identifiers of a relation holds for a subset
    if (of != relation) continue;
    const u32 among_all = identifier_start(lexer_id, value_set(all), relation);
    if (among_all != start && context_holds(among_all)) facts_[start].ends = kEnds;
  }
  return start;
}

// Like context_holds, for all starts of a list.
bool Lexed::identifiers_hold(u32 lexer, u32 list) {
  const auto all = [&] {
    for (const auto& [relation, values] : lexers_[lexer].named)
      if (!context_holds(identifier_start(lexer, value_set(values), relation))) return false;
    return true;
  };
  const auto& starts = identifier_starts(list);
  return std::all_of(starts.begin(), starts.end(),
                     [&](u32 start) { return start == kNone ? all() : context_holds(start); });
}

// Adds the starts of identifiers for a Binding whose body may begin with these symbols.
void Lexed::add_identifier_starts(Id binding, const ByteSet& symbols, std::vector<u32>& out) {
  const Node& n = node(binding);
  const Lexer& lexer = lexers_[binding_lexer(n)];
  const auto& domains = domains_.values[binding_domains(n)].list;
  for (const Placeholder& p : lexer.placeholders)
    if (!symbols.has(static_cast<u8>(p.terminal)))
      continue;
    else if (binding_domains(n) == kAnyDomains)
      out.push_back(kNone);
    else if (p.variable < domains.size())
      out.push_back(identifier_start(binding_lexer(n), domains[p.variable], p.relation));
}

// Calls f for each Binding that may read an identifier next. False: something else may, too.
template <class F>
bool Lexed::each_binding(Id parse, F f) {
  for (bool all = true;; parse = node(parse).tail()) {
    if (!first(parse).has(kIdentifiers)) return all;
    const Node& n = node(parse);
    switch (n.kind) {
      case Kind::Concat:
        all = each_binding(n.head(), f) && all;
        if (!nullable(n.head())) return all;
        continue;
      case Kind::Union: {
        for (Id m : Ids(operands(parse))) all = each_binding(m, f) && all;
        return all;
      }
      case Kind::Repeat: return each_binding(n.body(), f) && all;
      case Kind::Ref: return each_binding(rule_body(n.a), f) && all;
      case Kind::Binding: f(parse); return each_binding(binding_body(n), f) && all;
      default: return false;
    }
  }
}

void Lexed::find_identifiers(Id parse, std::vector<u32>& out) {
  each_binding(parse, [&](Id binding) { add_identifier_starts(binding, first(binding_body(node(binding))), out); });
}

u32 Lexed::start_list(std::vector<u32> starts) {
  sort_unique(starts);
  return starts.empty() ? 0 : start_lists_.id({std::move(starts)});
}

u32 Lexed::identifiers_at(Id parse) {
  if (!first(parse).has(kIdentifiers)) return 0;
  if (const u32* known = identifiers_at_.find(index_of(parse))) return *known;
  std::vector<u32> starts;
  find_identifiers(parse, starts);
  const u32 list = start_list(std::move(starts));
  if (finalized()) identifiers_at_.set(index_of(parse), list);
  return list;
}

bool Lexed::read_in_one_way(u32 lexer, Id parse, u32 identifier) {
  const Lexer& of = lexers_[lexer];
  const u32 relation = of.identifiers[identifier - of.first_identifier].relation;
  u32 ways = 0;
  const bool all = each_binding(parse, [&](Id binding) {
    const Node& n = node(binding);
    for (const Placeholder& p : lexers_[binding_lexer(n)].placeholders)
      ways += p.relation == relation && first(binding_body(n)).has(static_cast<u8>(p.terminal));
  });
  return all && ways == 1;
}

// peek() for a Binding.
bool Lexed::peek_binding(Id binding, u8 symbol, Peek& to) {
  const Node& n = node(binding);
  Peek past;
  if (!peek(binding_body(n), symbol, past)) return false;
  std::vector<u32> starts = identifier_starts(past.identifiers);
  add_identifier_starts(binding, past.first, starts);
  past.identifiers = start_list(std::move(starts));
  past.first = seen_from_outside(binding_lexer(n), past.first);
  past.kept = seen_from_outside(binding_lexer(n), past.kept);
  peek_past(past, kEpsilon, to);
  return true;
}

}  // namespace guiderail
