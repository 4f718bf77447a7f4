// Tokens whose next character does not prove a completion: the tokens that may follow them, and those after these.
//
// A form represents all its states for the length of one token. It also represents them
//  - inside endless strings, which infinitely many texts can continue. Each declared or used name forbids only one.
//    Where a key may be some texts only, a name that the form forgets may be the only completion;
//  - after the end of a string: its text no longer matters, or else the state says so (kUnknownText);
//  - for completions no longer than the longest token, where counters were cut. Such a form matches more texts than
//    its states do, so if the form has no completion, neither do they.
// All other cases are unclear, and are decided state by state.
#include <algorithm>

#include "base/work.hpp"
#include "expr/identities.hpp"
#include "mask/outlook.hpp"

namespace guiderail {

namespace {
constexpr u32 kCharacter = 4;  // bytes of the longest one
}  // namespace

// The tokens inside a string that need not end and, after one character at most, always allows the same characters.
// Null: not such a string.
std::shared_ptr<const Spelling::Outlook> Outlooks::endless(Id state) {
  if (row(state).first.count() < static_cast<int>(kLeadCharacters)) return nullptr;
  if (auto it = endless_.find(state); it != endless_.end()) return it->second;
  std::shared_ptr<const Spelling::Outlook> found;
  if (const Id next = lead(state).to; next != kEmpty && lead(next).to == next)
    if (const Chain chain = this->chain(state); chain.loops) found = endless(chain);
  return endless_.emplace(state, found).first->second;
}

std::shared_ptr<const Spelling::Outlook> Outlooks::endless(const Chain& chain) {
  Follow after = 0;
  for (unsigned b = 0; b < 0x80; ++b)
    if (chain.ascii.has(static_cast<u8>(b)) && spelling_.spells(static_cast<u8>(b)))
      after |= spelling_.follow(static_cast<u8>(b));
  const auto mask = class_of(chain);
  Hash key{mix64(chain.ascii.words[0] ^ secrets.flat) ^ after, mix64(chain.ascii.words[1] + secrets.flat)};
  if (chain.beyond) key.lo = mix64(key.lo);
  if (auto known = spelling_.known_outlook(key)) return known;
  auto made = std::make_shared<Spelling::Outlook>();
  made->all = vocabulary_.bounded(*mask, kInf);
  made->after_all = made->all ? after : 0;
  made->then_two = made->all ? chain.apart(spelling_) : 0;
  if (!made->all)
    for (int token : mask->tokens) made->others.push_back({static_cast<u32>(token), after});
  made->number = spelling_.new_number();
  spelling_.keep_outlook(key, made);
  return made;
}

// The state after a byte inside a string; kUnknown: the string ends.
Id Outlooks::step_inside(Id state, u8 byte) {
  const Id next = step(state, byte);
  return next != kEmpty && (next == kEpsilon || ends_string(state, byte) || closes(state, byte)) ? kUnknown : next;
}

// The tokens that may come in a state, and the states after them; kUnknown: that state was dropped. False: too many.
bool Outlooks::each_outcome(Id state, bool inside, std::vector<std::pair<u32, Id>>& out) {
  const Trie& trie = vocabulary_.trie();
  u32 walked = 0;
  return walk(state, 0, [&](Id from, u32 n, u8 byte) {
    if (++walked > kAheadNodes || out.size() > kAheadTokens) return kUnknown;
    if (walked % kNodesBetweenBreaks == 0) {
      arena_.make_room();
      Work::spend(kNodesBetweenBreaks / kNodesPerStep);
    }
    const Id next = inside ? step_inside(from, byte) : step(from, byte);
    if (next == kEmpty) return kEmpty;
    if (next == kUnknown || !known(next)) {
      const auto below = trie.below(n);
      if (out.size() + below.size() > kAheadTokens) return kUnknown;
      for (u32 token : below) out.push_back({token, kUnknown});
      return kEmpty;
    }
    if (trie.nodes[n].token >= 0) out.push_back({static_cast<u32>(trie.nodes[n].token), next});
    return next == kEpsilon ? kEmpty : next;
  });
}

// Null: there are too many.
const Outlooks::Outcomes& Outlooks::outcomes_of(Id state, bool inside) {
  const Ask ask{state, 0, inside};
  if (auto it = outcomes_.find(ask); it != outcomes_.end()) return it->second;
  auto found = std::make_shared<std::vector<std::pair<u32, Id>>>();
  if (each_outcome(state, inside, *found))
    found->shrink_to_fit();
  else
    found = nullptr;
  ahead_bytes_ += sizeof(Ask) + sizeof(Outcomes) + 64 + (found ? bytes_of(*found) : 0);
  return outcomes_.emplace(ask, std::move(found)).first->second;
}

void Outlooks::take_ahead(const Ask& ask, u32 token, Id to, Ahead& out) {
  const Spelling::Ways ways = spelling_.ways(ask.place, token);
  if (ways.none()) return;
  const u32 bytes = static_cast<u32>(vocabulary_.bytes(token).size());
  if (to == kUnknown || ways.beside) {
    out.unclear = out.unclear || ways.begins != Spelling::kDead;
    if (ways.inside != Spelling::kDead) out.doubtful.push_back(token);
    return;
  }
  const auto within = ask.inside ? endless(to) : nullptr;
  const Follow after = ask.inside ? (within ? within->after_all : 0) : follow(to);
  Ahead::Open open{token, to, ways};
  if (ways.begins != Spelling::kDead && (after & spelling_.cuts(ways.begins))) {
    out.always = true;
    out.bytes = bytes + kCharacter;
  }
  if (ways.inside != Spelling::kDead && (after & spelling_.cuts(ways.inside))) {
    out.proved.push_back(token);
    open.ways.inside = Spelling::kDead;
  }
  if (open.ways.begins != Spelling::kDead || open.ways.inside != Spelling::kDead) out.open.push_back(open);
}

// May two characters come that begin a piece, whatever follows them? After spaces, a space and a letter do.
bool Outlooks::begins_by_two(const Ask& ask) {
  const Follow firsts = spelling_.cuts_with_next(ask.place);
  const ByteSet may = row(ask.state).first;
  const auto after = [&](Id state, u8 byte) { return ask.inside ? step_inside(state, byte) : step(state, byte); };
  for (u8 b = 0x20; b < 0x7F && firsts != 0; ++b) {
    const Follow first = may.has(b) ? firsts & spelling_.apart(b) : 0;
    const Id next = first != 0 ? after(ask.state, b) : kEmpty;
    if (next == kUnknown || !known(next)) continue;
    Follow seconds = 0;
    for (u8 c = 0x20; c < 0x7F; ++c) {
      const Follow second = spelling_.apart(c) & ~seconds;
      if (second == 0) continue;
      if (const Id then = after(next, c); then != kUnknown && known(then)) seconds |= second;
    }
    if (spelling_.cuts_by_two(ask.place, first, seconds)) return true;
  }
  return false;
}

void Outlooks::look_ahead(const Ask& ask, Ahead& out) {
  const auto within = endless(ask.state);
  const Follow after = ask.inside ? (within ? within->after_all : 0) : follow(ask.state);
  out.bytes = kCharacter;
  if ((out.always = (after & spelling_.cuts(ask.place)) != 0)) return;
  out.bytes = 2 * kCharacter;
  if ((out.always = begins_by_two(ask))) return;
  if (within) {
    out.proof = spelling_.proof({ask.place, -1}, *within, Spelling::Reach::Text);
    if ((out.always = spelling_.meets(-1, *out.proof, out.bytes))) {
      out.bytes += kCharacter;
      return;
    }
  }
  if (!within) out.outcomes = outcomes_of(ask.state, ask.inside);
  out.unclear = !out.outcomes;
}

Outlooks::Ahead& Outlooks::ahead(const Ask& ask) {
  const Ask any{ask.state, ask.place, ask.inside};
  if (auto it = ahead_.find(any); it != ahead_.end()) return it->second;
  Ahead out;
  look_ahead(any, out);
  ahead_bytes_ += sizeof(Ask) + sizeof(Ahead) + 32 +
                  (out.outcomes ? out.outcomes->size() * 2 * (sizeof(Ahead::Open) + 2 * sizeof(u32)) : 0);
  return ahead_.emplace(any, std::move(out)).first->second;
}

// Does a completion follow the last token, in this state and at this place?
Outlooks::Judged Outlooks::judge(const Ask& ask, u32 depth) {
  Ahead& at = ahead(ask);
  if (at.always) return {Answer::Yes, at.bytes};
  if (auto it = judged_.find(ask); it != judged_.end()) return it->second;
  Work::spend();
  u32 bytes = 0;
  if (at.proof && spelling_.meets(static_cast<int>(ask.last), *at.proof, bytes))
    return judged_[ask] = {Answer::Yes, bytes + kCharacter};
  const auto length = [&](u32 token) { return static_cast<u32>(vocabulary_.bytes(token).size()); };
  if (const u32 token = spelling_.first_after(ask.last, at.proved); token != Spelling::kNoToken)
    return judged_[ask] = {Answer::Yes, length(token) + kCharacter};
  while (at.outcomes && at.looked < at.outcomes->size()) {  // up to the first token that may follow
    const auto [token, to] = (*at.outcomes)[at.looked++];
    const std::size_t before = at.proved.size();
    take_ahead(ask, token, to, at);
    if (at.always) return {Answer::Yes, at.bytes};
    if (at.proved.size() > before && spelling_.follows(ask.last, token))
      return judged_[ask] = {Answer::Yes, length(token) + kCharacter};
  }
  judged_[ask] = {};  // while the search runs
  bool unclear = at.unclear || spelling_.first_after(ask.last, at.doubtful) != Spelling::kNoToken;
  for (const Ahead::Open& open : at.open) {
    for (const bool begins : {true, false}) {
      const u32 place = begins ? open.ways.begins : open.ways.inside;
      if (place == Spelling::kDead || (!begins && !spelling_.follows(ask.last, open.token))) continue;
      if (depth >= kAheadDepth || fuel_ == 0) {
        unclear = true;
        continue;
      }
      --fuel_;
      const Judged after = judge({open.to, place, ask.inside, open.token}, depth + 1);
      if (after.answer == Answer::Yes) return judged_[ask] = {Answer::Yes, length(open.token) + after.bytes};
      unclear = unclear || after.answer == Answer::Unclear;
    }
  }
  return judged_[ask] = {unclear ? Answer::Unclear : Answer::No, 0};
}

// The string in progress without what follows it, if only its first quote ends it; kEmpty: there is none.
Id Outlooks::string_alone(Id state) {
  const Node& n = arena_.node(state);
  if (n.kind != Kind::Concat || arena_.node(n.head()).kind != Kind::Escaped) return kEmpty;
  ByteSet quote;
  quote.add('"');
  const Id head = n.head();
  return arena_.first(n.tail()) == quote ? arena_.concat(head, arena_.literal("\"")) : kEmpty;
}

// The same answer as judge(), kept for all constraints that have such a state.
Outlooks::Judged Outlooks::judge_once(const Ask& ask) {
  fuel_ = kCanonicalFuel;
  const std::optional<Hash> of =
      arena_.has(ask.state, kHasToken | kExactKey | kHasScan) ? std::nullopt : arena_.identities().of(ask.state);
  if (!of) return judge(ask, 0);
  const Hash key{mix64(of->lo ^ (u64{ask.place} << 32 | ask.last)), of->hi ^ ask.inside};
  if (const auto known = spelling_.known_judgement(key)) {
    Work::spend(known->steps);
    return *known;
  }
  const u64 before = Work::spent();
  Judged found = judge(ask, 0);
  found.steps = static_cast<u32>(Work::spent() - before);
  if (!arena_.cap_hit()) spelling_.keep_judgement(key, found);
  return found;
}

void Outlooks::settle(const View& view, const Spelling::State& spelled, const std::vector<u32>& tokens,
                      Spelling::Proof& proof) {
  using Forgets = MaskBuilder::Forgets;
  make_room();
  const bool endless = lead(view.form).to == view.form;
  for (u32 token : spelling_.unnoted(proof, tokens)) {
    Work::spend();
    const std::string_view text = vocabulary_.bytes(token);
    Id at = view.form;
    bool ended = false, closed = false;
    for (std::size_t i = 0; i < text.size() && known(at) && !closed; ++i) {
      const u8 byte = static_cast<u8>(text[i]);
      closed = !ended && view.forgets != Forgets::Nothing && closes(at, byte);
      ended = ended || ((endless || view.forgets != Forgets::Nothing) && ends_string(at, byte));
      at = step(at, byte);
    }
    const bool inside = view.forgets != Forgets::Nothing && !ended;
    const Spelling::Ways ways = spelling_.ways(spelled.place, token);
    if (arena_.cap_hit()) return;
    if (!known(at) || ways.beside || closed) {
      spelling_.note(proof, token, Answer::Unclear, Answer::Unclear);
      continue;
    }
    const Id alone = endless && !ended ? string_alone(at) : kEmpty;
    const auto answer = [&](u32 place) {
      if (place == Spelling::kDead) return Answer::No;
      Judged judged;
      if (alone != kEmpty) judged = judge_once({alone, place, true, token});
      if (judged.answer == Answer::Unclear) {
        fuel_ = kCanonicalFuel;
        judged = endless ? judge_once({at, place, inside, token}) : judge({at, place, inside, token}, 0);
      }
      const bool far = judged.answer == Answer::Yes && text.size() + judged.bytes > vocabulary_.longest();
      const bool name = judged.answer == Answer::No && inside && view.forgets == Forgets::Names;  // one may follow
      return name || (view.brief && far) ? Answer::Unclear : judged.answer;
    };
    const Answer begins = answer(ways.begins);
    spelling_.note(proof, token, begins, answer(ways.inside));
  }
}

}  // namespace guiderail
