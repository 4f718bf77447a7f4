// Operations as bytes, and back (docs/program_format.md).
#pragma once

#include "base/container.hpp"
#include "base/encoding.hpp"
#include "build/operations.hpp"

namespace guiderail {

// A visitor of the arguments of operations that looks at nothing; others look at what they must.
struct Visitor {
  void text(std::string&) {}
  void texts(std::vector<std::string>&) {}
  void number(u32&) {}
  void numbers(std::vector<u32>&) {}
  void integer(std::int64_t&) {}
  void flag(bool&) {}
  void flags(std::vector<bool>&) {}
  void bytes(ByteSet&) {}
  void characters(CharSet::Ptr&) {}
  void names(operations::Names&) {}
  void expression(Id&) {}
  void expressions(std::vector<Id>&) {}
  void lexer(u32&) {}
};

class WriteArguments {
 public:
  explicit WriteArguments(ByteWriter& to) : to_(to) {}
  void text(std::string& text) { to_.text(text); }
  void texts(std::vector<std::string>& list) {
    this->list(list, [&](std::string& one) { text(one); });
  }
  void number(u32& value) { to_.number(value); }
  void numbers(std::vector<u32>& list) {
    this->list(list, [&](u32& one) { number(one); });
  }
  void integer(std::int64_t& value) { to_.integer(value); }
  void flag(bool& value) { to_.byte(value); }
  void flags(std::vector<bool>& list) {
    to_.number(list.size());
    for (bool one : list) to_.byte(one);
  }
  void bytes(ByteSet& set) {
    for (u64 word : set.words) to_.fixed(word);
  }
  void characters(CharSet::Ptr& set) {
    to_.number(set->ranges().size());
    u32 last = 0;  // ranges rise, so that differences are small
    for (auto [low, high] : set->ranges()) {
      to_.number(low - last);
      to_.number(high - low);
      last = high;
    }
  }
  void names(operations::Names& list) {
    this->list(list, [&](std::variant<std::string, u32>& name) {
      to_.byte(static_cast<u8>(name.index()));
      if (const u32* id = std::get_if<u32>(&name))
        to_.number(*id);
      else
        to_.text(std::get<std::string>(name));
    });
  }
  void expression(Id& e) { to_.number(expressions_ ? expressions_->at(e) : index_of(e)); }
  void expressions(std::vector<Id>& list) {
    this->list(list, [&](Id& one) { expression(one); });
  }
  void lexer(u32& lexer) { to_.number(lexers_ ? lexers_->at(lexer) : lexer); }
  template <class T, class F>
  void list(std::vector<T>& list, F f) {
    to_.number(list.size());
    for (T& one : list) f(one);
  }
  template <class T, class F>
  void perhaps(std::optional<T>& value, F f) {
    to_.byte(value.has_value());
    if (value) f(*value);
  }
  using Expressions = std::unordered_map<Id, u32>;
  using Lexers = std::unordered_map<u32, u32>;
  // From here on, handles are written as the numbers that they have in a file.
  void number_by(const Expressions& expressions, const Lexers& lexers) {
    expressions_ = &expressions;
    lexers_ = &lexers;
  }

 private:
  ByteWriter& to_;
  const Expressions* expressions_ = nullptr;
  const Lexers* lexers_ = nullptr;
};

class ReadArguments {
 public:
  explicit ReadArguments(ByteReader& from) : from_(from) {}
  void text(std::string& text) { text = from_.text(); }
  void texts(std::vector<std::string>& list) {
    this->list(list, [&](std::string& one) { text(one); });
  }
  void number(u32& value) { value = from_.number32(); }
  void numbers(std::vector<u32>& list) {
    this->list(list, [&](u32& one) { number(one); });
  }
  void integer(std::int64_t& value) { value = from_.integer(); }
  void flag(bool& value) {
    const u8 byte = from_.byte();
    if (byte > 1) from_.refuse("yes or no is neither");
    value = byte == 1;
  }
  void flags(std::vector<bool>& list) {
    for (std::size_t left = from_.count(); left > 0; --left) {
      bool one;
      flag(one);
      list.push_back(one);
    }
  }
  void bytes(ByteSet& set) {
    for (u64& word : set.words) word = from_.fixed<u64>();
  }
  void characters(CharSet::Ptr& set);
  void names(operations::Names& list) {
    this->list(list, [&](std::variant<std::string, u32>& name) {
      bool is_id;
      flag(is_id);
      if (is_id)
        name = from_.number32();
      else
        name = std::string(from_.text());
    });
  }
  void expression(Id& e) {
    const u32 number = from_.number32();
    if (expressions_ && number >= expressions_->size()) from_.refuse("an expression is used before it is made");
    e = expressions_ ? (*expressions_)[number] : Id{number};
  }
  void expressions(std::vector<Id>& list) {
    this->list(list, [&](Id& one) { expression(one); });
  }
  void lexer(u32& lexer) {
    lexer = from_.number32();
    if (!lexers_) return;
    if (lexer >= lexers_->size()) from_.refuse("a lexer is used before it is made");
    lexer = (*lexers_)[lexer];
  }
  template <class T, class F>
  void list(std::vector<T>& list, F f) {
    for (std::size_t left = from_.count(); left > 0; --left) f(list.emplace_back());
  }
  template <class T, class F>
  void perhaps(std::optional<T>& value, F f) {
    bool there;
    flag(there);
    if (there) f(value.emplace());
  }
  // From here on, handles are read as the numbers that they have in a file.
  void number_by(const std::vector<Id>& expressions, const std::vector<u32>& lexers) {
    expressions_ = &expressions;
    lexers_ = &lexers;
  }

 private:
  ByteReader& from_;
  const std::vector<Id>* expressions_ = nullptr;
  const std::vector<u32>* lexers_ = nullptr;
};

// The operation that stands there.
Operation read_operation(ByteReader& from, ReadArguments& arguments);

// What was asked of a builder, in order.
class Recording {
 public:
  template <class Op>
  void note(Op& operation, u32 result) {
    const std::size_t at = log_.out().size();
    log_.byte(Op::kCode);
    WriteArguments writer(log_);
    operation.fields(writer);
    entries_.push_back({at, result, gives<Op>()});
  }
  // What makes this expression, as the contents of a program file: the rest is left out.
  std::string of(Id root) const;

 private:
  struct Entry {
    std::size_t at;
    u32 result;
    Gives gives;
  };
  struct Needed;
  std::string_view log_from(std::size_t at) const { return std::string_view(log_.out()).substr(at); }
  ByteWriter log_;
  std::vector<Entry> entries_;
};

}  // namespace guiderail
