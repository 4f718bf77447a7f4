// Guides of texts in canonical spelling.
#include <cstring>

#include "captures/captures.hpp"
#include "run/canonical.hpp"
#include "run/mask_making.hpp"

namespace guiderail {

void Guide::require(std::shared_ptr<Spelling> spelling) {
  if (&spelling->vocabulary() != vocabulary_.get())
    throw Error("program-bound", "this spelling was made for another vocabulary");
  spelling_ = std::move(spelling);
  const std::shared_ptr<Program> program = this->program();
  {
    Program::Lock lock(*program);
    if (Captures::of(program->arena()).used())
      throw Error("not-regular",
                  "canonical spelling is not decided for a backreference to a group of more than 64 texts; leave "
                  "canonical out, or write out the possible texts");
  }
  if (const Position start{root_}; !canonical_texts(*program).completes(*this, start.state, start.spelled))
    throw Error(
        "unsatisfiable",
        "no text of the constraint has a canonical spelling, as far as the search found; leave canonical out, or "
        "loosen the constraint");
}

CanonicalTexts& Guide::canonical_texts(Program& program) const {
  std::lock_guard lock(mutex_);
  if (!program.canonical_texts_) program.canonical_texts_ = std::make_shared<CanonicalTexts>(program, spelling_);
  return *program.canonical_texts_;
}

bool Guide::may_end(Program& program, const Position& at) const {
  return program.accepting(at.state) && (!spelling_ || spelling_->may_end(at.spelled));
}

Position Guide::advance(Program& program, const Position& at, u32 token) const {
  if (!spelling_) return {advance(program, at.state, token)};
  token = spelling_->inward(token);
  if (token == Spelling::kNoToken) return {};
  const Spelling::State spelled = spelling_->next(at.spelled, token);
  if (spelled.dead()) return {};
  const Position next{advance(program, at.state, token), spelled};
  return next.state != kEmpty && this->canonical_texts(program).allows(*this, at, token, next) ? next : Position{};
}

bool Guide::fill(Program& program, const Position& at, const std::vector<u32>& stops, u32* out) const {
  if (!spelling_) return fill(program, at.state, stops, out);
  return fill_within(program, at, stops, kInf, out);
}

bool Guide::fill_within(Program& program, const Position& at, const std::vector<u32>& stops, u32 budget,
                        u32* out) const {
  if (!spelling_) return fill_within(program, at.state, stops, budget, out);
  CanonicalTexts& texts = canonical_texts(program);
  const bool known = budget == kInf &&
                     (texts.recall(at.state, at.spelled, out) || texts.fill_at_once(*this, at.state, at.spelled, out));
  if (!known) fill(program, at.state, {}, out);
  if (budget != kInf) check_budget(needed(program, at, false), budget);
  if (budget == 0)
    std::memset(out, 0, vocabulary_->words() * 4);
  else if (!known)
    texts.restrict(*this, at.state, at.spelled, budget == kInf ? kInf : budget - 1, out);
  spelling_->outward(out);
  if (may_end(program, at))
    for (u32 s : stops) out[s >> 5] |= 1u << (s & 31);
  return true;
}

u32 Guide::needed(Program& program, const Position& at, bool thorough) const {
  if (!spelling_) return needed(program, at.state, thorough);
  return may_end(program, at) ? 0 : canonical_texts(program).needed(*this, at.state, at.spelled);
}

}  // namespace guiderail
