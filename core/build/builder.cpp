// Texts and grammars over terminals are composed by the same operations, but must not be mixed. Outside a lexed text, a
// terminal would be a byte that stands for nothing; and a lexer never reads a text as a terminal.
#include "build/builder.hpp"

#include "lexed/lexing.hpp"

namespace guiderail {
namespace {

// Does a composition, also through rules, contain a part of a certain kind?
template <class IsIt>
bool has_part(const Arena& arena, std::vector<Id> open, IsIt&& is_it) {
  std::vector<bool> seen(arena.node_count());
  while (!open.empty()) {
    const Id e = open.back();
    open.pop_back();
    if (e == kUnknown || seen[index_of(e)]) continue;  // kUnknown: the rule was never defined
    seen[index_of(e)] = true;
    const Node& n = arena.node(e);
    switch (n.kind) {
      case Kind::Concat: open.insert(open.end(), {n.head(), n.tail()}); break;
      case Kind::Repeat:
      case Kind::Binding: open.push_back(n.body()); break;
      case Kind::Ref: open.push_back(arena.rule_body(n.a)); break;
      case Kind::Union:
      case Kind::And: open.insert(open.end(), arena.operands(e).begin(), arena.operands(e).end()); break;
      default:
        if (is_it(n.kind)) return true;
    }
  }
  return false;
}

}  // namespace

void Builder::check_grammars() const {
  if (!Lexed::of(*arena_).used()) return;
  if (has_part(*arena_, texts_, [](Kind kind) { return kind == Kind::Terminal; }))
    throw Error("bad-shape", "a terminal stands only in the grammar of a lexed text");
  auto is_text = [](Kind kind) { return kind != Kind::Terminal && kind != Kind::Empty && kind != Kind::Epsilon; };
  if (has_part(*arena_, grammars_, is_text))
    throw Error("bad-shape", "the grammar of a lexed text consists of terminals: make a nested one of a text");
}

}  // namespace guiderail
