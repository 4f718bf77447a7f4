// What may follow a token: after which tokens of a mask a piece may begin, whatever the token before them.
//
// The constraint says which characters may follow a token, and the pre-tokenizer which characters may begin a piece
// after it. If a character is in both sets, the text can be completed: the constraint can complete what it allows, and
// any text that begins a piece can be spelled. So the bits of two sets prove most tokens of a mask.
#include <algorithm>
#include <bit>

#include "vocab/spelling.hpp"

namespace guiderail {

namespace {
constexpr u32 kMostFinishes = 16'384;  // tokens tried to find out which characters a token can become
bool continues(char c) { return is_continuation(static_cast<u8>(c)); }
Hash key_of(u64 a, u64 b) { return {mix64(a ^ secrets.flat), mix64(b + 0x9E3779B97F4A7C15ull) ^ a}; }
u32 code_point(std::string_view bytes) {
  u32 out = static_cast<u8>(bytes[0]) & (0xFFu >> (bytes.size() + 1));
  for (std::size_t i = 1; i < bytes.size(); ++i) out = out << 6 | (static_cast<u8>(bytes[i]) & 0x3F);
  return out;
}
}  // namespace

void Spelling::sort_broken() {
  kind_of_ = shape_of_;
  for (u32 i = 0; i < broken_.size(); ++i) {
    Broken& broken = broken_[i];
    kind_of_[broken.token] = static_cast<u32>(shapes_.size()) + i;
    const std::string_view text = vocabulary_->bytes(broken.token);
    std::size_t whole = text.size();
    do --whole;
    while (whole > 0 && continues(text[whole]));
    if (continues(text[whole]) || !is_utf8(text.substr(0, whole))) continue;
    broken.possible = pretokens_.possible(std::string(text.substr(whole)));
    broken.plain = broken.possible != 0;
    for (std::size_t at = 0; at < whole;) {
      const u8 first = static_cast<u8>(text[at]);
      const std::size_t n = first < 0x80 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
      broken.atoms.push_back(static_cast<char>(pretokens_.atom(n == 1 ? first : code_point(text.substr(at, n)))));
      at += n;
    }
  }
}

// The characters that a token leaves unfinished and other tokens finish. A token whose character no other token can
// finish is part of no text.
void Spelling::find_finishes() {
  if (std::exchange(finishes_known_, true)) return;
  std::array<std::vector<u32>, 4> ends;    // by length: tokens that only continue a character
  std::array<std::vector<u32>, 4> beyond;  // tokens that finish a character so, and have more bytes
  for (const Broken& broken : broken_) {
    const std::string_view text = vocabulary_->bytes(broken.token);
    const auto read = static_cast<std::size_t>(std::find_if_not(text.begin(), text.end(), continues) - text.begin());
    if (read > 0 && read < 4) (read == text.size() ? ends : beyond)[read].push_back(broken.token);
  }
  for (Broken& broken : broken_) {
    const std::string_view text = vocabulary_->bytes(broken.token);
    if (!broken.plain) continue;
    std::size_t begun = 1;
    while (continues(text[text.size() - begun])) ++begun;
    std::string character(text.substr(text.size() - begun));
    const u8 first = static_cast<u8>(character[0]);
    const std::size_t whole = first < 0xE0 ? 2u : first < 0xF0 ? 3u : 4u;
    u32 tries = kMostFinishes;
    bool other = false;
    // `tag`: of a piece that the token begins; pieces that it continues are not considered here
    const auto read = [&](u32 tag, u32 token) { return odd_.empty() ? 1 : walk_odd(tag, vocabulary_->bytes(token)); };
    const auto finish = [&](auto& self, u32 last, u32 tag) -> void {
      const std::size_t missing = whole - character.size();
      if (missing == 0) {
        if (pretokens_.holds(tag))
          other = true;
        else if (is_utf8(character))
          broken.finish |= broken.possible & (u64{1} << pretokens_.atom(code_point(character)));
        return;
      }
      for (u32 token : beyond[missing]) other = other || pair(last, token);
      for (std::size_t n = missing; n > 0; --n)
        for (u32 token : ends[n]) {
          if (tries == 0 || broken.finish == broken.possible) return;
          --tries;
          if (!pair(last, token)) continue;
          if (separate_.read(0, vocabulary_->bytes(token)) != 0) {
            other = true;
            continue;
          }
          character += vocabulary_->bytes(token);
          self(self, token, read(tag, token));
          character.resize(whole - missing);
        }
    };
    finish(finish, broken.token, read(0, broken.token));
    broken.comes = broken.finish != 0 || other || tries == 0;
  }
}

Spelling::Follow Spelling::cuts_after(Pretokens::State state) {
  if (odd_.empty()) return pretokens_.cuts(state);
  if (state < cuts_after_.size() && cuts_after_[state] != kNotAsked) return cuts_after_[state];
  const Follow found = pretokens_.cuts(all_plain(state));
  if (cuts_after_.size() <= state) cuts_after_.resize(pretokens_.size(), kNotAsked);
  return cuts_after_[state] = found;
}

// Of the tokens that do not consist of whole characters, those that may come in a state.
void Spelling::take_broken(Pretokens::State state, bool cut, Side& to) {
  find_finishes();
  const bool partial = pretokens_.is_partial(state);
  std::unordered_map<Follow, u32> groups;
  const auto take = [&](std::size_t i, Follow after) {
    set_bit(to.may, broken_[i].token);
    if (after == 0) return;
    const auto [it, fresh] = groups.try_emplace(after, static_cast<u32>(to.groups.size()));
    if (fresh) to.groups.push_back({Pretokens::kDead, after, {}, {}});
    join(to, static_cast<u32>(shapes_.size() + i), {broken_[i].token}, it->second);
  };
  for (std::size_t i = 0; i < broken_.size(); ++i) {
    const Broken& broken = broken_[i];
    if (partial || !broken.plain) {
      if (continues(vocabulary_->bytes(broken.token)[0]) != partial) continue;
      const Pretokens::State next = pretokens_.read(state, vocabulary_->bytes(broken.token), cut);
      if (next == Pretokens::kDead) continue;
      take(i, pretokens_.is_partial(next) ? 0 : cuts_after(next));
      continue;
    }
    if (!broken.comes) continue;
    Pretokens::State at = state;
    bool first = cut;
    for (char atom : broken.atoms) {
      at = pretokens_.step(at, static_cast<u8>(atom), first);
      first = false;
    }
    if (at == Pretokens::kDead) continue;
    bool comes = false;
    Follow follow = 0;
    for (u32 atom = 0; atom < pretokens_.atom_count(); ++atom) {
      if (!(broken.possible >> atom & 1)) continue;
      const Pretokens::State next = pretokens_.step(at, atom, first);
      if (next == Pretokens::kDead) continue;
      comes = true;
      if (broken.finish >> atom & 1) follow |= cuts_after(next);
    }
    if (!comes) continue;
    take(i, follow);
  }
}

std::shared_ptr<const Spelling::Outlook> Spelling::known_outlook(const Hash& of) {
  std::lock_guard lock(mutex_);
  const auto* known = outlooks_.find(of);
  return known ? *known : nullptr;
}

void Spelling::keep_outlook(const Hash& of, std::shared_ptr<const Outlook> outlook) {
  std::lock_guard lock(mutex_);
  if (outlooks_.has(of)) return;
  const std::size_t bytes = outlook->memory();
  outlooks_.add(of, std::move(outlook), bytes);
  outlooks_.forget(kOutlookBytes);
}

std::optional<Spelling::Judged> Spelling::known_judgement(const Hash& of) {
  std::lock_guard lock(mutex_);
  const auto* known = judgements_.find(of);
  return known ? std::optional(*known) : std::nullopt;
}

void Spelling::keep_judgement(const Hash& of, const Judged& judged) {
  std::lock_guard lock(mutex_);
  if (judgements_.has(of)) return;
  judgements_.add(of, judged, sizeof(Judged));
  judgements_.forget(kJudgedBytes);
}

// Can each text of such characters begin the next piece, whatever the last token?
bool Spelling::lasts(Pretokens::State state, Follow then_two) {
  if (then_two == 0 || state == Pretokens::kDead) return false;
  const auto [it, fresh] = lasts_.try_emplace({state, then_two}, false);
  if (fresh) it->second = pretokens_.cuts_by_two(odd_.empty() ? state : all_plain(state), then_two, then_two);
  return it->second;
}

// All tokens that one of these characters may follow. After a separate text, a piece begins.
const Spelling::Proof& Spelling::extent(u32 pieces, Follow after, Follow then_two) {
  const Hash key = key_of(pieces ^ mix64(then_two), after);
  if (const auto* known = extents_.find(key)) return **known;
  const Masks& of = masks(pieces);
  auto made = std::make_shared<Proof>();
  for (const bool cut : {true, false}) {
    Words& out = cut ? made->begins : made->inside;
    const Side& side = cut ? of.begins : of.inside;
    out.assign(own_.size(), 0);
    for (const Group& group : side.groups) {
      if (!(group.after & after) && !lasts(group.next, then_two)) continue;
      for (u32 token : group.tokens) set_bit(out, token);
      for (std::size_t w = 0; w < group.words.size(); ++w) out[w] |= group.words[w];
    }
    for (std::size_t w = 0; w < own_.size(); ++w) out[w] &= side.may[w];
  }
  if (pretokens_.may_end(pieces) && (pretokens_.cuts(Pretokens::kFresh) & after))
    for (u32 token : apart_) set_bit(made->begins, token);
  const std::size_t bytes = 2 * bytes_of(made->begins);
  extents_.add(key, std::move(made), bytes);
  extents_.forget(kExtentBytes);
  return **extents_.find(key);
}

// The numbers of guesses matter if a piece may become a text that only a whole piece can be.
Pretokens::State Spelling::as_asked(Pretokens::State state) {
  bool plain = true;
  pretokens_.each_tag(state, [&](u32 tag) { plain = plain && tag < 2; });
  return plain ? untagged(state) : state;
}

std::shared_ptr<Spelling::Proof> Spelling::proof(const State& state, const Outlook& outlook, Reach reach) {
  std::lock_guard lock(mutex_);
  const Pretokens::State asked = as_asked(places_[state.place].pieces), pieces = untagged(asked);
  if (outlook.then_two == 0) reach = Reach::Next;
  const Hash key = key_of(4 * outlook.number + static_cast<u64>(reach), asked);
  if (const auto* known = proofs_.find(key)) return *known;
  auto made = std::make_shared<Proof>();
  if (outlook.all) {
    const Proof& all = extent(pieces, outlook.after_all, reach == Reach::Next ? 0 : outlook.then_two);
    made->begins = *outlook.all;
    made->inside = *outlook.all;
    for (std::size_t w = 0; w < made->begins.size(); ++w) {
      made->begins[w] &= all.begins[w];
      made->inside[w] &= all.inside[w];
    }
    if (reach == Reach::Token) {
      const Proof& near = extent(pieces, outlook.after_all, 0);
      for (u32 token : longest_) {
        if (!(near.begins[token >> 5] >> (token & 31) & 1)) clear_bit(made->begins, token);
        if (!(near.inside[token >> 5] >> (token & 31) & 1)) clear_bit(made->inside, token);
      }
    }
  } else {
    made->begins.assign(own_.size(), 0);
    made->inside.assign(own_.size(), 0);
  }
  const Masks& of = masks(pieces);
  made->may = &of;
  for (const auto& [token, follow] : outlook.others) {
    const u32 kind = kind_of_[token], word = token >> 5, bit = 1u << (token & 31);
    if (kind == kNone) continue;
    if (of.begins.after(kind) & follow) made->begins[word] |= of.begins.may[word] & bit;
    if (of.inside.after(kind) & follow) made->inside[word] |= of.inside.may[word] & bit;
  }
  const std::size_t bytes = 5 * bytes_of(made->begins);
  proofs_.add(key, made, bytes);
  proofs_.forget(kProofBytes);
  return made;
}

void Spelling::note(Proof& proof, u32 token, Answer begins, Answer inside) {
  std::lock_guard lock(mutex_);
  Words& of = begins == Answer::Unclear || inside == Answer::Unclear ? proof.unclear : proof.settled;
  if (of.empty()) of.assign(own_.size(), 0);
  set_bit(of, token);
  proof.decided.of = nullptr;
  if (begins == Answer::Yes) set_bit(proof.begins, token);
  if (inside == Answer::Yes) set_bit(proof.inside, token);
}

std::vector<u32> Spelling::unnoted(const Proof& proof, const std::vector<u32>& tokens) {
  std::lock_guard lock(mutex_);
  std::vector<u32> out;
  for (u32 token : tokens)
    if ((proof.unclear.empty() || !(proof.unclear[token >> 5] >> (token & 31) & 1)) && is_piece(token))
      out.push_back(token);
  return out;
}

Spelling::Ways Spelling::ways(u32 at, u32 token) {
  std::lock_guard lock(mutex_);
  const u64 key = u64{at} << 32 | token;
  if (const Ways* known = ways_.find(key)) return *known;
  const Ways made = make_ways(at, token);
  ways_.set(key, made, kMostWays);
  return made;
}

Spelling::Ways Spelling::make_ways(u32 at, u32 token) {
  Ways out;
  if (!is_piece(token)) return out;
  const auto [asked, separate] = places_[at];
  const u32 begun = separate_.none() ? 0 : separate_.read(separate, vocabulary_->bytes(token));
  if (begun == Separate::kFound) return out;
  out.beside = separate != 0 || begun != 0;
  const Pretokens::State pieces = as_asked(asked);
  const auto after = [&](bool cut) {
    const Pretokens::State state = numbered(read(pieces, token, cut), token);
    return state == Pretokens::kDead ? kDead : place(state, 0);
  };
  if (trees_[token].made || whole_) out.begins = after(true);
  if (trees_[token].made) out.inside = after(false);
  return out;
}

bool Spelling::follows(u32 last, u32 token) {
  std::lock_guard lock(mutex_);
  return known_pair(last, token);
}

// Tries a few pairs one by one before it builds the whole row.
u32 Spelling::first_after(u32 last, const std::vector<u32>& tokens) {
  std::lock_guard lock(mutex_);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (i == kFewPairs) row(last);
    if (known_pair(last, tokens[i])) return tokens[i];
  }
  return kNoToken;
}

void Spelling::rank(Proof& proof) const {
  if (std::exchange(proof.ranked, true)) return;
  const auto bytes = [&](u32 token) { return static_cast<u32>(vocabulary_->bytes(token).size()); };
  for_each_bit(proof.begins, [&](u32 token) { proof.shortest = std::min(proof.shortest, bytes(token)); });
  std::vector<u32> found;
  for_each_bit(proof.inside, [&](u32 token) { found.push_back(token); });
  const std::size_t most = std::min<std::size_t>(found.size(), kFewWitnesses);
  std::partial_sort(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(most), found.end(),
                    [&](u32 a, u32 b) { return bytes(a) < bytes(b); });
  proof.shortest_inside.assign(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(most));
}

// Tries a few short tokens one by one before it builds the whole row.
bool Spelling::meets(int last, Proof& proof, u32& bytes) {
  std::lock_guard lock(mutex_);
  rank(proof);
  bytes = proof.shortest;
  if (bytes != kInf || last < 0) return bytes != kInf;
  u32 found = kNoToken;
  for (std::size_t i = 0; i < proof.shortest_inside.size() && found == kNoToken; ++i)
    if (known_pair(static_cast<u32>(last), proof.shortest_inside[i])) found = proof.shortest_inside[i];
  if (found == kNoToken) {
    const Words& after = row(static_cast<u32>(last));
    for (std::size_t w = 0; w < after.size() && found == kNoToken; ++w)
      if (const u32 both = proof.inside[w] & after[w]; both != 0)
        found = static_cast<u32>(32 * w) + static_cast<u32>(std::countr_zero(both));
  }
  if (found != kNoToken) bytes = static_cast<u32>(vocabulary_->bytes(found).size());
  return found != kNoToken;
}

bool Spelling::proves(const State& state, const Proof& proof, u32 token) {
  std::lock_guard lock(mutex_);
  const auto [pieces, separate] = places_[state.place];
  const u32 word = token >> 5, bit = 1u << (token & 31);
  if (!is_piece(token) || (!separate_.none() && separate_.read(separate, vocabulary_->bytes(token)) != 0)) return false;
  bool plain = true;
  pretokens_.each_tag(pieces, [&](u32 tag) { plain = plain && tag < 2; });
  return plain && ((proof.begins[word] & bit) != 0 || ((proof.inside[word] & bit) != 0 && state.last >= 0 &&
                                                       known_pair(static_cast<u32>(state.last), token)));
}

void Spelling::decide(const State& state, const Proof& proof, bool strict, u32* words, std::vector<u32>& left) {
  constexpr std::size_t kBlock = 64;  // words decided together
  std::lock_guard lock(mutex_);
  const auto [pieces, separate] = places_[state.place];
  const Open* of_texts = separate_.none() ? nullptr : &opened(separate);
  if (of_texts)
    for (u32 token : of_texts->whole) words[token >> 5] &= ~(1u << (token & 31));
  const u32* after = state.last < 0 ? vocabulary_->zeros().data() : row(static_cast<u32>(state.last)).data();
  const u32 ends = pretokens_.may_end(pieces) ? ~u32{0} : 0;
  const u32* settled = proof.settled.empty() ? vocabulary_->zeros().data() : proof.settled.data();
  left.clear();
  for (const auto& [w, tokens] : no_text_)
    for (u32 bits = words[w] & ends & tokens & ~proof.begins[w]; bits != 0; bits &= bits - 1)
      left.push_back(32 * w + static_cast<u32>(std::countr_zero(bits)));
  for (std::size_t from = 0; from < own_.size(); from += kBlock) {
    const std::size_t count = std::min(kBlock, own_.size() - from);
    const u32 *begins = proof.begins.data() + from, *inside = proof.inside.data() + from;
    const u32 *may_begin = proof.may->begins.may.data() + from, *may_come = proof.may->inside.may.data() + from;
    const u32 *next = after + from, *known = settled + from, *asked = words + from;
    std::array<u32, kBlock> proved, open;
    u32 any = 0;
    for (std::size_t i = 0; i < count; ++i) {
      proved[i] = asked[i] & (begins[i] | (inside[i] & next[i]));
      open[i] = asked[i] & ~proved[i] & ~known[i] & (may_begin[i] | (may_come[i] & next[i]));
      any |= open[i];
    }
    std::copy_n(proved.data(), count, words + from);
    for (std::size_t i = 0; any != 0 && i < count; ++i)
      for (u32 bits = open[i]; bits != 0; bits &= bits - 1)
        left.push_back(static_cast<u32>(32 * (from + i)) + static_cast<u32>(std::countr_zero(bits)));
  }
  set_apart(state, strict, words, left);
}

// Takes out the proved tokens that may not be, because of texts that they are part of.
void Spelling::set_apart(const State& state, bool strict, u32* words, std::vector<u32>& left) {
  const auto [pieces, separate] = places_[state.place];
  const auto leave = [&](const std::vector<u32>& tokens) {
    for (u32 token : tokens) {
      if (words[token >> 5] >> (token & 31) & 1) left.push_back(token);
      words[token >> 5] &= ~(1u << (token & 31));
    }
  };
  if (!separate_.none()) leave(strict ? opened(separate).begun : opened(separate).nearly);
  pretokens_.each_tag(pieces, [&](u32 tag) {
    if (tag >= 2) leave(ends_below((tag - 2) / 2));
  });
}

bool Spelling::sort_mask(Proof& proof, const std::shared_ptr<const Words>& mask) const {
  Decided& out = proof.decided;
  if (out.of == mask) return true;
  out.of = nullptr;
  if (std::exchange(out.last, mask.get()) != mask.get()) out.times = 0;
  if (++out.times < kTimesDecided) return false;
  const Words &may_begin = proof.may->begins.may, &may_come = proof.may->inside.may;
  out.always.resize(own_.size());
  out.within.resize(own_.size());
  out.open.clear();
  out.open_within.clear();
  for (u32 w = 0; w < own_.size(); ++w) {
    const u32 asked = (*mask)[w], begins = proof.begins[w], inside = proof.inside[w];
    out.always[w] = asked & begins;
    out.within[w] = asked & inside & ~begins;
    const u32 rest = asked & ~begins & (proof.settled.empty() ? ~u32{0} : ~proof.settled[w]);
    const auto list = [&](u32 bits, std::vector<u32>& tokens) {
      for (; bits != 0; bits &= bits - 1) tokens.push_back(32 * w + static_cast<u32>(std::countr_zero(bits)));
    };
    list(rest & may_begin[w], out.open);
    list(rest & ~may_begin[w] & may_come[w] & ~inside, out.open_within);
    if (out.open.size() + out.open_within.size() > kManyOpen) return false;
  }
  out.of = mask;
  return true;
}

bool Spelling::decide_again(const State& state, Proof& proof, const MaskEntry& entry, bool strict, u32* words,
                            std::vector<u32>& left) {
  std::lock_guard lock(mutex_);
  if (!sort_mask(proof, entry.base)) return false;
  const Decided& known = proof.decided;
  const auto [pieces, separate] = places_[state.place];
  const u32* after = state.last < 0 ? vocabulary_->zeros().data() : row(static_cast<u32>(state.last)).data();
  const u32 *always = known.always.data(), *within = known.within.data();
  const std::size_t count = own_.size();
  for (std::size_t w = 0; w < count; ++w) words[w] = always[w] | (within[w] & after[w]);
  const auto has = [](const u32* of, u32 token) { return of[token >> 5] >> (token & 31) & 1; };
  left.clear();
  for (u32 token : known.open)
    if (!has(words, token)) left.push_back(token);
  for (u32 token : known.open_within)
    if (has(after, token)) left.push_back(token);
  const u32 ends = pretokens_.may_end(pieces) ? ~u32{0} : 0;
  const auto list = [&](u32 w, u32 bits) {
    for (; bits != 0; bits &= bits - 1) left.push_back(32 * w + static_cast<u32>(std::countr_zero(bits)));
  };
  for (const auto& [w, tokens] : no_text_) list(w, (*entry.base)[w] & ends & tokens & ~proof.begins[w]);
  if (!entry.diff.empty()) {
    std::erase_if(left, [&](u32 token) {
      return std::any_of(entry.diff.begin(), entry.diff.end(),
                         [&](const auto& one) { return one.first == token >> 5; });
    });
    for (const auto& [w, asked] : entry.diff) {
      const u32 may = proof.may->begins.may[w] | (proof.may->inside.may[w] & after[w]);
      words[w] = asked & (proof.begins[w] | (proof.inside[w] & after[w]));
      list(w, asked & ~words[w] & may & (proof.settled.empty() ? ~u32{0} : ~proof.settled[w]));
    }
    for (const auto& [w, tokens] : no_text_)
      for (const auto& [word, asked] : entry.diff)
        if (word == w) list(w, asked & ends & tokens & ~proof.begins[w]);
  }
  if (!separate_.none())
    for (u32 token : opened(separate).whole) {
      words[token >> 5] &= ~(1u << (token & 31));
      std::erase(left, token);
    }
  set_apart(state, strict, words, left);
  return true;
}

Spelling::Follow Spelling::cuts(u32 place) {
  std::lock_guard lock(mutex_);
  return pretokens_.cuts(untagged(places_[place].pieces));
}

Spelling::Follow Spelling::cuts_with_next(u32 place) {
  std::lock_guard lock(mutex_);
  const Pretokens::State state = untagged(places_[place].pieces);
  return pretokens_.cuts_with_next(odd_.empty() ? state : all_plain(state));
}

bool Spelling::cuts_by_two(u32 place, Follow firsts, Follow seconds) {
  std::lock_guard lock(mutex_);
  const Pretokens::State state = untagged(places_[place].pieces);
  return pretokens_.cuts_by_two(odd_.empty() ? state : all_plain(state), firsts, seconds);
}

bool Spelling::begins(u32 place, u8 ascii, bool strict) {
  std::lock_guard lock(mutex_);
  const u32 separate = places_[place].separate;
  const char c = static_cast<char>(ascii);
  const u32 after = separate_.none() ? 0 : separate_.read(separate, {&c, 1});
  return strict ? after == 0 : after != Separate::kFound;
}

u64 Spelling::readable() {
  std::lock_guard lock(mutex_);
  return pretokens_.readable();
}

}  // namespace guiderail
