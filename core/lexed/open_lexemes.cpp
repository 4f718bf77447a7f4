// Lexemes without their grammar, and places in a grammar without what tokens do not reach.
#include <algorithm>

#include "base/thresholds.hpp"
#include "lexed/lexing.hpp"

namespace guiderail {

// -- places --
// The next `kept` parts of the grammar that each read at least one terminal, up to a line break or the end of an
// indentation; then a symbol that says that more follows.
Id Lexed::cut_grammar(u32 lexer_id, Id parse, u32 kept, bool shape) {
  const u64 key = (u64{index_of(parse)} << 8 | u64{shape} << 7 | kept) << 16 | lexer_id;
  if (const Id* known = cuts_.find(key)) return *known;
  const Lexer& lexer = lexers_[lexer_id];
  if (!lexer.identifiers.empty() && has(parse, kBarren)) return parse;  // a cut would make it seem completable
  const bool lines = lexer.indentation && !lexer.wide();
  const Id newline = lines ? terminal(lexer_id, lexer.indentation->newline) : kEmpty;
  Id out = parse;
  if (node(parse).kind == Kind::Union) {
    out = unite(mapped(parse, [&](Id m) { return cut_grammar(lexer_id, m, kept, shape); }));
  } else if (node(parse).kind == Kind::Binding) {
    const u32 domains = shape ? kAnyDomains : binding_domains(node(parse));
    out = bind(lexer_id, domains, cut_grammar(lexer_id, binding_body(node(parse)), kept, shape));
  } else {
    std::vector<Id> heads;
    u32 read = 0;
    Id cur = parse;
    for (; node(cur).kind == Kind::Concat && read < kept; cur = node(cur).tail()) {
      const Id head = node(cur).head();
      const bool textless = node(head).kind == Kind::Terminal && is_textless(node(head));
      heads.push_back(node(head).kind == Kind::Binding ? cut_grammar(lexer_id, head, kept - read, shape) : head);
      if (head == newline || (textless && lines))
        read = kept;
      else if (!nullable(head) && !textless)
        ++read;
    }
    if (read == kept) {
      ByteSet cut;
      cut.add(kCut);
      out = symbols_of(cut, true);
      for (std::size_t i = heads.size(); i-- > 0;) out = concat(heads[i], out);
    } else if (!lexer.identifiers.empty() && !heads.empty()) {
      out = cut_grammar(lexer_id, cur, kept - read, shape);
      for (std::size_t i = heads.size(); i-- > 0;) out = concat(heads[i], out);
    }
  }
  cuts_.set(key, out);
  return out;
}

// A place as most tokens see it: without what the next few terminals do not reach and, within a line, without the
// indentation.
Id Lexed::cut_scan(Id e) {
  const Node& n = node(e);
  const LexState& state = states_.values[scan_state(n)];
  u32 layout = scan_layout(n);
  if (lexers_[state.lexer].indentation) {
    Layout at = layouts_.values[layout];
    if (facts_[scan_state(n)].lines && at.brackets == 0) return e;
    at.columns = {kAnyColumn};
    layout = layout_id(std::move(at));
  }
  return scan(scan_state(n), cut_grammar(state.lexer, scan_grammar(n), state.start ? kPartsOfPlace : kPartsOfPlace + 1),
              layout, scan_column(n));
}

// -- open lexemes --
// A Scan whose grammar is a hole: the lexeme alone, without what follows its end. Derivatives continue the lexeme, and
// kLexemeMayEnd marks those where it may end. They are unknown() if only the grammar could tell whether the lexeme can
// end.
Id Lexed::hole() {
  if (hole_ == kEmpty) {
    ByteSet cut;
    cut.add(kCut);
    hole_ = symbols_of(cut, true);
  }
  return hole_;
}

bool Lexed::is_open(Id e) const {
  const Node& n = node(e);
  return n.kind == Kind::Scan && scan_grammar(n) == hole_;
}

Id Lexed::open_scan(u32 state, u32 column) {
  const Facts& facts = facts_[state];
  Draft d = draft(Kind::Scan);
  d.a = state;
  d.b = index_of(hole());
  d.max = facts.lines ? column : 0;
  d.flags = kHasRef | kSearch | (states_.values[state].emitted != kNone ? kLexemeMayEnd : 0u);
  d.longest = kInf;
  return intern(d);
}

bool Lexed::lexed_place(Id e, Lexeme& lexeme, Place& place) const {
  lexeme.munch_guard = kEmpty;
  if (node(e).kind == Kind::MunchGuard) {
    lexeme.munch_guard = guard_texts(node(e));
    e = guarded(node(e));
  }
  const Node& n = node(e);
  if (n.kind != Kind::Scan) return false;
  lexeme.lexer = states_.values[scan_state(n)].lexer;
  lexeme.state = scan_state(n);
  lexeme.column = scan_column(n);
  place = {scan_grammar(n), scan_layout(n)};
  return true;
}

Lexed::Place Lexed::cut_place(u32 lexer, const Place& place, u32 kept, bool shape) {
  Place out{cut_grammar(lexer, place.parse, kept, shape), place.layout};
  if (lexers_[lexer].indentation) {
    auto& cut = cut_layouts_;
    if (cut.size() <= place.layout) cut.resize(layouts_.values.size(), kNone);
    if (cut[place.layout] == kNone) {
      Layout at = layouts_.values[place.layout];
      at.columns = {kAnyColumn};
      const u32 id = layout_id(std::move(at));
      cut[place.layout] = id;
    }
    out.layout = cut[place.layout];
  }
  return out;
}

Lexed::Column Lexed::column_at(const LexemeEnd& end, const Place& place) {
  const auto& lines = lexers_[end.lexer].indentation;
  if (!lines || lines->newline != end.terminal) return Column::Any;
  const Layout& at = layouts_.values[place.layout];
  if (at.brackets > 0) return Column::Any;
  const u32 column = end.column & 0xFFFF;
  if ((end.column & kPastBlanks) || column == 0) return Column::This;
  for (std::size_t i = at.columns.size(); i-- > 0 && (at.columns[i] & 0xFFFF) >= column;)
    if ((at.columns[i] & 0xFFFF) == column) return Column::This;
  const u32 now = at.columns.empty() ? 0 : at.columns.back();
  if (now != kAnyColumn && column <= (now & 0xFFFF)) return Column::None;
  const Id line = advance(end.lexer, place.parse, lines->newline);
  if (line == kEmpty) return Column::None;
  return now == kAnyColumn || beyond_cut(line) || advance(end.lexer, line, lines->indent) != kEmpty ? Column::This
                                                                                                    : Column::None;
}

Id Lexed::open_lexeme(const Lexeme& lexeme) {
  return munch_guard(lexeme.munch_guard, open_scan(lexeme.state, lexeme.column));
}

Lexed::LexemeEnd Lexed::lexeme_end(Id open) {
  Id before = kEmpty;
  if (node(open).kind == Kind::MunchGuard) {
    before = guard_texts(node(open));
    open = guarded(node(open));
  }
  const LexState& state = states_.values[scan_state(node(open))];
  LexemeEnd end{state.lexer, state.emitted, scan_column(node(open)), state.munch_guard, state.entries.empty()};
  if (before != kEmpty) end.munch_guard = end.munch_guard == kEmpty ? before : unite(before, end.munch_guard);
  return end;
}

bool Lexed::munch_guard_allows(Id munch_guard, u8 byte) {
  if (munch_guard == kEmpty) return true;
  const Id more = read_text(munch_guard, byte);
  return more == kEmpty || !nullable(more);
}

// Adds what may follow a terminal, without computing the rest of the grammar. An alternative that only leads to never()
// contributes to `first` alone. False: only the rest could tell.
bool Lexed::peek(Id parse, u8 symbol, Peek& to) {
  if (!first(parse).has(symbol)) return true;
  const Node& n = node(parse);
  const bool shared = n.kind == Kind::Ref || n.kind == Kind::Union || (n.kind == Kind::Concat && nullable(n.head()));
  if (!shared) return peek_fresh(parse, symbol, to);
  // Ambiguous texts share what follows: without a memo, the walk would double wherever two readings meet.
  const u64 key = u64{index_of(parse)} << 8 | symbol;
  u32 found = kNone;
  if (const u32* known = ahead_.find(key)) {
    found = *known;
  } else {
    if (Peek of; peek_fresh(parse, symbol, of)) found = peeks_.id(of);
    ahead_.set(key, found);
  }
  if (found == kNone) return false;
  peek_past(peeks_.values[found], kEpsilon, to);
  return true;
}

bool Lexed::peek_fresh(Id parse, u8 symbol, Peek& to) {
  const Node& n = node(parse);
  switch (n.kind) {
    case Kind::Terminal: to.live = to.nullable = true; return true;
    case Kind::Concat: {
      for (Id cur = parse;; cur = node(cur).tail()) {
        if (node(cur).kind != Kind::Concat) return peek(cur, symbol, to);
        const Id head = node(cur).head();
        Peek past;
        if (!peek(head, symbol, past)) return false;
        peek_past(past, node(cur).tail(), to);
        if (!nullable(head)) return true;
      }
    }
    case Kind::Union: {
      for (u32 i = 0; i < n.b; ++i)
        if (!peek(operands(parse)[i], symbol, to)) return false;
      return true;
    }
    case Kind::Repeat: {
      if (n.b || n.max == 0) return false;
      Peek one;
      if (!peek(n.body(), symbol, one)) return false;
      peek_past(one, repeat_less(parse), to);
      return true;
    }
    case Kind::Ref: return peek(rule_body(n.a), symbol, to);
    case Kind::Binding: return peek_binding(parse, symbol, to);
    default: return false;
  }
}

void Lexed::peek_past(const Peek& head, Id tail, Peek& to) {
  to.first |= head.first;
  if (head.nullable) to.first |= first(tail);
  if (head.identifiers != 0 || (head.nullable && first(tail).has(kIdentifiers))) {
    std::vector<u32> starts = identifier_starts(head.identifiers);
    if (head.nullable) find_identifiers(tail, starts);
    const auto& others = identifier_starts(to.identifiers);
    starts.insert(starts.end(), others.begin(), others.end());
    to.identifiers = start_list(std::move(starts));
  }
  if (!head.live || has(tail, kBarren)) return;
  to.live = true;
  to.kept |= head.kept;
  if (!head.nullable) return;
  to.kept |= first_set(first_kept(tail));
  to.nullable = to.nullable || nullable(tail);
}

Lexed::Place Lexed::reading_end(const LexemeEnd& end, const Place& place) {
  const Lexer& lexer = lexers_[end.lexer];
  const bool line = lexer.indentation && end.terminal == lexer.indentation->newline;
  if (lexer.wide() || lexer.ignored[end.terminal] || lexer.is_identifier(end.terminal) || line ||
      beyond_cut(place.parse) || has(place.parse, kUnknownText))
    return place;
  return {reading(place.parse, static_cast<u8>(end.terminal)), place.layout};
}

// The rest of a grammar without the alternatives that do not begin with this symbol.
Id Lexed::reading(Id parse, u8 symbol) {
  if (const Node& n = node(parse); n.kind == Kind::Binding) {
    const Id body = reading(binding_body(n), symbol);
    return body == binding_body(n) ? parse : bind(binding_lexer(n), binding_domains(n), body);
  }
  while (node(parse).kind == Kind::Concat && nullable(node(parse).head()) && !first(node(parse).head()).has(symbol))
    parse = node(parse).tail();
  if (const Node& n = node(parse); n.kind == Kind::Union) {
    std::vector<Id> those;
    for (u32 i = 0; i < n.b; ++i)
      if (const Id m = operands(parse)[i]; first(m).has(symbol)) those.push_back(m);
    if (those.size() == 1 && node(those[0]).kind == Kind::Binding) return reading(those[0], symbol);
    if (!those.empty() && those.size() < n.b) parse = those.size() == 1 ? those[0] : union_of(those);
  }
  return parse;
}

Lexed::After Lexed::peek_end(const LexemeEnd& end, const Place& place, Begins& begins) {
  const Lexer& lexer = lexers_[end.lexer];
  const auto& lines = lexer.indentation;
  Peek past;
  if (lexer.wide() || lexer.ignored[end.terminal] || lexer.is_identifier(end.terminal) ||
      (lines && end.terminal == lines->newline) || has(place.parse, kUnknownText) ||
      !peek(place.parse, static_cast<u8>(end.terminal), past)) {
    Place there = place;
    return after_end(end, there, begins, false);
  }
  if (beyond_cut(place.parse)) return After::Unknown;
  if (!past.live) return After::Nothing;
  if (past.first.has(kCut)) return After::Unknown;
  u32 brackets = layouts_.values[place.layout].brackets;
  if (lines) brackets = lines->brackets_after(end.terminal, brackets);
  bool nested = false;
  for (u32 t : lexer.nested) {
    if (!past.first.has(static_cast<u8>(t))) continue;
    const Id text = lexer.terminals[t].text;  // empty if it matches only the empty text
    if (first(text).any()) return After::Unknown;
    nested = nested || live(text);  // special tokens: they have no bytes
  }
  begins.identifiers = past.identifiers;
  begins.start =
      lex_start_by(end.lexer, first_id(past.first), lexer.traps.empty() ? 0 : first_id(past.kept), brackets != 0);
  if (nested) return After::Something;
  if (states_.values[begins.start].entries.empty()) {
    Place there = place;
    return after_end(end, there, begins, false);
  }
  return context_holds(begins.start) && identifiers_hold(end.lexer, begins.identifiers) ? After::Something
                                                                                        : After::Unknown;
}

Lexed::After Lexed::after_end(const LexemeEnd& end, Place& place, Begins& begins, bool exact) {
  u32 column = end.column;
  if (const auto& lines = lexers_[end.lexer].indentation; lines && lines->newline == end.terminal) {
    const Layout& at = layouts_.values[place.layout];
    if (at.brackets == 0 && !at.columns.empty() && at.columns[0] == kAnyColumn) return After::Unknown;
    column = equivalent_column(end.lexer, place.parse, at, column);
  }
  if (!pass_lexeme(end.lexer, end.terminal, column, place))
    return place.parse != kEmpty && has(place.parse, kUnknownText) ? After::Unknown : After::Nothing;
  if (beyond_cut(place.parse)) return After::Unknown;
  begins.start = lex_start_of(end.lexer, place.parse, layouts_.values[place.layout].brackets != 0);
  begins.identifiers = identifiers_at(place.parse);
  const Id nested = nested_at(end.lexer, place);
  if (nested != kEmpty) {
    if (!exact) return After::Unknown;
    return live(scan_start(end.lexer, place.parse, place.layout)) ? After::Something : After::Nothing;
  }
  if (states_.values[begins.start].entries.empty() && begins.identifiers == 0)
    return parse_ends(end.lexer, place.parse, place.layout) ? After::Something : After::Nothing;
  if (context_holds(begins.start) && identifiers_hold(end.lexer, begins.identifiers)) return After::Something;
  if (!exact) return After::Unknown;
  return live(scan_start(end.lexer, place.parse, place.layout)) ? After::Something : After::Nothing;
}

}  // namespace guiderail
