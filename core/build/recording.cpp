// A program file lists the operations that make its expression, in order. A reader runs them again, with the same
// checks and limits as a constraint in Python: there is no second way to make an expression, and nothing in a file is
// trusted.
#include "build/builder.hpp"

#include "base/work.hpp"

namespace guiderail {
namespace {

template <std::size_t i = 0>
Operation read_as(u8 code, ByteReader& from, ReadArguments& arguments) {
  if constexpr (i == std::variant_size_v<Operation>) {
    from.refuse("there is no operation " + std::to_string(code) + " (or a newer guiderail wrote it)");
  } else {
    using Op = std::variant_alternative_t<i, Operation>;
    if (code != Op::kCode) return read_as<i + 1>(code, from, arguments);
    Op operation{};
    arguments.visit(operation);
    return operation;
  }
}

// Which expressions and lexers an operation uses.
struct Uses : Visitor<Uses> {
  std::vector<Id> expressions;
  std::vector<LexerId> lexers;
  void take(Id& e) { expressions.push_back(e); }
  void take(LexerId& lexer) { lexers.push_back(lexer); }
};

}  // namespace

void ReadArguments::take(CharSet::Ptr& set) {
  std::vector<CharSet::Range> ranges;
  u64 low = 0;
  for (std::size_t left = from_.count(); left > 0; --left) {
    low += from_.number32();
    const u64 high = low + from_.number32();
    if (high > 0x10FFFF) from_.refuse("a character lies past U+10FFFF");
    ranges.push_back({static_cast<u32>(low), static_cast<u32>(high)});
    low = high;
  }
  set = CharSet::make(std::move(ranges));
}

Operation read_operation(ByteReader& from, ReadArguments& arguments) {
  Work::spend();
  return read_as(from.byte(), from, arguments);
}

// The operations needed, found from the root backwards.
struct Recording::Needed {
  explicit Needed(const Recording& recording) : of(recording), entries(recording.entries_.size(), false) {
    for (u32 i = 0; i < of.entries_.size(); ++i) {
      const auto& result = of.entries_[i].result;
      if (const Id* e = std::get_if<Id>(&result))
        makes.try_emplace(*e, i);
      else if (const LexerId* lexer = std::get_if<LexerId>(&result))
        lexers.try_emplace(*lexer, i);
      else
        defines[uses(i).expressions[0]].push_back(i);
    }
  }
  Uses uses(u32 entry) const {
    ByteReader from(of.log_from(of.entries_[entry].at));
    ReadArguments arguments(from);
    Operation operation = read_operation(from, arguments);
    Uses out;
    std::visit([&](auto& op) { out.visit(op); }, operation);
    return out;
  }
  void mark(Id root) {
    need(root);
    while (!open.empty()) {
      const u32 entry = open.back();
      open.pop_back();
      const Uses used = uses(entry);
      for (Id e : used.expressions) need(e);
      for (LexerId lexer : used.lexers) add(lexers.at(lexer));
    }
  }

  const Recording& of;
  std::vector<bool> entries;

 private:
  void need(Id e) {
    if (e == kEmpty || e == kEpsilon) return;
    const auto made = makes.find(e);
    if (made == makes.end())
      throw Error("bad-handle", "no operation of this builder gave the expression " + std::to_string(index_of(e)));
    add(made->second);
    if (const auto defined = defines.find(e); defined != defines.end())
      for (u32 entry : defined->second) add(entry);
  }
  void add(u32 entry) {
    if (entries[entry]) return;
    entries[entry] = true;
    open.push_back(entry);
  }
  std::unordered_map<Id, u32> makes;  // the first operation that made it
  std::unordered_map<LexerId, u32> lexers;
  std::unordered_map<Id, std::vector<u32>> defines;  // by rule
  std::vector<u32> open;
};

std::string Recording::of(Id root) const {
  Needed needed(*this);
  needed.mark(root);
  ByteWriter out;
  out.number(static_cast<u64>(std::count(needed.entries.begin(), needed.entries.end(), true)));
  WriteArguments::Expressions expressions{{kEmpty, 0}, {kEpsilon, 1}};
  WriteArguments::Lexers lexers;
  u32 made = 2, made_lexers = 0;
  for (u32 i = 0; i < entries_.size(); ++i) {
    if (!needed.entries[i]) continue;
    ByteReader from(log_from(entries_[i].at));
    ReadArguments arguments(from);
    Operation operation = read_operation(from, arguments);
    std::visit(
        [&](auto& op) {
          out.byte(op.kCode);
          WriteArguments writer(out);
          writer.number_by(expressions, lexers);
          writer.visit(op);
        },
        operation);
    if (const Id* e = std::get_if<Id>(&entries_[i].result)) expressions.try_emplace(*e, made++);
    if (const LexerId* lexer = std::get_if<LexerId>(&entries_[i].result)) lexers.try_emplace(*lexer, made_lexers++);
  }
  out.number(expressions.at(root));
  return std::move(out.out());
}

u32 Replay::step(ByteReader& from, bool alone) {
  ReadArguments arguments(from);
  arguments.number_by(expressions_, lexers_);
  Operation operation = read_operation(from, arguments);
  if (alone && from.left() != 0) from.refuse("something follows the instruction");
  return std::visit(
      [&]<class Op>(Op& op) -> u32 {
        const Given<Op> result = builder_.add(std::move(op));
        auto keep = [&](auto& numbered) {
          numbered.push_back(result);
          return static_cast<u32>(numbered.size() - 1);
        };
        if constexpr (std::is_same_v<Given<Op>, Id>)
          return keep(expressions_);
        else if constexpr (std::is_same_v<Given<Op>, LexerId>)
          return keep(lexers_);
        else
          return 0;
      },
      operation);
}

Id Replay::expression(u32 number) const {
  if (number >= expressions_.size()) throw Error("bad-handle", "no such expression: " + std::to_string(number));
  return expressions_[number];
}

u32 Replay::number_of(Id e) {
  if (e <= kEpsilon) return index_of(e);
  expressions_.push_back(e);
  return static_cast<u32>(expressions_.size() - 1);
}

Id Replay::all(std::string_view contents) {
  ByteReader from(contents);
  for (std::size_t left = from.count(); left > 0; --left) step(from);
  const u32 root = from.number32();
  if (root >= expressions_.size()) from.refuse("its root is undefined");
  if (from.left() != 0) from.refuse("there is data after its end");
  return expressions_[root];
}

std::pair<std::shared_ptr<Arena>, Id> read_program(std::string_view file, Limits limits) {
  const std::string_view contents = contents_of(file, Saved::Program);
  Builder builder(limits);
  const Id root = Replay(builder).all(contents);
  return {builder.finish(root), root};
}

}  // namespace guiderail
