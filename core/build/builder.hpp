// Makes the expressions of one program, operation by operation, and records the operations.
#pragma once

#include <memory>

#include "base/host.hpp"
#include "base/thresholds.hpp"
#include "build/operations.hpp"
#include "build/recording.hpp"

namespace guiderail {

class Builder {
 public:
  explicit Builder(Limits limits, bool records = false) : arena_(std::make_shared<Arena>(limits)) {
    if (records) recording_.emplace();
  }
  ~Builder() {
    if (arena_.use_count() == 1 && arena_->memory() >= kLargeProgramBytes) Host::released([&] { arena_.reset(); });
  }
  Builder(const Builder&) = delete;
  Builder& operator=(const Builder&) = delete;

  Arena& arena() {
    if (finished_) throw Error("builder-finished", "finish() was called; make a new Builder");
    return *arena_;
  }
  Id check(Id e) const {
    if (index_of(e) >= arena_->node_count())
      throw Error("bad-handle", "no such expression in this builder: " + std::to_string(index_of(e)));
    return e;
  }
  // An expression that is only examined, and must contain no rule.
  Id check_regular(Id e, const char* asked) {
    if (arena().has(check(e), kHasRef))
      throw Error("not-regular", std::string(asked) + " takes an expression without rules");
    return e;
  }
  template <class Op>
  Given<Op> add(Op operation) {
    Arena& arena = this->arena();
    CheckHandles checker{*this};
    checker.visit(operation);
    if constexpr (!may_recall<Op>())
      for (Id e : checker.given) check_bound(e);
    if constexpr (combines<Op>())
      for (Id e : checker.given) check_alone(e);
    if constexpr (std::is_same_v<Op, operations::Lexed>)
      grammars_.push_back(operation.body);
    else if constexpr (!puts_together<Op>())
      texts_.insert(texts_.end(), checker.given.begin(), checker.given.end());
    const Given<Op> result = operation.make(arena);
    if (recording_) recording_->note(operation, result);
    return result;
  }
  // The operations that make this expression, as the contents of a program file. Requires: the builder records.
  std::string recorded(Id root) const { return recording_->of(check(root)); }
  // The expressions of a program with this root; nothing can be added afterwards.
  std::shared_ptr<Arena> finish(Id root) {
    arena();
    texts_.push_back(check(root));
    check_bound(root);
    check_grammars();
    finished_ = true;
    return arena_;
  }

 private:
  struct CheckHandles : Visitor<CheckHandles> {
    const Builder& of;
    Ids given;
    explicit CheckHandles(const Builder& of) : of(of) {}
    void take(Id& e) { given.push_back(of.check(e)); }
  };
  // Does it compose texts to a text, and grammars to a grammar? The other operations take texts, except for Lexed.
  template <class Op>
  static constexpr bool puts_together() {
    using std::is_same_v;
    return is_same_v<Op, operations::Concat> || is_same_v<Op, operations::Union> || is_same_v<Op, operations::Repeat> ||
           is_same_v<Op, operations::Intersection> || is_same_v<Op, operations::Define> ||
           is_same_v<Op, operations::Binding>;
  }
  // May it be between a recall and the group whose text that is?
  template <class Op>
  static constexpr bool may_recall() {
    using std::is_same_v;
    return is_same_v<Op, operations::Concat> || is_same_v<Op, operations::Union> || is_same_v<Op, operations::Repeat> ||
           is_same_v<Op, operations::Capture>;
  }
  // Does it take conditions on the same text? A capture has too many states for that.
  template <class Op>
  static constexpr bool combines() {
    using std::is_same_v;
    return is_same_v<Op, operations::Intersection> || is_same_v<Op, operations::Complement> ||
           is_same_v<Op, operations::LookAhead> || is_same_v<Op, operations::LookBehind> ||
           is_same_v<Op, operations::Scope>;
  }
  void check_alone(Id e) const {
    if (arena_->has(e, kHasCapture))
      throw Error("not-regular",
                  "an intersection, complement or look-around cannot hold a backreference to a group of more than 64 "
                  "texts; write out the possible texts, or check this condition later");
  }
  void check_bound(Id e) const {
    if (arena_->has(e, kHasRecall))
      throw Error("bad-shape", "a recall stands only in what follows its group, within the same capture");
  }
  void check_grammars() const;
  std::vector<Id> texts_, grammars_;  // operands that operations use as such
  std::shared_ptr<Arena> arena_;
  std::optional<Recording> recording_;
  bool finished_ = false;
};

// Repeats recorded operations, one after the other.
class Replay {
 public:
  explicit Replay(Builder& builder) : builder_(builder) {}
  // Repeats the next operation. Returns the number by which later operations name the expression or lexer; or 0.
  // alone: nothing may follow it.
  u32 step(ByteReader& from, bool alone = false);
  // Repeats all contents of a program file and returns the root.
  Id all(std::string_view contents);
  Id expression(u32 number) const;
  u32 number_of(Id e);  // by which later operations can name it

 private:
  Builder& builder_;
  std::vector<Id> expressions_{kEmpty, kEpsilon};
  std::vector<LexerId> lexers_;
};

// Reads a program file: its expressions and their root.
std::pair<std::shared_ptr<Arena>, Id> read_program(std::string_view file, Limits limits);

}  // namespace guiderail
