// Matchers: one text on its way.
#include "run/matcher.hpp"

#include <algorithm>
#include <queue>

#include "run/mask_making.hpp"

namespace guiderail {

Matcher::Matcher(std::shared_ptr<Guide> guide, std::vector<u32> stops)
    : guide_(std::move(guide)), program_(guide_->start()), stops_(std::move(stops)), state_(guide_->root()) {
  std::sort(stops_.begin(), stops_.end());
  stops_.erase(std::unique(stops_.begin(), stops_.end()), stops_.end());
  for (u32 s : stops_)
    if (s >= guide_->vocabulary().size())
      throw Error("matcher-token", "stop token " + std::to_string(s) + " is not below the vocabulary's size");
}

void Matcher::refuse_user() const {
  throw Error("matcher-shared",
              "another thread is using this matcher; a matcher follows one text, in one thread at a time: give each "
              "thread a matcher or a fork() of its own, or wait until the other call has ended");
}

void Matcher::check_running(const char* what) const {
  if (terminated_)
    throw Error("matcher-terminated",
                std::string(what) + " after a stop token was accepted; reset() or rollback() first");
}

template <class F>
auto Matcher::placed(F f) const {
  try {
    return f();
  } catch (const Error& error) {
    place(error);
  }
}

// In the midst of its handling.
void Matcher::place(const Error& error) const {
  if (error.code != "step-work") throw;
  const std::string rules = program_->rules_ahead(state_);
  throw Error(error.code, std::string(error.what()) + " (after " + std::to_string(steps_.size()) +
                              " tokens of the text" + (rules.empty() ? ")" : "; what follows is " + rules + ")"));
}

bool Matcher::accept_token(std::int64_t token) {
  check_running("accept_token");
  if (token < 0 || token >= guide_->vocabulary().size())
    throw Error("matcher-token", "token id " + std::to_string(token) + " is not in 0.." +
                                     std::to_string(guide_->vocabulary().size() - 1));
  const u32 id = static_cast<u32>(token);
  const Id next = placed([&] { return guide_->advance(*program_, state_, id); });
  if (next != kEmpty) {
    steps_.push_back({state_, static_cast<std::int32_t>(id)});
    state_ = next;
    return true;
  }
  if (!std::binary_search(stops_.begin(), stops_.end(), id) || !program_->accepting(state_)) return false;
  steps_.push_back({state_, static_cast<std::int32_t>(id)});
  terminated_ = true;
  return true;
}

bool Matcher::accept_within(std::int64_t token, std::int64_t budget) {
  if (budget < 1) throw Error("matcher-budget", "a token needs a budget of 1 or more, not " + std::to_string(budget));
  const Id before = state_;
  if (!accept_token(token)) return false;
  try {
    if (terminated_ || program_->accepting(state_)) return true;
    if (const u32 needed = this->needed(false); needed != kInf && needed < budget) return true;
    const auto left = static_cast<u32>(std::min<std::int64_t>(budget - 1, kInf - 1));
    const auto read = static_cast<u32>(token);
    if (placed([&] { return guide_->suffices(*program_, before, read, state_, left); })) return true;
  } catch (...) {  // a limit was met
    rollback(1);
    throw;
  }
  rollback(1);
  return false;
}

std::size_t Matcher::validate(const std::vector<std::int64_t>& draft) const {
  Id state = state_;
  if (terminated_) return 0;
  for (std::size_t i = 0; i < draft.size(); ++i) {
    if (draft[i] < 0 || draft[i] >= guide_->vocabulary().size()) return i;
    const u32 token = static_cast<u32>(draft[i]);
    const Id next = placed([&] { return guide_->advance(*program_, state, token); });
    if (next == kEmpty)  // a stop token is the last that can be accepted
      return i + (std::binary_search(stops_.begin(), stops_.end(), token) && program_->accepting(state));
    state = next;
  }
  return draft.size();
}

std::vector<bool> Matcher::fill_draft(const std::vector<std::int64_t>& draft, const std::vector<std::int64_t>& parents,
                                      const std::vector<u32*>& rows) const {
  check_running("fill_next_token_bitmasks_for_draft");
  const Vocabulary& vocabulary = guide_->vocabulary();
  for (std::size_t i = 0; i < parents.size(); ++i)
    if (parents[i] < -1 || parents[i] >= static_cast<std::int64_t>(i))
      throw Error("matcher-draft", "the parent of token " + std::to_string(i) + " of the draft is " +
                                       std::to_string(parents[i]) +
                                       "; it must be -1 or the number of an earlier token");
  auto everything = [&](u32* out) {
    std::fill(out, out + vocabulary.words(), ~u32{0});
    if (const u32 used = vocabulary.size() % 32; used != 0) out[vocabulary.words() - 1] = (u32{1} << used) - 1;
  };
  std::vector<Id> states(draft.size() + 1, kEmpty);  // kEmpty: refused, or stopped
  std::vector<bool> accepted(draft.size(), false);
  states[0] = state_;
  placed([&] { return guide_->fill(*program_, state_, stops_, rows[0]); });
  for (std::size_t i = 0; i < draft.size(); ++i) {
    const Id before = states[static_cast<std::size_t>(parents[i] + 1)];
    if (before != kEmpty && draft[i] >= 0 && draft[i] < vocabulary.size()) {
      const u32 token = static_cast<u32>(draft[i]);
      const Id next = states[i + 1] = placed([&] { return guide_->advance(*program_, before, token); });
      accepted[i] =
          next != kEmpty || (std::binary_search(stops_.begin(), stops_.end(), token) && program_->accepting(before));
    }
    if (states[i + 1] != kEmpty)
      placed([&] { return guide_->fill(*program_, states[i + 1], stops_, rows[i + 1]); });
    else
      everything(rows[i + 1]);
  }
  return accepted;
}

bool Matcher::accept_string(std::string_view bytes) {
  check_running("accept_string");
  // counted as one token
  const Id next = placed([&] { return program_->token_end(program_->advance(state_, bytes)); });
  if (next == kEmpty) return false;
  steps_.push_back({state_, -1});
  state_ = next;
  return true;
}

bool Matcher::fill(u32* out) const {
  check_running("fill_next_token_bitmask");
  return placed([&] { return guide_->fill(*program_, state_, stops_, out); });
}

bool Matcher::fill(u32* out, std::int64_t budget) const {
  check_running("fill_next_token_bitmask");
  if (budget < 0)
    throw Error("matcher-budget", "a budget is a number of tokens, 0 or more, not " + std::to_string(budget));
  const auto most = static_cast<u32>(std::min<std::int64_t>(budget, kInf - 1));
  return placed([&] { return guide_->fill_within(*program_, state_, stops_, most, out); });
}

u32 Matcher::needed(bool thorough) const {
  return terminated_ ? 0 : placed([&] { return guide_->needed(*program_, state_, thorough); });
}

void Matcher::rollback(std::int64_t count) {
  if (count < 0 || static_cast<std::size_t>(count) > steps_.size())
    throw Error("matcher-rollback", "cannot roll back " + std::to_string(count) +
                                        " steps: " + std::to_string(steps_.size()) + " were accepted");
  if (count == 0) return;
  state_ = steps_.drop(static_cast<std::size_t>(count));
  terminated_ = false;
}

void Matcher::reset() {
  program_ = guide_->start();
  state_ = guide_->root();
  steps_.clear();
  terminated_ = false;
}

std::string Matcher::forced(std::size_t limit) const {
  return terminated_ ? std::string() : placed([&] { return program_->forced(state_, limit); });
}

bool Matcher::complete() const {
  if (terminated_) return true;
  if (!program_->accepting(state_)) return false;
  return placed([&] { return !program_->next_bytes(state_).any() && program_->next_symbols(state_).empty(); });
}

}  // namespace guiderail
