#include "expressions.hpp"

#include <algorithm>
#include <unordered_set>

#include "json/json.hpp"
#include "lexed/lexing.hpp"
#include "python_calls.hpp"

namespace guiderail::fuzz {

const std::vector<std::string> kPieces{"a", "b", "c", "\u00e9", "\u20ac", "\U0001F600", "0",  "1", "\"", "\\", "{",
                                       "}", "[", "]", ",",      ":",      " ",          "\n", "n", "u",  "-",  "ab"};

bool explaining = false;

namespace {

constexpr u32 kMostTerms = 40;
constexpr std::size_t kMostOnStack = 8;
const std::array<u32, 16> kCounts{0, 1, 2, 3, 4, 5, 7, 15, 16, 17, 33, 200, 1, 2, 3, 0};

const std::vector<CharSet::Ptr>& sets() {
  static const std::vector<CharSet::Ptr> all = [] {
    const u32 last = 0x10FFFF;
    std::vector<std::vector<CharSet::Range>> ranges{
        {{'a', 'a'}},
        {{'a', 'b'}},
        {{0, 'a' - 1}, {'b', last}},
        {{0, last}},
        {{'0', '9'}},
        {{'a', 'z'}},
        {{0x80, last}},
        {{0xe9, 0xe9}, {0x20ac, 0x20ac}},
        {{0x1F600, 0x1F600}},
        {{0, '"' - 1}, {'"' + 1, '\\' - 1}, {'\\' + 1, last}},
        {{'a', 'z'}, {0xe9, 0xe9}},
        {{0, 0x1f}},
        {{0x2000, 0x20ff}},
        {{0, 'a'}, {'c', 0x20ab}, {0x20ad, last}},
        {{0x20, '"' - 1}, {'"' + 1, '\\' - 1}, {'\\' + 1, last}},
        {{'\t', '\n'}, {' ', ' '}},
    };
    std::vector<CharSet::Ptr> out;
    for (auto& r : ranges) out.push_back(CharSet::make(r));
    return out;
  }();
  return all;
}

}  // namespace

Made Expressions::literal(const std::string& text) {
  return {arena_.literal(text), oracle_.add({.kind = Term::Literal, .texts = {text}}),
          call("literal", in_quotes(text))};
}

Made Expressions::chars(u32 index) {
  const CharSet::Ptr& set = sets()[index % sets().size()];
  return {arena_.char_class(set), oracle_.add({.kind = Term::Class, .chars = set}), ranges_of(*set)};
}

Made Expressions::pop() {
  if (stack_.empty()) return in_.chance(2) ? literal(kPieces[in_.below(3)]) : chars(in_.byte());
  const Made top = stack_.back();
  stack_.pop_back();
  return top;
}

Made Expressions::closed(Made e) {
  if (!arena_.has(e.id, kHasLook)) return e;
  Made out{arena_.scope(e.id), kNoMeaning, call("scope", e.code)};
  if (e.term != kNoMeaning) out.term = oracle_.add({.kind = Term::Scope, .parts = {e.term}});
  return out;
}

// An expression that is known to match something. Callers that ask for an object leave out what is certain to be empty.
Made Expressions::living() {
  const Made e = closed(pop());
  return arena_.has(e.id, kHasRef) || arena_.live(e.id) ? e : chars(in_.byte());
}

// An expression over characters: keys are texts.
Made Expressions::text() {
  const Made e = closed(pop());
  return e.term != kNoMeaning && !arena_.has(e.id, kHasRef) && arena_.live(e.id) ? e : chars(in_.byte());
}

void Expressions::push(Id id, const std::vector<Made>& parts, Term term, const std::string& code) {
  for (const Made& part : parts) {
    if (part.term == kNoMeaning) return stack_.push_back({id, kNoMeaning, code});
    term.parts.push_back(part.term);
  }
  stack_.push_back({id, oracle_.add(std::move(term)), code});
}

void Expressions::list(Term::Kind kind) {
  std::vector<Made> parts;
  for (u32 count = 2 + in_.below(3) / 2; count > 0; --count)
    parts.insert(parts.begin(), kind == Term::And ? closed(pop()) : pop());
  std::vector<Id> ids;
  std::string code;
  for (const Made& part : parts) {
    ids.push_back(part.id);
    code += part.code + ", ";
  }
  const Id id = kind == Term::Concat  ? arena_.concat_all(ids)
                : kind == Term::Union ? arena_.unite(ids)
                                      : arena_.intersect(ids);
  const char* name = kind == Term::Concat ? "concat" : kind == Term::Union ? "union" : "intersection";
  push(id, parts, {.kind = kind}, call(name, "[" + code + "]"));
}

// Objects and lists of distinct values are not lexemes: front ends make them nested terminals.
bool Expressions::holds_values(int index) {
  std::vector<int> open{index};
  std::unordered_set<int> seen;  // rules may contain themselves
  while (!open.empty()) {
    index = open.back();
    open.pop_back();
    if (index == kNoMeaning) return true;
    if (!seen.insert(index).second) continue;
    const Term& t = oracle_.term(index);
    if (t.kind == Term::Members || t.kind == Term::Distinct) return true;
    open.insert(open.end(), t.parts.begin(), t.parts.end());
  }
  return false;
}

void Expressions::lexed() {
  Lexer lexer;
  auto meaning = std::make_shared<Lexed>();
  bool meant = true;
  const u32 count = 2 + in_.below(4);
  std::string terminal_code, ignored_code;
  for (u32 i = 0; i < count; ++i) {
    const u8 how = in_.byte();
    Terminal t;
    Made text = closed(pop());
    if (arena_.has(text.id, kHasRef | kHasToken) || !arena_.live(text.id) || holds_values(text.term))
      text = literal(kPieces[how % 22]);  // regular, not empty
    t.text = text.id;
    t.ends = (how & 7) == 1 ? Terminal::Ends::First : (how & 7) == 2 ? Terminal::Ends::Lazy : Terminal::Ends::Last;
    terminal_code += "(" + text.code + ", " + std::to_string(static_cast<int>(t.ends)) + ", [], None), ";
    meaning->terminals.push_back({text.term, static_cast<Lexed::Ends>(t.ends), false});
    meant = meant && text.term != kNoMeaning;
    lexer.terminals.push_back(std::move(t));
    lexer.ignored.push_back(0);
  }
  u32 named = count;  // terminals that the grammar may use
  if (in_.chance(2)) {
    --named;
    lexer.ignored.back() = 1;
    meaning->terminals.back().ignored = true;
    ignored_code = std::to_string(count - 1);
  }
  const std::string name = "l" + std::to_string(rules_++);
  std::string code = "(" + name + " := b.lexer([" + terminal_code + "], [" + ignored_code + "])), ";
  const u32 number = guiderail::Lexed::of(arena_).lexer(std::move(lexer));
  std::vector<Made> parts;
  auto part = [&](Lexed::Part made) {
    meaning->parts.push_back(std::move(made));
    return static_cast<int>(meaning->parts.size() - 1);
  };
  auto of = [](const Made& e) { return static_cast<u32>(e.term); };  // here a part of the grammar
  auto terminal = [&](u32 index) {
    return Made{guiderail::Lexed::of(arena_).terminal(number, index),
                part({.kind = Lexed::Part::Terminal, .terminal = index}),
                call("terminal", name + ", " + std::to_string(index))};
  };
  auto top = [&] {
    if (parts.empty()) return terminal(in_.below(named));
    const Made e = parts.back();
    parts.pop_back();
    return e;
  };
  Made rule{kEmpty};
  for (u32 steps = 2 + in_.below(10); steps > 0; --steps) {
    const u8 how = in_.byte();
    switch (how % 8) {
      case 0:
      case 1:
      case 2: parts.push_back(terminal((how >> 3) % named)); break;
      case 3:
      case 4: {
        const Made tail = top(), head = top();
        const bool both = how % 8 == 3;
        const int made = part({.kind = both ? Lexed::Part::Concat : Lexed::Part::Union, .parts = {of(head), of(tail)}});
        parts.push_back({both ? arena_.concat(head.id, tail.id) : arena_.unite(head.id, tail.id), made,
                         call(both ? "concat" : "union", "[" + head.code + ", " + tail.code + "]")});
        break;
      }
      case 5: {
        const Made e = top();
        const u32 min = how >> 3 & 1, max = how & 16 ? kInf : 1 + (how >> 5);
        parts.push_back({arena_.repeat(e.id, min, max),
                         part({.kind = Lexed::Part::Repeat, .parts = {of(e)}, .min = min, .max = max}),
                         call("repeat", e.code + ", " + bound(min) + ", " + bound(max))});
        break;
      }
      case 6:
        if (rule.id == kEmpty) {
          rule = {arena_.rule(name), part({.kind = Lexed::Part::Rule}), name + "r"};
          code += "(" + name + "r := b.rule('" + name + "')), ";
        }
        if (how & 8) {
          const Made head = terminal((how >> 4) % named);
          parts.push_back({arena_.concat(head.id, rule.id),
                           part({.kind = Lexed::Part::Concat, .parts = {of(head), of(rule)}}),
                           call("concat", "[" + head.code + ", " + rule.code + "]")});
        } else {
          parts.push_back(rule);
        }
        break;
      default: break;
    }
  }
  Made body = top();
  if (rule.id != kEmpty) {
    const Made leaf = terminal(0);
    arena_.define(rule.id, arena_.unite(body.id, leaf.id));
    meaning->parts[of(rule)].parts = {
        static_cast<u32>(part({.kind = Lexed::Part::Union, .parts = {of(body), of(leaf)}}))};
    code += "b.define(" + rule.code + ", b.union([" + body.code + ", " + leaf.code + "])), ";
    body = rule;
  }
  code += call("lexed", name + ", " + body.code);
  meaning->start = of(body);
  const int term = meant ? oracle_.add({.kind = Term::Lexed, .lexed = meaning}) : kNoMeaning;
  stack_.push_back({guiderail::Lexed::of(arena_).lexed(number, body.id), term, explaining ? "(" + code + ")[-1]" : ""});
}

// r ::= open r close | non-recursive, sometimes twice.
void Expressions::recursive() {
  const std::string name = "r" + std::to_string(rules_++);
  const Id rule = arena_.rule(name);
  const int term = oracle_.add({.kind = Term::Rule});
  const Made leaf = closed(pop()), open = literal(kPieces[in_.below(22)]), close = literal(kPieces[in_.below(22)]);
  const bool twice = in_.chance(3), rest = in_.chance(2);
  std::vector<Id> ids{open.id, rule};
  std::vector<int> terms{open.term, term};
  std::string code = open.code + ", " + name;
  if (rest) {
    ids.push_back(close.id);
    terms.push_back(close.term);
    code += ", " + close.code;
  }
  if (twice) {
    ids.push_back(rule);
    terms.push_back(term);
    code += ", " + name;
  }
  arena_.define(rule, arena_.unite(arena_.concat_all(ids), leaf.id));
  code = explaining ? "((" + name + " := b.rule('" + name + "')), b.define(" + name + ", b.union([b.concat([" + code +
                          "]), " + leaf.code + "])), " + name + ")[-1]"
                    : "";
  if (leaf.term == kNoMeaning) return stack_.push_back({rule, kNoMeaning, code});
  const int inside = oracle_.add({.kind = Term::Concat, .parts = terms});
  const int body = oracle_.add({.kind = Term::Union, .parts = {inside, leaf.term}});
  oracle_.term(term).parts = {body};
  stack_.push_back({rule, term, code});
}

void Expressions::one() {
  const u8 op = in_.byte();
  if (op >= 224) return stack_.push_back(literal(kPieces[op % kPieces.size()]));
  if (op >= 192) return stack_.push_back(chars(op));
  switch (op % 32) {
    case 0:
    case 1:
    case 2: return stack_.push_back(literal(kPieces[in_.below(22)]));
    case 3: {
      std::string text;
      for (u32 n = 2 + in_.below(4); n > 0; --n) text += kPieces[in_.below(22)];
      return stack_.push_back(literal(text));
    }
    case 4:
    case 5: return stack_.push_back(chars(in_.byte()));
    case 6: {
      ByteSet set;
      const u8 low = in_.byte();
      set.add_range(low, low + in_.below(256u - low));
      if (!raw_) {
        set = {};
        set.add_range(low & 127u, (low & 127u) | low >> 5);
      }
      std::string values;
      for (unsigned b = 0; b < 256; ++b)
        if (set.has(static_cast<u8>(b))) values += static_cast<char>(b);
      return stack_.push_back(
          {arena_.bytes(set), oracle_.add({.kind = Term::Bytes, .bytes = set}), call("byte_class", in_quotes(values))});
    }
    case 7:
    case 8:
    case 9: return list(Term::Concat);
    case 10:
    case 11:
    case 12: return list(Term::Union);
    case 13:
    case 14: return list(Term::And);
    case 15: {
      const Made e = closed(pop());
      return push(arena_.complement_text(e.id), {e}, {.kind = Term::Complement}, call("complement", e.code));
    }
    case 16:
    case 17:
    case 18:
    case 19: {
      const Made e = pop();
      const u8 how = in_.byte();
      const u32 min = kCounts[how & 15], max = how & 128 ? kInf : min + kCounts[how >> 4 & 7];
      return push(arena_.repeat(e.id, min, max), {e}, {.kind = Term::Repeat, .min = min, .max = max},
                  call("repeat", e.code + ", " + bound(min) + ", " + bound(max)));
    }
    case 20: {
      std::vector<std::string> texts(2 + in_.below(4));
      for (std::string& text : texts)
        for (u32 n = in_.below(4); n > 0; --n) text += kPieces[in_.below(8)];
      return push(arena_.choice(texts), {}, {.kind = Term::Choice, .texts = texts}, call("choice", in_quotes(texts)));
    }
    case 21: {
      std::vector<std::string> texts(1 + in_.below(2));
      for (std::string& text : texts)
        for (u32 n = 1 + in_.below(6); n > 0; --n) text += kPieces[in_.below(8)];
      return push(arena_.substring_of(texts), {}, {.kind = Term::Substring, .texts = texts},
                  call("substring_of", in_quotes(texts)));
    }
    case 22: {
      if (raw_) return;
      const Made e = pop();
      const bool negative = in_.chance(2);
      return push(arena_.ahead(e.id, negative), {e}, {.kind = Term::Ahead, .negative = negative},
                  call("look_ahead", e.code + ", " + truth(negative)));
    }
    case 23: {
      if (raw_) return;
      const Made e = pop();
      const bool negative = in_.chance(2);
      const Id id = arena_.behind(arena_.concat(arena_.any_text(), e.id), negative);
      return push(id, {e}, {.kind = Term::Behind, .negative = negative},
                  call("look_behind", e.code + ", " + truth(negative)));
    }
    case 24: {
      const Made e = pop();
      return push(arena_.scope(e.id), {e}, {.kind = Term::Scope}, call("scope", e.code));
    }
    case 25: {  // elsewhere items of a list, and keys
      u32 values = 0;
      Made follows;
      const Made e = in_.chance(2) ? patterned(follows) : value(values);
      return stack_.push_back(e);
    }
    case 26: {
      const u8 how = in_.byte();
      if (how & 1) return push(arena_.token({Symbol{"<s>"}}), {}, {.kind = Term::Token}, call("token", "['<s>']"));
      TokenSet set;
      set.tokens.emplace_back(how & 2 ? "a" : "ab");
      if (how & 4) set.tokens.emplace_back("<s>");
      set.but = how & 8;
      const std::string names = std::string(how & 2 ? "'a'" : "'ab'") + (how & 4 ? ", '<s>'" : "");
      return stack_.push_back(
          {arena_.token({set}), kNoMeaning, call("token_set", "[" + names + "], " + truth(set.but))});
    }
    case 27: {
      const Made e = closed(pop());
      const u32 most = in_.below(5);
      return stack_.push_back(
          {arena_.counted(e.id, most), kNoMeaning, call("counted", e.code + ", " + std::to_string(most))});
    }
    case 28: {
      if (raw_) return;  // the inside of a string is text
      const Made e = in_.chance(4) ? object() : text();
      const Escapes mode = in_.chance(2) ? Escapes::All : Escapes::Canonical;
      Made text{guiderail::Escaped::of(arena_).escaped(e.id, mode), kNoMeaning,
                call("escaped", e.code + (mode == Escapes::All ? ", 1" : ", 0"))};
      if (e.term != kNoMeaning) text.term = oracle_.add({.kind = Term::Escaped, .parts = {e.term}, .mode = mode});
      return stack_.push_back(enclosed("\"", text, "\""));
    }
    case 29: return in_.chance(2) ? members() : distinct();
    case 30: return lexed();
    default: return recursive();
  }
}

Made Expressions::run() {
  const u32 steps = 1 + in_.below(20);
  raw_ = in_.chance(8);
  for (u32 i = 0; i < steps && (in_.more() || i < 6) && rules_ < kMostTerms; ++i) {
    try {
      one();
    } catch (const Error&) {
      // Rejected: its operands are gone, and the rest must work.
    }
    if (stack_.size() > kMostOnStack) list(Term::Concat);
  }
  Made root = pop();
  while (!stack_.empty()) {
    const Made other = pop();
    const bool either = in_.chance(2);
    const std::vector<Made> parts{other, root};
    push(either ? arena_.unite(other.id, root.id) : arena_.concat(other.id, root.id), parts,
         {.kind = either ? Term::Union : Term::Concat},
         call(either ? "union" : "concat", "[" + other.code + ", " + root.code + "]"));
    root = stack_.back();
    stack_.pop_back();
  }
  return closed(root);
}

}  // namespace guiderail::fuzz
