// Front ends that run elsewhere (Python in a browser) build expressions here. A call has a number, the handle of a
// builder or a program, and the bytes of its arguments. The other side is playground/python/core.py. Expressions are
// identified by their names in the core, not by their numbers in a file, because front ends compare them.
#include "lowering.hpp"

#include <unordered_map>

#include "base/container.hpp"
#include "base/work.hpp"
#include "build/builder.hpp"

namespace guiderail {
namespace {

// In the order of OPERATIONS of playground/python/core.py.
// clang-format off
enum class Call : u32 {
  LimitWork, RestoreWork, SpendWork, SpentWork, Free, Builder,
  Add, IsNullable, IsEmpty, FirstBytes, Dump, Finish,
  Root, Derivative, ProgramIsNullable, IsLive, ProgramFirstBytes, FirstSymbols, Symbols, ForcedBytes,
  Shortest, Likely, ProgramDump, NodeCount, LeastBytes, MemorySizeBytes,
  Replay, Recorded,
};
// clang-format on

struct Kept {
  std::unique_ptr<Builder> builder;
  std::shared_ptr<Program> program;
};
std::unordered_map<u32, Kept>& kept() {
  static std::unordered_map<u32, Kept> all;
  return all;
}
u32 keep(Kept what) {
  static u32 last = 0;
  kept().emplace(++last, std::move(what));
  return last;
}

std::string bytes_of(const ByteSet& set) {
  std::string out;
  for (unsigned b = 0; b < 256; ++b)
    if (set.has(static_cast<u8>(b))) out.push_back(static_cast<char>(b));
  return out;
}

void write(ByteWriter& out, const Symbol& symbol) {
  if (const auto* set = std::get_if<TokenSet>(&symbol)) {
    out.byte(2);
    out.byte(set->but);
    out.number(set->tokens.size());
    for (const auto& name : set->tokens) std::visit([&](const auto& of) { write(out, Symbol(of)); }, name);
  } else if (const auto* name = std::get_if<std::string>(&symbol)) {
    out.byte(0);
    out.text(*name);
  } else {
    out.byte(1);
    out.number(std::get<u32>(symbol));
  }
}

double of_builder(Builder& builder, Call call, ByteReader& in, std::string& out) {
  Arena& arena = builder.arena();
  auto expression = [&] { return builder.check(Id{in.number32()}); };
  auto regular = [&] {
    const Id e = expression();
    if (arena.has(e, kHasRef)) throw Error("not-regular", "an expression without rules is needed");
    return e;
  };
  switch (call) {
    case Call::Add: {
      ReadArguments arguments(in);
      return std::visit([&](auto& operation) { return static_cast<u32>(builder.add(std::move(operation))); },
                        *std::make_unique<Operation>(read_operation(in, arguments)));
    }
    case Call::IsNullable: return arena.nullable(expression());
    case Call::IsEmpty: return !arena.live(regular());
    case Call::FirstBytes: out = bytes_of(arena.first(regular())); return 0;
    case Call::Dump: out = arena.dump(expression()); return 0;
    case Call::Replay: return index_of(Replay(builder).all(contents_of(in.raw(in.left()), Saved::Program)));
    case Call::Recorded: out = contained(Saved::Program, builder.recorded(expression())); return 0;
    case Call::Finish: {
      const Id root = expression();
      return keep({nullptr, std::make_shared<Program>(builder.finish(root), root)});
    }
    default: throw Error("argument", "a builder takes no call " + std::to_string(static_cast<u32>(call)));
  }
}

void write_symbols(Program& p, const std::vector<u32>& numbers, std::string& out) {
  ByteWriter writer;
  writer.number(numbers.size());
  for (u32 i : numbers) write(writer, p.arena().symbols()[i]);
  out = std::move(writer.out());
}

double of_program(Program& p, Call call, ByteReader& in, std::string& out) {
  auto state = [&] {
    const u32 s = in.number32();
    if (s >= p.arena().node_count()) throw Error("bad-handle", "no such state in this program: " + std::to_string(s));
    return Id{s};
  };
  switch (call) {
    case Call::Root: return index_of(p.root());
    case Call::Derivative: {
      const Id from = state();
      const std::string_view data = in.raw(in.left());
      const u64 before = Work::spent();
      const Id to = p.advance(from, data);
      Work::recount(before + data.size());
      return index_of(to);
    }
    case Call::ProgramIsNullable: return p.arena().nullable(state());
    case Call::IsLive: return p.live(state());
    case Call::ProgramFirstBytes: out = bytes_of(p.next_bytes(state())); return 0;
    case Call::FirstSymbols: write_symbols(p, p.next_symbols(state()), out); return 0;
    case Call::Symbols: {
      std::vector<u32> all(p.arena().symbols().size());
      for (u32 i = 0; i < all.size(); ++i) all[i] = i;
      write_symbols(p, all, out);
      return 0;
    }
    case Call::ForcedBytes: {
      const Id s = state();
      out = p.forced(s, in.number32());
      return 0;
    }
    case Call::Shortest: {
      const Id s = state();
      std::string text;
      out.push_back(p.shortest(s, in.number32(), text) ? 1 : 0);
      out += text;
      return 0;
    }
    case Call::Likely: {
      const Id s = state();
      out = p.likely(s, in.number32());
      return 0;
    }
    case Call::ProgramDump: out = p.dump(state()); return 0;
    case Call::NodeCount: return p.arena().node_count();
    case Call::LeastBytes: return p.arena().node(state()).shortest;
    case Call::MemorySizeBytes: return static_cast<double>(p.memory());
    default: throw Error("argument", "a program takes no call " + std::to_string(static_cast<u32>(call)));
  }
}

double of_neither(Call call, ByteReader& in, std::string& out) {
  ByteWriter writer;
  switch (call) {
    case Call::LimitWork: {
      const Work::Allowed before = Work::limit(in.number());  // the limit of a compilation: `what` is null
      writer.number(before.until);
      writer.number(before.steps);
      break;
    }
    case Call::RestoreWork: {
      const u64 until = in.number();
      Work::restore({until, in.number()});
      break;
    }
    case Call::SpendWork: Work::spend(in.number()); break;
    case Call::SpentWork: writer.number(Work::spent()); break;
    default: {
      Limits limits;
      limits.max_nodes = in.number32();
      limits.fuel = in.number32();
      if (const u64 steps = in.number()) limits.step_work = steps;
      return keep({std::make_unique<Builder>(limits, in.number() != 0), nullptr});
    }
  }
  out = std::move(writer.out());
  return 0;
}

}  // namespace

std::shared_ptr<Program> lowered_program(u32 handle) {
  const auto found = kept().find(handle);
  if (found == kept().end() || !found->second.program)
    throw Error("bad-handle", "no such program: " + std::to_string(handle));
  return found->second.program;
}

double lowering_call(u32 number, u32 handle, std::string_view arguments, std::string& out) {
  out.clear();
  ByteReader in(arguments);
  const Call call = static_cast<Call>(number);
  if (call == Call::Free) return static_cast<double>(kept().erase(handle));
  if (call <= Call::Builder) return of_neither(call, in, out);
  const auto found = kept().find(handle);
  if (found == kept().end()) throw Error("bad-handle", "no such builder or program: " + std::to_string(handle));
  const Kept& of = found->second;
  return of.program ? of_program(*of.program, call, in, out) : of_builder(*of.builder, call, in, out);
}

}  // namespace guiderail
