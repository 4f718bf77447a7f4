// Expressions as text, for people and for golden tests.
#include "expr/kinds.hpp"

namespace guiderail {
namespace {

std::string show_char(u32 c) {
  static const char* hex = "0123456789ABCDEF";
  if (c == '\n') return "\\n";
  if (c == '\t') return "\\t";
  if (c == '\r') return "\\r";
  if (c == '"' || c == '\\' || c == ']' || c == '[' || c == '-') return std::string("\\") + static_cast<char>(c);
  if (c >= 0x20 && c < 0x7F) return std::string(1, static_cast<char>(c));
  std::string out;
  for (int shift = c > 0xFFFF ? 20 : c > 0xFF ? 12 : 4; shift >= 0; shift -= 4) out += hex[(c >> shift) & 15];
  return c > 0xFF ? "\\u{" + out + "}" : "\\x" + out;
}

std::string show_set(const CharSet& set) {
  if (&set == CharSet::any().get()) return "any";
  std::string out = "[";
  int shown = 0;
  for (auto [lo, hi] : set.ranges()) {
    if (++shown > 12) {
      out += "... " + std::to_string(set.size()) + " in all";
      break;
    }
    out += show_char(lo);
    if (hi > lo) out += (hi > lo + 1 ? "-" : "") + show_char(hi);
  }
  return out + "]";
}

std::string bounds(u32 min, u32 max) {
  if (min == 0 && max == 1) return "?";
  if (max == kInf) return min == 0 ? "*" : min == 1 ? "+" : "{" + std::to_string(min) + ",}";
  if (min == max) return "{" + std::to_string(min) + "}";
  return "{" + std::to_string(min) + "," + std::to_string(max) + "}";
}

}  // namespace

std::string Arena::dump(Id root) const {
  constexpr std::size_t kLongest = 20'000;
  std::string out;
  using Item = DumpItem;
  std::vector<Item> stack{{"", root, false}};  // an explicit stack: no recursion
  auto push = [&](std::vector<Item> items) {
    for (std::size_t i = items.size(); i-- > 0;) stack.push_back(std::move(items[i]));
  };
  while (!stack.empty()) {
    if (out.size() > kLongest) return out + " ...";
    Item item = std::move(stack.back());
    stack.pop_back();
    if (item.id == kUnknown) {
      out += item.text;
      continue;
    }
    const Node& n = node(item.id);
    auto text = [](std::string t) { return Item{std::move(t), kUnknown, false}; };
    auto part = [](Id id) { return Item{"", id, true}; };
    std::string literal;
    if (item.id > kEpsilon && n.kind == Kind::Switch && is_literal(item.id, &literal)) {
      out += '"';
      const bool readable = is_utf8(literal);  // the rest of a character is not
      for (char c : literal) {
        const u8 b = static_cast<u8>(c);
        const bool plain = b >= 0x80 ? readable : b >= 0x20 && b != 0x7F && b != '"' && b != '\\';
        out += plain ? std::string(1, c) : show_char(b);
      }
      out += '"';
      continue;
    }
    switch (n.kind) {
      case Kind::Empty: out += "nothing"; break;
      case Kind::Epsilon: out += "\"\""; break;
      case Kind::Class: out += show_set(*charsets_[n.a]); break;
      case Kind::ClassTail: out += "rest of " + show_set(*charsets_[n.a]); break;
      case Kind::Bytes: {
        out += "bytes[";
        for (unsigned b = 0; b < 256; ++b)
          if (byte_sets_[n.a].has(static_cast<u8>(b)) && (b == 0 || !byte_sets_[n.a].has(static_cast<u8>(b - 1)))) {
            unsigned e = b;
            while (e < 255 && byte_sets_[n.a].has(static_cast<u8>(e + 1))) ++e;
            out += show_char(b) + (e > b ? "-" + show_char(e) : "");
          }
        out += "]";
        break;
      }
      case Kind::Switch: {
        std::vector<Item> items{text("switch{")};
        if (has(item.id, kNullable)) items.push_back(text("\"\" "));
        for (u32 i = 0; i < edge_count(n); ++i) {
          const Edge edge = this->edge(n, i);
          std::string label = show_char(edge.low);
          if (edge.high != edge.low) label += "-" + show_char(edge.high);
          items.push_back(text((i ? ", " : "") + label + ": "));
          items.push_back({"", edge.to, false});
        }
        items.push_back(text("}"));
        push(std::move(items));
        break;
      }
      case Kind::Concat: {
        std::vector<Item> items;
        if (item.tight) items.push_back(text("("));
        Id cur = item.id;
        for (; node(cur).kind == Kind::Concat; cur = node(cur).tail()) {
          items.push_back(part(node(cur).head()));
          items.push_back(text(" "));
        }
        items.push_back(part(cur));
        if (item.tight) items.push_back(text(")"));
        push(std::move(items));
        break;
      }
      case Kind::Union:
      case Kind::And: {
        std::vector<Item> items{text("(")};
        bool first = true;
        for (Id m : operands(item.id)) {
          if (!first) items.push_back(text(n.kind == Kind::Union ? " | " : " & "));
          first = false;
          items.push_back({"", m, n.kind == Kind::And});
        }
        items.push_back(text(")"));
        push(std::move(items));
        break;
      }
      case Kind::Not: push({text("~"), part(n.body())}); break;
      case Kind::Repeat: push({part(n.body()), text(bounds(n.min, n.max))}); break;
      case Kind::Ref: out += "<" + rules_[n.a].name + ">"; break;
      case Kind::Token: {
        out += "token(";
        bool first = true;
        for (Id s : operands(item.id)) {
          if (!first) out += ", ";
          first = false;
          auto name = [](const auto& of) {
            return std::holds_alternative<u32>(of) ? std::to_string(std::get<u32>(of)) : std::get<std::string>(of);
          };
          const Symbol& symbol = symbols_[index_of(s)];
          if (const TokenSet* set = std::get_if<TokenSet>(&symbol)) {
            out += set->but ? "any but" : "any of";
            for (std::size_t i = 0; i < std::min<std::size_t>(set->tokens.size(), 12); ++i)
              out += " " + name(set->tokens[i]);
            if (set->tokens.size() > 12) out += " ... " + std::to_string(set->tokens.size()) + " in all";
          } else {
            out += name(symbol);
          }
        }
        out += ")";
        break;
      }
      case Kind::Ahead: push({text(n.b ? "(?!" : "(?="), {"", n.body(), false}, text(")")}); break;
      case Kind::Behind: push({text(n.b ? "(?<!" : "(?<="), {"", n.body(), false}, text(")")}); break;
      case Kind::Counted:
        push({text("tokens(" + std::to_string(n.min) + (n.b ? "+: " : ": ")), {"", n.body(), false}, text(")")});
        break;
      case Kind::Scope: push({text("scope("), {"", n.body(), false}, text(")")}); break;
      default: push(family_of(n.kind)->dump(item.id)); break;
    }
  }
  return out;
}

std::string Arena::rules_ahead(Id e) const {
  constexpr std::size_t kNames = 3;
  constexpr int kNodes = 100;  // to examine
  std::vector<u32> found;
  Ids work{e};
  for (int looked = 0; !work.empty() && looked < kNodes && found.size() < kNames; ++looked) {
    const Id at = work.back();
    work.pop_back();
    const Node& n = node(at);
    switch (n.kind) {
      case Kind::Ref:
        if (std::find(found.begin(), found.end(), n.a) == found.end()) found.push_back(n.a);
        break;
      case Kind::Concat:
        work.push_back(n.tail());
        work.push_back(n.head());
        break;
      case Kind::Union: work.append(operands(at)); break;
      case Kind::Repeat: work.push_back(n.body()); break;
      default: break;
    }
  }
  std::string out;
  for (const u32 rule : found) out += (out.empty() ? "rule " : ", ") + rules_[rule].name;
  return out;
}

}  // namespace guiderail
