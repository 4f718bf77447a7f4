// Operations as bytes, and back (docs/program_format.md).
#pragma once

#include "base/container.hpp"
#include "base/encoding.hpp"
#include "build/operations.hpp"

namespace guiderail {

// Visits the arguments of an operation in order: calls the visitor's `take` with each argument of a type that it takes,
// and otherwise descends into lists and parts.
template <class Self>
class Visitor {
 public:
  template <class T>
  void visit(T& of) {
    if constexpr (requires { self().take(of); })
      self().take(of);
    else if constexpr (requires { of.fields(); })
      std::apply([&](auto&... field) { (visit(field), ...); }, of.fields());
  }
  template <class T>
  void visit(std::vector<T>& of) {
    if constexpr (requires { self().take(of); })
      self().take(of);
    else if constexpr (!std::is_arithmetic_v<T>)
      for (T& one : of) visit(one);
  }

 private:
  Self& self() { return static_cast<Self&>(*this); }
};

class WriteArguments : public Visitor<WriteArguments> {
 public:
  explicit WriteArguments(ByteWriter& to) : to_(to) {}
  using Expressions = std::unordered_map<Id, u32>;
  using Lexers = std::unordered_map<LexerId, u32>;
  // From here on, writes handles as their numbers in a file.
  void number_by(const Expressions& expressions, const Lexers& lexers) {
    expressions_ = &expressions;
    lexers_ = &lexers;
  }
  void take(std::string& text) { to_.text(text); }
  void take(u32& value) { to_.number(value); }
  void take(std::int64_t& value) { to_.integer(value); }
  void take(bool& value) { to_.byte(value); }
  void take(ByteSet& set) {
    for (u64 word : set.words) to_.fixed(word);
  }
  void take(CharSet::Ptr& set) {
    to_.number(set->ranges().size());
    u32 last = 0;  // ranges ascend, so differences are small
    for (auto [low, high] : set->ranges()) {
      to_.number(low - last);
      to_.number(high - low);
      last = high;
    }
  }
  void take(operations::Name& name) {
    to_.byte(static_cast<u8>(name.index()));
    std::visit([&](auto& of) { take(of); }, name);
  }
  void take(Id& e) { to_.number(expressions_ ? expressions_->at(e) : index_of(e)); }
  void take(LexerId& lexer) { to_.number(lexers_ ? lexers_->at(lexer) : static_cast<u32>(lexer)); }
  template <class T>
  void take(std::vector<T>& list) {
    to_.number(list.size());
    for (T& one : list) visit(one);
  }
  void take(std::vector<bool>& list) {
    to_.number(list.size());
    for (bool one : list) take(one);
  }
  template <class T>
  void take(std::optional<T>& of) {
    to_.byte(of.has_value());
    if (of) visit(*of);
  }

 private:
  ByteWriter& to_;
  const Expressions* expressions_ = nullptr;
  const Lexers* lexers_ = nullptr;
};

class ReadArguments : public Visitor<ReadArguments> {
 public:
  explicit ReadArguments(ByteReader& from) : from_(from) {}
  // From here on, reads handles as their numbers in a file.
  void number_by(const std::vector<Id>& expressions, const std::vector<LexerId>& lexers) {
    expressions_ = &expressions;
    lexers_ = &lexers;
  }
  void take(std::string& text) { text = from_.text(); }
  void take(u32& value) { value = from_.number32(); }
  void take(std::int64_t& value) { value = from_.integer(); }
  void take(bool& value) {
    const u8 byte = from_.byte();
    if (byte > 1) from_.refuse("yes or no is neither");
    value = byte == 1;
  }
  void take(ByteSet& set) {
    for (u64& word : set.words) word = from_.fixed<u64>();
  }
  void take(CharSet::Ptr& set);
  void take(operations::Name& name) {
    bool is_id;
    take(is_id);
    if (is_id) name = u32{0};
    std::visit([&](auto& of) { take(of); }, name);
  }
  void take(Id& e) {
    const u32 number = from_.number32();
    if (expressions_ && number >= expressions_->size()) from_.refuse("an expression is used before it is made");
    e = expressions_ ? (*expressions_)[number] : Id{number};
  }
  void take(LexerId& lexer) {
    const u32 number = from_.number32();
    if (lexers_ && number >= lexers_->size()) from_.refuse("a lexer is used before it is made");
    lexer = lexers_ ? (*lexers_)[number] : LexerId{number};
  }
  template <class T>
  void take(std::vector<T>& list) {
    for (std::size_t left = from_.count(); left > 0; --left) {
      T one{};
      visit(one);
      list.push_back(std::move(one));
    }
  }
  template <class T>
  void take(std::optional<T>& of) {
    bool there;
    take(there);
    if (there) visit(of.emplace());
  }

 private:
  ByteReader& from_;
  const std::vector<Id>* expressions_ = nullptr;
  const std::vector<LexerId>* lexers_ = nullptr;
};

// Reads the next operation.
Operation read_operation(ByteReader& from, ReadArguments& arguments);

// The operations that a builder has run, in order.
class Recording {
 public:
  template <class Op>
  void note(Op& operation, Given<Op> result) {
    const std::size_t at = log_.out().size();
    log_.byte(Op::kCode);
    WriteArguments writer(log_);
    writer.visit(operation);
    entries_.push_back({at, result});
  }
  // The operations that make this expression, as the contents of a program file; all others are left out.
  std::string of(Id root) const;

 private:
  struct Entry {
    std::size_t at;
    std::variant<Id, LexerId, Nothing> result;
  };
  struct Needed;
  std::string_view log_from(std::size_t at) const { return std::string_view(log_.out()).substr(at); }
  ByteWriter log_;
  std::vector<Entry> entries_;
};

}  // namespace guiderail
