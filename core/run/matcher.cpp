// Matchers: one text in progress.
#include "run/matcher.hpp"

#include <algorithm>

#include "run/mask_making.hpp"

namespace guiderail {

Matcher::Matcher(std::shared_ptr<Guide> guide, std::vector<u32> stops)
    : guide_(std::move(guide)), program_(guide_->start()), stops_(std::move(stops)), at_{guide_->root()} {
  sort_unique(stops_);
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
                std::string(what) + ": the text has ended with a stop token; call reset() or rollback() first");
}

template <class F>
auto Matcher::placed(F f) const {
  try {
    return f();
  } catch (const Error& error) {
    place(error);
  }
}

// Called while an error is being handled.
void Matcher::place(const Error& error) const {
  if (error.code != "step-work") throw;
  const std::string rules = program_->rules_ahead(at_.state);
  throw Error(error.code, std::string(error.what()) + " (after " + std::to_string(steps_.size()) +
                              " tokens of the text" + (rules.empty() ? ")" : "; what follows is " + rules + ")"));
}

bool Matcher::accept_token(std::int64_t token) {
  check_running("accept_token");
  if (token < 0 || token >= guide_->vocabulary().size())
    throw Error("matcher-token", "there is no token " + std::to_string(token) + ": the vocabulary has the ids 0 to " +
                                     std::to_string(guide_->vocabulary().size() - 1));
  const u32 id = static_cast<u32>(token);
  const Position next = placed([&] { return guide_->advance(*program_, at_, id); });
  if (next.state != kEmpty) {
    steps_.push_back({at_.state, static_cast<std::int32_t>(id), at_.spelled.place});
    at_ = next;
    return true;
  }
  if (!std::binary_search(stops_.begin(), stops_.end(), id) || !accepting()) return false;
  steps_.push_back({at_.state, static_cast<std::int32_t>(id), at_.spelled.place});
  terminated_ = true;
  return true;
}

bool Matcher::accept_within(std::int64_t token, std::int64_t budget) {
  if (budget < 1) throw Error("matcher-budget", "a token needs a budget of 1 or more, not " + std::to_string(budget));
  check_running("accept_within");
  const Id before = at_.state;
  if (!accept_token(token)) return false;
  try {
    if (terminated_ || accepting()) return true;
    if (const u32 needed = this->needed(false); needed != kInf && needed < budget) return true;
    if (guide_->spelling()) {
      rollback(1);
      return false;
    }
    const auto left = static_cast<u32>(std::min<std::int64_t>(budget - 1, kInf - 1));
    const auto read = static_cast<u32>(token);
    if (placed([&] { return guide_->suffices(*program_, before, read, at_.state, left); })) return true;
  } catch (...) {  // a limit was met
    rollback(1);
    throw;
  }
  rollback(1);
  return false;
}

std::size_t Matcher::validate(const std::vector<std::int64_t>& draft) const {
  Position at = at_;
  if (terminated_) return 0;
  for (std::size_t i = 0; i < draft.size(); ++i) {
    if (draft[i] < 0 || draft[i] >= guide_->vocabulary().size()) return i;
    const u32 token = static_cast<u32>(draft[i]);
    const Position next = placed([&] { return guide_->advance(*program_, at, token); });
    if (next.state == kEmpty)  // a stop token can only come last
      return i + (std::binary_search(stops_.begin(), stops_.end(), token) && guide_->may_end(*program_, at));
    at = next;
  }
  return draft.size();
}

std::vector<bool> Matcher::fill_draft(const std::vector<std::int64_t>& draft, const std::vector<std::int64_t>& parents,
                                      const std::vector<u32*>& rows) const {
  check_running("fill_draft");
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
  std::vector<Position> states(draft.size() + 1);  // kEmpty: rejected, or stopped
  std::vector<bool> accepted(draft.size(), false);
  states[0] = at_;
  placed([&] { return guide_->fill(*program_, at_, stops_, rows[0]); });
  for (std::size_t i = 0; i < draft.size(); ++i) {
    const Position before = states[static_cast<std::size_t>(parents[i] + 1)];
    if (before.state != kEmpty && draft[i] >= 0 && draft[i] < vocabulary.size()) {
      const u32 token = static_cast<u32>(draft[i]);
      const Position next = states[i + 1] = placed([&] { return guide_->advance(*program_, before, token); });
      accepted[i] = next.state != kEmpty ||
                    (std::binary_search(stops_.begin(), stops_.end(), token) && guide_->may_end(*program_, before));
    }
    if (states[i + 1].state != kEmpty)
      placed([&] { return guide_->fill(*program_, states[i + 1], stops_, rows[i + 1]); });
    else
      everything(rows[i + 1]);
  }
  return accepted;
}

bool Matcher::accept_string(std::string_view bytes) {
  check_running("accept_string");
  // This counts as one token.
  const Id next = placed([&] { return program_->token_end(program_->advance(at_.state, bytes)); });
  if (next == kEmpty) return false;
  steps_.push_back({at_.state, -1, at_.spelled.place});
  at_ = {next};
  return true;
}

bool Matcher::fill(u32* out) const {
  check_running("fill_next_token_bitmask");
  return placed([&] { return guide_->fill(*program_, at_, stops_, out); });
}

bool Matcher::fill(u32* out, std::int64_t budget) const {
  check_running("fill_next_token_bitmask");
  if (budget < 0)
    throw Error("matcher-budget", "a budget must be a number of tokens, 0 or more, not " + std::to_string(budget));
  const auto most = static_cast<u32>(std::min<std::int64_t>(budget, kInf - 1));
  return placed([&] { return guide_->fill_within(*program_, at_, stops_, most, out); });
}

u32 Matcher::needed(bool thorough) const {
  return terminated_ ? 0 : placed([&] { return guide_->needed(*program_, at_, thorough); });
}

void Matcher::rollback(std::int64_t count) {
  if (count < 0 || static_cast<std::size_t>(count) > steps_.size())
    throw Error("matcher-rollback", "cannot roll back " + std::to_string(count) + " steps: the matcher has read " +
                                        std::to_string(steps_.size()) + "; pass a number from 0 to that");
  if (count == 0) return;
  const History::Step first = steps_.drop(static_cast<std::size_t>(count));
  at_ = {first.before, {first.place, -1}};
  if (const auto before = steps_.last_token(); before && first.place != Spelling::kFresh)
    at_.spelled.last = static_cast<int>(guide_->spelling()->inward(static_cast<u32>(*before)));
  terminated_ = false;
}

void Matcher::reset() {
  program_ = guide_->start();
  at_ = {guide_->root()};
  steps_.clear();
  terminated_ = false;
}

std::string Matcher::forced(std::size_t limit) const {
  return terminated_ ? std::string() : placed([&] { return program_->forced(at_.state, limit); });
}

bool Matcher::complete() const {
  if (terminated_) return true;
  if (!accepting()) return false;
  return placed([&] { return !program_->next_bytes(at_.state).any() && program_->next_symbols(at_.state).empty(); });
}

}  // namespace guiderail
