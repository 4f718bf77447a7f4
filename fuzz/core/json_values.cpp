// Expressions of JSON: objects, keys read beside patterns, lists of distinct values.
#include <algorithm>

#include "expressions.hpp"
#include "json/json.hpp"
#include "json/patterned.hpp"
#include "python_calls.hpp"

namespace guiderail::fuzz {
namespace {

const std::vector<std::string> kNames{"a", "b", "ab", "\u00e9", "x-y", "\"q", "abc", ""};

}  // namespace

// A JSON object or a list, which may also be the text of a string.
Made Expressions::object() {
  in_.chance(2) ? members() : distinct();
  return pop();
}

// A text read beside patterns, and what may follow it. Each pattern adds to a set of marks, and each set is an outcome.
Made Expressions::patterned(Made& value) {
  const Made of = text();
  auto outcomes = std::make_shared<Outcomes>();
  std::vector<Id> patterns, values, some;
  Term term{.kind = Term::Patterned, .parts = {of.term}, .outcomes = outcomes};
  std::string pattern_code, next_code, value_code, some_code;
  std::vector<u32> marks;
  const u32 sets = 1u << (1 + in_.below(3));
  for (u32 count = 1 + in_.below(4); count > 0; --count) {
    const Made pattern = text();
    patterns.push_back(pattern.id);
    term.parts.push_back(pattern.term);
    marks.push_back(in_.below(sets));
    pattern_code += pattern.code + ", ";
  }
  bool meant = true;
  for (u32 at = 0; at < sets; ++at) {
    next_code += "[";
    auto& next = outcomes->next.emplace_back();
    for (const u32 mark : marks) {
      next.push_back(at | mark);
      next_code += std::to_string(at | mark) + ", ";
    }
    next_code += "], ";
    const bool possible = !in_.chance(3);
    const Made follows = possible ? living() : Made{kEmpty, kNoMeaning, "b.EMPTY"};
    meant = meant && (!possible || follows.term != kNoMeaning);
    outcomes->possible.push_back(possible);
    outcomes->values.push_back(follows.term);
    values.push_back(follows.id);
    value_code += follows.code + ", ";
    if (!possible) continue;
    some.push_back(follows.id);
    some_code += follows.code + ", ";
  }
  value = {arena_.unite(some), meant ? of.term : kNoMeaning, call("union", "[" + some_code + "]")};
  const Id id = guiderail::Patterned::of(arena_).patterned(of.id, patterns, outcomes->next, values);
  return {id, oracle_.add(std::move(term)),
          call("patterned", of.code + ", [" + pattern_code + "], [" + next_code + "], [" + value_code + "]")};
}

// Front ends must reject more required members than there can be, and obligations that nothing fulfils.
void Expressions::members() {
  MemberTable table;
  auto meaning = std::make_shared<Object>();
  bool meant = true;  // all parts have a known meaning
  const u8 names = in_.byte(), shape = in_.byte(), bounds = in_.byte();
  std::string name_code, value_code, required_code, other_code;
  const bool every = (shape & 3) == 3;  // other key is allowed
  table.pending = every && shape & 32 ? 1u + in_.below(3) : 0;
  u32 possible = 0, required = 0;
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (!(names >> i & 1)) continue;
    table.names.push_back(kNames[i]);
    auto& values = table.values.emplace_back();
    const u8 how = in_.byte();
    std::string list;
    auto& ways = meaning->ways.emplace_back();
    auto value = [&](u32 discharges) {
      const Made e = living();
      values.push_back({e.id, discharges});
      ways.push_back({e.term, discharges});
      meant = meant && e.term != kNoMeaning;
      list += "(" + e.code + ", " + std::to_string(discharges) + "), ";
    };
    if (how % 8 != 7) value(table.pending & how >> 4);
    if (how % 8 == 6) value(table.pending & how >> 6);
    const bool must = !values.empty() && how & 8;
    table.required.push_back(must);
    meaning->required.push_back(must);
    possible += !values.empty();
    required += must;
    name_code += in_quotes(kNames[i]) + ", ";
    value_code += "[" + list + "], ";
    required_code += std::string(truth(must)) + ", ";
  }
  for (u32 count = shape & 3; count > 1; --count) {
    const bool any = every && count == 2;
    Made value;
    const bool beside = !any && in_.chance(2);
    const Made key = any ? any_text() : beside ? patterned(value) : text();
    if (!beside) value = living();
    const u32 discharges = any ? table.pending : table.pending & in_.byte();
    table.others.push_back({key.id, value.id, any, discharges, {}});
    meaning->others.push_back({key.term, value.term, discharges});
    meant = meant && key.term != kNoMeaning && value.term != kNoMeaning;
    other_code += "(" + key.code + ", " + value.code + ", " + truth(any) + ", " + std::to_string(discharges) + "), ";
  }
  table.min = std::min<u32>(bounds % 4, every ? kInf : possible);
  if (bounds & 4) table.max = std::max(table.min, required + (table.pending ? 1 : 0)) + (bounds >> 3) % 4;
  meaning->comma = shape & 4 ? "," : ", ";
  meaning->colon = shape & 8 ? ":" : ": ";
  table.comma = arena_.literal(meaning->comma);
  table.colon = arena_.literal(meaning->colon);
  table.ordered = shape & 16;
  table.escapes = shape & 64 ? Escapes::All : Escapes::Canonical;
  const std::string code =
      call("members", "[" + name_code + "], [" + value_code + "], [" + required_code + "], [" + other_code + "], " +
                          call("literal", shape & 4 ? "b','" : "b', '") + ", " +
                          call("literal", shape & 8 ? "b':'" : "b': '") + ", ordered=" + truth(table.ordered) +
                          ", min=" + bound(table.min) + ", max=" + bound(table.max) +
                          ", escapes=" + (shape & 64 ? "1" : "0") + ", pending=" + std::to_string(table.pending));
  meaning->names = table.names;
  meaning->ordered = table.ordered;
  meaning->min = table.min;
  meaning->max = table.max;
  meaning->pending = table.pending;
  meaning->mode = table.escapes;
  const Id inside = guiderail::Json::of(arena_).members(std::move(table));
  const int term = meant ? oracle_.add({.kind = Term::Members, .object = meaning}) : kNoMeaning;
  stack_.push_back(enclosed("{", {inside, term, code}, "}"));
}

Made Expressions::any_text() {
  const int any = oracle_.add({.kind = Term::Class, .chars = CharSet::any()});
  return {arena_.repeat(arena_.char_class(CharSet::any()), 0, kInf),
          oracle_.add({.kind = Term::Repeat, .parts = {any}, .max = kInf}),
          call("repeat", ranges_of(*CharSet::any()) + ", 0")};
}

Made Expressions::enclosed(const char* open, const Made& e, const char* close) {
  Made out{arena_.concat_all(std::array{arena_.literal(open), e.id, arena_.literal(close)}), kNoMeaning,
           call("concat", std::string("[b.literal(b'") + open + "'), " + e.code + ", b.literal(b'" + close + "')]")};
  if (e.term == kNoMeaning) return out;
  const int first = oracle_.add({.kind = Term::Literal, .texts = {open}});
  const int last = oracle_.add({.kind = Term::Literal, .texts = {close}});
  out.term = oracle_.add({.kind = Term::Concat, .parts = {first, e.term, last}});
  return out;
}

// A JSON value, and the number of such values: a list of distinct values must not require more of them.
Made Expressions::value(u32& values) {
  values = kInf;
  switch (in_.below(3)) {
    case 0: {
      static const std::vector<std::string> some{"0",     "-1", "true", "null",   "\"a\"",
                                                 "\"b\"", "[]", "{}",   "\"ab\"", "10"};
      values = 2 + in_.below(4);
      const std::size_t first = in_.below(6);
      const std::vector<std::string> texts(some.begin() + first, some.begin() + first + values - 1);
      --values;
      return {arena_.choice(texts), oracle_.add({.kind = Term::Choice, .texts = texts}),
              call("choice", in_quotes(texts))};
    }
    case 1: {
      const Made digits = chars(4);
      const Made first{arena_.choice({"1", "2"}), oracle_.add({.kind = Term::Choice, .texts = {"1", "2"}}),
                       call("choice", "[b'1', b'2']")};
      const int more = oracle_.add({.kind = Term::Repeat, .parts = {digits.term}, .max = kInf});
      return {arena_.concat(first.id, arena_.repeat(digits.id, 0, kInf)),
              oracle_.add({.kind = Term::Concat, .parts = {first.term, more}}),
              call("concat", "[" + first.code + ", b.repeat(" + digits.code + ", 0, -1)]")};
    }
    default: {
      const Made set = chars(in_.chance(2) ? 3 : in_.byte());
      const Escapes mode = in_.chance(2) ? Escapes::All : Escapes::Canonical;
      const u32 least = in_.below(3);
      const Id text = guiderail::Escaped::of(arena_).escaped(arena_.repeat(set.id, least, kInf), mode);
      const int inside = oracle_.add({.kind = Term::Repeat, .parts = {set.term}, .min = least, .max = kInf});
      const std::string code = call(
          "escaped", call("repeat", set.code + ", " + bound(least) + ", -1") + (mode == Escapes::All ? ", 1" : ", 0"));
      return enclosed("\"", {text, oracle_.add({.kind = Term::Escaped, .parts = {inside}, .mode = mode}), code}, "\"");
    }
  }
}

void Expressions::distinct() {
  u32 values = 0;
  const Made value = this->value(values);
  const Id item = guiderail::Json::of(arena_).item(value.id, values == kInf);
  const u32 least = std::min(in_.below(3), values - 1);
  const u32 most = values == kInf && in_.chance(2) ? kInf : std::min(least + in_.below(4), values - 1);
  const Id more = arena_.repeat(arena_.concat(arena_.literal(","), item), least, most);
  Id body = arena_.concat(item, more);
  const std::string one = call("item", value.code + (values == kInf ? ", True" : ""));
  std::string code = call("concat", "[" + one + ", b.repeat(b.concat([b.literal(b','), " + one + "]), " + bound(least) +
                                        ", " + bound(most) + ")]");
  const bool none = in_.chance(2);
  if (none) {
    body = arena_.unite(kEpsilon, body);
    code = call("union", "[b.EPSILON, " + code + "]");
  }
  const int term =
      oracle_.add({.kind = Term::Distinct, .parts = {value.term}, .min = least, .max = most, .negative = none});
  stack_.push_back(enclosed("[", {guiderail::Json::of(arena_).distinct(body), term, call("distinct", code)}, "]"));
}

}  // namespace guiderail::fuzz
