#include "oracle.hpp"

#include "judge.hpp"

namespace guiderail::fuzz {

std::vector<Oracle::Memo> Oracle::memo_;
std::vector<Oracle::Known> Oracle::known_;
u32 Oracle::runs_ = 0, Oracle::texts_ = 0;

namespace {
std::size_t key(int term, u32 from, u32 low, u32 high) {
  return static_cast<std::size_t>(term) << 12 | from << 8 | low << 4 | high;
}
}  // namespace

// Rules start from "no match" and grow to the least fixed point. (A part that is judged as a whole may query another
// text before the first is answered.)
bool Oracle::matches(int root, std::string_view text) {
  struct Before {
    Oracle& of;
    std::string_view text = of.text_;
    u32 run = of.run_, number = of.text_number_;
    bool grew = of.grew_;
    decltype(utf8_) utf8 = of.utf8_;
    ~Before() {
      of.text_ = text;
      of.run_ = run;
      of.text_number_ = number;
      of.grew_ = grew;
      of.utf8_ = utf8;
    }
  } before{*this};
  text_ = text;
  const u32 n = static_cast<u32>(text.size());
  for (u32 i = 0; i <= n; ++i)
    for (u32 j = i; j <= n; ++j) utf8_[i][j] = is_utf8(text.substr(i, j - i));
  if (memo_.size() < terms_.size() << 12) {
    memo_.resize(terms_.size() << 12);
    known_.resize(terms_.size() << 12);
  }
  text_number_ = ++texts_;
  while (true) {
    run_ = ++runs_;
    grew_ = false;
    const bool found = ends(root, 0, 0, n) >> n & 1;
    if (!grew_) return found;
  }
}

Oracle::Places Oracle::ends(int term, u32 from, u32 low, u32 high) {
  const std::size_t at = key(term, from, low, high);
  if (memo_[at].run == run_) return memo_[at].ends;
  const bool rule = terms_[static_cast<std::size_t>(term)].kind == Term::Rule;
  if (rule) memo_[at] = {run_, known_[at].text == text_number_ ? known_[at].ends : Places{0}};
  const Places found = evaluate(terms_[static_cast<std::size_t>(term)], term, from, low, high);
  if (rule && found != memo_[at].ends) {
    known_[at] = {text_number_, found};
    grew_ = true;
  }
  memo_[at] = {run_, found};
  return found;
}

Oracle::Places Oracle::after(int term, Places from, u32 low, u32 high) {
  Places found = 0;
  for (u32 i = low; i <= high; ++i)
    if (from >> i & 1) found |= ends(term, i, low, high);
  return found;
}

Oracle::Places Oracle::evaluate(const Term& t, int index, u32 i, u32 low, u32 high) {
  const auto place = [](u32 at) { return static_cast<Places>(1u << at); };
  const std::string_view rest = text_.substr(i, high - i);
  Places found = 0;
  switch (t.kind) {
    case Term::Literal:
    case Term::Choice:
      for (const std::string& s : t.texts)
        if (rest.starts_with(s)) found |= place(i + static_cast<u32>(s.size()));
      return found;
    case Term::Class:
      for (u32 j = i + 1; j <= high && j <= i + 4; ++j)
        if (utf8_[i][j]) {  // the shortest text from here is one character
          const auto b = [&](u32 k) { return static_cast<u8>(text_[i + k]); };
          const u32 c = j == i + 1   ? b(0)
                        : j == i + 2 ? (b(0) & 31u) << 6 | (b(1) & 63u)
                        : j == i + 3 ? (b(0) & 15u) << 12 | (b(1) & 63u) << 6 | (b(2) & 63u)
                                     : (b(0) & 7u) << 18 | (b(1) & 63u) << 12 | (b(2) & 63u) << 6 | (b(3) & 63u);
          return t.chars->contains(c) ? place(j) : 0;
        }
      return 0;
    case Term::Bytes: return i < high && t.bytes.has(static_cast<u8>(text_[i])) ? place(i + 1) : 0;
    case Term::Concat:
      found = place(i);
      for (int part : t.parts) found = after(part, found, low, high);
      return found;
    case Term::Union:
      for (int part : t.parts) found |= ends(part, i, low, high);
      return found;
    case Term::And:
      found = 0xFFFF;
      for (int part : t.parts) found &= ends(part, i, low, high);
      return found;
    case Term::Complement:
      for (u32 j = i; j <= high; ++j)
        if (utf8_[i][j]) found |= place(j);
      return found & static_cast<Places>(~ends(t.parts[0], i, low, high));
    case Term::Repeat: {
      Places here = place(i);
      for (u32 count = 0; here != 0 && count <= t.max; ++count) {
        if (count >= t.min) found |= here;
        const Places next = after(t.parts[0], here, low, high);
        if (next == here) return found | here;  // nothing changes any more
        if (count >= t.min && (next & ~found) == 0) return found;
        here = next;
      }
      return found;
    }
    case Term::Substring:
      for (u32 j = i; j <= high; ++j)
        for (const std::string& s : t.texts)
          if (utf8_[i][j] && s.find(text_.substr(i, j - i)) != std::string::npos) found |= place(j);
      return found;
    case Term::Ahead: return (ends(t.parts[0], i, low, high) != 0) != t.negative ? place(i) : 0;
    case Term::Behind: {
      bool some = false;
      for (u32 j = low; j <= i; ++j) some = some || (ends(t.parts[0], j, low, high) >> i & 1);
      return some != t.negative ? place(i) : 0;
    }
    case Term::Scope:
      for (u32 j = i; j <= high; ++j)
        if (ends(t.parts[0], i, i, j) >> j & 1) found |= place(j);
      return found;
    case Term::Token: return 0;
    case Term::Rule: return t.parts.empty() ? 0 : ends(t.parts[0], i, low, high);
    case Term::Patterned:
      for (u32 j = i; j <= high; ++j)
        if (outcome(t, [&](int part) { return (ends(part, i, low, high) >> j & 1) != 0; })) found |= place(j);
      return found;
    case Term::Escaped:
    case Term::Members:
    case Term::Distinct:
    case Term::Lexed:
      for (u32 j = i; j <= high; ++j)
        if (Judge(*this).contains(index, text_.substr(i, j - i))) found |= place(j);
      return found;
  }
  return 0;
}

}  // namespace guiderail::fuzz
