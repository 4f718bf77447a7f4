// Texts without their lengths. A count hardly tells one state from the next: `[a-z].{0,255}[a-z]` allows what
// `[a-z].*[a-z]` allows, except for the tokens that are too long. So both have one mask, minus those tokens.
#include <algorithm>
#include <unordered_set>

#include "base/work.hpp"
#include "mask/abstraction.hpp"

namespace guiderail {
namespace {

// The kinds of expressions that are told structurally have none of these.
constexpr u32 kUntold = kSearch | kHasLook | kHasRef | kHasToken | kHasItem | kExactKey | kHasScan;

}  // namespace

// Is e = C{min,max}?
bool Abstraction::counted_class(Id e) const {
  const Node& n = node(e);
  return n.kind == Kind::Repeat && !n.b && node(n.body()).kind == Kind::Class;
}

// Examines the parts of e that are not made of others: classes, words, and kinds that are told apart no further. False:
// `f` refused one, or there are too many.
template <class Skip, class F>
bool Abstraction::each_leaf(Id e, Skip skip, F f) {
  std::vector<Id> open{e};
  std::unordered_set<Id> seen;
  bool all = true;
  while (all && !open.empty()) {
    const Id at = open.back();
    open.pop_back();
    if (!seen.insert(at).second || skip(at)) continue;
    const Node& n = node(at);
    switch (n.kind) {
      case Kind::Epsilon: break;
      case Kind::Concat:
        open.push_back(n.head());
        open.push_back(n.tail());
        break;
      case Kind::Union:
      case Kind::And:
        for (const Id m : operands(at)) open.push_back(m);
        break;
      case Kind::Repeat: open.push_back(n.body()); break;
      case Kind::Switch:
        for (u32 i = 0; i < arena_.edge_count(n); ++i) open.push_back(arena_.edge(n, i).to);
        all = f(at, n);
        break;
      default: all = f(at, n); break;
    }
    all = all && seen.size() <= kMostTold;
  }
  Work::spend(1 + seen.size() / 8);
  return all;
}

// Does e read only these characters? False: it may read others, or it takes too long to tell.
bool Abstraction::reads_only(Id e, u32 chars) {
  const u64 key = u64{index_of(e)} << 32 | chars;
  if (auto it = reads_memo_.find(key); it != reads_memo_.end()) return it->second;
  const CharSet& set = *charset_ptr(chars);
  ByteSet ascii = set.first();
  ascii.words[2] = ascii.words[3] = 0;
  const bool only = each_leaf(
      e, [](Id) { return false; },
      [&](Id part, const Node& n) {
        if (n.kind == Kind::Class) return set.covers(*charset_ptr(n.a));
        return (n.kind == Kind::Bytes || n.kind == Kind::Switch) && ascii.contains(first(part));
      });
  reads_memo_.emplace(key, only);
  return only;
}

// Does e match all texts of the characters that `text` reads?
bool Abstraction::matches_all(Id e, Id text) {
  if (e == arena_.any_text()) return true;
  const u32 chars = endless_class(e);
  return chars != kNone && node(e).min == 0 && reads_only(text, chars);
}

// Does each text of these characters that begins with a match of e match, too?
bool Abstraction::extends(Id e, Id text) {
  std::vector<Id> open{e};
  std::unordered_set<Id> seen;
  while (!open.empty()) {
    e = open.back();
    open.pop_back();
    while (node(e).kind == Kind::Concat) e = node(e).tail();
    if (!seen.insert(e).second || matches_all(e, text)) continue;
    const Node& n = node(e);
    if ((n.kind != Kind::Union && n.kind != Kind::And) || seen.size() > kMostTold) return false;
    for (const Id m : operands(e)) open.push_back(m);
  }
  Work::spend(seen.size() / 8);
  return true;
}

// The ASCII characters that e reads, apart from parts that match all texts of these characters. False: they cannot be
// told, or take too long.
bool Abstraction::ascii_read(Id e, Id text, ByteSet& read) {
  return each_leaf(
      e, [&](Id part) { return matches_all(part, text); },
      [&](Id part, const Node& n) {
        if (n.kind == Kind::ClassTail) return true;  // within a character beyond ASCII
        if (n.kind != Kind::Class && n.kind != Kind::Bytes && n.kind != Kind::Switch) return false;
        read |= n.kind == Kind::Class ? charset_ptr(n.a)->first() : first(part);
        return true;
      });
}

// Is e an intersection of one C{m,n} with expressions that exclude words?
bool Abstraction::excluding(Id e, Excluding& out) {
  if (node(e).kind != Kind::And || arena_.has_raw_bytes() || has(e, kHasLook | kHasRef)) return false;
  out = {.members = Ids(operands(e))};
  for (std::size_t i = 0; i < out.members.size(); ++i) {
    const Id m = out.members[i];
    const bool inside = node(m).kind == Kind::Concat && node(node(m).head()).kind == Kind::ClassTail;
    const Node& n = node(inside ? node(m).tail() : m);
    if (n.kind == Kind::Repeat && node(n.body()).kind == Kind::Class && !n.b && out.body == kEmpty) {
      out.counted = i;
      out.begun = inside ? node(m).head() : kEpsilon;
      out.body = n.body();
      out.min = n.min;
      out.max = n.max;
    } else if (node(m).kind != Kind::Not) {
      return false;
    }
  }
  if (out.body == kEmpty) return false;
  out.closed = std::ranges::all_of(
      out.members, [&](Id m) { return node(m).kind != Kind::Not || extends(node(m).body(), out.body); });
  return true;
}

// The same with another count.
Id Abstraction::with_count(const Excluding& of, u32 min) {
  Ids members = of.members;
  members[of.counted] = concat(of.begun, repeat(of.body, min, kInf));
  return intersect(members);
}

// Does one of these ASCII characters always lead from a text that can be completed to a whole one, as far as the words
// that some of the members exclude are concerned? So does one that none of the words contains. Only parts that match
// all texts read it, and they would read anything else in its place: if a text were forbidden that ends with it, all
// continuations of what is before it would be.
bool Abstraction::never_ends(std::span<const Id> members, Id text, const ByteSet& free) {
  ByteSet read;
  for (const Id m : members)
    if (node(m).kind == Kind::Not && !ascii_read(node(m).body(), text, read)) return false;
  for (unsigned c = 0; c < 0x80; ++c)
    if (free.has(static_cast<u8>(c)) && !read.has(static_cast<u8>(c))) return true;
  return false;
}

bool Abstraction::never_ends(const Excluding& of) {
  return never_ends(of.members, of.body, charset_ptr(node(of.body).a)->first());
}

Id Abstraction::unbounded(Id e, u32 horizon) {
  Excluding of;
  if (!excluding(e, of) || of.max == kInf) return kEmpty;
  const u32 needed =
      of.closed ? of.min : add_sat(of.min, 1);  // a prefix of a match is one, or one with a character more
  return add_sat(needed, horizon) <= of.max && (of.closed || never_ends(of)) ? with_count(of, of.min) : kEmpty;
}

// The ASCII characters that every class of e contains, if e consists of classes alone.
ByteSet Abstraction::common_ascii(Id e) {
  ByteSet common = ByteSet::all();
  const bool classes = each_leaf(
      e, [](Id) { return false; },
      [&](Id, const Node& n) {
        if (n.kind == Kind::Class) common &= charset_ptr(n.a)->first();
        return n.kind == Kind::Class;
      });
  return classes ? common : ByteSet{};
}

// Lengths between which there are texts of e of any length. None are known if the least is kInf.
Abstraction::Span Abstraction::lengths_of(Id e) {
  const Node& n = node(e);
  if (has(e, kUntold)) return {kInf, 0};
  if (n.kind == Kind::Class || n.kind == Kind::Epsilon) return {n.shortest, n.longest};
  if (auto it = lengths_memo_.find(e); it != lengths_memo_.end()) return it->second;
  Span found{n.shortest, n.shortest};
  switch (n.kind) {
    case Kind::Concat: {
      Ids parts;
      Id tail = e;
      for (; node(tail).kind == Kind::Concat && !lengths_memo_.contains(tail); tail = node(tail).tail())
        parts.push_back(tail);
      found = lengths_of(tail);
      for (std::size_t i = parts.size(); i-- > 0;) {
        const Span head = lengths_of(node(parts[i]).head());
        found = {add_sat(head.least, found.least), add_sat(head.most, found.most)};
        lengths_memo_.emplace(parts[i], found);
      }
      return found;
    }
    case Kind::Union: {
      std::vector<Span> spans;
      for (const Id m : Ids(operands(e))) spans.push_back(lengths_of(m));
      std::ranges::sort(spans, {}, &Span::least);
      Span last = found = spans[0];
      for (const Span& one : spans) {
        if (one.least == kInf) break;
        last = one.least <= add_sat(last.most, 1) ? Span{last.least, std::max(last.most, one.most)} : one;
        if (last.most - last.least >= found.most - found.least) found = last;
      }
      break;
    }
    case Kind::Repeat: {
      const auto [least, most] = n.b ? Span{kInf, 0} : lengths_of(n.body());
      if (least == kInf) break;
      // k iterations have k least to k most characters, and join those of one more if k (most - least) >= least - 1.
      const u32 wide = most - least;
      u32 from = n.min;
      if (least > 1) from = wide == 0 ? n.max : std::max(from, (least - 2) / wide + 1);
      if (from >= n.max)
        found = {mul_sat(least, n.min), mul_sat(most, n.min)};
      else
        found = {mul_sat(least, from), mul_sat(most, n.max)};
      break;
    }
    case Kind::Switch:
    case Kind::Bytes:
    case Kind::ClassTail: break;
    default: found = {kInf, 0}; break;
  }
  Work::spend();
  lengths_memo_.emplace(e, found);
  return found;
}

// The same for an intersection: of texts that are completed one after the other, such as `.*[a-z].*` and `.*[0-9].*`;
// and beside words that are excluded, if one character suffices.
u32 Abstraction::any_length_of_all(Id e) {
  if (has(e, kHasLook | kHasRef)) return kInf;
  Ids texts;
  for (const Id m : operands(e))
    if (node(m).kind != Kind::Not) texts.push_back(m);
  if (texts.empty()) return kInf;
  u32 found = 0;
  ByteSet common = ByteSet::all();
  for (const Id text : texts) {
    if (texts.size() > 1) {  // reads any text before it is completed, and any text after it
      const Id head = node(text).kind == Kind::Concat ? node(text).head() : text;
      const u32 chars = endless_class(head);
      if (chars == kNone) return kInf;
      for (const Id other : texts)
        if (!reads_only(other, chars)) return kInf;
      if (!extends(text, node(head).body())) return kInf;
    }
    found = add_sat(found, any_length_from(text));
    common &= common_ascii(text);
  }
  if (texts.size() == operands(e).size() || found == kInf) return found;
  return never_ends(Ids(operands(e)), texts[0], common) ? std::max(found, 1u) : kInf;
}

// The least known n such that whatever was read of a match, some texts of n characters complete it, and so do texts of
// any greater length; kInf: none is known.
u32 Abstraction::any_length_from(Id e) {
  if (node(e).kind == Kind::And) return any_length_of_all(e);
  if (has(e, kUntold)) return kInf;
  if (auto it = any_length_memo_.find(e); it != any_length_memo_.end()) return it->second;
  const Node& n = node(e);
  u32 found = kInf;
  switch (n.kind) {
    case Kind::Repeat: {
      const Node& body = node(n.body());
      if (n.b) break;
      if (body.kind == Kind::Class)
        found = n.max == kInf ? n.min : kInf;
      else
        found = add_sat(any_length_from(n.body()), mul_sat(n.min, body.shortest));
      if (n.max != kInf || body.kind == Kind::Class) break;
      if (const Span all = lengths_of(e); all.most == kInf && all.least != kInf)  // after the iteration in progress
        found = std::min(found, add_sat(slack(n.body()), all.least));
      break;
    }
    case Kind::Concat: {
      Ids parts;
      Id tail = e;
      for (; node(tail).kind == Kind::Concat && !any_length_memo_.contains(tail); tail = node(tail).tail())
        parts.push_back(tail);
      found = any_length_from(tail);
      for (std::size_t i = parts.size(); i-- > 0;) {
        const Id head = node(parts[i]).head(), rest = node(parts[i]).tail();
        if (found != kInf) found = add_sat(slack(head), found);
        // C* t, where t reads only C: whatever was read of t may be in C* instead
        if (const u32 chars = endless_class(head); chars != kNone && reads_only(rest, chars))
          found = std::min(found, add_sat(node(head).min, node(rest).shortest));
        any_length_memo_.emplace(parts[i], found);
      }
      return found;
    }
    case Kind::Union: {
      const Ids members(operands(e));
      found = 0;
      for (const Id m : members) found = std::max(found, any_length_from(m));
      for (const Id m : members) {  // the same for one alternative: the others read nothing that it does not
        const Id head = node(m).kind == Kind::Concat ? node(m).head() : m;
        const u32 chars = endless_class(head);
        if (chars == kNone) continue;
        Work::spend(1 + members.size() / 8);
        if (!std::ranges::all_of(members, [&](Id other) { return reads_only(other, chars); })) continue;
        found = std::min(found, add_sat(node(head).min, m == head ? 0 : node(node(m).tail()).shortest));
        break;
      }
      break;
    }
    default: break;
  }
  Work::spend();
  any_length_memo_.emplace(e, found);
  return found;
}

// e as the texts of an expression without counts that have these lengths.
Abstraction::Uncounted Abstraction::without_lengths(Id e) {
  const Uncounted all{e, 0, kInf, 0};
  const Node& n = node(e);
  switch (n.kind) {
    case Kind::Repeat: {
      if (counted_class(e)) return {repeat(n.body(), 0, kInf), n.min, n.max, 0};
      if (n.b || n.min != 0 || n.max != 1) return all;
      const Uncounted one = without_lengths(n.body());  // or the empty text
      return node(one.text).shortest < one.least ? all : Uncounted{repeat(one.text, 0, 1), 0, one.most, 0};
    }
    case Kind::Concat: {  // one count among parts of fixed length
      Ids parts;
      Id tail = e;
      for (; node(tail).kind == Kind::Concat && parts.size() < kMostPartsTold; tail = node(tail).tail())
        parts.push_back(node(tail).head());
      parts.push_back(tail);
      u32 length = 0;
      std::size_t counted = parts.size();
      for (std::size_t i = 0; i < parts.size(); ++i) {
        const Node& part = node(parts[i]);
        if (part.shortest == part.longest) {
          length += part.longest;
        } else if (counted == parts.size() && counted_class(parts[i])) {
          counted = i;
        } else {
          return all;
        }
      }
      if (counted == parts.size()) return all;
      const Id body = node(parts[counted]).body();
      const u32 min = node(parts[counted]).min, max = node(parts[counted]).max;
      parts[counted] = repeat(body, 0, kInf);
      return {concat_all(parts), add_sat(min, length), add_sat(max, length), 0};
    }
    case Kind::Union: {
      if (n.b > kMostPartsTold) return all;
      Ids texts;
      Uncounted out{e, 0, kInf, 0};
      std::vector<Uncounted> members;
      for (const Id m : Ids(operands(e))) {
        const Uncounted one = without_lengths(m);
        texts.push_back(one.text);
        if (node(one.text).shortest < one.least) out.least = std::max(out.least, one.least);
        if (node(one.text).longest > one.most) out.most = std::min(out.most, one.most);
        members.push_back(one);
      }
      for (const Uncounted& one : members) {  // does the least or greatest length of the others leave it as it is?
        const Node& text = node(one.text);
        if (text.shortest < out.least && one.least != out.least) return all;
        if (text.longest > out.most && one.most != out.most) return all;
      }
      out.text = unite(texts);
      return out;
    }
    case Kind::And: {  // a count beside other texts, and words that are excluded
      Ids texts, excluded;
      Id lengths = kEmpty;
      for (const Id m : Ids(operands(e))) {
        if (counted_class(m) && lengths == kEmpty)
          lengths = m;
        else
          (node(m).kind == Kind::Not ? excluded : texts).push_back(m);
      }
      if (texts.empty()) return all;
      Uncounted out = texts.size() == 1 ? without_lengths(texts[0]) : Uncounted{kEmpty, 0, kInf, 0};
      if (texts.size() == 1) texts[0] = out.text;
      if (lengths != kEmpty) {
        const u32 chars = node(node(lengths).body()).a;
        for (const Id text : texts)
          if (charset_ptr(chars) != CharSet::any() && !reads_only(text, chars)) return all;
        out.least = std::max(out.least, node(lengths).min);
        out.most = std::min(out.most, node(lengths).max);
      }
      texts.append(excluded);
      out.text = arena_.intersect(texts);
      return out;
    }
    default: return all;
  }
}

// Alternatives: C{0,n} t or C{0,n} D t, where D is in C and t begins with none of its characters, and others that begin
// with none.
bool Abstraction::open_run(Id e, Run& out) {
  Ids open{e}, texts, others;
  ByteSet after;  // bytes that begin what follows
  out = {};
  for (std::size_t i = 0; i < open.size(); ++i) {
    if (open.size() > kMostPartsTold) return false;
    const auto [head, tail] = unstack(open[i]);
    const Node& n = node(head);
    if (n.kind == Kind::Union) {
      for (const Id m : Ids(operands(head))) open.push_back(concat(m, tail));
    } else if (n.kind == Kind::Repeat && !counted_class(head) && !n.b && n.min == 0 && n.max == 1) {
      open.push_back(concat(n.body(), tail));
      open.push_back(tail);
    } else if (!counted_class(head) || n.max == kInf) {
      others.push_back(open[i]);
      after |= first(open[i]);
    } else {
      const u32 chars = node(n.body()).a;
      const auto [last, rest] = unstack(tail);
      const bool ends = node(last).kind == Kind::Class && charset_ptr(chars)->covers(*charset_ptr(node(last).a));
      const Run one{kEmpty, chars, add_sat(n.max, ends ? 1 : 0), ends ? 1u : 0u};
      if (n.min != 0 || (!texts.empty() && (out.chars != chars || out.most != one.most))) return false;
      out = {kEmpty, chars, one.most, std::max(out.ending, one.ending)};
      after |= first(ends ? rest : tail);
      texts.push_back(concat(repeat(n.body(), 0, kInf), tail));
    }
  }
  if (texts.empty() || !charset_ptr(out.chars)->ascii_only()) return false;
  after &= charset_ptr(out.chars)->first();
  if (after.any()) return false;
  texts.append(others);
  out.text = unite(texts);
  return true;
}

bool Abstraction::uncounted(Id e, Uncounted& out) {
  Excluding of;
  if (excluding(e, of)) {
    if (of.begun != kEpsilon || (of.min == 0 && of.max == kInf)) return false;
    const bool all = (!of.closed || of.min > 1 || of.max == kInf) && never_ends(of);
    if (!all && !of.closed) return false;
    out = {with_count(of, all ? 0 : of.min), all ? of.min : 0, of.max, of.closed ? 0u : 1u};
    return out.text != e;
  }
  if (first(e).words[2] || arena_.has_raw_bytes()) return false;  // within a character
  out = without_lengths(e);
  if (out.text == e || out.least > out.most || (out.least == 0 && out.most == kInf)) return false;
  out.ending = any_length_from(out.text);
  if (out.least == 0) out.ending = std::min(out.ending, slack(out.text));  // only a shortest end must fit
  return out.ending != kInf;
}

}  // namespace guiderail
