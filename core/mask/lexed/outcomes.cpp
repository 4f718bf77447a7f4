// Masks of lexed texts, combined from pieces (see pieces.cpp).
//
// A bundle contains the groups of a piece whose lexemes end as the same terminal. Three maps lead from it to tokens:
//
// - bundle, and what may begin after it -> continuation: the pieces that continue its tokens, and their bundles;
// - end of a lexeme, and position in the grammar -> transition: what may begin after it, and later the position there;
// - bundle, and position in the grammar -> outcome: a continuation, and the outcomes of its bundles after the terminal.
//
// Outcomes are interned. The grammar affects a mask only through the outcomes of the lexeme's bundles, so all places
// with the same outcomes share one mask. Most outcomes need only the next few parts of the grammar. So the place is
// first cut short, which makes many places equal; the full place is used only if the short one does not decide. With
// identifiers, the short place is first tried without the values of variables (see lexed/identifiers.cpp).
#include <algorithm>

#include "mask/lexed/pieces.hpp"

namespace guiderail {
namespace {
constexpr u32 kNotKnown = 0xFFFFFFFF;
constexpr u32 kAnyOf = 0x80000000;  // instead of a terminal: all identifiers of a relation
}  // namespace

void MaskBuilder::bundle(Piece& piece) {
  std::map<std::tuple<u32, u32, u32>, u32> index;
  for (auto& group : piece.own) {
    const Lexed::LexemeEnd& end = group->end;
    const u32 next = static_cast<u32>(bundles_.size());
    const auto [it, fresh] = index.try_emplace({end.lexer, end.terminal, end.column}, next);
    if (fresh) {
      const auto ending = endings_of_.try_emplace({end.lexer, end.terminal, end.column}, endings_of_.size());
      const u32 number = static_cast<u32>(ending.first->second);
      bundles_.push_back({end, number, number, {}, {}});
      if (const Lexer& lexer = Lexed::of(arena_).lexer_of(end.lexer); lexer.is_identifier(end.terminal)) {
        const u32 any = kAnyOf | lexer.identifiers[end.terminal - lexer.first_identifier].relation;
        const auto shape = endings_of_.try_emplace({end.lexer, any, end.column}, endings_of_.size());
        bundles_.back().shape = static_cast<u32>(shape.first->second);
      }
      piece.bundles.push_back(next);
    }
    Bundle& to = bundles_[it->second];
    to.groups.push_back(group.get());
    if (to.whole.empty())
      to.whole = std::move(group->whole);
    else
      to.whole.insert(to.whole.end(), group->whole.begin(), group->whole.end());
    group->whole = {};
  }
}

// `after`: what may follow where the lexed text can end, without another lexeme. `nested`: what may follow in place of
// a lexeme.
u32 MaskBuilder::continuation(u32 bundle, u32 start, Id after, Id nested) {
  u64 key = u64{bundle} << 32 | start;
  if (after != kEpsilon || nested != kEmpty) {
    const u32 next = static_cast<u32>(ends_.size());
    key = u64{bundle} << 32 | 1u << 31 |
          ends_.try_emplace(std::array{start, index_of(after), index_of(nested)}, next).first->second;
  }
  if (const u32* known = continuation_ids_.find(key)) return *known;
  arena_.make_room();
  Continuation made{{}, {}, {}, &bundles_[bundle], 0, kNothing};
  auto go_on = [&](Group& group, Id state) {
    for (u32 node : group.heavy) made.pieces.push_back(piece_below(state, node));
    if (group.begins.empty()) return;
    const Id* row = arena_.ensure_row(state);
    for (Begin& begin : group.begins) {
      Id next = row ? row[arena_.byte_class(begin.byte)] : kUnknown;
      if (next == kUnknown) next = arena_.step_slow(state, begin.byte);
      if (next != kEmpty) made.pieces.push_back(piece_after(begin, forget(next)));
    }
  };
  const u32 lexer = made.of->end.lexer;
  for (std::size_t i = 0; i < made.of->groups.size(); ++i) {
    Group& group = *made.of->groups[i];
    go_on(group, Lexed::of(arena_).open_lexeme({group.end.munch_guard, lexer, start, 0}));
    if (after != kEpsilon) {  // no lexeme follows: no guard applies
      const ByteSet begins = arena_.first(after);
      for (unsigned b = 0; b < 256 && !made.blurred; ++b)
        made.blurred = begins.has(static_cast<u8>(b)) &&
                       !Lexed::of(arena_).munch_guard_allows(group.end.munch_guard, static_cast<u8>(b));
      go_on(group, after);
    }
    if (nested != kEmpty) go_on(group, Lexed::of(arena_).munch_guard(group.end.munch_guard, nested));
  }
  // Lexemes that differ only in bytes with which no token of the bundle continues lead to the same pieces.
  std::vector<u32> same{bundle};
  for (const auto& piece : made.pieces) {
    const u64 at = reinterpret_cast<std::uintptr_t>(piece.get());
    same.insert(same.end(), {static_cast<u32>(at >> 32), static_cast<u32>(at)});
  }
  const u32 next = static_cast<u32>(continuations_.size());  // others may have been added meanwhile
  const std::size_t bytes = bytes_of(same);
  const auto [it, fresh] = continuation_of_.try_emplace(std::move(same), next);
  if (fresh) {
    for (const auto& piece : made.pieces)
      made.bundles.insert(made.bundles.end(), piece->bundles.begin(), piece->bundles.end());
    sort_unique(made.bundles);
    std::erase_if(made.pieces, [&](const auto& piece) {
      if (piece->dense || piece->open || !piece->parts.empty() || piece->words.size() > kFewPieceWords) return false;
      made.words.insert(made.words.end(), piece->words.begin(), piece->words.end());
      return true;
    });
    made.pieces.shrink_to_fit();
    made.words.shrink_to_fit();
    made.bundles.shrink_to_fit();
    made.number = next;
    outcome_bytes_ += bytes_of(made.pieces) + bytes_of(made.words) + bytes_of(made.bundles) + bytes;
    continuations_.push_back(std::move(made));
  }
  continuation_ids_.set(key, it->second);
  return it->second;
}

// `of`: a continuation, and the outcomes of its bundles.
u32 MaskBuilder::intern_outcome(std::span<const u32> of) {
  u32& alone = continuations_[of[0]].alone;
  if (of.size() == 1 && alone != kNothing) return alone;
  const u64 hash = BucketHash(0).add(of).done();
  const u32 known = outcome_ids_.find(hash, [&](u32 id) {
    const auto other = outcome(id);
    return std::equal(of.begin(), of.end(), other.begin(), other.end());
  });
  if (known != IdTable::kNone) return known;
  const u32 id = static_cast<u32>(open_.size());
  outcome_ids_.add(hash, id);
  open_.push_back(std::any_of(of.begin() + 1, of.end(), [&](u32 a) { return a == kNotKnown || open_[a]; }));
  outcome_words_.insert(outcome_words_.end(), of.begin(), of.end());
  outcome_ends_.push_back(static_cast<u32>(outcome_words_.size()));
  if (of.size() == 1) alone = id;
  return id;
}

MaskBuilder::Position MaskBuilder::position(const Lexed::Place& place, u32 how) {
  auto number = [](FlatMap<>& of, u64 key) {
    if (const u32* known = of.find(key)) return *known;
    const u32 next = static_cast<u32>(of.size());
    of.set(key, next);
    return next;
  };
  const u32 at = number(positions_, u64{index_of(place.parse)} << 32 | place.layout);
  return {place, how ? number(exact_positions_, u64{at} << 32 | how) : at};
}

MaskBuilder::Position MaskBuilder::near_position(u32 lexer, const Lexed::Place& place, bool shape) {
  Position out = position(Lexed::of(arena_).cut_place(lexer, place, kNearParts, shape), 0);
  out.shape = shape;
  return out;
}

// What follows the lexemes of a bundle at a cut place. Shared by all bundles that end in the same way, and by all
// places whose relevant alternatives are the same.
u32 MaskBuilder::transition_at(u32 bundle, const Position& at) {
  const u64 key = u64{at.shape ? bundles_[bundle].shape : bundles_[bundle].ending} << 32 | at.number;
  if (const u32* known = transition_ids_.find(key)) return *known;
  const Lexed::LexemeEnd& end = bundles_[bundle].end;
  u32 id = static_cast<u32>(transitions_.size());
  if (const Lexed::Place reading = Lexed::of(arena_).reading_end(end, at.place); reading.parse != at.place.parse) {
    Position in_front = position(reading, 0);
    in_front.shape = at.shape;
    id = transition_at(bundle, in_front);
  } else {
    Transition transition;
    transition.place = reading;
    transition.how = Lexed::of(arena_).peek_end(end, reading, transition.begins);
    transitions_.push_back(transition);
  }
  transition_ids_.set(key, id);
  return id;
}

bool MaskBuilder::continues_with_identifiers(u32 bundle) {
  const auto& groups = bundles_[bundle].groups;
  const ByteSet& begins = Lexed::of(arena_).lexer_of(bundles_[bundle].end.lexer).identifier_begins;
  return std::any_of(groups.begin(), groups.end(), [&](const Group* group) {
    return !group->heavy.empty() || std::any_of(group->begins.begin(), group->begins.end(),
                                                [&](const Begin& begin) { return begins.has(begin.byte); });
  });
}

// Continuations with identifiers, except those that continue no token of the bundle. kNotKnown: some that depend on the
// values of variables.
std::vector<u32> MaskBuilder::identifier_continuations(u32 bundle, u32 identifiers) {
  std::vector<u32> found;
  if (identifiers == 0) return found;
  for (u32 start : Lexed::of(arena_).identifier_starts(identifiers)) {
    if (start == kNone) {
      if (continues_with_identifiers(bundle)) found.push_back(kNotKnown);
      continue;
    }
    const u32 number = continuation(bundle, start, kEpsilon, kEmpty);
    const Continuation& of = continuations_[number];
    if (!of.pieces.empty() || !of.words.empty() || !of.bundles.empty()) found.push_back(number);
  }
  return found;
}

// What a bundle allows at a cut place. kNotKnown, or an outcome that contains kNotKnown: the cut place does not decide.
u32 MaskBuilder::near_outcome(u32 bundle, const Position& at) {
  const u32 transition_id = transition_at(bundle, at);
  Transition& transition = transitions_[transition_id];
  if (transition.how != Lexed::After::Something) return transition.how == Lexed::After::Nothing ? kNothing : kNotKnown;
  const u64 key = u64{bundle} << 32 | transition_id;
  if (const u32* known = near_outcomes_.find(key)) return *known;
  const Continuation& after = continuations_[continuation(bundle, transition.begins.start, kEpsilon, kEmpty)];
  if (after.bundles.empty() && transition.begins.identifiers == 0) {
    const u32 alone = intern_outcome({&after.number, 1});
    near_outcomes_.set(key, alone);
    return alone;
  }
  if (!transition.passed) {
    const Lexed::LexemeEnd& end = bundles_[bundle].end;
    Lexed::of(arena_).pass_end(end, transition.place);
    transition.next = near_position(end.lexer, transition.place, at.shape);
    transition.passed = true;
  }
  u32 result = near_outcome_of(after.number, transition);
  if (transition.begins.identifiers != 0) {
    const auto plain = outcome(result);
    std::vector<u32> all(plain.begin(), plain.end());
    for (u32 one : identifier_continuations(bundle, transition.begins.identifiers)) {
      const u32 allowed = one == kNotKnown ? kNotKnown : near_outcome_of(one, transition);
      all.push_back(allowed);
    }
    result = intern_outcome(all);
  }
  near_outcomes_.set(key, result);
  return result;
}

// A continuation, with the outcomes of its bundles.
u32 MaskBuilder::near_outcome_of(u32 continuation, const Transition& after) {
  const Continuation& of = continuations_[continuation];
  const u32 lexer = of.of->end.lexer;
  const bool named = !after.next.shape && !Lexed::of(arena_).lexer_of(lexer).identifiers.empty();
  const Position shape = named ? near_position(lexer, after.place, true) : after.next;
  const std::size_t from = pending_.size();
  pending_.push_back(of.number);
  for (u32 b : of.bundles) {
    const bool any = Lexed::of(arena_).column_at(bundles_[b].end, after.place) == Lexed::Column::Any;
    const u32 allowed = any ? shape_outcome(b, shape, after.next) : kNotKnown;
    pending_.push_back(allowed);
  }
  const u32 result = intern_outcome({pending_.data() + from, pending_.size() - from});
  pending_.resize(from);
  return result;
}

// The outcomes of bundles at a place.
void MaskBuilder::outcomes(const std::vector<u32>& bundles, const Lexed::Place& place, Id after, u32* out) {
  if (bundles.empty()) return;
  const u32 lexer = bundles_[bundles[0]].end.lexer;
  const Position near = near_position(lexer, place, false);
  const Position shape =
      Lexed::of(arena_).lexer_of(lexer).identifiers.empty() ? near : near_position(lexer, place, true);
  std::optional<Position> exact;
  for (std::size_t i = 0; i < bundles.size(); ++i) {
    if (out[i] != kNotKnown && !open_[out[i]]) continue;
    const Lexed::Column column = Lexed::of(arena_).column_at(bundles_[bundles[i]].end, place);
    u32 known = column == Lexed::Column::None ? kNothing : kNotKnown;
    // whether the text can end may depend on more than the next parts of the grammar
    if (column == Lexed::Column::Any && after == kEpsilon) known = shape_outcome(bundles[i], shape, near);
    if (known == kNotKnown || open_[known]) {
      if (!exact) exact = position(place, index_of(after) << 1 | 1);
      known = exact_outcome(bundles[i], *exact, after, known);
    }
    out[i] = known;
  }
}

// The outcome of a bundle without the values of variables if that decides, else at the place with them.
u32 MaskBuilder::shape_outcome(u32 bundle, const Position& shape, const Position& near) {
  if (shape.number == near.number) return near_outcome(bundle, near);
  const Lexed::LexemeEnd& end = bundles_[bundle].end;
  if (Lexed::of(arena_).lexer_of(end.lexer).is_identifier(end.terminal) &&
      !Lexed::of(arena_).read_in_one_way(end.lexer, shape.place.parse, end.terminal))
    return near_outcome(bundle, near);
  const u32 known = near_outcome(bundle, shape);
  return known == kNotKnown || open_[known] ? near_outcome(bundle, near) : known;
}

u32 MaskBuilder::exact_outcome(u32 bundle, const Position& at, Id after, u32 near) {
  const u64 key = u64{bundle} << 32 | at.number;
  if (const u32* known = exact_outcomes_.find(key)) return *known;
  const Lexed::LexemeEnd& end = bundles_[bundle].end;
  Lexed::Place place = at.place;
  Lexed::Begins begins;
  u32 result = kNothing;
  if (const Lexed::Place reading = Lexed::of(arena_).reading_end(end, place); reading.parse != place.parse) {
    result = exact_outcome(bundle, position(reading, index_of(after) << 1 | 1), after, near);
  } else if (Lexed::of(arena_).after_end(end, place, begins, true) != Lexed::After::Nothing) {
    std::vector<u32> of;
    if (near != kNotKnown) {
      const auto known = outcome(near);
      of.assign(known.begin(), known.end());
    } else {
      const bool ends = after != kEpsilon && Lexed::of(arena_).place_ends(end.lexer, place);
      const Id nested = Lexed::of(arena_).nested_at(end.lexer, place);
      of.push_back(continuation(bundle, begins.start, ends ? after : kEpsilon,
                                nested == kEmpty ? kEmpty : arena_.concat(nested, after)));
    }
    of.resize(continuations_[of[0]].bundles.size() + 1, kNotKnown);  // identifiers are computed again
    outcomes(continuations_[of[0]].bundles, place, after, of.data() + 1);
    for (u32 number : identifier_continuations(bundle, begins.identifiers)) {
      std::vector<u32> more(continuations_[number].bundles.size() + 1, kNotKnown);
      more[0] = number;
      outcomes(continuations_[number].bundles, place, after, more.data() + 1);
      of.push_back(intern_outcome(more));
    }
    result = intern_outcome(of);
  }
  exact_outcomes_.set(key, result);
  return result;
}

// Replaces lexed texts that have not begun by their state before the first lexeme.
Id MaskBuilder::begun(Id e) {
  const Node& n = arena_.node(e);
  switch (n.kind) {
    case Kind::Lexed: return Lexed::of(arena_).lexed_start(e);
    case Kind::Concat: {
      const Id after = n.tail();
      const Id head = begun(n.head());
      return head == n.head() ? e : arena_.concat(head, after);
    }
    case Kind::Union: {
      const std::vector<Id> members(arena_.operands(e).begin(), arena_.operands(e).end());
      std::vector<Id> started = members;
      for (Id& m : started) m = begun(m);
      return started == members ? e : arena_.unite(std::move(started));
    }
    default: return e;
  }
}

// The alternatives of a state that are lexed texts in progress, each with what follows it. False: there are none.
bool MaskBuilder::lexed_parts(Id e, std::vector<std::pair<Id, Id>>& parts, std::vector<Id>& rest) {
  if (!arena_.has(e, kHasScan)) return false;
  auto members = [&](Id of) {
    const bool several = arena_.node(of).kind == Kind::Union;
    return several ? std::vector<Id>(arena_.operands(of).begin(), arena_.operands(of).end()) : std::vector<Id>{of};
  };
  Lexed::Lexeme lexeme{};
  Lexed::Place place{};
  for (Id m : members(e)) {
    const Node& n = arena_.node(m);
    if (n.kind != Kind::Concat) {
      if (Lexed::of(arena_).lexed_place(m, lexeme, place))
        parts.push_back({m, kEpsilon});
      else
        rest.push_back(m);
      continue;
    }
    const Id after = n.tail();
    if (!arena_.live(after)) continue;  // pieces do not know what follows
    const std::vector<Id> heads = members(arena_.node(m).head());
    std::vector<Id> plain;
    for (Id head : heads) {
      if (!Lexed::of(arena_).lexed_place(head, lexeme, place)) {
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
  near_outcomes_.clear();
  exact_outcomes_.clear();
  positions_.clear();
  exact_positions_.clear();
  outcome_words_.clear();
  outcome_ends_.assign(1, 0);  // kNothing
  open_.assign(1, 0);
  outcome_ids_.clear();
  continuation_ids_.clear();
  continuations_.clear();
  continuation_of_.clear();
  ends_.clear();
  bundles_.clear();
  endings_of_.clear();
  transitions_.clear();
  transition_ids_.clear();
  pieces_.clear();
  parts_.clear();
  below_.clear();
  exit_parts_.clear();
  bases_.clear();
  piece_bytes_ = outcome_bytes_ = 0;
}

std::size_t MaskBuilder::lexed_memory() const {
  return piece_bytes_ + outcome_bytes_ + bytes_of(pieces_) + bytes_of(parts_) + bytes_of(below_) +
         bytes_of(exit_parts_) + bytes_of(bases_) + bytes_of(bundles_) + bytes_of(continuations_) +
         continuation_ids_.memory() + bytes_of(continuation_of_) + bytes_of(ends_) + bytes_of(outcome_words_) +
         bytes_of(outcome_ends_) + outcome_ids_.memory() + bytes_of(open_) + positions_.memory() +
         exact_positions_.memory() + bytes_of(endings_of_) + bytes_of(transitions_) + transition_ids_.memory() +
         near_outcomes_.memory() + exact_outcomes_.memory() + bytes_of(known_masks_) + bytes_of(taken_);
}

std::shared_ptr<const MaskEntry> MaskBuilder::lexed(Id state, const std::vector<int>& specials, bool& fresh) {
  fresh = false;
  std::vector<std::pair<Id, Id>> lexed;
  std::vector<Id> others;
  if (!StrategySwitches::on(Strategy::LexedPieces) || !Lexed::of(arena_).used()) return nullptr;
  if (!lexed_parts(begun(state), lexed, others)) return nullptr;
  const Drawing drawing(*this, true);
  if ((++lexed_masks_ % kMasksBetweenCounts == 0 || piece_bytes_ + outcome_bytes_ > kMostPieceBytes) &&
      lexed_memory() > kMostPieceBytes)
    forget_pieces();
  pending_.clear();
  struct Part {
    Id open, after;
    Lexed::Place place;
    std::shared_ptr<Piece> piece{};
  };
  std::vector<Part> parts;
  std::vector<u32> key;
  for (auto [part, after] : lexed) {
    Lexed::Lexeme lexeme{};
    Lexed::Place place{};
    Lexed::of(arena_).lexed_place(part, lexeme, place);
    const Id open = forget(Lexed::of(arena_).open_lexeme(lexeme));
    parts.push_back({open, after, place});
  }
  const Id other = others.empty() ? kEmpty : forget(arena_.unite(std::move(others)));
  if (std::any_of(parts.begin(), parts.end(), [&](const Part& part) { return splinters_.count(part.open); }))
    return nullptr;
  new_pieces_ = 0;
  for (Part& part : parts) {
    part.piece = piece_of(part.open);
    key.insert(key.end(), {index_of(part.open), index_of(part.after)});
    const std::size_t from = key.size();
    key.resize(from + part.piece->bundles.size(), kNotKnown);
    outcomes(part.piece->bundles, part.place, part.after, key.data() + from);
  }
  if (new_pieces_ > kMostNewPieces) {
    forget_pieces();
    for (const Part& part : parts) splinters_.insert(part.open);
    counts_.note(Strategy::LexedPieces, false, 0);
    return nullptr;
  }
  key.push_back(index_of(other));
  key.insert(key.end(), specials.begin(), specials.end());
  counts_.note(Strategy::LexedPieces, true, 0);
  if (auto it = known_masks_.find(key); it != known_masks_.end()) return it->second;
  Sum sum;
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
    take(*part.piece, sum);
    at += 2;
    for (std::size_t i = 0; i < part.piece->bundles.size(); ++i) take(key[at++], sum);
  }
  if (sum.blurred) {  // the other strategies make this mask
    outcome_bytes_ += 56 + key.size() * 4;
    known_masks_.emplace(std::move(key), nullptr);
    return nullptr;
  }
  postponed_ = std::move(sum.open_nodes);
  postponed_tokens_ = std::move(sum.open_tokens);
  auto entry = std::make_shared<MaskEntry>();
  note_open(*entry);
  entry->specials = specials;
  const MaskScratch::Diff diff = scratch_->differences();
  scratch_->begin();
  scratch_->add(common_base(sum.dense));
  for (auto [word, bits] : diff) scratch_->unite(word, bits);
  finish(*entry);
  outcome_bytes_ += bytes_of(key);
  known_masks_.emplace(std::move(key), entry);
  fresh = true;
  return entry;
}

// The union of a mask's dense bitsets. Masks with the same ones share it.
std::shared_ptr<const Words> MaskBuilder::common_base(std::vector<std::shared_ptr<const Words>>& dense) {
  if (dense.empty()) return nullptr;
  sort_unique(dense);
  if (dense.size() == 1) return dense[0];
  auto& base = bases_[dense];
  if (!base) {
    auto words = std::make_shared<Words>(vocabulary_.words(), 0);
    for (const auto& d : dense)
      for (std::size_t i = 0; i < words->size(); ++i) (*words)[i] |= (*d)[i];
    base = words;
    piece_bytes_ += shared_bytes<Words>() + bytes_of(*words) + block_bytes(dense.size() * sizeof(dense[0]));
  }
  return base;
}

// Completes the mask of a shared form for a state: decides the tokens that the form left open.
std::shared_ptr<const MaskEntry> MaskBuilder::settle(const MaskEntry& shared, Id state) {
  const Drawing drawing(*this);
  copy(shared);
  resolve(shared, state);
  auto entry = std::make_shared<MaskEntry>();
  entry->specials = shared.specials;
  finish(*entry);
  return entry;
}

// Decides the open nodes and tokens, one by one.
void MaskBuilder::resolve(const MaskEntry& open, Id state) {
  postponed_.clear();
  postponed_tokens_.clear();
  share_ = shared_ = false;
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
  const auto all_set = [&](u32 node) {
    for (u32 n = node; n < trie_.nodes[node].end; ++n)
      if (trie_.nodes[n].token >= 0 && !scratch_->has(static_cast<u32>(trie_.nodes[n].token))) return false;
    return true;
  };
  for (u32 node : open.open_nodes) {
    if (all_set(node)) continue;
    if (const Id s = follow_path(path_to(node)); s != kEmpty) enter(s, node);
  }
  for (int token : open.open_tokens)
    if (!scratch_->has(static_cast<u32>(token)) && follow_path(vocabulary_.bytes(static_cast<u32>(token))) != kEmpty)
      set(token);
  exact_ = false;
}

}  // namespace guiderail
