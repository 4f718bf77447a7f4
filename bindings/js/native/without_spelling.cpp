// Replaces run/canonical.cpp and run/canonical_guide.cpp. Vocabularies loaded by this module have no merges, so no guide
// has canonical spelling, and a place in a text is its state. Saves a tenth of the module's size.
#include "run/matcher.hpp"

namespace guiderail {

bool Guide::may_end(Program& program, const Position& at) const { return program.accepting(at.state); }

Position Guide::advance(Program& program, const Position& at, u32 token) const {
  return {advance(program, at.state, token)};
}

bool Guide::fill(Program& program, const Position& at, const std::vector<u32>& stops, u32* out) const {
  return fill(program, at.state, stops, out);
}

bool Guide::fill_within(Program& program, const Position& at, const std::vector<u32>& stops, u32 budget,
                        u32* out) const {
  return fill_within(program, at.state, stops, budget, out);
}

u32 Guide::needed(Program& program, const Position& at, bool thorough) const {
  return needed(program, at.state, thorough);
}

}  // namespace guiderail
