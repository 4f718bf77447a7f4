// Masks of texts that are cut into lexemes. Within one lexeme, the effect of a token depends on the lexeme alone. If
// the lexeme ends inside the token, it also depends on what the grammar expects there. So a mask is combined from
// pieces.
//
// A piece contains the tokens that do not extend past the end of a lexeme. It also contains groups: the places in the
// trie where the lexeme may end before the token does, by the terminal that it ends as. A group leads to further
// pieces, by the next byte of its tokens and the lexeme that this byte may begin.
//
// Of the grammar, a piece knows only the set of terminals that compete. So pieces are cached, and outcomes.cpp combines
// them for a place in the grammar.
#include "mask/lexed/pieces.hpp"

#include <algorithm>

namespace guiderail {
// -- pieces --
// Records that a lexeme may end at a node. True: it cannot continue, so the token continues after it or ends.
bool MaskBuilder::ends_lexeme(Id e, u32 node, const ExitTrie* trie) {
  endings_.push_back({e, node, trie, without_});
  return Lexed::of(arena_).lexeme_end(e).whole;
}

MaskBuilder::MaskBuilder(Arena& arena, Vocabulary& vocabulary)
    : arena_(arena), captures_(Captures::of(arena)), vocabulary_(vocabulary), trie_(vocabulary.trie()) {
  states_.resize(vocabulary.longest() + 2);
  rows_.resize(vocabulary.longest() + 2);
  by_characters_.resize(vocabulary.longest() + 2);
}

MaskBuilder::~MaskBuilder() = default;

// May everything below a node be a separate piece? Not where keywords() will correct tokens.
bool MaskBuilder::shareable(Id e, u32 node) const {
  if (arena_.node(e).kind == Kind::MunchGuard) e = guarded(arena_.node(e));
  if (!Lexed::of(arena_).is_open(e)) return false;
  return without_ == 0 || (trie_.parents[node] == names_root_ && !names_first_.has(trie_.nodes[node].byte));
}

void MaskBuilder::begin_piece(bool share) {
  share_ = share;
  wanted_.clear();
  wanted_exits_.clear();
  postponed_.clear();
  postponed_tokens_.clear();
  endings_.clear();
  class_endings_.clear();
  tries_.clear();
  withouts_.assign(1, nullptr);
  without_ = 0;
  shared_ = false;
  scratch_->begin();
  scratch_->add(nullptr);
}

std::shared_ptr<MaskBuilder::Piece> MaskBuilder::end_piece() {
  auto piece = std::make_shared<Piece>();
  note_endings(*piece);
  piece->words = scratch_->differences();
  std::size_t count = piece->words.size();
  piece->open = !piece->open_nodes.empty() || !piece->open_tokens.empty();
  auto join = [&](std::shared_ptr<Piece> part) {
    count += part->count;
    piece->open = piece->open || part->open;
    piece->bundles.insert(piece->bundles.end(), part->bundles.begin(), part->bundles.end());
    piece->parts.push_back(std::move(part));
  };
  const auto wanted = std::move(wanted_);
  const auto wanted_exits = std::move(wanted_exits_);
  for (auto [state, node] : wanted) join(piece_at(state, node));
  for (const auto& [state, exits] : wanted_exits) join(piece_after(state, exits));
  const std::size_t most = std::min<std::size_t>(kDensePiece, vocabulary_.words() / 4);
  if (count > most) {
    Sum all;
    begin_taking();
    take(*piece, all);
    for (const auto& dense : all.dense) scratch_->add(dense);
    const Words& words = *scratch_->words();
    count = words.size() - static_cast<std::size_t>(std::count(words.begin(), words.end(), 0u));
    if (count > most) {
      piece->dense = std::make_shared<const Words>(words);
      piece->words.clear();
      piece_bytes_ += shared_bytes<Words>() + bytes_of(*piece->dense);
    }
  }
  piece->count = count;
  piece->words.shrink_to_fit();
  piece_bytes_ += shared_bytes<Piece>() + bytes_of(piece->words) + bytes_of(piece->bundles) + bytes_of(piece->parts);
  return piece;
}

// Does the mask need too many pieces? If each byte may be a lexeme of its own, each node of the trie asks for some.
// Then the other strategies are faster. No piece that is made from here on is complete, nor are those that contain it.
bool MaskBuilder::splinters() { return ++new_pieces_ > kMostNewPieces; }

// The piece for everything below a node, shared by many pieces.
std::shared_ptr<MaskBuilder::Piece> MaskBuilder::piece_at(Id state, u32 node) {
  auto& known = parts_[u64{node} << 32 | index_of(state)];
  if (known) return known;
  if (splinters()) return std::make_shared<Piece>();
  begin_piece(false);
  enter(state, node);
  return known = end_piece();
}

// The piece for everything after exits of a class, shared by many pieces.
std::shared_ptr<MaskBuilder::Piece> MaskBuilder::piece_after(Id state, const std::shared_ptr<const ExitTrie>& exits) {
  auto& known = exit_parts_[{exits, state}];
  if (known) return known;
  if (splinters()) return std::make_shared<Piece>();
  begin_piece(false);
  tries_.push_back(exits);
  if (!may_end(state, 0, exits.get())) walk_exits(*exits, state, nullptr, true);
  return known = end_piece();
}

// The groups of a piece, made from the places where a lexeme may end.
class MaskBuilder::GroupMaker {
 public:
  explicit GroupMaker(MaskBuilder& of) : of_(of) {}
  void add(const Ending& ending);
  void add(const ClassEnding& ending);
  void finish(Piece& piece);

 private:
  struct Making {
    Group group;
    std::map<std::pair<u8, u32>, std::vector<TrieAt>> begins;  // by byte and `without`: after the byte
    std::map<std::pair<u8, u32>, std::vector<std::shared_ptr<const ExitTrie>>> exits;
    std::array<char, 256> allowed{};  // 0: not known, 1: no, 2: yes
  };
  std::pair<Making*, bool> group_of(Id state);
  bool allowed(Making& m, u8 byte) const {
    char& is = m.allowed[byte];
    if (!is) is = Lexed::of(of_.arena_).munch_guard_allows(m.group.end.munch_guard, byte) ? 2 : 1;
    return is == 2;
  }
  u32 kept(u32 without) const { return of_.withouts_[without] ? without : 0; }

  MaskBuilder& of_;
  std::vector<std::unique_ptr<Making>> making_;
  std::map<std::tuple<u32, u32, Id>, std::size_t> index_;
  std::unordered_map<Id, std::pair<Making*, bool>> known_;  // state -> group, whole
};

std::pair<MaskBuilder::GroupMaker::Making*, bool> MaskBuilder::GroupMaker::group_of(Id state) {
  auto [known, unknown] = known_.try_emplace(state);
  if (unknown) {
    const Lexed::LexemeEnd end = Lexed::of(of_.arena_).lexeme_end(state);
    auto [it, fresh] = index_.try_emplace({end.terminal, end.column, end.munch_guard}, making_.size());
    if (fresh) {
      making_.push_back(std::make_unique<Making>());
      making_.back()->group.end = end;
    }
    known->second = {making_[it->second].get(), end.whole};
  }
  return known->second;
}

void MaskBuilder::GroupMaker::add(const Ending& ending) {
  const Trie& trie = of_.trie_;
  const auto group = group_of(ending.state);
  Making& m = *group.first;
  const TrieAt at{ending.trie, ending.node};
  const u32 without = kept(ending.without);
  if (group.second)
    at.each_token(trie, [&](int t) {
      const auto& tokens = of_.withouts_[without];
      if (!without || !std::binary_search(tokens->begin(), tokens->end(), t)) m.group.whole.push_back(t);
    });
  if (!ending.trie && !without && trie.nodes[ending.node].end - ending.node >= kHeavy) {
    std::size_t below = 0;
    at.each_child(trie, [&](u8 byte, TrieAt child) {
      if (allowed(m, byte)) below += trie.nodes[child.node].end - child.node;
    });
    if (below >= kHeavy) return m.group.heavy.push_back(ending.node);
  }
  at.each_child(trie, [&](u8 byte, TrieAt child) {
    if (allowed(m, byte)) m.begins[{byte, without}].push_back(child);
  });
}

void MaskBuilder::GroupMaker::add(const ClassEnding& ending) {
  const Trie& trie = of_.trie_;
  Making& m = *group_of(ending.state).first;
  const u32 without = kept(ending.without);
  ClassMask& mask = *ending.mask;
  const ByteSet inside = mask.chars->first();
  for (unsigned b = 0; b < 256; ++b) {
    const u8 byte = static_cast<u8>(b);
    if (mask.exit_at[b] == mask.exit_at[b + 1] || !allowed(m, byte)) continue;
    if (!inside.has(byte)) {
      m.exits[{byte, without}].push_back(of_.exit_trie(mask, byte));
      continue;
    }
    for (u32 i = mask.exit_at[b]; i < mask.exit_at[b + 1]; ++i)
      if (!mask.is_alive(mask.exits[i])) m.begins[{byte, without}].push_back({nullptr, mask.exits[i]});
  }
  std::vector<u32> split;  // a character outside the class may share its first bytes with one inside
  for (u32 n : mask.splits) {
    u32 at = n;
    while (!trie.nodes[trie.parents[at]].whole) at = trie.parents[at];
    if (trie.parents[at] > mask.root && allowed(m, trie.nodes[at].byte)) split.push_back(at);
  }
  sort_unique(split);
  for (u32 at : split) m.begins[{trie.nodes[at].byte, without}].push_back({nullptr, at});
}

void MaskBuilder::GroupMaker::finish(Piece& piece) {
  for (auto& m : making_) {
    Group& group = m->group;
    auto begin_at = [&](u8 byte) -> Begin& {
      for (Begin& b : group.begins)
        if (b.byte == byte) return b;
      group.begins.push_back({byte, {}, {}});
      return group.begins.back();
    };
    for (auto& [at, sources] : m->begins) {
      Suffixes suffixes{kInTrie, nullptr, of_.withouts_[at.second]};
      if (sources.size() == 1 && !sources[0].other) {
        suffixes.node = sources[0].node;
      } else {
        suffixes.rest = std::make_shared<const ExitTrie>(merge_exits(of_.trie_, sources, 0));
        of_.piece_bytes_ += suffixes.rest->memory();
      }
      begin_at(at.first).suffixes.push_back(std::move(suffixes));
    }
    for (auto& [at, exits] : m->exits)
      for (auto& trie : exits)
        begin_at(at.first).suffixes.push_back({kInTrie, std::move(trie), of_.withouts_[at.second]});
    for (Begin& b : group.begins) {
      std::stable_sort(b.suffixes.begin(), b.suffixes.end(), [](const Suffixes& x, const Suffixes& y) {
        return x.without.get() > y.without.get();  // those with one first
      });
      of_.piece_bytes_ += bytes_of(b.suffixes) + block_bytes(64);  // about one state after it
    }
    if (group.whole.empty() && group.begins.empty() && group.heavy.empty()) continue;
    of_.piece_bytes_ +=
        block_bytes(sizeof(Group)) + bytes_of(group.whole) + bytes_of(group.begins) + bytes_of(group.heavy);
    piece.own.push_back(std::make_unique<Group>(std::move(group)));
  }
}

// Tokens that never leave their class need not be excluded after it.
void MaskBuilder::trim_withouts() {
  std::vector<std::vector<const Words*>> inside(withouts_.size());
  std::vector<char> all(withouts_.size());  // some ending belongs to no class
  for (const ClassEnding& ending : class_endings_) inside[ending.without].push_back(ending.mask->dense.get());
  for (const Ending& ending : endings_) all[ending.without] = 1;
  for (std::size_t i = 0; i < withouts_.size(); ++i) {
    auto& w = withouts_[i];
    if (!w) continue;
    if (!all[i])
      std::erase_if(*w, [&](int t) {
        return std::all_of(inside[i].begin(), inside[i].end(), [&](const Words* of) { return of && bit(*of, t); });
      });
    if (!std::is_sorted(w->begin(), w->end())) sort_unique(*w);  // a copy of an earlier one already is
    w->shrink_to_fit();
    if (w->empty()) w = nullptr;
    if (w) piece_bytes_ += shared_bytes<std::vector<int>>() + bytes_of(*w);
  }
}

// Builds the groups of a piece.
void MaskBuilder::note_endings(Piece& piece) {
  if (!postponed_.empty() || !postponed_tokens_.empty()) {
    MaskEntry open;
    note_open(open);
    piece.open_nodes = std::move(open.open_nodes);
    piece.open_tokens = std::move(open.open_tokens);
  }
  if (endings_.empty() && class_endings_.empty()) return;
  trim_withouts();
  GroupMaker groups(*this);
  for (const Ending& ending : endings_) groups.add(ending);
  for (const ClassEnding& ending : class_endings_) groups.add(ending);
  groups.finish(piece);
  bundle(piece);
  tries_.clear();
}

// The piece of an open lexeme, at the start of a token.
std::shared_ptr<MaskBuilder::Piece> MaskBuilder::piece_of(Id open) {
  if (auto it = pieces_.find(open); it != pieces_.end()) return it->second;
  begin_piece(true);
  if (arena_.has(open, kLexemeMayEnd)) ends_lexeme(open, 0, nullptr);
  visit(open, 0);
  return pieces_[open] = end_piece();
}

// The piece that continues tokens below a node where a lexeme ended.
std::shared_ptr<MaskBuilder::Piece> MaskBuilder::piece_below(Id state, u32 node) {
  auto& known = below_[u64{node} << 32 | index_of(state)];
  if (known) return known;
  if (splinters()) return std::make_shared<Piece>();
  begin_piece(true);
  visit(state, node);
  return known = end_piece();
}

// The same after a byte. `state`: after this byte.
std::shared_ptr<MaskBuilder::Piece> MaskBuilder::piece_after(Begin& begin, Id state) {
  auto& known = begin.next[state];
  if (known) return known;
  if (splinters()) return std::make_shared<Piece>();
  begin_piece(false);
  const std::vector<int>* without = nullptr;
  std::vector<int> excluded;  // those that no other suffixes have allowed
  auto leave_out = [&] {
    for (int t : excluded) unset(t);
    excluded.clear();
  };
  for (const Suffixes& suffixes : begin.suffixes) {
    if (suffixes.without.get() != without) {
      leave_out();
      without = suffixes.without.get();
      without_ = 0;
      if (without) {
        without_ = static_cast<u32>(withouts_.size());
        withouts_.push_back(std::make_shared<std::vector<int>>(*without));
        std::copy_if(without->begin(), without->end(), std::back_inserter(excluded),
                     [&](int t) { return !scratch_->has(static_cast<u32>(t)); });
      }
    }
    if (suffixes.node != kInTrie) {
      enter(state, suffixes.node);
      continue;
    }
    if (postpone_exits(*suffixes.rest, state, 0)) continue;
    tries_.push_back(suffixes.rest);
    if (!may_end(state, 0, suffixes.rest.get())) walk_exits(*suffixes.rest, state, nullptr, true);
  }
  leave_out();
  return known = end_piece();
}

// -- keywords --
// A lexeme of which some texts are keywords: builds the mask without keywords, then corrects the tokens that complete
// one.
bool MaskBuilder::keywords(Id e, u32 node) {
  if (shared_ || arena_.node(e).kind != Kind::Scan) return false;
  Id texts = kEmpty;
  const Id free = Lexed::of(arena_).scan_without_names(e, texts);
  if (free == kEmpty || !arena_.live(free)) return false;
  const u32 before = without_;
  const bool open = Lexed::of(arena_).is_open(e);
  if (open) {
    without_ = static_cast<u32>(withouts_.size());
    withouts_.push_back(std::make_shared<std::vector<int>>());
  }
  const u32 without = without_;
  if (open && share_) {
    names_root_ = node;
    names_first_ = arena_.first(texts);
  }
  visit(free, node);
  without_ = before;
  correct(texts, e, node, open ? withouts_[without].get() : nullptr);
  return true;
}

void MaskBuilder::correct(Id texts, Id e, u32 node, std::vector<int>* without) {
  for (u32 c = node + 1; c < trie_.nodes[node].end; c = trie_.nodes[c].end) {
    const Id left = step(texts, trie_.nodes[c].byte);
    if (left == kEmpty) continue;
    const Id next = step(e, trie_.nodes[c].byte);
    if (!arena_.nullable(left)) {
      if (next != kEmpty) correct(left, next, c, without);
      continue;
    }
    clear(c);
    if (without) without->insert(without->end(), trie_.below(c).begin(), trie_.below(c).end());
    if (next != kEmpty) enter(next, c);
  }
}

}  // namespace guiderail
