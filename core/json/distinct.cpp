// Lists whose items are pairwise different JSON values (uniqueItems).
//
// Distinct(b, S) matches b if the parts wrapped in Item differ from each other and from the values S. An Item stores
// its text while it is read; once complete, the text joins S. A new item is intersected with the complement of all
// spellings of the values in S. So a value is rejected as soon as it could only repeat another.
#include <algorithm>

#include "base/short_set.hpp"
#include "base/work.hpp"
#include "json/json.hpp"

namespace guiderail {
namespace {

constexpr int kDeepest = 500;       // nesting of values that are compared
constexpr u32 kLongestPlain = 400;  // digits of a number that is written out

struct Number {
  bool negative = false;
  std::string digits;      // significant digits, no leading or trailing zeros; empty: zero
  long long exponent = 0;  // value = 0.digits * 10^exponent
};

Number read_number(std::string_view text) {
  Number out;
  std::size_t i = 0;
  if (i < text.size() && text[i] == '-') {
    out.negative = true;
    ++i;
  }
  bool fraction = false;
  for (; i < text.size() && (text[i] == '.' || (text[i] >= '0' && text[i] <= '9')); ++i) {
    if (text[i] == '.') {
      fraction = true;
    } else if (text[i] == '0' && out.digits.empty()) {
      if (fraction) --out.exponent;
    } else {
      out.digits.push_back(text[i]);
      if (!fraction) ++out.exponent;
    }
  }
  if (i < text.size()) {  // e or E
    ++i;
    const bool minus = text[i] == '-';
    if (text[i] == '-' || text[i] == '+') ++i;
    long long e = 0;
    for (; i < text.size(); ++i) e = std::min(e * 10 + (text[i] - '0'), 1LL << 40);
    out.exponent += minus ? -e : e;
  }
  while (!out.digits.empty() && out.digits.back() == '0') out.digits.pop_back();
  return out;
}

}  // namespace

bool Json::item_is_dense(Id e) const {
  if (node(e).kind != Kind::Concat) return false;
  const Id inside = node(e).tail();
  if (node(inside).kind != Kind::Concat) return false;
  const Node& body = node(node(inside).head());
  std::string open, close;
  return is_escaped(body) && escaped_text(body) == any_text() && is_literal(node(e).head(), &open) && open == "\"" &&
         is_literal(node(inside).tail(), &close) && close == "\"";
}

Id Json::item(Id e, u32 left, u32 label) {
  used_ = true;
  if (has(e, kHasItem)) throw Error("item-outside", "an item must be directly inside its own distinct");
  if (has(e, kHasLook)) throw Error("look-outside-scope", "a look-around must stand inside a scope within one item");
  if (label >= kItemLabels) throw Error("item-label", "items have at most 32 labels");
  if (left > 2) throw Error("item-left", "of an item, 0, 1 or 2 says whether a value is left");
  const u32 dense = item_is_dense(e) ? kItemDense | kItemLeft | kItemEndless : 0;
  return item_at(e, 0, dense | (left > 0 ? kItemLeft : 0) | (left > 1 ? kItemEndless : 0) | label << kItemFacts);
}

Id Json::item_at(Id e, u32 text, u32 facts) {
  if (e == kEmpty) return kEmpty;
  const Node& n = node(e);
  Draft d = draft(Kind::Item);
  d.a = index_of(e);
  d.b = text;
  d.min = facts;
  absorb(d, e, true);
  d.flags |= kHasItem;
  if (text != kSomeText) d.flags |= kExactStep;
  if (!(facts & kItemLeft)) d.flags |= kFiniteItem;
  if (text != 0 && text != kSomeText) d.flags |= kExactKey;
  if (has(e, kNullable)) d.flags |= kNullable;
  d.shortest = n.shortest;
  d.longest = n.longest;
  return intern(d);
}

Id Json::distinct(Id body) {
  used_ = true;
  return distinct_node(body, seen_states_.id({}));
}

// Is e = Distinct(item(any text " ...) ...), whose item still differs from all before it?
bool Json::free_item(Id e) const {
  if (node(e).kind != Kind::Distinct) return false;
  const Node& item = node(unstack(distinct_body(node(e))).head);
  if (item.kind != Kind::Item || item_text(item) != kSomeText || node(item_rest(item)).kind != Kind::Concat)
    return false;
  const Node& body = node(node(item_rest(item)).head());
  return is_escaped(body) && escaped_text(body) == any_text();
}

Id Json::distinct_node(Id body, u32 seen) {
  if (!has(body, kHasItem)) return body;
  const auto [first, rest] = unstack(body);
  if (const Node& n = node(first); n.kind == Kind::Item && item_rest(n) == kEpsilon && item_text(n) != 0) {
    if (seen_states_.values[seen].some) return unknown();
    return distinct_node(rest, with_seen(seen, item_text(n)));
  }
  const SeenState& state = seen_states_.values[seen];
  Draft d = draft(Kind::Distinct);
  d.a = index_of(body);
  d.b = seen;
  absorb(d, body, true);
  d.flags &= ~static_cast<u32>(kHasItem);
  if (has(body, kNullable)) d.flags |= kNullable;
  if (needs_finite(body)) d.flags |= kSearch;
  if (state.texts != 0) d.flags |= kExactStep;
  d.flags &= ~static_cast<u32>(kFiniteItem);
  d.shortest = node(body).shortest;
  d.longest = node(body).longest;
  const Id out = intern(d);
  return has(out, kDead) ? kEmpty : out;
}

bool Json::needs_finite(Id body) const {
  const auto finite = [this](Id part) {
    const bool optional = node(part).kind == Kind::Repeat && node(part).min == 0;
    return !optional && has(part, kFiniteItem);
  };
  for (; node(body).kind == Kind::Concat && has(body, kFiniteItem); body = node(body).tail())
    if (finite(node(body).head())) return true;
  return finite(body);
}

u32 Json::with_seen(u32 seen, u32 text) {
  SeenState next = seen_states_.values[seen];
  if (text == kSomeText) {
    next.some = true;
  } else {
    const u32 before = next.texts;
    next.texts = sets_.with(before, text);
    if (next.texts != before && !grown_.find(next.texts)) grown_.set(next.texts, u64{before} << 32 | text);
  }
  return seen_states_.id(std::move(next));
}

u32 Json::without_seen(u32 seen) {
  if (seen_states_.values[seen].texts == 0) return seen;
  SeenState plain;
  plain.some = true;
  return seen_states_.id(std::move(plain));
}

// -- derivatives, of a Distinct and of a Twice --
Id Json::list_node(Id body, const ListState& of) {
  return of.twice ? twice_node(body, of.seen, of.labels) : distinct_node(body, of.seen);
}

Id Json::derive_list(Id body, const ListState& of, u8 byte) {
  if (!has(body, kHasItem)) return of.twice ? kEmpty : derive(body, byte);
  const Node& n = node(body);
  switch (n.kind) {
    case Kind::Union: return unite(mapped(body, [&](Id m) { return derive_list(m, of, byte); }));
    case Kind::Ref: return derive_list(rule_body(n.a), of, byte);
    default: return derive_list(unstack(body).head, unstack(body).tail, of, byte);
  }
}

// Takes the first part, which is no concatenation, and the rest separately: as one expression, x and x* would merge
// into a repetition again.
Id Json::derive_list(Id first, Id rest, const ListState& of, u8 byte) {
  if (!has(first, kHasItem)) {
    const Id d = derive(first, byte);
    const Id read = d == kEmpty ? kEmpty : list_node(concat(d, rest), of);
    return nullable(first) ? unite(read, derive_list(rest, of, byte)) : read;
  }
  const Node& f = node(first);
  switch (f.kind) {
    case Kind::Item: return of.twice ? derive_item_twice(first, rest, of, byte) : derive_item(first, rest, of, byte);
    case Kind::Union: return unite(mapped(first, [&](Id m) { return derive_list(concat(m, rest), of, byte); }));
    case Kind::Repeat: {
      check_repeated_items(f.body());
      const Id more = concat(repeat_less(first), rest);
      const auto [head, tail] = unstack(f.body());
      const Id read = derive_list(head, concat(tail, more), of, byte);
      return f.min == 0 ? unite(read, derive_list(rest, of, byte)) : read;
    }
    case Kind::Ref: return derive_list(concat(rule_body(f.a), rest), of, byte);
    default: throw Error("item-outside", "an item cannot stand inside an intersection, complement or terminal");
  }
}

Id Json::derive_item(Id item, Id rest, const ListState& of, u8 byte) {
  const Node& n = node(item);
  const u32 text = item_text(n), facts = item_facts(n);
  const bool some = seen_states_.values[of.seen].some;
  Id e = item_rest(n), out = kEmpty;
  if (text == 0) {
    if (some && !(facts & kItemDense)) return unknown();
    e = other_than(e, of.seen);
  }
  // One value may have infinitely many spellings, each with states of its own: so a search asks for values first.
  if (const Id d = derive(e, byte); d != kEmpty && ((facts & kItemLeft) || has(d, kHasRef) || live(d))) {
    const u32 longer = text == kSomeText ? kSomeText : texts_.grow(text, byte);
    out = distinct_node(concat(item_at(d, longer, facts), rest), of.seen);
  }
  if (text == 0 || !nullable(item_rest(n))) return out;
  return some ? unknown() : unite(out, derive_list(rest, {with_seen(of.seen, text)}, byte));
}

// Calls f for the parts of a state that can know texts, once for each.
template <class F>
void Json::each_knowing(Id e, F f) const {
  std::vector<Id> open{e};
  ShortSet<Id> visited;
  while (!open.empty()) {
    const Id at = open.back();
    open.pop_back();
    if (!visited.insert(at)) continue;
    Work::spend();
    const Node& n = node(at);
    switch (n.kind) {
      case Kind::Concat:
        open.push_back(n.tail());
        open.push_back(n.head());
        break;
      case Kind::Union:
      case Kind::And:
        for (Id part : operands(at)) open.push_back(part);
        break;
      case Kind::Distinct:
      case Kind::Twice:
        f(n);
        open.push_back(distinct_body(n));
        break;
      case Kind::Item:
        f(n);
        if (item_text(n) != 0) open.push_back(item_rest(n));
        break;
      case Kind::Members:
      case Kind::Key: f(n); break;
      default: break;
    }
  }
}

std::optional<Json::Writing> Json::writing(Id e) const {
  u32 items = 0, text = kSomeText;
  bool key = false, twice = false;
  each_knowing(e, [&](const Node& n) {
    if (n.kind == Kind::Item && item_text(n) != 0) {
      ++items;
      text = item_text(n);
    } else if (n.kind == Kind::Key) {
      key = true;
    }
    twice = twice || n.kind == Kind::Twice;
  });
  if (twice) return std::nullopt;
  if (items == 0) {
    const Node& n = node(unstack(e).head);
    if (n.kind != Kind::Key) return std::nullopt;
    const KeyState& state = key_states_.values[key_state(n)];
    if (!state.quoted || state.at != kBetween || state.text == kSomeText) return std::nullopt;
    return Writing{false, texts_.whole(state.text)};
  }
  if (items > 1 || key || text == kSomeText) return std::nullopt;
  const std::string& whole = texts_.whole(text);
  if (whole[0] != '"' || whole.find_first_of("\"\\", 1) != std::string::npos) return std::nullopt;
  return Writing{true, whole};
}

void Json::known_texts(Id e, bool items, std::vector<std::string>& to) const {
  each_knowing(e, [&](const Node& n) {
    u32 written = 0;
    u32 begun = kSomeText;
    if (n.kind == Kind::Distinct && items) written = seen_states_.values[distinct_seen(n)].texts;
    if (n.kind == Kind::Item && items && item_text(n) != 0) begun = item_text(n);
    if (n.kind == Kind::Members && !items) written = member_states_.values[members_state(n)].seen;
    if (n.kind == Kind::Key && !items) {
      const KeyState& key = key_states_.values[key_state(n)];
      written = member_states_.values[key.members].seen;
      begun = key.text;
    }
    sets_.each(written, [&](u32 text) { to.push_back(texts_.whole(text)); });
    if (begun != kSomeText) to.push_back(texts_.whole(begun));
  });
}

// A body that may be empty could be repeated forever before a byte is read. Lists put a separator before each item, but
// a program read from a file may contain anything.
void Json::check_repeated_items(Id e) const {
  if (nullable(e)) throw Error("item-outside", "an item cannot stand inside a repetition of what may be empty");
}

// The values of a set as a list, in the order in which they came: so it shares all but its end with the list before.
u32 Json::values_of(u32 texts) {
  std::vector<std::pair<u32, u32>> missing;  // sets, and the text that each adds
  u32 list = 0;
  for (u32 set = texts; set != 0;) {
    if (const u32* known = values_.find(set)) {
      list = *known;
      break;
    }
    if (const u64* last = grown_.find(set)) {
      missing.push_back({set, static_cast<u32>(*last)});
      set = static_cast<u32>(*last >> 32);
    } else {  // it was not made by with_seen()
      sets_.each(set, [&](u32 text) { list = among_.with(list, equal_values(text), sets_.identity_of(text)); });
      values_.set(set, list);
      break;
    }
  }
  for (; !missing.empty(); missing.pop_back()) {
    const auto [set, text] = missing.back();
    list = among_.with(list, equal_values(text), sets_.identity_of(text));
    values_.set(set, list);
  }
  return list;
}

Id Json::same_as(u32 seen) { return among_.any_of(values_of(seen_states_.values[seen].texts)); }

// e without the spellings of the seen values.
Id Json::other_than(Id e, u32 seen) {
  if (seen_states_.values[seen].texts == 0) return e;
  return intersect(std::array{e, negate(same_as(seen))}, true);
}

// -- the spellings of a value --
Id Json::equal_values(u32 text) {
  if (auto it = equal_.find(text); it != equal_.end()) return it->second;
  const std::string whole = texts_.whole(text);
  std::size_t at = 0;
  const Id e = equal_value(whole, at, 0);
  equal_.emplace(text, e);
  return e;
}

// Whitespace and the order of members are left free here: the item itself constrains them.
Id Json::equal_value(const std::string& text, std::size_t& at, int depth) {
  if (depth > kDeepest)
    throw Error("depth", "an item of a list of distinct values is nested more than 500 levels deep");
  const Id blank = repeat(char_class(CharSet::make({{'\t', '\n'}, {'\r', '\r'}, {' ', ' '}})), 0, kInf);
  auto skip = [&] {
    while (at < text.size() && (text[at] == ' ' || text[at] == '\n' || text[at] == '\r' || text[at] == '\t')) ++at;
  };
  auto string = [&] {  // the decoded text of the string that begins here
    std::string out;
    EscapeAt inside = kBetween;
    for (++at; at < text.size() && !(inside == kBetween && text[at] == '"'); ++at) {
      const Unescaped read = unescape(inside, static_cast<u8>(text[at]), Escapes::All);
      inside = read.at;
      if (read.what == Unescaped::Raw) out.push_back(text[at]);
      if (read.what == Unescaped::Character) out += utf8(read.character);
    }
    ++at;
    return out;
  };
  skip();
  const char kind = at < text.size() ? text[at] : '\0';
  if (kind == '"') {
    const Id quote = literal("\"");
    const Id body = escaped_.escaped_at(literal(string()), kBetween, Escapes::All);
    return concat(quote, concat(body, quote));
  }
  if (kind == '[') {
    Id out = literal("[");
    std::vector<Id> parts{out, blank};
    for (++at, skip(); at < text.size() && text[at] != ']'; skip()) {
      if (text[at] == ',') {
        ++at;
        parts.insert(parts.end(), {literal(","), blank});
      }
      parts.push_back(equal_value(text, at, depth + 1));
      parts.push_back(blank);
    }
    ++at;
    parts.push_back(literal("]"));
    return concat_all(parts);
  }
  if (kind == '{') {
    MemberTable table;
    for (++at, skip(); at < text.size() && text[at] != '}'; skip()) {
      if (text[at] == ',') {
        ++at;
        skip();
      }
      table.names.push_back(string());
      skip();
      ++at;  // the colon
      table.values.push_back({{equal_value(text, at, depth + 1), 0}});
      table.required.push_back(1);
    }
    ++at;
    table.escapes = Escapes::All;
    table.comma = concat_all(std::vector<Id>{blank, literal(","), blank});
    table.colon = concat_all(std::vector<Id>{blank, literal(":"), blank});
    const Id inside = members(std::move(table));
    return concat_all(std::vector<Id>{literal("{"), blank, inside, blank, literal("}")});
  }
  const std::size_t from = at;
  while (at < text.size() && text[at] != ',' && text[at] != ']' && text[at] != '}' && text[at] != ' ' &&
         text[at] != '\n' && text[at] != '\r' && text[at] != '\t')
    ++at;
  const std::string_view word = std::string_view(text).substr(from, at - from);
  if (kind != '-' && (kind < '0' || kind > '9')) return literal(word);  // true, None …
  return equal_number(word);
}

// A plain decimal; or one with an exponent, with one digit before the point or none after it.
Id Json::equal_number(std::string_view text) {
  const Number number = read_number(text);
  const Id digit = char_class(CharSet::make({{'0', '9'}})), zero = literal("0");
  const Id zeros = repeat(zero, 0, kInf), point_zeros = repeat(concat(literal("."), repeat(zero, 1, kInf)), 0, 1);
  const Id e = char_class(CharSet::make({{'E', 'E'}, {'e', 'e'}}));
  const std::string& d = number.digits;
  if (d.empty()) {
    const Id sign = repeat(char_class(CharSet::make({{'+', '+'}, {'-', '-'}})), 0, 1);
    const Id exponent = repeat(concat(e, concat(sign, repeat(digit, 1, kInf))), 0, 1);
    return concat(repeat(literal("-"), 0, 1), concat(zero, concat(point_zeros, exponent)));
  }
  const long long size = static_cast<long long>(d.size()), point = number.exponent;
  std::vector<Id> ways;
  auto put = [&](std::string whole, std::string fraction) {
    if (fraction.empty()) return concat(literal(whole), point_zeros);
    return concat(literal(whole + "." + fraction), zeros);
  };
  if (point <= 0 && -point <= kLongestPlain)
    ways.push_back(put("0", std::string(static_cast<std::size_t>(-point), '0') + d));
  else if (point > 0 && point < size)
    ways.push_back(put(d.substr(0, static_cast<std::size_t>(point)), d.substr(static_cast<std::size_t>(point))));
  else if (point >= size && point <= kLongestPlain)
    ways.push_back(put(d + std::string(static_cast<std::size_t>(point - size), '0'), ""));
  auto scaled = [&](Id mantissa, long long exponent) {
    const Id sign = exponent < 0    ? literal("-")
                    : exponent == 0 ? repeat(char_class(CharSet::make({{'+', '+'}, {'-', '-'}})), 0, 1)
                                    : repeat(literal("+"), 0, 1);
    const Id amount = literal(std::to_string(exponent < 0 ? -exponent : exponent));
    ways.push_back(concat(mantissa, concat(e, concat(sign, concat(zeros, amount)))));
  };
  scaled(put(d.substr(0, 1), d.substr(1)), point - 1);
  if (size > 1) scaled(put(d, ""), point - size);
  const Id all = unite(std::move(ways));
  return number.negative ? concat(literal("-"), all) : all;
}

}  // namespace guiderail
