// Masks of lexed texts, put together from pieces (see mask_lexed.cpp).
//
//   bundle   groups of a piece whose lexemes end as the same terminal
//   follow   bundle and what may begin behind it -> the pieces that its tokens go on with, and the bundles of those
//   turn     end of a lexeme and place in the grammar -> what may begin behind it, and on demand the place there
//   answer   bundle and place in the grammar -> a follow, and the answers of its bundles behind the terminal
//
// Answers are interned, and the grammar has a say in a mask only by the answers that the bundles of its lexeme get: all
// places that give the same ones share one mask. Most answers need the next few parts of the grammar only. So a place
// is asked in a form that is cut short, which many share, and the place itself only where that does not know.
#include <algorithm>

#include "mask_lexed.hpp"

namespace guiderail {
namespace {
constexpr std::size_t kMostLexed = 64u << 20;  // bytes of pieces and answers; then all are forgotten
constexpr u32 kNothing = 0, kNotKnown = 0xFFFFFFFF;
constexpr u32 kNear = 2;               // parts of the grammar that are asked first
constexpr std::size_t kFewWords = 32;  // of a piece: up to here they are kept with what leads to it
}  // namespace

void MaskBuilder::bundle(Piece& piece) {
  std::map<std::tuple<u32, u32, u32>, u32> index;
  for (auto& group : piece.own) {
    const Arena::LexemeEnd& end = group->end;
    const u32 next = static_cast<u32>(bundles_.size());
    const auto [it, fresh] = index.try_emplace({end.lexer, end.terminal, end.column}, next);
    if (fresh) {
      const auto ending = endings_of_.try_emplace({end.lexer, end.terminal, end.column}, endings_of_.size());
      bundles_.push_back({end, static_cast<u32>(ending.first->second), {}, {}});
      piece.bundles.push_back(next);
    }
    Bundle& to = bundles_[it->second];
    to.groups.push_back(group.get());
    if (to.whole.empty())
      to.whole = std::move(group->whole);
    else
      to.whole.insert(to.whole.end(), group->whole.begin(), group->whole.end());
    group->whole = {};
    piece_bytes_ += fresh ? sizeof(Bundle) + 24 : 8;
  }
}

// `after`: may follow without a lexeme, where the lexed text can end.
u32 MaskBuilder::follow(u32 bundle, u32 start, Id after) {
  u64 key = u64{bundle} << 32 | start;
  if (after != kEpsilon) {
    const u32 next = static_cast<u32>(ends_.size());
    key = u64{bundle} << 32 | 1u << 31 | ends_.try_emplace(u64{start} << 32 | after, next).first->second;
  }
  if (const u32* known = follow_ids_.find(key)) return *known;
  arena_.make_room();
  Follow made{{}, {}, {}, &bundles_[bundle], 0, kNothing};
  auto go_on = [&](Group& group, Id state) {
    for (u32 node : group.heavy) made.pieces.push_back(piece_below(state, node));
    if (group.begins.empty()) return;
    const u32* row = arena_.ensure_row(state);
    for (Begin& begin : group.begins) {
      Id next = row ? row[arena_.byte_class(begin.byte)] : kUnknown;
      if (next == kUnknown) next = arena_.step_slow(state, begin.byte);
      if (next != kEmpty) made.pieces.push_back(piece_behind(begin, forget(next)));
    }
  };
  const u32 lexer = made.behind->end.lexer;
  for (std::size_t i = 0; i < made.behind->groups.size(); ++i) {
    Group& group = *made.behind->groups[i];
    go_on(group, arena_.open_lexeme({group.end.fence, lexer, start, 0}));
    if (after != kEpsilon) go_on(group, after);  // no lexeme: no fence holds there
  }
  // Lexemes that differ only in what no token of the bundle begins with lead to the same pieces.
  std::vector<u32> same{bundle};
  for (const auto& piece : made.pieces) {
    const u64 at = reinterpret_cast<std::uintptr_t>(piece.get());
    same.insert(same.end(), {static_cast<u32>(at >> 32), static_cast<u32>(at)});
  }
  const u32 next = static_cast<u32>(follows_.size());  // more may have been made meanwhile
  const std::size_t size = same.size();
  const auto [it, fresh] = follow_of_.try_emplace(std::move(same), next);
  answer_bytes_ += 16;
  if (fresh) {
    for (const auto& piece : made.pieces)
      made.bundles.insert(made.bundles.end(), piece->bundles.begin(), piece->bundles.end());
    std::sort(made.bundles.begin(), made.bundles.end());
    made.bundles.erase(std::unique(made.bundles.begin(), made.bundles.end()), made.bundles.end());
    std::erase_if(made.pieces, [&](const auto& piece) {
      if (piece->dense || piece->open || !piece->parts.empty() || piece->words.size() > kFewWords) return false;
      made.words.insert(made.words.end(), piece->words.begin(), piece->words.end());
      return true;
    });
    made.pieces.shrink_to_fit();
    made.words.shrink_to_fit();
    made.bundles.shrink_to_fit();
    made.number = next;
    answer_bytes_ +=
        sizeof(Follow) + 64 + made.pieces.size() * 16 + made.words.size() * 8 + made.bundles.size() * 4 + size * 4;
    follows_.push_back(std::move(made));
  }
  follow_ids_.set(key, it->second);
  return it->second;
}

// `of`: a follow, and the answers of its bundles.
u32 MaskBuilder::intern_answer(std::span<const u32> of) {
  u32& alone = follows_[of[0]].alone;
  if (of.size() == 1 && alone != kNothing) return alone;
  const u64 hash = BucketHash(0).add(of).done();
  const u32 known = answer_ids_.find(hash, [&](u32 id) {
    const auto other = answer(id);
    return std::equal(of.begin(), of.end(), other.begin(), other.end());
  });
  if (known != IdTable::kNone) return known;
  const u32 id = static_cast<u32>(open_.size());
  answer_ids_.add(hash, id);
  open_.push_back(std::any_of(of.begin() + 1, of.end(), [&](u32 a) { return a == kNotKnown || open_[a]; }));
  answer_words_.insert(answer_words_.end(), of.begin(), of.end());
  answer_ends_.push_back(static_cast<u32>(answer_words_.size()));
  answer_bytes_ += 24 + of.size() * 4;
  if (of.size() == 1) alone = id;
  return id;
}

MaskBuilder::Spot MaskBuilder::spot(const Arena::Place& place, u32 how) {
  const u32 next = static_cast<u32>(spots_.size());
  const auto [it, fresh] = spots_.try_emplace({place.parse, place.layout, how}, next);
  if (fresh) answer_bytes_ += 48;
  return {place, it->second};
}

MaskBuilder::Spot MaskBuilder::near_spot(u32 lexer, const Arena::Place& place) {
  return spot(arena_.cut_place(lexer, place, kNear), 0);
}

// What is behind the end of a bundle's lexemes, at a place that was cut short: the same for all bundles that end so,
// and for all places that can read it in the same ways.
u32 MaskBuilder::turn_at(u32 bundle, const Spot& at) {
  const u64 key = u64{bundles_[bundle].ending} << 32 | at.number;
  if (const u32* known = turn_ids_.find(key)) return *known;
  const Arena::LexemeEnd& end = bundles_[bundle].end;
  u32 id = static_cast<u32>(turns_.size());
  answer_bytes_ += 16;
  if (const Arena::Place reading = arena_.reading_end(end, at.place); reading.parse != at.place.parse) {
    id = turn_at(bundle, spot(reading, 0));
  } else {
    Turn turn;
    turn.place = reading;
    turn.how = arena_.peek_end(end, reading, turn.start);
    turns_.push_back(turn);
    answer_bytes_ += sizeof(Turn);
  }
  turn_ids_.set(key, id);
  return id;
}

// What a bundle allows at a place that was cut short, as far as that tells: kNotKnown, or an answer with kNotKnown in
// it.
u32 MaskBuilder::near_answer(u32 bundle, const Spot& at) {
  const u32 turn_id = turn_at(bundle, at);
  Turn& turn = turns_[turn_id];
  if (turn.how != Arena::Behind::Something) return turn.how == Arena::Behind::Nothing ? kNothing : kNotKnown;
  const Follow& behind = follows_[follow(bundle, turn.start, kEpsilon)];
  if (behind.bundles.empty()) return intern_answer({&behind.number, 1});
  const u64 key = u64{bundle} << 32 | turn_id;
  if (const u32* known = near_answers_.find(key)) return *known;
  if (!turn.passed) {
    const Arena::LexemeEnd& end = bundles_[bundle].end;
    arena_.pass_end(end, turn.place);
    turn.next = near_spot(end.lexer, turn.place);
    turn.passed = true;
  }
  const std::size_t from = pending_.size();
  pending_.push_back(behind.number);
  for (u32 b : behind.bundles) {
    const bool any = arena_.column_at(bundles_[b].end, turn.place) == Arena::Column::Any;
    const u32 of = any ? near_answer(b, turn.next) : kNotKnown;
    pending_.push_back(of);
  }
  const u32 result = intern_answer({pending_.data() + from, pending_.size() - from});
  pending_.resize(from);
  near_answers_.set(key, result);
  answer_bytes_ += 16;
  return result;
}

// What bundles allow at a place.
void MaskBuilder::answers(const std::vector<u32>& bundles, const Arena::Place& place, Id after, u32* out) {
  if (bundles.empty()) return;
  const u32 lexer = bundles_[bundles[0]].end.lexer;
  const Spot near = near_spot(lexer, place);
  std::optional<Spot> exact;
  for (std::size_t i = 0; i < bundles.size(); ++i) {
    if (out[i] != kNotKnown && !open_[out[i]]) continue;
    const Arena::Column column = arena_.column_at(bundles_[bundles[i]].end, place);
    u32 known = column == Arena::Column::None ? kNothing : kNotKnown;
    // whether the text can end may take more than the next parts of the grammar
    if (column == Arena::Column::Any && after == kEpsilon) known = near_answer(bundles[i], near);
    if (known == kNotKnown || open_[known]) {
      if (!exact) exact = spot(place, after << 1 | 1);
      known = exact_answer(bundles[i], *exact, after, known);
    }
    out[i] = known;
  }
}

u32 MaskBuilder::exact_answer(u32 bundle, const Spot& at, Id after, u32 near) {
  const u64 key = u64{bundle} << 32 | at.number;
  if (const u32* known = exact_answers_.find(key)) return *known;
  const Arena::LexemeEnd& end = bundles_[bundle].end;
  Arena::Place place = at.place;
  u32 start = 0, result = kNothing;
  if (const Arena::Place reading = arena_.reading_end(end, place); reading.parse != place.parse) {
    result = exact_answer(bundle, spot(reading, after << 1 | 1), after, near);
  } else if (arena_.behind_end(end, place, start, true) != Arena::Behind::Nothing) {
    std::vector<u32> of;
    if (near != kNotKnown) {
      const auto known = answer(near);
      of.assign(known.begin(), known.end());
    } else {
      const bool ends = after != kEpsilon && arena_.place_ends(end.lexer, place);
      of.push_back(follow(bundle, start, ends ? after : kEpsilon));
      of.resize(follows_[of[0]].bundles.size() + 1, kNotKnown);
    }
    answers(follows_[of[0]].bundles, place, after, of.data() + 1);
    result = intern_answer(of);
  }
  exact_answers_.set(key, result);
  answer_bytes_ += 16;
  return result;
}

// -- putting together --
void MaskBuilder::begin_taking() {
  taken_.resize(open_.size());
  ++taking_;  // pieces and answers are forgotten before it comes round
}

void MaskBuilder::take(Piece& piece, Sum& to) {
  if (piece.taken == taking_) return;
  piece.taken = taking_;
  if (piece.dense) {
    to.dense.push_back(piece.dense);
    if (!piece.open) return;
  }
  for (auto [word, bits] : piece.words) to.words[word] |= bits;
  to.open_nodes.insert(to.open_nodes.end(), piece.open_nodes.begin(), piece.open_nodes.end());
  to.open_tokens.insert(to.open_tokens.end(), piece.open_tokens.begin(), piece.open_tokens.end());
  for (const auto& part : piece.parts) take(*part, to);
}

void MaskBuilder::take(u32 answer, Sum& to) {
  if (answer == kNothing || taken_[answer] == taking_) return;
  taken_[answer] = taking_;
  const std::span<const u32> of = this->answer(answer);
  const Follow& follow = follows_[of[0]];
  for (int t : follow.behind->whole) to.words[static_cast<u32>(t) >> 5] |= 1u << (t & 31);
  for (auto [word, bits] : follow.words) to.words[word] |= bits;
  for (const auto& piece : follow.pieces) take(*piece, to);
  for (std::size_t i = 1; i < of.size(); ++i) take(of[i], to);
}

// The alternatives of a state that are lexed texts in progress, each with what comes behind it. False: there are none.
bool MaskBuilder::lexed_parts(Id e, std::vector<std::pair<Id, Id>>& parts, std::vector<Id>& rest) {
  if (!arena_.has(e, kHasScan)) return false;
  auto members = [&](Id of) {
    const bool several = arena_.node(of).kind == Kind::Union;
    return several ? std::vector<Id>(arena_.operands(of).begin(), arena_.operands(of).end()) : std::vector<Id>{of};
  };
  Arena::Lexeme lexeme{};
  Arena::Place place{};
  for (Id m : members(e)) {
    const Node& n = arena_.node(m);
    if (n.kind != Kind::Concat) {
      if (arena_.lexed_place(m, lexeme, place))
        parts.push_back({m, kEpsilon});
      else
        rest.push_back(m);
      continue;
    }
    const std::vector<Id> heads = members(n.a);
    const Id after = n.b;
    std::vector<Id> plain;
    for (Id head : heads) {
      if (!arena_.lexed_place(head, lexeme, place)) {
        plain.push_back(head);
        continue;
      }
      parts.push_back({head, after});
      if (arena_.nullable(head)) rest.push_back(after);
    }
    if (!plain.empty()) rest.push_back(arena_.concat(arena_.unite(std::move(plain)), after));
  }
  return !parts.empty();
}

void MaskBuilder::forget_pieces() {
  known_masks_.clear();
  near_answers_.clear();
  exact_answers_.clear();
  spots_.clear();
  answer_words_.clear();
  answer_ends_.assign(1, 0);  // kNothing
  open_.assign(1, 0);
  answer_ids_.clear();
  follow_ids_.clear();
  follows_.clear();
  follow_of_.clear();
  ends_.clear();
  bundles_.clear();
  endings_of_.clear();
  turns_.clear();
  turn_ids_.clear();
  pieces_.clear();
  parts_.clear();
  below_.clear();
  exit_parts_.clear();
  bases_.clear();
  piece_bytes_ = answer_bytes_ = 0;
}

std::shared_ptr<const MaskEntry> MaskBuilder::lexed(Id state, const std::vector<int>& specials, bool& fresh) {
  fresh = false;
  std::vector<std::pair<Id, Id>> lexed;
  std::vector<Id> others;
  if (!lexed_parts(state, lexed, others)) return nullptr;
  if (piece_bytes_ + answer_bytes_ > kMostLexed) forget_pieces();
  pending_.clear();
  struct Part {
    Id open, after;
    Arena::Place place;
  };
  std::vector<Part> parts;
  std::vector<u32> key;
  for (auto [part, after] : lexed) {
    Arena::Lexeme lexeme{};
    Arena::Place place{};
    arena_.lexed_place(part, lexeme, place);
    const Id open = forget(arena_.open_lexeme(lexeme));
    parts.push_back({open, after, place});
  }
  const Id other = others.empty() ? kEmpty : forget(arena_.unite(std::move(others)));
  for (const Part& part : parts) {
    const std::shared_ptr<Piece> piece = piece_of(part.open);
    key.insert(key.end(), {part.open, part.after});
    const std::size_t from = key.size();
    key.resize(from + piece->bundles.size(), kNotKnown);
    answers(piece->bundles, part.place, part.after, key.data() + from);
  }
  key.push_back(other);
  key.insert(key.end(), specials.begin(), specials.end());
  if (auto it = known_masks_.find(key); it != known_masks_.end()) return it->second;
  Sum sum{Words(vocabulary_.words(), 0), {}, {}, {}};
  std::shared_ptr<Piece> beside;
  if (other != kEmpty && other != kEpsilon) {
    begin_piece(false);
    visit(other, 0);
    beside = end_piece();
  }
  begin_taking();
  if (beside) take(*beside, sum);
  std::size_t at = 0;
  for (const Part& part : parts) {
    const std::shared_ptr<Piece> piece = piece_of(part.open);
    take(*piece, sum);
    at += 2;
    for (std::size_t i = 0; i < piece->bundles.size(); ++i) take(key[at++], sum);
  }
  postponed_ = std::move(sum.open_nodes);
  postponed_tokens_ = std::move(sum.open_tokens);
  auto entry = std::make_shared<MaskEntry>();
  note_open(*entry);
  entry->specials = specials;
  const std::shared_ptr<const Words> base = common_base(sum.dense);
  for (std::size_t i = 0; base && i < base->size(); ++i) sum.words[i] |= (*base)[i];
  store(sum.words, base, *entry);
  answer_bytes_ += sizeof(std::shared_ptr<int>) + 56 + key.size() * 4;
  known_masks_.emplace(std::move(key), entry);
  fresh = true;
  return entry;
}

// The union of the bitsets that a mask was put together from: places with the same ones share it.
std::shared_ptr<const Words> MaskBuilder::common_base(std::vector<std::shared_ptr<const Words>>& dense) {
  if (dense.empty()) return nullptr;
  std::sort(dense.begin(), dense.end());
  dense.erase(std::unique(dense.begin(), dense.end()), dense.end());
  if (dense.size() == 1) return dense[0];
  auto& base = bases_[dense];
  if (!base) {
    auto words = std::make_shared<Words>(vocabulary_.words(), 0);
    for (const auto& d : dense)
      for (std::size_t i = 0; i < words->size(); ++i) (*words)[i] |= (*d)[i];
    base = words;
    piece_bytes_ += words->size() * 4;
  }
  return base;
}

// The mask of a state from that of its canonical form: what that left open.
std::shared_ptr<const MaskEntry> MaskBuilder::settle(const MaskEntry& shared, Id state) {
  Sum sum{shared.base ? *shared.base : Words(vocabulary_.words(), 0), {}, {}, {}};
  for (auto [word, value] : shared.diff) sum.words[word] = value;
  sum.open_nodes = shared.open_nodes;
  sum.open_tokens = shared.open_tokens;
  resolve(state, sum);
  auto entry = std::make_shared<MaskEntry>();
  entry->specials = shared.specials;
  store(sum.words, shared.base, *entry);
  return entry;
}

// What is still open, node by node.
void MaskBuilder::resolve(Id state, Sum& sum) {
  if (sum.open_nodes.empty() && sum.open_tokens.empty()) return;
  postponed_ = std::move(sum.open_nodes);
  postponed_tokens_ = std::move(sum.open_tokens);
  share_ = false;
  MaskEntry open;
  note_open(open);
  words_.assign(vocabulary_.words(), 0);
  blank_ = false;
  touched_ = true;
  shared_ = false;
  exact_ = true;
  std::vector<Id> states{state};  // by depth, along the last path
  std::string last;
  auto follow_path = [&](std::string_view path) {
    std::size_t same = 0;
    while (same < last.size() && same < path.size() && last[same] == path[same]) ++same;
    states.resize(std::min(states.size(), same + 1));
    while (states.size() <= path.size() && states.back() != kEmpty)
      states.push_back(arena_.step_slow(states.back(), static_cast<u8>(path[states.size() - 1])));
    last = path;
    return states.size() > path.size() ? states.back() : kEmpty;
  };
  for (u32 node : open.open_nodes)
    if (const Id s = follow_path(path_to(node)); s != kEmpty) enter(s, node);
  for (int token : open.open_tokens)
    if (follow_path(vocabulary_.bytes(static_cast<u32>(token))) != kEmpty) set(token);
  exact_ = false;
  for (std::size_t i = 0; i < words_.size(); ++i) sum.words[i] |= words_[i];
}

}  // namespace guiderail
