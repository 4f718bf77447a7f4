// Makes the expressions of one program, operation by operation, and writes down what it was asked for.
#pragma once

#include <memory>

#include "build/operations.hpp"
#include "build/recording.hpp"

namespace guiderail {

class Builder {
 public:
  explicit Builder(Limits limits, bool records = false) : arena_(std::make_shared<Arena>(limits)) {
    if (records) recording_.emplace();
  }

  Arena& arena() {
    if (finished_) throw Error("builder-finished", "finish() was called; make a new Builder");
    return *arena_;
  }
  Id check(Id e) const {
    if (index_of(e) >= arena_->node_count())
      throw Error("bad-handle", "no such expression in this builder: " + std::to_string(index_of(e)));
    return e;
  }
  template <class Op>
  Given<Op> add(Op operation) {
    Arena& arena = this->arena();
    CheckHandles checker{*this};
    checker.visit(operation);
    if constexpr (std::is_same_v<Op, operations::Lexed>)
      grammars_.push_back(operation.body);
    else if constexpr (!puts_together<Op>())
      texts_.insert(texts_.end(), checker.given.begin(), checker.given.end());
    const Given<Op> result = operation.make(arena);
    if (recording_) recording_->note(operation, result);
    return result;
  }
  // The operations that make this expression, as the contents of a program file. Requires: it records.
  std::string recorded(Id root) const { return recording_->of(check(root)); }
  // The expressions, for a program of which this is the root; nothing can be added afterwards.
  std::shared_ptr<Arena> finish(Id root) {
    arena();
    texts_.push_back(check(root));
    check_grammars();
    finished_ = true;
    return arena_;
  }

 private:
  struct CheckHandles : Visitor<CheckHandles> {
    const Builder& of;
    std::vector<Id> given;
    explicit CheckHandles(const Builder& of) : of(of) {}
    void take(Id& e) { given.push_back(of.check(e)); }
  };
  // Whether it makes a text of texts, and a grammar over terminals of grammars. Others are given texts, all but Lexed.
  template <class Op>
  static constexpr bool puts_together() {
    using std::is_same_v;
    return is_same_v<Op, operations::Concat> || is_same_v<Op, operations::Union> || is_same_v<Op, operations::Repeat> ||
           is_same_v<Op, operations::Intersection> || is_same_v<Op, operations::Define> ||
           is_same_v<Op, operations::Binding>;
  }
  void check_grammars() const;
  std::vector<Id> texts_, grammars_;  // what operations were given as such
  std::shared_ptr<Arena> arena_;
  std::optional<Recording> recording_;
  bool finished_ = false;
};

// Adds operations that were written down, one after the other.
class Replay {
 public:
  explicit Replay(Builder& builder) : builder_(builder) {}
  // The next operation. What it gave: the number of the expression or lexer, as later operations name it; or 0.
  u32 step(ByteReader& from);
  // All of a program file's contents: its root.
  Id all(std::string_view contents);
  Id expression(u32 number) const;
  u32 number_of(Id e);  // that later operations can name it by

 private:
  Builder& builder_;
  std::vector<Id> expressions_{kEmpty, kEpsilon};
  std::vector<LexerId> lexers_;
};

// Reads a program file: its expressions, and their root.
std::pair<std::shared_ptr<Arena>, Id> read_program(std::string_view file, Limits limits);

}  // namespace guiderail
