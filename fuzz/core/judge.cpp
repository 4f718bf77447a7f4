#include "judge.hpp"

#include <algorithm>
#include <set>

namespace guiderail::fuzz {
namespace {

constexpr u32 place(u32 at) { return 1u << at; }
constexpr std::size_t kMostStates = 2'000;  // of a grammar

std::optional<u32> hex(std::string_view digits) {
  if (digits.size() != 4) return {};
  u32 value = 0;
  for (char c : digits) {
    const std::size_t at = std::string_view("0123456789abcdefABCDEF").find(c);
    if (at == std::string_view::npos) return {};
    value = value * 16 + static_cast<u32>(at < 16 ? at : at - 6);
  }
  return value;
}

// The meaning of the inside of a JSON string, by the standard.
std::optional<std::string> decoded(std::string_view spelled) {
  std::string out;
  for (std::size_t i = 0; i < spelled.size(); ++i) {
    const u8 byte = static_cast<u8>(spelled[i]);
    if (byte < 0x20 || byte == '"') return {};
    if (byte != '\\') {
      out += spelled[i];
      continue;
    }
    if (++i >= spelled.size()) return {};
    const std::size_t at = std::string_view("\"\\/bfnrt").find(spelled[i]);
    if (at != std::string_view::npos) {
      out += "\"\\/\b\f\n\r\t"[at];
      continue;
    }
    if (spelled[i] != 'u') return {};
    std::optional<u32> code = hex(spelled.substr(i + 1, 4));
    if (!code) return {};
    i += 4;
    if (*code >= 0xDC00 && *code < 0xE000) return {};
    if (*code >= 0xD800 && *code < 0xDC00) {
      if (spelled.substr(i + 1, 2) != "\\u") return {};
      const std::optional<u32> low = hex(spelled.substr(i + 3, 4));
      if (!low || *low < 0xDC00 || *low >= 0xE000) return {};
      code = 0x10000 + ((*code - 0xD800) << 10) + (*low - 0xDC00);
      i += 6;
    }
    out += utf8(*code);
  }
  return out;
}

// The one spelling that is always allowed.
std::string spelled(std::string_view text) {
  std::string out;
  for (char c : text) {
    const std::size_t at = std::string_view("\"\\\b\f\n\r\t").find(c);
    char code[8];
    std::snprintf(code, sizeof code, "\\u%04x", static_cast<u8>(c));
    if (at != std::string_view::npos)
      out += std::string("\\") + "\"\\bfnrt"[at];
    else if (static_cast<u8>(c) < 0x20)
      out += code;
    else
      out += c;
  }
  return out;
}

std::optional<std::string> read_string(std::string_view text, Escapes mode) {
  std::optional<std::string> out = decoded(text);
  if (out && mode == Escapes::Canonical && spelled(*out) != text) return {};
  return out;
}

}  // namespace

struct Judge::Writing {
  std::vector<std::string> keys;
  u32 last = 0;  // ordered: names before this one may no longer come
  u32 discharged = 0;
};

// What may follow: sets of stacks of pending parts, each closed under steps without a terminal.
struct Judge::Grammar {
  struct Todo {
    u32 part, min, max;  // the remaining counts of a repetition
    auto operator<=>(const Todo&) const = default;
  };
  using Stack = std::vector<Todo>;
  using State = std::set<Stack>;
  const Lexed& of;
  std::vector<State> states{};
  std::vector<u32> readable{};  // by state: its few possible terminals
  std::map<State, u32> ids{};
  std::map<std::pair<u32, u32>, u32> steps{};

  Todo todo(u32 part) const { return {part, of.parts[part].min, of.parts[part].max}; }
  u32 id(const std::vector<Stack>& stacks) {
    std::set<Stack> seen;
    State state;
    std::vector<Stack> work = stacks;
    while (!work.empty()) {
      Stack stack = std::move(work.back());
      work.pop_back();
      if (!seen.insert(stack).second) continue;
      if (seen.size() > kMostStates) throw Unjudged{};
      if (stack.empty()) {
        state.insert(stack);
        continue;
      }
      const Todo top = stack.back();
      const Lexed::Part& part = of.parts[top.part];
      if (part.kind == Lexed::Part::Terminal) {
        state.insert(stack);
        continue;
      }
      stack.pop_back();
      switch (part.kind) {
        case Lexed::Part::Terminal: break;
        case Lexed::Part::Rule: stack.push_back(todo(part.parts[0])); break;
        case Lexed::Part::Concat:
          for (std::size_t i = part.parts.size(); i-- > 0;) stack.push_back(todo(part.parts[i]));
          break;
        case Lexed::Part::Union:
          for (u32 one : part.parts) {
            work.push_back(stack);
            work.back().push_back(todo(one));
          }
          continue;
        case Lexed::Part::Repeat:
          if (top.min == 0) work.push_back(stack);
          if (top.max == 0) continue;
          stack.push_back({top.part, top.min - (top.min > 0), top.max == kInf ? kInf : top.max - 1});
          stack.push_back(todo(part.parts[0]));
          break;
      }
      work.push_back(std::move(stack));
    }
    const auto [at, fresh] = ids.try_emplace(state, static_cast<u32>(states.size()));
    if (fresh) {
      u32 set = 0;
      for (const Stack& stack : state)
        if (!stack.empty()) set |= 1u << of.parts[stack.back().part].terminal;
      readable.push_back(set);
      states.push_back(std::move(state));
    }
    if (states.size() > kMostStates) throw Unjudged{};
    return at->second;
  }
  u32 start() { return id({{todo(of.start)}}); }
  bool ends(u32 state) const { return states[state].contains(Stack{}); }
  bool may_read(u32 state, u32 terminal) const { return readable[state] >> terminal & 1; }
  u32 read(u32 state, u32 terminal) {
    if (const auto known = steps.find({state, terminal}); known != steps.end()) return known->second;
    std::vector<Stack> next;
    for (const Stack& stack : states[state])
      if (!stack.empty() && of.parts[stack.back().part].terminal == terminal)
        next.emplace_back(stack.begin(), stack.end() - 1);
    return steps[{state, terminal}] = id(next);
  }
};

Judge::Judge(Oracle& oracle)
    : oracle_(oracle),
      terms_(oracle.terms()),
      columns_(terms_.size() * (kLongest + 1)),
      known_(terms_.size() * (kLongest + 1)),
      looks_(terms_.size()) {
  for (std::size_t t = 0; t < terms_.size(); ++t) {
    const Term& term = terms_[t];
    looks_[t] = term.kind == Term::Ahead || term.kind == Term::Behind;
    if (term.kind == Term::Rule) {
      rules_.push_back(static_cast<int>(t));
      continue;  // holds none
    }
    for (int part : term.parts) looks_[t] |= looks_[static_cast<std::size_t>(part)];
  }
  start_column(0);
}

void Judge::push(u8 byte) {
  if (size_ == kLongest) throw Unjudged{};
  text_[size_++] = static_cast<char>(byte);
  start_column(size_);
}

// Rules start from "no match" and grow, to the least fixed point.
void Judge::start_column(u32 end) {
  utf8_[end] = place(end);
  for (u32 n = 1; n <= 4 && n <= end; ++n)
    if (is_utf8(span(end - n, end))) {  // the shortest is one character
      utf8_[end] |= utf8_[end - n];
      break;
    }
  const std::size_t at = end * terms_.size();
  std::fill_n(known_.begin() + static_cast<std::ptrdiff_t>(at), terms_.size(), u8{0});
  if (rules_.empty()) return;
  for (int rule : rules_) columns_[at + static_cast<std::size_t>(rule)] = 0;
  for (bool grew = true; grew;) {
    grew = false;
    std::fill_n(known_.begin() + static_cast<std::ptrdiff_t>(at), terms_.size(), u8{0});
    for (int rule : rules_) known_[at + static_cast<std::size_t>(rule)] = 1;
    for (int rule : rules_) {
      const auto& body = terms_[static_cast<std::size_t>(rule)].parts;
      if (body.empty()) continue;
      Places& known = columns_[at + static_cast<std::size_t>(rule)];
      const Places found = begins(body[0], end);
      grew = grew || found != known;
      known = found;
    }
  }
}

bool Judge::matches(int term) {
  const Term& t = terms_[static_cast<std::size_t>(term)];
  if (t.kind == Term::Lexed) return in_lexemes(term, 0, size_);
  return begins(term, size_) & 1;
}

std::unordered_map<std::string, bool>& Judge::memo(int term) { return memo_[term]; }

bool Judge::contains(int term, std::string_view text) {
  auto& known = memo(term);
  if (const auto it = known.find(std::string(text)); it != known.end()) return it->second;
  if (!inner_) inner_ = std::make_unique<Judge>(oracle_);
  inner_->clear();
  for (char c : text) inner_->push(static_cast<u8>(c));
  return known[std::string(text)] = inner_->matches(term);
}

Judge::Places Judge::begins(int term, u32 end) {
  const std::size_t at = end * terms_.size() + static_cast<std::size_t>(term);
  if (known_[at]) return columns_[at];
  const Places found = evaluate(term, end);
  known_[at] = 1;
  return columns_[at] = found;
}

// Where a match may begin that ends at one of these places.
Judge::Places Judge::before(int term, Places ends) {
  Places found = 0;
  for (; ends != 0; ends &= ends - 1) found |= begins(term, static_cast<u32>(std::countr_zero(ends)));
  return found;
}

Judge::Places Judge::evaluate(int index, u32 j) {
  const Term& t = terms_[static_cast<std::size_t>(index)];
  const std::string_view text = span(0, j);
  Places found = 0;
  switch (t.kind) {
    case Term::Literal:
    case Term::Choice:
      for (const std::string& s : t.texts)
        if (text.ends_with(s)) found |= place(j - static_cast<u32>(s.size()));
      return found;
    case Term::Class:
      for (u32 n = 1; n <= 4 && n <= j; ++n)
        if (utf8_[j] & place(j - n)) {  // the shortest is one character
          const auto b = [&](u32 k) { return static_cast<u8>(text[j - n + k]); };
          const u32 c = n == 1   ? b(0)
                        : n == 2 ? (b(0) & 31u) << 6 | (b(1) & 63u)
                        : n == 3 ? (b(0) & 15u) << 12 | (b(1) & 63u) << 6 | (b(2) & 63u)
                                 : (b(0) & 7u) << 18 | (b(1) & 63u) << 12 | (b(2) & 63u) << 6 | (b(3) & 63u);
          return t.chars->contains(c) ? place(j - n) : 0;
        }
      return 0;
    case Term::Bytes: return j > 0 && t.bytes.has(static_cast<u8>(text[j - 1])) ? place(j - 1) : 0;
    case Term::Concat:
      found = place(j);
      for (std::size_t k = t.parts.size(); k-- > 0 && found;) found = before(t.parts[k], found);
      return found;
    case Term::Union:
      for (int part : t.parts) found |= begins(part, j);
      return found;
    case Term::And:
      found = ~Places{0};
      for (int part : t.parts) found &= begins(part, j);
      return found;
    case Term::Complement: return utf8_[j] & ~begins(t.parts[0], j);
    case Term::Repeat: {
      Places here = place(j);
      for (u32 count = 0; here != 0 && count <= t.max; ++count) {
        if (count >= t.min) found |= here;
        if (count == t.max) return found;
        const Places next = before(t.parts[0], here);
        if (next == here) return found | here;  // nothing changes any more
        if (count >= t.min && (next & ~found) == 0) return found;
        here = next;
      }
      return found;
    }
    case Term::Substring:
      for (u32 i = 0; i <= j; ++i)
        for (const std::string& s : t.texts)
          if ((utf8_[j] & place(i)) && s.find(span(i, j)) != std::string::npos) found |= place(i);
      return found;
    case Term::Ahead:
    case Term::Behind: throw Unjudged{};
    case Term::Scope: {
      if (!looks_[static_cast<std::size_t>(t.parts[0])]) return begins(t.parts[0], j);
      auto& known = memo(index);
      for (u32 i = 0; i <= j; ++i) {
        if (j - i > kLongestText) throw Unjudged{};
        const auto [at, fresh] = known.try_emplace(std::string(span(i, j)), false);
        if (fresh) at->second = oracle_.matches(t.parts[0], span(i, j));
        if (at->second) found |= place(i);
      }
      return found;
    }
    case Term::Token: return 0;
    case Term::Rule: return t.parts.empty() ? 0 : begins(t.parts[0], j);
    case Term::Escaped:
      for (u32 i = 0; i <= j; ++i)
        if (in_escape(index, i, j)) found |= place(i);
      return found;
    case Term::Members:
      for (u32 i = 0; i <= j; ++i) {
        Writing none;
        if (i == j ? complete(*t.object, none) : member(*t.object, i, j, none)) found |= place(i);
      }
      return found;
    case Term::Patterned:
      for (u32 i = 0; i <= j; ++i)
        if (outcome(t, [&](int part) { return (begins(part, j) & place(i)) != 0; })) found |= place(i);
      return found;
    case Term::Distinct:
      for (u32 i = 0; i <= j; ++i) {
        std::vector<std::string> values;
        if ((t.negative && i == j) || item(t, i, j, values)) found |= place(i);
      }
      return found;
    case Term::Lexed:
      for (u32 i = 0; i <= j; ++i)
        if (in_lexemes(index, i, j)) found |= place(i);
      return found;
  }
  return 0;
}

bool Judge::in_escape(int term, u32 from, u32 end) {
  const Term& t = terms_[static_cast<std::size_t>(term)];
  const std::optional<std::string> text = read_string(span(from, end), t.mode);
  return text && contains(t.parts[0], *text);
}

bool Judge::complete(const Object& object, const Writing& written) const {
  for (std::size_t i = 0; i < object.names.size(); ++i)
    if (object.required[i] &&
        std::find(written.keys.begin(), written.keys.end(), object.names[i]) == written.keys.end())
      return false;
  return written.keys.size() >= object.min && written.keys.size() <= object.max &&
         (object.pending & ~written.discharged) == 0;
}

// A member, and all later ones up to the end.
bool Judge::member(const Object& object, u32 from, u32 end, Writing& so_far) {
  if (from >= end || text_[from] != '"') return false;
  u32 quote = from + 1;
  while (quote < end && text_[quote] != '"') quote += text_[quote] == '\\' ? 2 : 1;
  if (quote >= end) return false;
  const std::optional<std::string> key = read_string(span(from + 1, quote), object.mode);
  if (!key || std::find(so_far.keys.begin(), so_far.keys.end(), *key) != so_far.keys.end()) return false;
  const auto value = quote + 1 + static_cast<u32>(object.colon.size());
  if (value > end || span(quote + 1, value) != object.colon) return false;
  auto follow = [&](int term, u32 discharges, u32 last) {
    for (u32 after = value; after <= end; ++after) {
      if (!(begins(term, after) & place(value))) continue;
      Writing written = so_far;
      written.keys.push_back(*key);
      written.last = last;
      written.discharged |= discharges;
      if (after == end && complete(object, written)) return true;
      const u32 next = after + static_cast<u32>(object.comma.size());
      if (next < end && span(after, next) == object.comma && member(object, next, end, written)) return true;
    }
    return false;
  };
  const auto name = std::find(object.names.begin(), object.names.end(), *key);
  if (name != object.names.end()) {
    const auto field = static_cast<u32>(name - object.names.begin());
    if (object.ordered && field < so_far.last) return false;
    return std::any_of(object.ways[field].begin(), object.ways[field].end(),
                       [&](const Object::Way& way) { return follow(way.value, way.discharges, field + 1); });
  }
  return std::any_of(object.others.begin(), object.others.end(), [&](const Object::Other& other) {
    const auto names = static_cast<u32>(object.names.size());
    const Term& term = terms_[static_cast<std::size_t>(other.key)];
    if (term.kind != Term::Patterned) return contains(other.key, *key) && follow(other.value, other.discharges, names);
    const std::optional<u32> at = outcome(term, [&](int part) { return contains(part, *key); });
    return at && follow(term.outcomes->values[*at], other.discharges, names);
  });
}

// An item of a list, and all later ones up to the end. (Of the values here, only strings have several spellings.)
bool Judge::item(const Term& list, u32 from, u32 end, std::vector<std::string>& values) {
  if (list.max != kInf && values.size() > list.max) return false;
  for (u32 after = from; after <= end; ++after) {
    if (!(begins(list.parts[0], after) & place(from))) continue;
    std::string value(span(from, after));
    if (value.starts_with('"')) value = "\"" + decoded(std::string_view(value).substr(1, value.size() - 2)).value();
    if (std::find(values.begin(), values.end(), value) != values.end()) continue;
    if (after == end && values.size() >= list.min) return true;
    if (after >= end || text_[after] != ',') continue;
    values.push_back(value);
    const bool found = item(list, after + 1, end, values);
    values.pop_back();
    if (found) return true;
  }
  return false;
}

// Of the terminals that may come, the first in order that matches a prefix of the rest wins, with its longest text, or
// its shortest. A lazy one wins at its first match, whatever others could still become.
bool Judge::in_lexemes(int term, u32 from, u32 end) {
  const Lexed& of = *terms_[static_cast<std::size_t>(term)].lexed;
  auto& grammar = grammars_[term];
  if (!grammar) grammar = std::make_shared<Grammar>(Grammar{of});
  u32 state = grammar->start();
  while (from < end) {
    std::vector<u32> competing;
    for (u32 t = 0; t < of.terminals.size(); ++t)
      if (of.terminals[t].ignored || grammar->may_read(state, t)) competing.push_back(t);
    u32 winner = kInf, at = 0;
    std::size_t running = competing.size();  // those of lower rank are out
    for (u32 q = from + 1; q <= end; ++q) {
      for (std::size_t rank = 0; rank < running; ++rank) {
        if (!(begins(of.terminals[competing[rank]].text, q) & place(from))) continue;
        winner = competing[rank];
        at = q;
        running = of.terminals[winner].ends == Lexed::Last ? rank + 1 : rank;
        break;
      }
      if (winner != kInf && of.terminals[winner].ends == Lexed::Lazy) break;
    }
    if (winner == kInf) return false;
    from = at;
    if (!of.terminals[winner].ignored) state = grammar->read(state, winner);
  }
  return grammar->ends(state);
}

}  // namespace guiderail::fuzz
