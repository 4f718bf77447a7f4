// Grammars over terminals.
//
// A state is Scan(lexeme, rest): the lexeme in progress, and the rest of the grammar, an expression whose symbols are
// terminals instead of bytes. Only ignored terminals and those that may begin the rest compete for a lexeme. The first
// terminal that matches a prefix of the text wins, with its longest match.
//
// Whether a lexeme could have continued shows only after its end. So where it may end, the next byte may be read in two
// ways. Either the lexeme continues, or it has ended and a MunchGuard precedes the rest: no prefix of what follows may
// be a text that would have continued the lexeme. The next byte usually settles a guard.
//
// A nested terminal stands for a language of its own (a JSON Schema, a special token, a grammar with another lexer). It
// is not a lexeme. Between two lexemes, the state is a union: the Scan and, for each nested terminal that may come, its
// text followed by a Lexed that resumes after it. So this lexer does not apply inside the nested text, which may end
// wherever one of its texts ends.
//
// Lexemes are read by a deterministic automaton, which all states share: (LexState, byte) alone decides each step.
#include "lexed/lexing.hpp"

#include <algorithm>

namespace guiderail {
namespace {

const ByteSet& never_set() {
  static const ByteSet set = [] {
    ByteSet s;
    s.add(kNever);
    return s;
  }();
  return set;
}

}  // namespace

// -- construction --
u32 Lexed::lexer(Lexer lexer) {
  if (!used()) {
    layouts_.id({});
    start_lists_.id({});
    domains_.id({});
  }
  prove_liveness();
  if (lexer.terminals.empty() || lexer.terminals.size() > Lexer::kMostTerminals)
    throw Error("bad-shape", "a lexer takes 1 to 64,516 terminals");
  for (const Terminal& terminal : lexer.terminals) {
    if (has(terminal.text, kHasLook)) throw Error("look-outside-scope", "a look-around must stand inside a scope");
    if (nullable(terminal.text) && terminal.ends != Terminal::Ends::Nested)
      throw Error("empty-terminal", "a terminal cannot match the empty text");
  }
  if (lexer.identifiers.size() > lexer.terminals.size()) throw Error("bad-shape", "identifiers are terminals");
  lexer.first_identifier = static_cast<u32>(lexer.terminals.size() - lexer.identifiers.size());
  check_identifiers(lexer);
  for (u32 t = 0; t < lexer.terminals.size(); ++t)
    if (lexer.terminals[t].ends == Terminal::Ends::Nested) lexer.nested.push_back(t);
  lexers_.push_back(std::move(lexer));
  return static_cast<u32>(lexers_.size() - 1);
}

const Lexer& Lexed::lexer_at(u32 lexer) const {
  if (lexer >= lexers_.size()) throw Error("bad-handle", "no such lexer in this builder");
  return lexers_[lexer];
}

Id Lexed::symbols_of(const ByteSet& set, bool textless) {
  Draft d = draft(Kind::Terminal);
  d.a = id_of(set, symbol_sets_, symbol_set_ids_);
  d.b = textless;
  d.shortest = textless ? 0 : 1;
  d.longest = 1;
  if (set == never_set()) d.flags |= kBarren;
  return intern(d);
}

Id Lexed::terminal(u32 lexer, u32 index) {
  const Lexer& of = lexer_at(lexer);
  if (index >= of.terminals.size()) throw Error("bad-handle", "no such terminal in this lexer");
  const bool textless = of.terminals[index].text == kEmpty;
  // A terminal that matches no text never comes. If the grammar expected it, masks would lead into a dead end.
  const bool mark = of.indentation && (index == of.indentation->indent || index == of.indentation->dedent);
  const bool is_nested = of.terminals[index].ends == Terminal::Ends::Nested;
  const bool placeholder = index < kNever && of.placeholder_symbols.has(static_cast<u8>(index));
  if (of.is_identifier(index)) throw Error("bad-shape", "the grammar has placeholders for identifiers");
  if (!mark && !placeholder && (textless || (is_nested && nonempty(of.terminals[index].text) == kEmpty))) return kEmpty;
  auto leaf = [&](u8 symbol, bool last) {
    ByteSet set;
    set.add(symbol);
    return symbols_of(set, (textless && !placeholder) || !last);
  };
  const Id one = leaf(of.first_symbol(index), !of.wide());
  return of.wide() ? concat(one, leaf(Lexer::second_symbol(index), true)) : one;
}

Id Lexed::never(u32 lexer) {
  lexer_at(lexer);
  return symbols_of(never_set(), true);
}

Id Lexed::lexed(u32 lexer, Id body) {
  const Lexer& of = lexer_at(lexer);
  if (body == kEmpty) return kEmpty;
  Draft d = draft(Kind::Lexed);
  d.a = lexer;
  d.b = index_of(body);
  d.flags = kHasRef | kSearch;
  for (const Terminal& t : of.terminals) d.flags |= node(t.text).flags.load(std::memory_order_relaxed) & kHasToken;
  if (nullable(body)) d.flags |= kNullable;
  d.longest = kInf;
  return intern(d);
}

// The texts after a nested terminal: like `lexed`, but resumed inside a text.
Id Lexed::lexed_rest(u32 lexer, Id parse, u32 layout) {
  if (parse == kEmpty) return kEmpty;
  if (beyond_cut(parse)) return unknown();
  Draft d = draft(Kind::Lexed);
  d.a = lexer;
  d.b = index_of(parse);
  d.min = layout;
  d.max = 1;
  d.flags = kHasRef | kSearch | (parse_ends(lexer, parse, layout) ? kNullable : 0u);
  for (const Terminal& t : lexers_[lexer].terminals)
    d.flags |= node(t.text).flags.load(std::memory_order_relaxed) & kHasToken;
  d.shortest = has(parse, kNullable) || (d.flags & kNullable) ? 0 : node(parse).shortest;
  d.longest = kInf;
  return intern(d);
}

// The nested terminals that may come at a place, each followed by the rest of the lexed text.
Id Lexed::nested_at(u32 lexer, const Place& place) {
  const Lexer& of = lexers_[lexer];
  if (of.nested.empty() || place.parse == kEmpty) return kEmpty;
  Ids parts;
  const ByteSet symbols = first(place.parse);
  for (u32 t : of.nested) {
    if (!symbols.has(of.first_symbol(t))) continue;
    if (const Id rest = advance(lexer, place.parse, t); rest != kEmpty)
      parts.push_back(concat(of.terminals[t].text, lexed_rest(lexer, rest, place.layout)));
  }
  return parts.empty() ? kEmpty : unite(parts);
}

// -- the automaton of lexemes --
u32 Lexed::lex_state(LexState state) {
  const u32 known = states_.find(state);
  if (known != IdTable::kNone) return known;
  // All that may fail comes first: if a limit is reached here, no state is left without its facts.
  const LexState& made = state;
  const Lexer& lexer = lexers_[made.lexer];
  Facts facts;
  for (const auto& e : made.entries) {
    facts.lines = facts.lines || (!made.start && lexer.indentation && e.key >> 2 == lexer.indentation->newline);
    facts.tokens = facts.tokens || has(e.text, kHasToken);
  }
  if (made.entries.empty() && made.emitted != kNone) {  // a complete open lexeme
    facts.lines = lexer.indentation && made.emitted == lexer.indentation->newline;
    facts.ends = kEnds;
  }
  for (unsigned b = 0; b < 256 && made.emitted != kNone; ++b)
    if (const Id more = read_text(made.munch_guard, static_cast<u8>(b)); more == kEmpty || !nullable(more))
      facts.beyond.add(static_cast<u8>(b));
  facts_.push_back(std::move(facts));  // indexed by the id of the state that is added next
  u32 id = 0;
  try {
    id = states_.id(std::move(state));
  } catch (...) {
    facts_.pop_back();
    throw;
  }
  if (states_.values.size() < facts_.size()) facts_.pop_back();  // the state was added meanwhile
  return id;
}

// The start of a lexeme for which these terminals compete. Those in `rivals` are rejected if they win.
u32 Lexed::lex_start(u32 lexer_id, const Bits& context, const Bits& rivals) {
  const Lexer& lexer = lexers_[lexer_id];
  LexState state{lexer_id, true, kNone, kEmpty, false, {}};
  for (u32 t = 0; t < lexer.terminals.size(); ++t) {
    const Terminal& terminal = lexer.terminals[t];
    if (!bit(context, t) || terminal.text == kEmpty || terminal.ends == Terminal::Ends::Nested) continue;
    const bool name_only = std::any_of(terminal.keyword_of.begin(), terminal.keyword_of.end(),
                                       [&](u32 owner) { return bit(context, owner); });
    state.entries.push_back({t << 2 | (name_only ? kNameOnly : 0) | (bit(rivals, t) ? kRivalOnly : 0), terminal.text});
    if (lexer.indentation && t == lexer.indentation->newline) state.line = !bit(rivals, t);
  }
  return lex_state(std::move(state));
}

// The first symbols after which the text can be completed: not those that only lead to never().
u32 Lexed::first_kept(Id parse) {
  if (const u32* known = kept_.find(index_of(parse))) return *known;
  ByteSet set;
  if (!has(parse, kBarren)) {
    const Node& n = node(parse);
    switch (n.kind) {
      case Kind::Concat: {
        set = first_set(first_kept(n.head()));
        Id rest = n.tail();
        bool on = nullable(n.head());
        for (; on && node(rest).kind == Kind::Concat; rest = node(rest).tail()) {
          set |= first_set(first_kept(node(rest).head()));
          on = nullable(node(rest).head());
        }
        if (on) set |= first_set(first_kept(rest));
        break;
      }
      case Kind::Union: {
        const std::vector<Id> members(operands(parse).begin(), operands(parse).end());
        for (Id m : members) set |= first_set(first_kept(m));
        break;
      }
      case Kind::Repeat: set = first_set(first_kept(n.body())); break;
      case Kind::Binding: set = seen_from_outside(binding_lexer(n), first_set(first_kept(binding_body(n)))); break;
      case Kind::Ref: set = first_set(first_kept(rule_body(n.a))); break;
      default: set = first(parse); break;
    }
  }
  const u32 id = first_id(set);
  kept_.set(index_of(parse), id);
  return id;
}

bool Lexed::all_ignored(const LexState& state) const {
  const Lexer& lexer = lexers_[state.lexer];
  return std::all_of(state.entries.begin(), state.entries.end(),
                     [&](const LexState::Entry& e) { return lexer.ignored[e.key >> 2] != 0; });
}

// The start of a lexeme for which these terminals of the grammar compete with all terminals that compete everywhere. A
// trap becomes a rival if only never() may follow it.
template <class LeadsOn>
u32 Lexed::lex_start_in(u32 lexer_id, Bits context, bool brackets, LeadsOn leads_on) {
  const Lexer& lexer = lexers_[lexer_id];
  const u32 count = static_cast<u32>(lexer.terminals.size());
  Bits rivals((count + 63) / 64);
  for (u32 t : lexer.traps)
    if (bit(context, t) && !leads_on(t)) set_bit(rivals, t);
  for (u32 t = 0; t < count; ++t)
    if (lexer.ignored[t]) set_bit(context, t);
  for (u32 t = 0; t < count; ++t) {  // guards precede what they guard, and ignored terminals
    const u32 of = lexer.terminals[t].guard_of;
    if (of == kNone || !bit(context, of) || bit(context, t)) continue;
    set_bit(context, t);
    set_bit(rivals, t);
  }
  if (brackets) set_bit(context, lexer.indentation->newline);
  return lex_start(lexer_id, context, rivals);
}

// The start of a lexeme where the grammar may begin with these symbols. `kept`: those after which the text can be
// completed.
u32 Lexed::lex_start_by(u32 lexer_id, u32 symbols, u32 kept, bool brackets) {
  const u64 key = (u64{symbols} << 20 | kept) << 9 | u64{brackets} << 8 | lexer_id;
  const bool known = kept < (1u << 20) && lexer_id < 256;
  if (const u32* start = known ? starts_.find(key) : nullptr) return *start;
  const u32 count = static_cast<u32>(lexers_[lexer_id].terminals.size());
  Bits context((count + 63) / 64);
  for (u32 t = 0; t < lexers_[lexer_id].first_identifier; ++t)
    if (first_set(symbols).has(static_cast<u8>(t))) set_bit(context, t);
  const u32 id = lex_start_in(lexer_id, std::move(context), brackets,
                              [&](u32 t) { return first_set(kept).has(static_cast<u8>(t)); });
  if (known) starts_.set(key, id);
  return id;
}

u32 Lexed::lex_start_of(u32 lexer_id, Id parse, bool brackets) {
  const Lexer& lexer = lexers_[lexer_id];
  const ByteSet symbols = first(parse);
  if (finalized() && !lexer.wide())
    return lex_start_by(lexer_id, first_number(parse), lexer.traps.empty() ? 0 : first_kept(parse), brackets);
  const u64 key = u64{index_of(parse)} << 17 | u64{brackets} << 16 | lexer_id;
  if (const u32* start = wide_starts_.find(key)) return *start;
  const u32 count = static_cast<u32>(lexer.terminals.size());
  Bits context((count + 63) / 64);
  for (unsigned s = 0; s < 256; ++s) {
    if (!symbols.has(static_cast<u8>(s)) || s == kNever) continue;
    if (!lexer.wide()) {
      if (s < lexer.first_identifier) set_bit(context, s);
      continue;
    }
    const ByteSet low = first(derive(parse, static_cast<u8>(s)));
    for (unsigned t = 0; t < kNever && Lexer::terminal_of(s, t) < count; ++t)  // a saved body may name others
      if (low.has(static_cast<u8>(t))) set_bit(context, Lexer::terminal_of(s, t));
  }
  const u32 id = lex_start_in(lexer_id, std::move(context), brackets,
                              [&](u32 t) { return advance(lexer_id, parse, t) != kEmpty; });
  if (finalized()) wide_starts_.set(key, id);
  return id;
}

template <class Read>
LexStep Lexed::lex_step_by(u32 id, Read read) {
  const LexState& from = states_.values[id];
  const Lexer& lexer = lexers_[from.lexer];
  std::vector<LexState::Entry> alive;
  u32 winner = kNone, refused = 0;
  for (const auto& entry : from.entries) {
    const bool name_only = entry.key & kNameOnly;
    if (!name_only && winner != kNone) continue;  // outranked
    const Id left = read(entry.text);
    if (left == kEmpty) continue;
    alive.push_back({entry.key, left});
    if (name_only || !nullable(left)) continue;
    winner = entry.key >> 2;
    refused = entry.key & kRivalOnly;
  }
  LexStep step;
  step.known = true;
  auto names = [&](const LexState::Entry& e, u32 owner) {
    const auto& owners = lexer.terminals[e.key >> 2].keyword_of;
    return (e.key & kNameOnly) && std::find(owners.begin(), owners.end(), owner) != owners.end();
  };
  u32 emitted = winner;
  for (const auto& e : alive)
    if (winner != kNone && names(e, winner) && nullable(e.text)) {
      emitted = e.key >> 2;
      refused = e.key & kRivalOnly;
      break;
    }
  if (refused) emitted = kNone;
  LexState next{from.lexer, false, emitted, kEmpty, false, {}};
  std::vector<Id> longer;
  auto continues = [&](Id text) { return text != kEpsilon && (first(text).any() || has(text, kHasToken)); };
  const auto ends = winner == kNone ? Terminal::Ends::Last : lexer.terminals[winner].ends;
  std::erase_if(alive, [&](const LexState::Entry& e) {
    if (!continues(e.text) || ends == Terminal::Ends::Lazy) return true;
    return ends == Terminal::Ends::First && !(e.key & kNameOnly) && e.key >> 2 == winner;
  });
  for (const auto& e : alive) {
    if (!(e.key & kNameOnly)) {
      longer.push_back(e.text);
      next.entries.push_back(e);
    } else if (std::any_of(alive.begin(), alive.end(),
                           [&](const auto& o) { return !(o.key & kNameOnly) && names(e, o.key >> 2); })) {
      next.entries.push_back(e);
    }
  }
  const bool refused_all = std::all_of(next.entries.begin(), next.entries.end(),
                                       [](const LexState::Entry& e) { return (e.key & kRivalOnly) != 0; });
  if (longer.empty() || (refused_all && emitted == kNone)) {
    step.ended = emitted;
    return step;
  }
  if (emitted != kNone) next.munch_guard = unite(std::move(longer));
  next.line = from.line && all_ignored(next);
  step.next = lex_state(std::move(next));
  return step;
}

Id Lexed::read_text(Id text, u8 byte) {
  if (!first(text).has(byte)) return kEmpty;
  if (finalized()) return step_slow(text, byte);
  const Id next = derive(text, byte);
  return next != kEmpty && live(next) ? next : kEmpty;
}

LexStep Lexed::lex_step(u32 id, u8 byte) {
  auto compute = [&] { return lex_step_by(id, [&](Id text) { return read_text(text, byte); }); };
  if (!finalized()) return compute();
  {
    auto& steps = facts_[id].steps;
    if (steps.empty()) {
      steps.resize(byte_class_count());
      step_bytes_ += bytes_of(steps);
    }
    if (steps[byte_class(byte)].known) return steps[byte_class(byte)];
  }
  const LexStep step = compute();
  return facts_[id].steps[byte_class(byte)] = step;
}

LexStep Lexed::lex_step_symbol(u32 id, u32 symbol) {
  return lex_step_by(id, [&](Id text) { return derive_symbol(text, symbol); });
}

}  // namespace guiderail
