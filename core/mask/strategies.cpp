#include "mask/strategies.hpp"

#include <algorithm>

#include "mask/mask.hpp"

namespace guiderail {
namespace {

constexpr std::array<StrategyInfo, kStrategies> kInfo{{
    {"several-keys", "strings", "keys that may be names: the mask of any key, and what completes a name"},
    {"keywords", "large", "a lexeme with keywords among its texts: the mask without keywords, then those"},
    {"bounded-strings", "root", "a text of m to n characters: the mask of any length, and the lengths of tokens"},
    {"composed-strings", "root", "a string: the tokens that its text allows, and those that what follows it allows"},
    {"prefix-summaries", "root", "h t: what stays within h, found once, then t from the places where h may end"},
    {"string-differences", "root", "a string or key that leads to another one: its mask, and where the two differ"},
    {"counted-intersections", "large", "a counted class among other conditions: a class mask over a chain of states"},
    {"absorbing-strings", "strings", "strings that any character may follow: a class mask, then what leaves them"},
    {"class-loops", "strings", "C{m,n} t: the class mask of C, then t from where tokens leave it"},
    {"excluded-texts", "root", "all texts but some: the mask of all texts, and where the two differ"},
    {"state-differences", "root", "a state that most characters lead to another one: its mask, and where they differ"},
    {"self-loops", "large", "a state that characters of a class lead back to: the class mask, then the exits"},
    {"character-index", "root", "a class mask from the characters of tokens, without a scan of the trie"},
    {"lexed-pieces", "sharing", "lexed texts: masks composed of pieces, by lexeme and by position in the grammar"},
    {"distinct-lists", "sharing", "an item of a list of distinct values has the mask that it has alone"},
    {"keys-as-strings", "sharing", "a key that no token can turn into a name has the mask of a string"},
    {"counters", "sharing", "counts beyond the longest token, and texts of keys, are forgotten"},
    {"elision", "sharing", "what tokens hardly reach is left out; those that reach it are read one by one"},
    {"capped-groups", "sharing", "counts of groups are capped as long as no token reaches the cap"},
}};

struct Registry {  // of the living builders
  std::mutex mutex;
  std::vector<const StrategyCounts*> living;
  std::array<StrategyCounts::Count, kStrategies> retired{};
};
Registry& registry() {
  static Registry* const one = new Registry;  // outlives all builders
  return *one;
}

}  // namespace

const StrategyInfo& info(Strategy strategy) { return kInfo[static_cast<std::size_t>(strategy)]; }

StrategyCounts::StrategyCounts() {
  std::lock_guard lock(registry().mutex);
  registry().living.push_back(this);
}

StrategyCounts::~StrategyCounts() {
  std::lock_guard lock(registry().mutex);
  std::erase(registry().living, this);
  add_to(registry().retired);
  for (Count& count : registry().retired) count.bytes = 0;
}

void StrategyCounts::add_to(std::array<Count, kStrategies>& sum) const {
  for (std::size_t i = 0; i < kStrategies; ++i) {
    sum[i].tried += cells_[i].tried.load(std::memory_order_relaxed);
    sum[i].made += cells_[i].made.load(std::memory_order_relaxed);
    sum[i].steps += cells_[i].steps.load(std::memory_order_relaxed);
    sum[i].bytes += cells_[i].bytes.load(std::memory_order_relaxed);
  }
}

std::array<StrategyCounts::Count, kStrategies> StrategyCounts::all() {
  std::lock_guard lock(registry().mutex);
  auto sum = registry().retired;
  for (const StrategyCounts* of : registry().living) of->add_to(sum);
  return sum;
}

bool StrategySwitches::set(std::string_view name, bool on) {
  const auto it = std::find_if(kInfo.begin(), kInfo.end(), [&](const StrategyInfo& s) { return s.name == name; });
  if (it == kInfo.end()) return false;
  const u32 bit = u32{1} << (it - kInfo.begin());
  if (on)
    off_.fetch_and(~bit, std::memory_order_relaxed);
  else
    off_.fetch_or(bit, std::memory_order_relaxed);
  return true;
}

// -- the order --
// Exact and cheap strategies first. Each may assume that the earlier ones did not apply, but must be right without
// them.
const std::array<MaskBuilder::Row, kMakers> MaskBuilder::kOrder{{
    {Strategy::SeveralKeys, Reach::Strings, &MaskBuilder::several_keys},
    {Strategy::Keywords, Reach::Large, &MaskBuilder::keywords},
    {Strategy::BoundedStrings, Reach::Root, &MaskBuilder::bounded_strings},
    {Strategy::ComposedStrings, Reach::Root, &MaskBuilder::composed_strings},
    {Strategy::PrefixSummaries, Reach::Root, &MaskBuilder::prefix_summaries},
    {Strategy::StringDifferences, Reach::Root, &MaskBuilder::string_differences},
    {Strategy::CountedIntersections, Reach::Large, &MaskBuilder::counted_intersections},
    {Strategy::AbsorbingStrings, Reach::Strings, &MaskBuilder::absorbing_strings},
    {Strategy::ClassLoops, Reach::Strings, &MaskBuilder::class_loops},
    {Strategy::ExcludedTexts, Reach::Root, &MaskBuilder::excluded_texts},
    {Strategy::StateDifferences, Reach::Root, &MaskBuilder::state_differences},
    {Strategy::SelfLoops, Reach::Large, &MaskBuilder::self_loops},
}};

bool MaskBuilder::by_strategy(Id e, u32 node, Reach least, Strategy first) {
  for (std::size_t i = static_cast<std::size_t>(first); i < kOrder.size(); ++i) {
    const Row& row = kOrder[i];
    if (row.reach >= least && attempt(row.strategy, [&] { return (this->*row.make)(e, node); })) return true;
  }
  return false;
}

// The bytes that a strategy keeps.
std::size_t MaskBuilder::memory(Strategy s) const {
  const std::size_t own = owned_[static_cast<std::size_t>(s)];
  switch (s) {
    case Strategy::SeveralKeys: return own + bytes_of(name_paths_);
    case Strategy::BoundedStrings: return own + bytes_of(leaving_) + bytes_of(long_runs_);
    case Strategy::StringDifferences: return own + bytes_of(text_differences_);
    case Strategy::AbsorbingStrings: return own + bytes_of(never_dies_);
    case Strategy::StateDifferences: return own + bytes_of(kept_);
    case Strategy::SelfLoops: return own + bytes_of(self_loops_);
    case Strategy::LexedPieces: return own + lexed_memory();
    case Strategy::KeysAsStrings: return own + stacked_forms_.memory() + bytes_of(key_hits_) + bytes_of(text_hits_);
    case Strategy::Elision: return own + shared_forms_.memory();
    default: return own;
  }
}

void MaskBuilder::count(Tally& to) const {
  to.add("building masks", sizeof(*this) + bytes_of(states_) + bytes_of(exit_states_) + bytes_of(rows_) +
                               bytes_of(endings_) + bytes_of(postponed_));
  std::size_t forms = 0;
  for (std::size_t i = 0; i < kStrategies; ++i) {
    const std::size_t bytes = memory(static_cast<Strategy>(i));
    counts_.set_bytes(static_cast<Strategy>(i), bytes);
    if (i != static_cast<std::size_t>(Strategy::LexedPieces)) forms += bytes;
  }
  to.add("forms of masks", forms);
  to.add("pieces of masks", lexed_memory());
}

// Adds all tokens below `node` that e can begin with; e is the state after the path to the node.
void MaskBuilder::visit(Id e, u32 node) {
  if (trie_.nodes[node].whole && by_strategy(e, node, node == 0 ? Reach::Root : Reach::Large)) return;
  walk(e, node);
}

}  // namespace guiderail
