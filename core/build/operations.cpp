#include "build/operations.hpp"

#include <algorithm>

#include "base/work.hpp"
#include "captures/captures.hpp"
#include "json/decimals.hpp"
#include "json/json.hpp"
#include "json/patterned.hpp"
#include "json/tallies.hpp"
#include "lexed/lexing.hpp"

namespace guiderail::operations {
namespace {

u32 bound(std::int64_t max) { return max < 0 || max >= kInf ? kInf : static_cast<u32>(max); }

Bits bits(const Numbers& set, std::size_t size, const char* what) {
  Work::spend(1 + size);  // many empty sets of many cells take more memory than their description
  Bits out(size);
  for (u32 i : set) {
    if (i >= size * 64) throw Error("bad-shape", std::string(what) + " has a number beyond the last cell or name");
    set_bit(out, i);
  }
  return out;
}

MemberTable table_of(const Table& from, std::int64_t min, std::int64_t max, u32 pending) {
  if (from.values.size() != from.names.size() || from.required.size() != from.names.size())
    throw Error("bad-shape", "members: names, values and required must have equal lengths");
  if (min < 0 || min >= kInf || max >= kInf || from.escapes > 1)
    throw Error("bad-bound", "members needs 0 <= min < 4294967295, max below that, escapes 0 or 1");
  MemberTable table;
  for (const std::string& name : from.names)
    if (!is_utf8(name)) throw Error("not-utf8", "members: a name is not UTF-8");
  table.names = from.names;
  for (const auto& value : from.values) {
    auto& list = table.values.emplace_back();
    for (const Table::Value& one : value) list.push_back({one.value, one.discharges});
  }
  for (bool r : from.required) table.required.push_back(r);
  for (const Table::Others& one : from.others)
    table.others.push_back({one.key, one.value, one.dense, one.discharges, {}});
  table.comma = from.comma;
  table.colon = from.colon;
  table.ordered = from.ordered;
  table.min = static_cast<u32>(min);
  table.max = bound(max);
  table.escapes = static_cast<Escapes>(from.escapes);
  table.pending = pending;
  return table;
}

// Adds the parts to a vote that already has its cells.
void add_parts(guiderail::Vote& vote, const std::vector<Part>& parts) {
  using Op = guiderail::Vote::Op;
  for (const Part& part : parts) {
    for (u32 p : part.of)
      if (part.op > static_cast<u32>(Op::Not) || p >= (part.op == 0 ? vote.cells.size() : vote.parts.size()))
        throw Error("bad-shape", "vote: a part may refer to earlier parts only");
    const Op op = static_cast<Op>(part.op);
    if (op > Op::Not || ((op == Op::Cell || op == Op::Not) && part.of.size() != 1))
      throw Error("bad-shape", "vote: a part is one cell, `not` one part, or one of 3 ways to put parts together");
    vote.parts.push_back({static_cast<Op>(part.op), part.of});
  }
  if (vote.parts.empty()) throw Error("bad-shape", "vote: there is no formula");
}

u128 decimal_digits(const std::string& digits) {
  u128 out = 0;
  for (char c : digits) {
    if (c < '0' || c > '9' || out > DecimalTable::kHuge) throw Error("bad-shape", "decimals: not a number below 10^36");
    out = 10 * out + static_cast<u32>(c - '0');
  }
  return out;
}

// The arithmetic of decimals relies on these: it has 128 bits, and divides by its arguments.
constexpr u32 kMostScale = 30;            // room for 10^scale, a digit and a divisor
constexpr std::size_t kMostDigits = 512;  // of a bound

bool digits(const std::string& text) {
  return text.size() <= kMostDigits &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

void check_cuts(const std::vector<Decimals::Cut>& cuts) {
  for (std::size_t i = 0; i < cuts.size(); ++i) {
    const auto& [whole, fraction, at, above, gap] = cuts[i];
    if (whole.empty() || !digits(whole) || !digits(fraction) || (whole.size() > 1 && whole[0] == '0') ||
        (!fraction.empty() && fraction.back() == '0'))
      throw Error("bad-shape", "decimals: a cut needs digits, without redundant zeros");
    if (i == 0) continue;
    const auto& last = cuts[i - 1];
    const auto key = [](const Decimals::Cut& cut) { return std::tie(cut.whole, cut.fraction); };
    if (whole.size() != last.whole.size() ? whole.size() < last.whole.size() : key(cuts[i]) <= key(last))
      throw Error("bad-shape", "decimals: cuts must be ascending");
  }
}

void check_divisors(const DecimalTable& table) {
  u128 unit = 1;
  for (u32 i = 0; i < table.scale; ++i) unit *= 10;
  for (u128 m : table.moduli)
    if (m == 0 || m > DecimalTable::kHuge) throw Error("bad-shape", "decimals: a modulus is 0 or too large");
  for (const DecimalLabel& label : table.labels)
    for (const DecimalPart& part : label.parts) {
      u128 a = part.step ? part.step : 1, b = unit;
      while (b) a = std::exchange(b, a % b);  // gcd
      if ((part.step ? part.step : 1) / a > DecimalTable::kHuge / unit)
        throw Error("bad-shape", "decimals: a step is too large for its scale");
      for (u128 n : part.gaps)
        if (n == 0) throw Error("bad-shape", "decimals: nothing is a multiple of 0");
    }
}

}  // namespace

// The literals among the alternatives become one acyclic automaton.
Id Union::make(Arena& arena) {
  const auto is_literal = [&](Id e, std::string* text = nullptr) {
    return e != kEpsilon && arena.node(e).kind == Kind::Switch && arena.is_literal(e, text);
  };
  if (std::count_if(parts.begin(), parts.end(), is_literal) < 2) return arena.unite(parts);
  Strings strings;
  std::vector<Id> others;
  for (Id e : parts) {
    std::string text;
    if (is_literal(e, &text))
      strings.push_back(std::move(text));
    else
      others.push_back(e);
  }
  others.push_back(arena.choice(std::move(strings)));
  return arena.unite(others);
}

Id Repeat::make(Arena& arena) {
  if (min < 0 || min >= kInf || max >= kInf || (max >= 0 && max < min))
    throw Error("bad-bound", "repeat needs 0 <= min <= max < 4294967295 (max < 0: no upper bound)");
  return arena.repeat(of, static_cast<u32>(min), bound(max));
}

Id Choice::make(Arena& arena) {
  Patience::release();
  return arena.choice(texts);
}

Id SubstringOf::make(Arena& arena) {
  Patience::release();
  return arena.substring_of(texts);
}

Id OneToken::make(Arena& arena) {
  std::vector<Symbol> symbols;
  for (const auto& name : names) std::visit([&](const auto& of) { symbols.emplace_back(of); }, name);
  return arena.token(symbols);
}

Id Escaped::make(Arena& arena) {
  if (mode > 1) throw Error("bad-mode", "escaped takes mode 0 (canonical) or 1 (all spellings)");
  return guiderail::Escaped::of(arena).escaped(of, static_cast<Escapes>(mode));
}

Id Members::make(Arena& arena) { return Json::of(arena).members(table_of(table, min, max, pending)); }

Id Vote::make(Arena& arena) {
  MemberTable made = table_of(table, 0, -1, 1);
  auto vote = std::make_shared<guiderail::Vote>();
  const std::size_t words = (cells.size() + 63) / 64;
  for (const Cell& cell : cells) {
    vote->cells.push_back({bits(cell.needed, table.names.size() / 64 + 1, "vote: a set"), cell.min, bound(cell.max)});
    vote->counted = std::max({vote->counted, cell.min, cell.max < 0 ? 0 : add_sat(bound(cell.max), 1)});
  }
  add_parts(*vote, parts);
  for (const Numbers& effect : effects) vote->effects.push_back(bits(effect, words, "vote: a set"));
  auto known = [&](u32 effect) {
    if (effect >= effects.size()) throw Error("bad-shape", "vote: no such effect");
  };
  for (const auto& list : made.values)
    for (const Alternative& a : list) known(a.discharges);
  for (const OtherKeys& o : made.others) known(o.discharges);
  for (const Settled& one : settled) {
    if (const auto plain = Json::of(arena).plain_members(one.start))
      vote->settled.push_back({bits(one.cells, words, "vote: a set"), one.start, *plain});
  }
  if (wholes.size() != made.names.size()) throw Error("bad-shape", "vote: there must be wholes for each name");
  for (std::size_t name = 0; name < wholes.size(); ++name) {
    auto& of = vote->wholes.emplace_back();
    for (const Whole& one : wholes[name]) {
      if (!std::is_sorted(one.values.begin(), one.values.end()) ||
          (!one.values.empty() && one.values.back() >= made.values[name].size()))
        throw Error("bad-shape", "vote: a whole has values of its name, in order");
      of.push_back({one.values, one.value});
    }
  }
  made.vote = std::move(vote);
  return Json::of(arena).members(std::move(made));
}

Id Item::make(Arena& arena) { return Json::of(arena).item(of, left, label); }
Id Distinct::make(Arena& arena) { return Json::of(arena).distinct(body); }
Id Twice::make(Arena& arena) { return Json::of(arena).twice(body); }

Id Tally::make(Arena& arena) {
  TallyTable table;
  table.comma = comma;
  for (const Cell& cell : cells) table.vote.cells.push_back({{}, cell.min, bound(cell.max)});
  add_parts(table.vote, parts);
  for (const Counter& one : counters) {
    if (one.cell >= cells.size()) throw Error("bad-shape", "tally: a counter of no cell");
    table.counters.push_back({one.cell, one.min, bound(one.max)});
  }
  if (places.empty()) throw Error("bad-shape", "tally: there are no items");
  for (const auto& place : places) {
    auto& to = table.places.emplace_back();
    for (const Items& items : place) {
      for (u32 cell : items.fails)
        if (cell >= cells.size()) throw Error("bad-shape", "tally: no such cell");
      for (u32 counter : items.counts)
        if (counter >= counters.size()) throw Error("bad-shape", "tally: no such counter");
      to.push_back({items.value, bits(items.fails, (cells.size() + 63) / 64, "tally: a set"), items.counts});
    }
  }
  return Tallies::of(arena).tally(std::move(table));
}

Id Decimals::make(Arena& arena) {
  if (scale > kMostScale) throw Error("bad-bound", "decimals counts at most 30 digits after the point");
  check_cuts(cuts);
  DecimalTable table;
  table.scale = scale;
  if (room >= 0) table.room = bound(room);
  for (const Label& from : labels) {
    DecimalLabel& label = table.labels.emplace_back();
    label.dotted = from.dotted;
    for (const Multiples& multiples : from.parts) {
      DecimalPart& part = label.parts.emplace_back();
      part.step = decimal_digits(multiples.step);
      for (const std::string& gap : multiples.gaps) part.gaps.push_back(decimal_digits(gap));
    }
  }
  for (const Cut& cut : cuts) {
    if (std::max(cut.at, cut.above) >= labels.size()) throw Error("bad-handle", "decimals: no such label");
    table.cuts.push_back({cut.whole, cut.fraction, cut.at, cut.above, decimal_digits(cut.gap)});
  }
  for (const std::string& modulus : moduli) table.moduli.push_back(decimal_digits(modulus));
  check_divisors(table);
  return guiderail::Decimals::of(arena).decimals(std::move(table));
}

guiderail::Lexer Lexer::checked(const Arena& arena) const {
  guiderail::Lexer lexer;
  const std::size_t count = terminals.size();
  auto check = [&](u32 t) {
    if (t >= count) throw Error("bad-handle", "no such terminal in this lexer: " + std::to_string(t));
    return t;
  };
  using Ends = guiderail::Terminal::Ends;
  for (const Terminal& one : terminals) {
    for (u32 owner : one.keyword_of) check(owner);
    if (one.ends > static_cast<u32>(Ends::Nested))
      throw Error("bad-shape", "a terminal ends in one of 4 ways, not " + std::to_string(one.ends));
    if (arena.has(one.text, kHasCapture) && static_cast<Ends>(one.ends) != Ends::Nested)
      throw Error("not-regular", "a lexer has no memory for what a group has matched: a terminal can hold no capture");
    lexer.terminals.push_back(
        {one.text, static_cast<Ends>(one.ends), one.keyword_of, one.guard_of ? check(*one.guard_of) : kNone});
  }
  lexer.ignored.assign(count, 0);
  for (u32 t : ignore) lexer.ignored[check(t)] = 1;
  if (indentation) {
    const Lines& lines = *indentation;
    if (lines.tab == 0) throw Error("bad-bound", "a tab counts at least one column");
    for (const auto* list : {&lines.opening, &lines.closing})
      for (u32 t : *list) check(t);
    lexer.indentation =
        Indentation{check(lines.newline), check(lines.indent), check(lines.dedent), lines.opening,
                    lines.closing,        lines.tab,           lines.strict_tabs,   lines.final_newline};
  }
  for (u32 t : traps) lexer.traps.push_back(check(t));
  lexer.before = before;
  return lexer;
}

LexerId Lexer::make(Arena& arena) { return LexerId{guiderail::Lexed::of(arena).lexer(checked(arena))}; }

namespace {

constexpr u32 kMostValues = 65'536;

Bits value_bits(const Numbers& values) {
  const u32 most = values.empty() ? 0 : *std::max_element(values.begin(), values.end());
  if (most >= kMostValues) throw Error("bad-bound", "a variable has at most 65,536 values");
  Bits bits(most / 64 + 1);
  for (u32 value : values) set_bit(bits, value);
  return bits;
}

}  // namespace

LexerId IdentifierLexer::make(Arena& arena) {
  guiderail::Lexed& lexed = guiderail::Lexed::of(arena);
  guiderail::Lexer made = lexer.checked(arena);
  for (const Identifier& one : identifiers)
    made.identifiers.push_back({one.relation, lexed.value_set(value_bits(one.values))});
  for (const Placeholder& one : placeholders) made.placeholders.push_back({one.terminal, one.variable, one.relation});
  return LexerId{lexed.lexer(std::move(made))};
}

Id Binding::make(Arena& arena) {
  std::vector<Bits> sets;
  for (const Numbers& values : domains) sets.push_back(value_bits(values));
  return guiderail::Lexed::of(arena).binding(static_cast<u32>(lexer), std::move(sets), body);
}

Id Patterned::make(Arena& arena) {
  if (values.empty() || next.size() != values.size())
    throw Error("bad-shape", "patterned: each outcome has a value, and a list of the outcomes that follow");
  for (const Numbers& row : next)
    if (row.size() != patterns.size() || std::any_of(row.begin(), row.end(), [&](u32 to) { return to >= next.size(); }))
      throw Error("bad-shape", "patterned: each pattern leads to an outcome");
  return guiderail::Patterned::of(arena).patterned(text, patterns, next, values);
}

Id Recall::make(Arena& arena) { return Captures::of(arena).recall(label); }

Id Capture::make(Arena& arena) { return Captures::of(arena).capture(label, group, rest); }

Id Terminal::make(Arena& arena) { return guiderail::Lexed::of(arena).terminal(static_cast<u32>(lexer), index); }
Id Never::make(Arena& arena) { return guiderail::Lexed::of(arena).never(static_cast<u32>(lexer)); }
Id Lexed::make(Arena& arena) { return guiderail::Lexed::of(arena).lexed(static_cast<u32>(lexer), body); }

}  // namespace guiderail::operations
