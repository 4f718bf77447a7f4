// Expressions built by front ends that run elsewhere, see lowering.cpp.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "run/matcher.hpp"

namespace guiderail {

// A call: its number, the handle of a builder or a program (0: neither), its arguments. Writes an answer in bytes to
// `out`, returns an answer that is a number.
double lowering_call(u32 operation, u32 handle, std::string_view arguments, std::string& out);

// The program whose handle `finish` returned.
std::shared_ptr<Program> lowered_program(u32 handle);

}  // namespace guiderail
