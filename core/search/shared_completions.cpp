// Completions shared by states that differ only in the texts of keys, or of items that must differ.
//
// If keys must come, and must differ from those written, a state without texts has no completion that can be known, and
// within a key each token leads to a state of its own. But what completes one of these states completes nearly all
// others: all but those in which a key would come twice. So the first completion found is kept for the state without
// texts. It is read again before it counts for any other state; and for a mask, it counts for all tokens that only
// lengthen the key, except those that could make the key one of the texts that the completion, or the state, knows.
// Strings in a list of distinct values are treated alike.
#include <algorithm>

#include "search/token_walk.hpp"

namespace guiderail {

// The completion of a state, if one is known, and made of bytes.
std::optional<std::string> CompletionDistance::text_of(Id state) const {
  std::string bytes;
  for (Id at = state;;) {
    const auto it = known_.find(at);
    if (it == known_.end() || it->second.bytes == kInf) return std::nullopt;
    if (it->second.bytes == 0) return bytes;
    if (it->second.edge >= kSpecial) return std::nullopt;
    bytes.push_back(static_cast<char>(it->second.edge));
    at = it->second.next;
  }
}

// Keeps the completion of a state, if its texts are all that others with the same state without texts lack.
void CompletionDistance::share(Id state) {
  const Id plain = forget(state);
  if (plain == state || shared_.contains(plain)) return;
  std::optional<std::string> bytes = text_of(state);
  if (!bytes) return;
  shared_bytes_ += bytes->capacity();
  shared_.emplace(plain, std::move(*bytes));
}

// The states along a completion, the given one first; empty: it does not complete this state.
std::vector<Id> CompletionDistance::along(Id state, const std::string& completion) {
  std::vector<Id> path{state};
  for (char c : completion) {
    Id next = arena_.step_slow(path.back(), static_cast<u8>(c));
    if (next != kEmpty) next = arena_.token_end(next);
    if (next == kEmpty || arena_.has(next, kUnknownText)) return {};
    path.push_back(next);
  }
  if (!arena_.nullable(path.back())) path.clear();
  return path;
}

// Reads a completion, and notes it for the states along it that have none.
bool CompletionDistance::follow(Id state, const std::string& completion) {
  const u32 nodes = arena_.node_count();
  const std::vector<Id> path = along(state, completion);
  const std::size_t work = completion.size() / kStatesPerWork + (arena_.node_count() - nodes) / kNodesPerWork + 1;
  now_.work -= std::min(now_.work - 1, work);
  if (path.empty()) return false;
  known_[path.back()] = {0, 0, 0, kEmpty};
  const std::vector<u32> needed = fewest_tokens(completion);
  for (std::size_t i = completion.size(); i-- > 0;) {
    if (auto it = known_.find(path[i]); it == known_.end() || it->second.bytes == kInf)
      link(path[i], static_cast<u8>(completion[i]), path[i + 1]);
    lower(path[i], needed[i]);
  }
  return known(state) != kInf;
}

// By place in a text: the fewest tokens that spell the rest of it.
std::vector<u32> CompletionDistance::fewest_tokens(std::string_view text) const {
  std::vector<u32> least(text.size() + 1, kInf);
  least[text.size()] = 0;
  for (std::size_t from = text.size(); from-- > 0;) {
    u32 node = 0;
    for (std::size_t at = from; at < text.size(); ++at) {
      node = vocabulary_.child(node, static_cast<u8>(text[at]));
      if (node == kNoFan) break;
      if (trie_.nodes[node].token >= 0) least[from] = std::min(least[from], add_sat(1, least[at + 1]));
    }
  }
  return least;
}

// Tokens that can end a key, or escape a character.
const Words& CompletionDistance::marks() {
  if (!marks_.empty()) return marks_;
  Words found(vocabulary_.words(), 0);
  for (u32 token = 0; token < vocabulary_.token_count(); ++token)
    if (!vocabulary_.is_text(token) || vocabulary_.bytes(token).find_first_of("\"\\") != std::string_view::npos)
      set_bit(found, token);
  marks_ = std::move(found);
  return marks_;
}

// How many tokens any state needs to which one of these tokens leads, except the tokens that are added to `unsure`.
// kInf: this is not known.
u32 CompletionDistance::shared_need(Id state, const Branch& branch, u32 left, std::vector<u32>& unsure) {
  Json& json = Json::of(arena_);
  if (!branch.plain) return kInf;
  const std::optional<Json::Writing> writing = json.writing(state);
  if (!writing) return kInf;
  const Words& marks = this->marks();
  std::vector<u32> tokens;
  each_of(branch, [&](u32 token) {
    if (!bit(marks, token)) tokens.push_back(token);
  });
  std::string completion;
  std::vector<Id> path;  // of one of the tokens
  for (std::size_t i = 0; i < std::min(tokens.size(), kSharedTries) && path.empty(); ++i) {
    const Id next = read(state, tokens[tokens.size() * (i + 1) / (kSharedTries + 1)]);
    if (next == kEmpty || forget(next) != branch.next || need(next, left) == kInf) continue;
    if (const auto it = shared_.find(branch.next); it != shared_.end())
      path = along(next, completion = it->second);
    else if (std::optional<std::string> composed = Composition(*this).text(next))
      path = along(next, completion = std::move(*composed));
  }
  if (path.empty()) return kInf;
  std::vector<std::string> texts;
  for (Id at : path) json.known_texts(at, writing->item, texts);
  sort_unique(texts);
  Words risky(vocabulary_.words(), 0);
  for (const std::string& text : texts) {  // the key may become the beginning of one of them, and then all of it
    if (writing->item && text.find('\\') != std::string::npos) return kInf;  // other spellings may be equal
    if (!text.starts_with(writing->text)) continue;
    u32 node = 0;
    for (std::size_t at = writing->text.size(); at < text.size() && node != kNoFan; ++at) {
      node = vocabulary_.child(node, static_cast<u8>(text[at]));
      if (node == kNoFan) break;
      if (const int token = trie_.nodes[node].token; token >= 0) set_bit(risky, token);
    }
  }
  each_of(branch, [&](u32 token) {
    if (bit(marks, token) || bit(risky, token)) unsure.push_back(token);
  });
  return fewest_tokens(completion)[0];
}

}  // namespace guiderail
