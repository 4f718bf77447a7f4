// From bytes to an expression of the algebra and, if it has one, a direct implementation of its meaning. The bytes are
// a program for a stack machine: each takes its operands from the stack and pushes its result. So every input has a
// meaning, and a small change of the input is a small change of the expression.
#pragma once

#include "expr/expression.hpp"
#include "oracle.hpp"

namespace guiderail::fuzz {

struct Made {
  Id id = kEpsilon;
  int term = kNoMeaning;
  std::string code{};  // how to make it with guiderail._core.Builder, if requested
};

extern bool explaining;

class Expressions {
 public:
  Expressions(Arena& arena, Oracle& oracle, Input& input) : arena_(arena), oracle_(oracle), in_(input) {}
  Made run();

 private:
  void one();
  Made literal(const std::string& text);
  Made chars(u32 index);
  Made pop();
  Made closed(Made e);  // with its look-arounds in a scope
  void push(Id id, const std::vector<Made>& parts, Term term, const std::string& code);
  void list(Term::Kind kind);
  Made object();
  Made any_text();
  Made enclosed(const char* open, const Made& e, const char* close);
  void members();
  Made living();
  Made text();
  Made patterned(Made& value);
  Made value(u32& values);
  void distinct();
  bool holds_values(int term);
  void lexed();
  void recursive();

  Arena& arena_;
  Oracle& oracle_;
  Input& in_;
  std::vector<Made> stack_;
  u32 rules_ = 0;
  bool raw_ = false;  // with bytes that are not characters, and then without look-arounds, which see text
};

extern const std::vector<std::string> kPieces;  // parts of texts

}  // namespace guiderail::fuzz
