// Expressions built from elsewhere, see lowering.cpp.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "run/matcher.hpp"

namespace guiderail {

// One call: its number, the handle of a builder or a program (0: neither), its arguments. What is answered by bytes is
// written to `out`, what is answered by a number is returned.
double lowering_call(u32 operation, u32 handle, std::string_view arguments, std::string& out);

// The program that `finish` answered with this handle.
std::shared_ptr<Program> lowered_program(u32 handle);

}  // namespace guiderail
