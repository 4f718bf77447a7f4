// Grammars over terminals.
//
// A state is Scan(lexeme, rest): the lexeme being read, and what is left of the grammar, an expression whose symbols
// are terminals and not bytes. Only terminals that the rest can begin with compete for a lexeme (and those that are
// ignored). The first in order that matches a beginning of the text wins, with the longest text that it matches.
//
// That a lexeme could have gone on shows later than where it ends. So where it may end, the next byte may be read in
// two ways: it continues, or it has ended and a MunchGuard precedes the rest: no beginning of what follows may be a
// text with which the lexeme would have gone on. A guard mostly falls with that byte, or forbids it.
//
// A nested terminal stands for a language of its own (a JSON Schema, a special token, a grammar with another lexer). It
// is no lexeme: between two lexemes the state is the union of the Scan and, for each nested terminal that may come, of
// its text in front of a Lexed that is resumed after it. So within it nothing of this lexer holds, and it may end
// wherever one of its texts does.
//
// Between lexemes and within one, only (LexState, byte) decides: a deterministic automaton, shared by all states.
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

u32 column_after(u32 column, u8 byte, const Indentation& lines, bool& counting) {
  // low half: with tabs; high half: a tab as one (strict tabs only)
  u32 wide = column & 0xFFFF, narrow = column >> 16;
  if (byte == '\n') {
    counting = true;
    return 0;
  }
  if (!counting) return column;
  if (byte == ' ') {
    ++wide;
    ++narrow;
  } else if (byte == '\t') {
    wide = lines.strict_tabs ? (wide / lines.tab + 1) * lines.tab : wide + lines.tab;
    ++narrow;
  } else if (byte == '\f') {
    wide = narrow = 0;
  } else {
    counting = false;
  }
  wide = std::min<u32>(wide, 0x3FFF);
  narrow = std::min<u32>(narrow, 0x3FFF);
  return wide | (lines.strict_tabs ? narrow << 16 : 0);
}

}  // namespace

// -- construction --
u32 Arena::lexer(Lexer lexer) {
  if (!lex_) {
    auto made = std::make_unique<LexParts>();
    made->layouts.id({});
    lex_ = std::move(made);
  }
  if (lexer.terminals.empty() || lexer.terminals.size() > 65'000)
    throw Error("bad-shape", "a lexer takes 1 to 65,000 terminals");
  for (const Terminal& terminal : lexer.terminals) {
    if (has(terminal.text, kHasLook)) throw Error("look-outside-scope", "a look-around must stand inside a scope");
    if (nullable(terminal.text) && terminal.ends != Terminal::Ends::Nested)
      throw Error("empty-terminal", "a terminal cannot match the empty text");
  }
  for (u32 t = 0; t < lexer.terminals.size(); ++t)
    if (lexer.terminals[t].ends == Terminal::Ends::Nested) lexer.nested.push_back(t);
  lex_->lexers.push_back(std::move(lexer));
  return static_cast<u32>(lex_->lexers.size() - 1);
}

const Lexer& Arena::lexer_at(u32 lexer) const {
  if (!lex_ || lexer >= lex_->lexers.size()) throw Error("bad-handle", "no such lexer in this builder");
  return lex_->lexers[lexer];
}

Id Arena::symbols_of(const ByteSet& set, bool textless) {
  Draft d = draft(Kind::Terminal);
  d.a = id_of(set, lex_->symbol_sets, lex_->symbol_set_ids);
  d.b = textless;
  d.shortest = textless ? 0 : 1;
  d.longest = 1;
  if (set == never_set()) d.flags |= kBarren;
  return intern(d);
}

Id Arena::terminal(u32 lexer, u32 index) {
  const Lexer& of = lexer_at(lexer);
  if (index >= of.terminals.size()) throw Error("bad-handle", "no such terminal in this lexer");
  const bool textless = of.terminals[index].text == kEmpty;
  auto leaf = [&](u32 symbol, bool last) {
    ByteSet set;
    set.add(static_cast<u8>(symbol));
    return symbols_of(set, textless || !last);
  };
  return of.wide() ? concat(leaf(index >> 8, false), leaf(index & 0xFF, true)) : leaf(index, true);
}

Id Arena::never(u32 lexer) {
  lexer_at(lexer);
  return symbols_of(never_set(), true);
}

Id Arena::lexed(u32 lexer, Id body) {
  const Lexer& of = lexer_at(lexer);
  if (body == kEmpty) return kEmpty;
  Draft d = draft(Kind::Lexed);
  d.a = lexer;
  d.b = body;
  d.flags = kHasRef | kSearch;
  for (const Terminal& t : of.terminals) d.flags |= node(t.text).flags.load(std::memory_order_relaxed) & kHasToken;
  if (nullable(body)) d.flags |= kNullable;
  d.longest = kInf;
  return intern(d);
}

// The texts after a nested terminal: as `lexed`, in the midst of a text.
Id Arena::lexed_rest(u32 lexer, Id parse, u32 layout) {
  if (parse == kEmpty) return kEmpty;
  if (beyond_cut(parse)) return unknown();
  Draft d = draft(Kind::Lexed);
  d.a = lexer;
  d.b = parse;
  d.min = layout;
  d.max = 1;
  d.flags = kHasRef | kSearch | (parse_ends(lexer, parse, layout) ? kNullable : 0u);
  for (const Terminal& t : lex_->lexers[lexer].terminals)
    d.flags |= node(t.text).flags.load(std::memory_order_relaxed) & kHasToken;
  d.shortest = has(parse, kNullable) || (d.flags & kNullable) ? 0 : node(parse).shortest;
  d.longest = kInf;
  return intern(d);
}

// The nested terminals that may come at a place, each with what follows it.
Id Arena::nested_at(u32 lexer, const Place& place) {
  const Lexer& of = lex_->lexers[lexer];
  if (of.nested.empty() || place.parse == kEmpty) return kEmpty;
  Ids parts;
  const ByteSet symbols = first(place.parse);
  for (u32 t : of.nested) {
    if (!symbols.has(static_cast<u8>(of.wide() ? t >> 8 : t))) continue;
    if (const Id rest = advance(lexer, place.parse, t); rest != kEmpty)
      parts.push_back(concat(of.terminals[t].text, lexed_rest(lexer, rest, place.layout)));
  }
  return parts.empty() ? kEmpty : unite(parts);
}

// -- the automaton of lexemes --
u32 Arena::lex_state(LexState state) {
  const u32 known = lex_->states.find(state);
  if (known != IdTable::kNone) return known;
  // All that may fail comes first: a limit met here leaves no state without its facts.
  const LexState& made = state;
  const Lexer& lexer = lex_->lexers[made.lexer];
  LexParts::Facts facts;
  for (const auto& e : made.entries) {
    facts.lines = facts.lines || (!made.start && lexer.indentation && e.key >> 2 == lexer.indentation->newline);
    facts.tokens = facts.tokens || has(e.text, kHasToken);
  }
  if (made.entries.empty() && made.emitted != kNone) {  // an open lexeme that is complete
    facts.lines = lexer.indentation && made.emitted == lexer.indentation->newline;
    facts.ends = kEnds;
  }
  for (unsigned b = 0; b < 256 && made.emitted != kNone; ++b)
    if (const Id more = read_text(made.munch_guard, static_cast<u8>(b)); more == kEmpty || !nullable(more))
      facts.beyond.add(static_cast<u8>(b));
  lex_->facts.push_back(std::move(facts));  // at the place of the state that is next
  u32 id = 0;
  try {
    id = lex_->states.id(std::move(state));
  } catch (...) {
    lex_->facts.pop_back();
    throw;
  }
  if (lex_->states.values.size() < lex_->facts.size()) lex_->facts.pop_back();  // it was found meanwhile
  return id;
}

// Between lexemes, where these terminals compete; those in `rivals` are refused when they win.
u32 Arena::lex_start(u32 lexer_id, const Bits& context, const Bits& rivals) {
  const Lexer& lexer = lex_->lexers[lexer_id];
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

// The symbols after which something can still come: not those that only lead to what never comes.
u32 Arena::first_kept(Id parse) {
  if (const u32* known = lex_->kept.find(parse)) return *known;
  ByteSet set;
  if (!has(parse, kBarren)) {
    const Node& n = node(parse);
    switch (n.kind) {
      case Kind::Concat: {
        set = firsts_[first_kept(n.a)];
        Id rest = n.b;
        bool on = nullable(n.a);
        for (; on && node(rest).kind == Kind::Concat; rest = node(rest).b) {
          set |= firsts_[first_kept(node(rest).a)];
          on = nullable(node(rest).a);
        }
        if (on) set |= firsts_[first_kept(rest)];
        break;
      }
      case Kind::Union: {
        const std::vector<Id> members(operands(parse).begin(), operands(parse).end());
        for (Id m : members) set |= firsts_[first_kept(m)];
        break;
      }
      case Kind::Repeat: set = firsts_[first_kept(n.a)]; break;
      case Kind::Ref: set = firsts_[first_kept(rules_[n.a].body)]; break;
      default: set = first(parse); break;
    }
  }
  const u32 id = first_id(set);
  lex_->kept.set(parse, id);
  return id;
}

bool Arena::all_ignored(const LexState& state) const {
  const Lexer& lexer = lex_->lexers[state.lexer];
  return std::all_of(state.entries.begin(), state.entries.end(),
                     [&](const LexState::Entry& e) { return lexer.ignored[e.key >> 2] != 0; });
}

// Between lexemes, where terminals of the grammar compete with all that compete anywhere. A trap does not lead on
// where only never() may follow.
template <class LeadsOn>
u32 Arena::lex_start_in(u32 lexer_id, Bits context, bool brackets, LeadsOn leads_on) {
  const Lexer& lexer = lex_->lexers[lexer_id];
  const u32 count = static_cast<u32>(lexer.terminals.size());
  Bits rivals((count + 63) / 64);
  for (u32 t : lexer.traps)
    if (bit(context, t) && !leads_on(t)) set_bit(rivals, t);
  for (u32 t = 0; t < count; ++t)
    if (lexer.ignored[t]) set_bit(context, t);
  for (u32 t = 0; t < count; ++t) {  // guards stand before what they guard, ignored terminals too
    const u32 of = lexer.terminals[t].guard_of;
    if (of == kNone || !bit(context, of) || bit(context, t)) continue;
    set_bit(context, t);
    set_bit(rivals, t);
  }
  if (brackets) set_bit(context, lexer.indentation->newline);
  return lex_start(lexer_id, context, rivals);
}

// Where the grammar begins with these symbols; `kept`: those after which something can still come.
u32 Arena::lex_start_by(u32 lexer_id, u32 symbols, u32 kept, bool brackets) {
  const u64 key = (u64{symbols} << 20 | kept) << 9 | u64{brackets} << 8 | lexer_id;
  const bool known = kept < (1u << 20) && lexer_id < 256;
  if (const u32* start = known ? lex_->starts.find(key) : nullptr) return *start;
  const u32 count = static_cast<u32>(lex_->lexers[lexer_id].terminals.size());
  Bits context((count + 63) / 64);
  for (u32 t = 0; t < count; ++t)
    if (firsts_[symbols].has(static_cast<u8>(t))) set_bit(context, t);
  const u32 id = lex_start_in(lexer_id, std::move(context), brackets,
                              [&](u32 t) { return firsts_[kept].has(static_cast<u8>(t)); });
  if (known) lex_->starts.set(key, id);
  return id;
}

u32 Arena::lex_start_of(u32 lexer_id, Id parse, bool brackets) {
  const Lexer& lexer = lex_->lexers[lexer_id];
  const ByteSet symbols = first(parse);
  if (finalized_ && !lexer.wide())
    return lex_start_by(lexer_id, node(parse).first, lexer.traps.empty() ? 0 : first_kept(parse), brackets);
  const u64 key = u64{parse} << 17 | u64{brackets} << 16 | lexer_id;
  if (const u32* start = lex_->wide_starts.find(key)) return *start;
  const u32 count = static_cast<u32>(lexer.terminals.size());
  Bits context((count + 63) / 64);
  for (unsigned s = 0; s < 256; ++s) {
    if (!symbols.has(static_cast<u8>(s)) || s == kNever) continue;
    if (!lexer.wide()) {
      set_bit(context, s);
      continue;
    }
    const ByteSet low = first(derive(parse, static_cast<u8>(s)));
    for (unsigned t = 0; t < 256; ++t)
      if (low.has(static_cast<u8>(t))) set_bit(context, s << 8 | t);
  }
  const u32 id = lex_start_in(lexer_id, std::move(context), brackets,
                              [&](u32 t) { return advance(lexer_id, parse, t) != kEmpty; });
  if (finalized_) lex_->wide_starts.set(key, id);
  return id;
}

template <class Read>
LexStep Arena::lex_step_by(u32 id, Read read) {
  const LexState& from = lex_->states.values[id];
  const Lexer& lexer = lex_->lexers[from.lexer];
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
  auto goes_on = [&](Id text) { return text != kEpsilon && (first(text).any() || has(text, kHasToken)); };
  const auto ends = winner == kNone ? Terminal::Ends::Last : lexer.terminals[winner].ends;
  std::erase_if(alive, [&](const LexState::Entry& e) {
    if (!goes_on(e.text) || ends == Terminal::Ends::Lazy) return true;
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

Id Arena::read_text(Id text, u8 byte) {
  if (!first(text).has(byte)) return kEmpty;
  if (finalized_) return step_slow(text, byte);
  const Id next = derive(text, byte);
  return next != kEmpty && live(next) ? next : kEmpty;
}

LexStep Arena::lex_step(u32 id, u8 byte) {
  auto compute = [&] { return lex_step_by(id, [&](Id text) { return read_text(text, byte); }); };
  if (!finalized_) return compute();
  {
    auto& steps = lex_->facts[id].steps;
    if (steps.empty()) {
      steps.resize(class_count_);
      lex_->bytes += bytes_of(steps);
    }
    if (steps[classes_[byte]].known) return steps[classes_[byte]];
  }
  const LexStep step = compute();
  return lex_->facts[id].steps[classes_[byte]] = step;
}

// -- states --
Id Arena::advance(u32 lexer_id, Id parse, u32 terminal) {
  if (parse == kEmpty) return kEmpty;
  const u64 key = u64{parse} << 16 | terminal;
  if (const u32* known = lex_->advances.find(key)) return *known;
  Id out = lex_->lexers[lexer_id].wide()
               ? derive(derive(parse, static_cast<u8>(terminal >> 8)), static_cast<u8>(terminal & 0xFF))
               : derive(parse, static_cast<u8>(terminal));
  if (has(out, kBarren)) out = kEmpty;
  if (finalized_) lex_->advances.set(key, out);
  return out;
}

// May the text end here, between two lexemes?
bool Arena::parse_ends(u32 lexer_id, Id parse, u32 layout) {
  const auto& lines = lex_->lexers[lexer_id].indentation;
  if (!lines) return nullable(parse);
  const auto& columns = lex_->layouts.values[layout].columns;
  if (!columns.empty() && columns[0] == kAnyColumn) return false;  // nobody asks a canonical form
  const std::size_t levels = columns.size();
  auto closes = [&](Id rest) {
    for (std::size_t i = 0; i < levels && rest != kEmpty; ++i) rest = advance(lexer_id, rest, lines->dedent);
    return rest != kEmpty && nullable(rest);
  };
  return closes(parse) || (lines->final_newline && lex_->layouts.values[layout].brackets == 0 &&
                           closes(advance(lexer_id, parse, lines->newline)));
}

// Columns that lead to the same: in a line with nothing but a comment, which has no indentation, and right of all that
// the grammar allows.
u32 Arena::equivalent_column(u32 lexer_id, Id parse, const Layout& at, u32 column) {
  const Indentation& lines = *lex_->lexers[lexer_id].indentation;
  if (at.brackets > 0) return 0;
  const u32 now = at.columns.empty() ? 0 : at.columns.back();
  if (column & kBehindBlanks) return now | kBehindBlanks;
  if ((column & 0xFFFF) <= (now & 0xFFFF)) return column;
  const Id line = advance(lexer_id, parse, lines.newline);
  if (line == kEmpty || beyond_cut(line) || advance(lexer_id, line, lines.indent) != kEmpty) return column;
  return now + (lines.strict_tabs ? 0x10001 : 1);
}

Id Arena::scan(u32 state, Id parse, u32 layout, u32 column) {
  const LexState& lexeme = lex_->states.values[state];
  const LexParts::Facts& facts = lex_->facts[state];
  if (facts.lines) {
    const Layout& at = lex_->layouts.values[layout];
    if (at.brackets == 0 && !at.columns.empty() && at.columns[0] == kAnyColumn) return unknown();
    column = equivalent_column(lexeme.lexer, parse, at, column);
  }
  if (!lexeme.start) {  // one terminal only: what else the grammar could have read here makes no difference
    const u32 only = lexeme.entries[0].key >> 2;
    const Lexer& lexer = lex_->lexers[lexeme.lexer];
    const bool lines = facts.lines && lex_->layouts.values[layout].brackets > 0;
    if (lexeme.entries.size() == 1 && !(lexeme.entries[0].key & kRivalOnly) &&
        (lexeme.emitted == kNone || lexeme.emitted == only) && !lexer.ignored[only] && !lines)
      parse = concat(terminal(lexeme.lexer, only), advance(lexeme.lexer, parse, only));
  }
  bool ends = lexeme.start && parse_ends(lexeme.lexer, parse, layout);
  if (lexeme.entries.empty()) return ends ? kEpsilon : kEmpty;
  if (lexeme.emitted != kNone) {
    Place at{parse, layout};
    ends = behind_lexeme(lexeme.lexer, lexeme.emitted, column, at) && parse_ends(lexeme.lexer, at.parse, at.layout);
  }
  Draft d = draft(Kind::Scan);
  d.a = state;
  d.b = parse;
  d.min = layout;
  d.max = facts.lines ? column : 0;
  d.flags = kHasRef | kSearch | kHasScan | (facts.tokens ? kHasToken : 0u) | (ends ? kNullable : 0u);
  const u32 shortest = node(parse).shortest;
  d.shortest = ends ? 0 : lexeme.start ? shortest : shortest - (shortest > 0);
  d.longest = kInf;
  return intern(d);
}

Id Arena::scan_start(u32 lexer_id, Id parse, u32 layout) {
  if (parse == kEmpty) return kEmpty;
  if (beyond_cut(parse)) return unknown();
  const bool brackets = lex_->layouts.values[layout].brackets != 0;
  const Id cut = scan(lex_start_of(lexer_id, parse, brackets), parse, layout, 0);
  const Id nested = nested_at(lexer_id, {parse, layout});
  return nested == kEmpty ? cut : unite(cut, nested);
}

Id Arena::lexed_start(Id e) {
  Id state = scan_start(node(e).a, node(e).b, node(e).min);
  if (node(e).max != 0) return state;
  for (char c : lex_->lexers[node(e).a].before) state = derive(state, static_cast<u8>(c));
  return state;
}

Id Arena::munch_guard(Id texts, Id rest) {
  if (rest == kEmpty || rest == kEpsilon || texts == kEmpty) return rest;
  if (node(rest).kind == Kind::Union) {
    Ids members(operands(rest));
    for (Id& m : members) m = munch_guard(texts, m);
    return unite(members);
  }
  if (node(rest).kind == Kind::MunchGuard) {
    texts = unite(texts, node(rest).a);
    rest = node(rest).b;
  }
  ByteSet both = first(texts);
  both &= first(rest);
  if (!both.any() && !has(texts, kHasToken)) return rest;  // it falls with the next byte
  Draft d = draft(Kind::MunchGuard);
  d.a = texts;
  d.b = rest;
  absorb(d, rest, true);
  d.flags |= kSearch | kHasRef;
  if (nullable(rest)) d.flags |= kNullable;
  d.shortest = node(rest).shortest;
  d.longest = node(rest).longest;
  return intern(d);
}

// A lexeme ended: what the grammar expects after it, and the layout there. False: it cannot stand here.
bool Arena::behind_lexeme(u32 lexer_id, u32 terminal, u32 column, Place& place) {
  const Lexer& lexer = lex_->lexers[lexer_id];
  if (lexer.ignored[terminal]) return true;
  auto read = [&](u32 t) {
    if (beyond_cut(place.parse)) {
      place.parse = unknown();
      return false;
    }
    place.parse = advance(lexer_id, place.parse, t);
    return place.parse != kEmpty;
  };
  if (!lexer.indentation) return read(terminal);
  const Indentation& lines = *lexer.indentation;
  Layout at = lex_->layouts.values[place.layout];
  if (terminal != lines.newline) {
    auto among = [&](const std::vector<u32>& list) {
      return std::find(list.begin(), list.end(), terminal) != list.end();
    };
    if (among(lines.opening))
      ++at.brackets;
    else if (among(lines.closing) && at.brackets > 0)
      --at.brackets;
    else
      return read(terminal);
    place.layout = layout_id(std::move(at));
    return read(terminal);
  }
  if (at.brackets > 0) return true;
  if (!at.columns.empty() && at.columns[0] == kAnyColumn) {
    place.parse = unknown();
    return false;
  }
  if (!read(terminal)) return false;
  auto wide = [](u32 c) { return c & 0xFFFF; };
  auto narrow = [](u32 c) { return c >> 16 & 0x7FFF; };
  column &= ~kBehindBlanks;
  const u32 now = at.columns.empty() ? 0 : at.columns.back();
  if (wide(column) > wide(now)) {
    if (lines.strict_tabs && narrow(column) <= narrow(now)) return false;
    if (!read(lines.indent)) return false;
    at.columns.push_back(column);
  } else {
    while (!at.columns.empty() && wide(column) < wide(at.columns.back())) {
      if (!read(lines.dedent)) return false;
      at.columns.pop_back();
    }
    const u32 outer = at.columns.empty() ? 0 : at.columns.back();
    if (wide(column) != wide(outer) || (lines.strict_tabs && narrow(column) != narrow(outer))) {
      place.parse = kEmpty;
      return false;
    }
  }
  place.layout = layout_id(std::move(at));
  return true;
}

Id Arena::scan_behind(u32 lexer_id, u32 terminal, Id parse, u32 layout, u32 column) {
  Place at{parse, layout};
  if (behind_lexeme(lexer_id, terminal, column, at)) return scan_start(lexer_id, at.parse, at.layout);
  return at.parse != kEmpty && has(at.parse, kUnknownText) ? at.parse : kEmpty;
}

u32 Arena::layout_id(Layout layout) { return lex_->layouts.id(std::move(layout)); }

Id Arena::after_step(Id e, const LexStep& step, u32 column) {
  const Node& n = node(e);
  if (step.next != kNone) {
    if (finalized_ && !lexeme_ends(step.next) && lex_->facts[step.next].ends == kNeverEnds) return kEmpty;
    return scan(step.next, n.b, n.min, column);
  }
  if (step.ended == kNone) return kEmpty;
  return scan_behind(lex_->states.values[n.a].lexer, step.ended, n.b, n.min, column);
}

u32 Arena::column_behind(Id e, const LexStep& step, u8 byte) const {
  const Node& n = node(e);
  const auto& lines = lex_->lexers[lex_->states.values[n.a].lexer].indentation;
  if (!lines || !(step.ended == lines->newline || (step.next != kNone && lex_->facts[step.next].lines))) return 0;
  bool counting = !(n.max & kBehindBlanks);
  const u32 column = column_after(n.max & ~kBehindBlanks, byte, *lines, counting);
  return counting ? column : column | kBehindBlanks;
}

Id Arena::derive_scan(Id e, u8 byte) {
  const Node& n = node(e);
  const LexStep step = lex_step(n.a, byte);
  const u32 lexer = lex_->states.values[n.a].lexer, emitted = lex_->states.values[n.a].emitted;
  const u32 column = column_behind(e, step, byte);
  if (n.b == lex_->hole) {
    if (step.next != kNone) {
      if (lexeme_ends(step.next)) return open_scan(step.next, column);
      return lex_->facts[step.next].ends == kNeverEnds ? kEmpty : unknown();
    }
    if (step.ended == kNone) return kEmpty;
    return open_scan(lex_state({lexer, false, step.ended, kEmpty, false, {}}), column);
  }
  const Id on = after_step(e, step, column);
  if (emitted == kNone || !lex_->facts[n.a].beyond.has(byte)) return on;
  const Id behind = scan_behind(lexer, emitted, n.b, n.min, n.max);
  if (behind == kEmpty || !first(behind).has(byte)) {
    if (behind == kEmpty || !has(behind, kUnknownText)) return on;
    return on == kEmpty ? behind : unite(on, behind);
  }
  const Id ended = munch_guard(read_text(lex_->states.values[n.a].munch_guard, byte), derive(behind, byte));
  return ended == kEmpty ? on : on == kEmpty ? ended : unite(on, ended);
}

Id Arena::derive_scan_symbol(Id e, u32 symbol) {
  const Node& n = node(e);
  const Id on = after_step(e, lex_step_by(n.a, [&](Id text) { return derive_symbol(text, symbol); }), 0);
  const LexState& state = lex_->states.values[n.a];
  if (state.emitted == kNone) return on;
  const Id behind = scan_behind(state.lexer, state.emitted, n.b, n.min, n.max);
  return unite(on, behind == kEmpty ? kEmpty : derive_symbol(behind, symbol));
}

void Arena::scan_symbols(Id e, std::vector<u32>& out) {
  const Node& n = node(e);
  const LexState& state = lex_->states.values[n.a];
  for (const auto& entry : state.entries) first_symbols(entry.text, out);
  if (state.emitted == kNone) return;
  if (const Id behind = scan_behind(state.lexer, state.emitted, n.b, n.min, n.max); behind != kEmpty)
    first_symbols(behind, out);
}

Id Arena::scan_without_names(Id e, Id& texts) {
  const Node& n = node(e);
  LexState plain = lex_->states.values[n.a];
  std::vector<Id> names;
  const auto& entries = lex_->states.values[n.a].entries;
  const Lexer& lexer = lex_->lexers[plain.lexer];
  auto named = [&](const LexState::Entry& entry) {  // by one that leads on as well
    const auto& owners = lexer.terminals[entry.key >> 2].keyword_of;
    return (entry.key & kNameOnly) && std::any_of(entries.begin(), entries.end(), [&](const LexState::Entry& other) {
             const bool leads_on = !(other.key & (kNameOnly | kRivalOnly));
             return leads_on && std::find(owners.begin(), owners.end(), other.key >> 2) != owners.end();
           });
  };
  std::erase_if(plain.entries, [&](const LexState::Entry& entry) {
    if (!named(entry)) return false;
    names.push_back(entry.text);
    return true;
  });
  if (names.empty()) return kEmpty;
  // is it one of those names here?
  if (plain.emitted != kNone && std::none_of(entries.begin(), entries.end(), [&](const auto& entry) {
        return !(entry.key & kNameOnly) && entry.key >> 2 == plain.emitted;
      }))
    return kEmpty;
  texts = unite(std::move(names));
  if (is_open(e)) return open_scan(lex_state(std::move(plain)), n.max);
  return scan(lex_state(std::move(plain)), n.b, n.min, n.max);
}

Id Arena::derive_munch_guard(Id e, u8 byte) {
  const Node& n = node(e);
  const Id texts = read_text(n.a, byte);
  if (texts != kEmpty && nullable(texts)) return kEmpty;
  const Id rest = derive(n.b, byte);
  const Id out = munch_guard(texts, rest);
  const bool open = out != kEmpty && node(out).kind == Kind::MunchGuard && is_open(rest);
  return open && !lex_->states.values[node(rest).a].entries.empty() ? munch_guard_lives(out) : out;
}

ByteSet Arena::first_scan(Id e) {
  ByteSet set;
  for (const auto& entry : lex_->states.values[node(e).a].entries) set |= first(entry.text);
  set |= lex_->facts[node(e).a].beyond;  // more than can follow: what does is found when it is asked for
  return set;
}

// -- LexParts --
void LexParts::note_extent() {
  extent.states = static_cast<u32>(states.values.size());
  extent.layouts = static_cast<u32>(layouts.values.size());
  extent.symbol_sets = static_cast<u32>(symbol_sets.size());
  lexer_bytes = bytes_of(lexers);
  for (const Lexer& lexer : lexers) {
    lexer_bytes += bytes_of(lexer.terminals) + bytes_of(lexer.ignored) + bytes_of(lexer.before) +
                   bytes_of(lexer.traps) + bytes_of(lexer.samples) + bytes_of(lexer.sampled);
    for (const Terminal& terminal : lexer.terminals) lexer_bytes += bytes_of(terminal.keyword_of);
    for (const auto& list : lexer.samples) {
      lexer_bytes += bytes_of(list);
      for (const std::string& text : list) lexer_bytes += bytes_of(text);
    }
  }
}

std::unique_ptr<LexParts> LexParts::fresh() const {
  auto to = std::make_unique<LexParts>();
  to->lexers = lexers;
  to->states = states.first(extent.states);
  to->layouts = layouts.first(extent.layouts);
  to->symbol_sets.assign(symbol_sets.begin(), symbol_sets.begin() + extent.symbol_sets);
  to->symbol_set_ids = ids_of(to->symbol_sets);
  for (u32 i = 0; i < extent.states; ++i) {
    Facts of;
    of.lines = facts[i].lines;
    of.tokens = facts[i].tokens;
    to->facts.push_back(std::move(of));
  }
  to->lexer_bytes = lexer_bytes;
  to->extent = extent;
  return to;
}

std::size_t LexParts::memory() const {
  return sizeof(*this) + bytes + lexer_bytes + states.memory() + layouts.memory() + bytes_of(facts) +
         bytes_of(symbol_sets) + symbol_set_ids.memory() + starts.memory() + wide_starts.memory() + advances.memory() +
         kept.memory() + ahead.memory() + bytes_of(peeks) + cuts.memory() + bytes_of(cut_layouts);
}

}  // namespace guiderail
