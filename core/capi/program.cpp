// Programs, and builders that make them.
#include "capi/handles.hpp"

namespace guiderail::capi {
namespace {

constexpr u64 kWork = 20'000'000;  // as in Python

Program& checked(const gr_program* program, u32 state) {
  need(program, "program");
  if (state >= program->program->arena().node_count())
    throw Error("argument", "no such state in this program: " + std::to_string(state));
  return *program->program;
}

gr_program* new_program(std::shared_ptr<Arena> arena, Id root) {
  return new gr_program{std::make_shared<Program>(std::move(arena), root)};
}

void read_program(std::string_view file, const gr_limits* limits, gr_program** out) {
  need(out, "out");
  const Allowed allow = allowed(limits);
  const Work::Compilation limited(allow.work);
  auto [arena, root] = guiderail::read_program(file, allow.limits);
  *out = new_program(std::move(arena), root);
}

void flags_of(const ByteSet& set, bool flags[256]) {
  for (unsigned b = 0; b < 256; ++b) flags[b] = set.has(static_cast<u8>(b));
}

// An expression of a builder by its number, read-only.
Id looked_at(gr_builder* builder, u32 number) {
  need(builder, "builder");
  builder->builder.arena();
  return builder->replay.expression(number);
}

}  // namespace

extern "C" {

GR_API void gr_limits_init(gr_limits* limits) {
  if (!limits) return;
  const Limits of;
  *limits = {sizeof *limits, of.max_nodes, of.fuel, kWork, of.step_work};
}

GR_API gr_status gr_program_load(const char* path, const gr_limits* limits, gr_program** out) {
  return guarded([&] { read_program(read_file(path), limits, out); });
}

GR_API gr_status gr_program_read(const void* file, size_t size, const gr_limits* limits, gr_program** out) {
  return guarded([&] { read_program(text(file, size, "file"), limits, out); });
}

GR_API void gr_program_free(gr_program* program) { delete program; }

GR_API gr_status gr_program_start(const gr_program* program, uint32_t* state) {
  return guarded([&] {
    need(program, "program");
    need(state, "state");
    *state = index_of(program->program->root());
  });
}

GR_API gr_status gr_program_advance(const gr_program* program, uint32_t state, const void* bytes, size_t size,
                                    uint32_t* next) {
  return guarded([&] {
    need(next, "next");
    *next = index_of(checked(program, state).advance(Id{state}, text(bytes, size, "text")));
  });
}

GR_API gr_status gr_program_is_accepting(const gr_program* program, uint32_t state, bool* accepting) {
  return guarded([&] {
    need(accepting, "accepting");
    *accepting = checked(program, state).accepting(Id{state});
  });
}

GR_API gr_status gr_program_is_live(const gr_program* program, uint32_t state, bool* live) {
  return guarded([&] {
    need(live, "live");
    *live = checked(program, state).live(Id{state});
  });
}

GR_API gr_status gr_program_matches(const gr_program* program, const void* bytes, size_t size, bool* matches) {
  return guarded([&] {
    need(program, "program");
    need(matches, "matches");
    Program& of = *program->program;
    *matches = of.accepting(of.advance(of.root(), text(bytes, size, "text")));
  });
}

GR_API gr_status gr_program_next_bytes(const gr_program* program, uint32_t state, bool flags[256]) {
  return guarded([&] {
    need(flags, "flags");
    flags_of(checked(program, state).next_bytes(Id{state}), flags);
  });
}

GR_API gr_status gr_program_forced_bytes(const gr_program* program, uint32_t state, size_t limit, uint8_t* out,
                                         size_t room, size_t* count) {
  return guarded([&] {
    need_room(out, room, count);
    write(checked(program, state).forced(Id{state}, limit), out, room, count);
  });
}

GR_API gr_status gr_program_shortest(const gr_program* program, uint32_t state, size_t limit, uint8_t* out, size_t room,
                                     size_t* count, bool* found) {
  return guarded([&] {
    need_room(out, room, count);
    need(found, "found");
    std::string text;
    const bool there = checked(program, state).shortest(Id{state}, limit, text);
    write(there ? text : std::string(), out, room, count);
    *found = there;
  });
}

GR_API gr_status gr_program_dump(const gr_program* program, uint32_t state, uint8_t* out, size_t room, size_t* count) {
  return guarded([&] {
    need_room(out, room, count);
    write(checked(program, state).dump(Id{state}), out, room, count);
  });
}

GR_API gr_status gr_builder_new(const gr_limits* limits, gr_builder** out) {
  return guarded([&] {
    need(out, "out");
    const Allowed allow = allowed(limits);
    *out = new gr_builder(allow.limits, allow.work);
  });
}

GR_API void gr_builder_free(gr_builder* builder) { delete builder; }

GR_API gr_status gr_builder_add(gr_builder* builder, const void* instruction, size_t size, uint32_t* number) {
  return guarded([&] {
    need(builder, "builder");
    const Work::Compilation limited(builder->work);
    ByteReader from(text(instruction, size, "instruction"));
    const u32 made = builder->replay.step(from, true);
    if (number) *number = made;
  });
}

GR_API gr_status gr_builder_replay(gr_builder* builder, const void* file, size_t size, uint32_t* root) {
  return guarded([&] {
    need(builder, "builder");
    need(root, "root");
    const Work::Compilation limited(builder->work);
    const std::string_view contents = contents_of(text(file, size, "file"), Saved::Program);
    *root = builder->replay.number_of(Replay(builder->builder).all(contents));
  });
}

GR_API gr_status gr_builder_is_nullable(gr_builder* builder, uint32_t expression, bool* nullable) {
  return guarded([&] {
    need(nullable, "nullable");
    const Id e = looked_at(builder, expression);
    *nullable = builder->builder.arena().nullable(e);
  });
}

GR_API gr_status gr_builder_is_empty(gr_builder* builder, uint32_t expression, bool* empty) {
  return guarded([&] {
    need(empty, "empty");
    const Id e = builder->builder.check_regular(looked_at(builder, expression), "is_empty");
    const Work::Compilation limited(builder->work);
    *empty = !builder->builder.arena().live(e);
  });
}

GR_API gr_status gr_builder_first_bytes(gr_builder* builder, uint32_t expression, bool flags[256]) {
  return guarded([&] {
    need(flags, "flags");
    const Id e = builder->builder.check_regular(looked_at(builder, expression), "first_bytes");
    flags_of(builder->builder.arena().first(e), flags);
  });
}

GR_API gr_status gr_builder_dump(gr_builder* builder, uint32_t expression, uint8_t* out, size_t room, size_t* count) {
  return guarded([&] {
    need_room(out, room, count);
    const Id e = looked_at(builder, expression);
    write(builder->builder.arena().dump(e), out, room, count);
  });
}

GR_API gr_status gr_builder_finish(gr_builder* builder, uint32_t root, gr_program** out) {
  return guarded([&] {
    need(out, "out");
    const Id e = looked_at(builder, root);
    const Work::Compilation limited(builder->work);
    *out = new_program(builder->builder.finish(e), e);
  });
}

GR_API gr_status gr_builder_save(gr_builder* builder, uint32_t root, uint8_t* out, size_t room, size_t* count) {
  return guarded([&] {
    need_room(out, room, count);
    const Id e = looked_at(builder, root);
    write(contained(Saved::Program, builder->builder.recorded(e)), out, room, count);
  });
}

}  // extern "C"

}  // namespace guiderail::capi
