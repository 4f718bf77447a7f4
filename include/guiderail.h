/* guiderail: text that is right by construction, from C.
 *
 * A program is a compiled constraint, written to a file by Python (`constraint.save(path)`, `guiderail export`). With a
 * vocabulary it makes a guide; a matcher follows one text under a guide and says, token by token, what may come next.
 *
 *     gr_vocabulary *vocabulary; gr_program *program; gr_guide *guide; gr_matcher *matcher;
 *     if (gr_vocabulary_load("llama.vocabulary", &vocabulary) ||
 *         gr_program_load("invoice.rail", NULL, &program) ||
 *         gr_guide_new(program, vocabulary, NULL, &guide) ||
 *         gr_matcher_new(guide, &matcher))
 *       fprintf(stderr, "%s\n", gr_error_message());
 *
 * Functions that can fail return a gr_status: GR_OK (0), or what went wrong. After a failure, gr_error_message() says
 * what happened and what to do, until the next call of this thread that fails. A failed call changes neither its
 * out-parameters nor any object. Nothing here throws, prints or ends the process.
 *
 * Programs, vocabularies and guides may be used by any number of threads at once. A matcher follows one text: threads
 * take turns, and a call that meets another is rejected (GR_ERROR_MATCHER). Objects may be freed in any order: a guide
 * keeps its program and its vocabulary, a matcher its guide. Every gr_..._free takes NULL.
 *
 * Texts are bytes with a length, UTF-8 unless a constraint says otherwise. A list may be NULL if its count is 0.
 */
#ifndef GUIDERAIL_H
#define GUIDERAIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(GUIDERAIL_STATIC)
#define GR_API
#elif defined(_WIN32)
#if defined(GUIDERAIL_BUILDS)
#define GR_API __declspec(dllexport)
#else
#define GR_API __declspec(dllimport)
#endif
#else
#define GR_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define GR_VERSION_MAJOR 1 /* of this interface; a new major version may break programs */
#define GR_VERSION_MINOR 0 /* a new minor version only adds */

typedef enum gr_status {
  GR_OK = 0,
  GR_ERROR_ARGUMENT = 1,   /* a null pointer, or a value that the function does not take */
  GR_ERROR_COMPILE = 2,    /* the constraint is invalid, or does not fit this vocabulary */
  GR_ERROR_LIMIT = 3,      /* a limit on expressions, work or nesting was reached */
  GR_ERROR_MATCHER = 4,    /* the state of a matcher does not permit the call */
  GR_ERROR_BITMASK = 5,    /* a bitmask or logits are too small */
  GR_ERROR_VOCABULARY = 6, /* the tokens do not make a vocabulary */
  GR_ERROR_FILE = 7,       /* a file cannot be read, or is not what it should be */
  GR_ERROR_MEMORY = 8,     /* memory ran out */
  GR_ERROR_INTERNAL = 9    /* a fault of guiderail: please report it */
} gr_status;

typedef struct gr_vocabulary gr_vocabulary;
typedef struct gr_program gr_program;
typedef struct gr_guide gr_guide;
typedef struct gr_matcher gr_matcher;
typedef struct gr_builder gr_builder;

/* -- errors, versions ------------------------------------------------------------------------------------------ */

/* What went wrong in the last failed call of this thread; "" if none has failed. Valid until the next one fails. */
GR_API const char *gr_error_message(void);
/* The same as a stable code ("unsatisfiable", "step-work" ...), those of docs/errors.md. */
GR_API const char *gr_error_code(void);
/* GR_VERSION_MAJOR * 1000 + GR_VERSION_MINOR of the library, which may be newer than this header. */
GR_API uint32_t gr_version(void);
/* The version of the release, for people: "0.9.1". */
GR_API const char *gr_version_text(void);

/* -- vocabularies ---------------------------------------------------------------------------------------------- */

/* The parts of a vocabulary. Begin with gr_vocabulary_parts_init, so that parts of later versions are unset. */
typedef struct gr_vocabulary_parts {
  size_t struct_size;
  const uint8_t *bytes;         /* the bytes that each token adds to a text, concatenated */
  const uint32_t *lengths;      /* by token; 0 if no token has this id */
  size_t token_count;
  const uint32_t *special;      /* tokens that are not text: only a constraint that names one allows it */
  const char *const *special_texts; /* their names in UTF-8, or NULL: their bytes are their names */
  size_t special_count;
  const uint32_t *stop;         /* tokens that end a text; they are special, too */
  size_t stop_count;
  uint32_t size;                /* the width of the model's logits; 0: one more than the last token */
} gr_vocabulary_parts;

GR_API void gr_vocabulary_parts_init(gr_vocabulary_parts *parts);
GR_API gr_status gr_vocabulary_new(const gr_vocabulary_parts *parts, gr_vocabulary **out);
/* Reads a file written by Vocabulary.save in Python. */
GR_API gr_status gr_vocabulary_load(const char *path, gr_vocabulary **out);
GR_API gr_status gr_vocabulary_read(const void *file, size_t size, gr_vocabulary **out);
GR_API void gr_vocabulary_free(gr_vocabulary *vocabulary);

GR_API uint32_t gr_vocabulary_size(const gr_vocabulary *vocabulary);         /* the width of logits; 0 for NULL */
GR_API size_t gr_vocabulary_bitmask_words(const gr_vocabulary *vocabulary);  /* 32 tokens each */
/* The bytes of a token; they live as long as the vocabulary. */
GR_API gr_status gr_vocabulary_token_bytes(const gr_vocabulary *vocabulary, uint32_t token, const uint8_t **bytes,
                                           size_t *size);
/* The id of a special token by its name. */
GR_API gr_status gr_vocabulary_special_token(const gr_vocabulary *vocabulary, const char *text, uint32_t *token);
/* The tokens that end a text, ascending; they live as long as the vocabulary. */
GR_API gr_status gr_vocabulary_stop_tokens(const gr_vocabulary *vocabulary, const uint32_t **tokens, size_t *count);

/* -- programs -------------------------------------------------------------------------------------------------- */

/* Limits for reading a constraint and generating under it. NULL as an argument means all defaults. */
typedef struct gr_limits {
  size_t struct_size;
  uint32_t max_nodes;     /* expressions at once, about 100 bytes each */
  uint32_t fuel;          /* states that one test for emptiness may visit */
  uint64_t max_work;      /* steps for reading the constraint, some 0.1 us each */
  uint64_t max_step_work; /* steps for one mask or for reading one token */
} gr_limits;

GR_API void gr_limits_init(gr_limits *limits);
GR_API gr_status gr_program_load(const char *path, const gr_limits *limits, gr_program **out);
GR_API gr_status gr_program_read(const void *file, size_t size, const gr_limits *limits, gr_program **out);
GR_API void gr_program_free(gr_program *program);

/* A program reads texts without a vocabulary. A state is a number: 0 is the dead one, from which nothing matches. */
GR_API gr_status gr_program_start(const gr_program *program, uint32_t *state);
GR_API gr_status gr_program_advance(const gr_program *program, uint32_t state, const void *text, size_t size,
                                    uint32_t *next);
GR_API gr_status gr_program_is_accepting(const gr_program *program, uint32_t state, bool *accepting);
/* Whether some text completes the state. */
GR_API gr_status gr_program_is_live(const gr_program *program, uint32_t state, bool *live);
/* Whether the whole text matches the constraint. */
GR_API gr_status gr_program_matches(const gr_program *program, const void *text, size_t size, bool *matches);
/* The bytes after which a match is still possible, as 256 flags. */
GR_API gr_status gr_program_next_bytes(const gr_program *program, uint32_t state, bool flags[256]);

/* The functions below that return a text write at most `room` bytes (or tokens), and set *count to its full length. If
   that is greater, call again with more room. */

/* The text that must follow, at most `limit` bytes of it. */
GR_API gr_status gr_program_forced_bytes(const gr_program *program, uint32_t state, size_t limit, uint8_t *out,
                                         size_t room, size_t *count);
/* A text that completes the state, a shortest one if it is close. *found: whether one of at most `limit` exists. */
GR_API gr_status gr_program_shortest(const gr_program *program, uint32_t state, size_t limit, uint8_t *out, size_t room,
                                     size_t *count, bool *found);
/* The expression of a state, for people. */
GR_API gr_status gr_program_dump(const gr_program *program, uint32_t state, uint8_t *out, size_t room, size_t *count);

/* -- guides ---------------------------------------------------------------------------------------------------- */

typedef struct gr_guide_options {
  size_t struct_size;
  size_t max_memory; /* bytes that earlier texts may leave behind; 0: no limit */
  uint32_t prepare;  /* masks made in advance, if texts are JSON */
} gr_guide_options;

GR_API void gr_guide_options_init(gr_guide_options *options);
GR_API gr_status gr_guide_new(const gr_program *program, const gr_vocabulary *vocabulary,
                              const gr_guide_options *options, gr_guide **out);
GR_API void gr_guide_free(gr_guide *guide);
GR_API size_t gr_guide_memory(const gr_guide *guide); /* bytes */

/* -- matchers -------------------------------------------------------------------------------------------------- */

/* At the start of a text; the vocabulary's stop tokens end it. */
GR_API gr_status gr_matcher_new(const gr_guide *guide, gr_matcher **out);
GR_API gr_status gr_matcher_new_with_stops(const gr_guide *guide, const uint32_t *stop, size_t stop_count,
                                           gr_matcher **out);
/* An independent copy in the same state. Costs nothing. */
GR_API gr_status gr_matcher_fork(const gr_matcher *matcher, gr_matcher **out);
GR_API void gr_matcher_free(gr_matcher *matcher);

/* Bit t % 32 of word t / 32 of the bitmask is 1 if token t may come next. `words` is the room: words beyond those of
   the vocabulary are set to 0. *restricts (may be NULL): whether any token is not allowed. */
GR_API gr_status gr_matcher_fill_bitmask(const gr_matcher *matcher, uint32_t *bitmask, size_t words, bool *restricts);
/* The same, without tokens after which more than `budget - 1` others would be needed to complete the text. */
GR_API gr_status gr_matcher_fill_bitmask_within(const gr_matcher *matcher, uint64_t budget, uint32_t *bitmask,
                                                size_t words, bool *restricts);
/* Reads a token. *accepted: whether it is allowed; if not, nothing has changed. A stop token ends the text. */
GR_API gr_status gr_matcher_accept_token(gr_matcher *matcher, uint32_t token, bool *accepted);
/* Reads bytes as if they were one token. */
GR_API gr_status gr_matcher_accept_bytes(gr_matcher *matcher, const void *bytes, size_t size, bool *accepted);
/* How many of these tokens would be accepted, one after the other. */
GR_API gr_status gr_matcher_validate(const gr_matcher *matcher, const uint32_t *tokens, size_t count, size_t *accepted);
/* Undoes the last steps: tokens, and calls of gr_matcher_accept_bytes. */
GR_API gr_status gr_matcher_rollback(gr_matcher *matcher, size_t steps);
/* Returns to the start of a text. */
GR_API gr_status gr_matcher_reset(gr_matcher *matcher);
/* The bytes that must come next, at most `limit`. */
GR_API gr_status gr_matcher_forced_bytes(const gr_matcher *matcher, size_t limit, uint8_t *out, size_t room,
                                         size_t *count);
/* The tokens that must come next, as long as only one is allowed; at most `room`, a stop token included. */
GR_API gr_status gr_matcher_forced_tokens(const gr_matcher *matcher, uint32_t *out, size_t room, size_t *count);
/* Whether the text may end here; whether only a stop token can follow; whether one was accepted. */
GR_API gr_status gr_matcher_is_accepting(const gr_matcher *matcher, bool *accepting);
GR_API gr_status gr_matcher_is_complete(const gr_matcher *matcher, bool *complete);
GR_API gr_status gr_matcher_is_terminated(const gr_matcher *matcher, bool *terminated);
/* Steps that can be undone. */
GR_API gr_status gr_matcher_step_count(const gr_matcher *matcher, size_t *steps);
/* The fewest tokens known to complete the text; UINT32_MAX: no completion was found. */
GR_API gr_status gr_matcher_least_tokens(const gr_matcher *matcher, uint32_t *tokens);
/* The state, within the program that gr_matcher_dump refers to; equal states of forks allow the same. */
GR_API gr_status gr_matcher_state(const gr_matcher *matcher, uint32_t *state);
/* The rest of the constraint, for people. */
GR_API gr_status gr_matcher_dump(const gr_matcher *matcher, uint8_t *out, size_t room, size_t *count);

/* Fills rows of a bitmask for many matchers, on native threads (0: one per core). Row i begins at bitmask + i * words.
   Matcher i fills row rows[i], or row i if `rows` is NULL; row_count is the number of rows. */
GR_API gr_status gr_matchers_fill_bitmask(const gr_matcher *const *matchers, size_t count, uint32_t *bitmask,
                                          size_t words, size_t row_count, const size_t *rows, unsigned threads);

/* -- logits ---------------------------------------------------------------------------------------------------- */

enum { GR_FLOAT16 = 0, GR_BFLOAT16 = 1, GR_FLOAT32 = 2, GR_FLOAT64 = 3 };
typedef uint32_t gr_dtype; /* one of these; another is an error */

/* Sets to -infinity the logits whose bit is 0, and those from `size` (that of the vocabulary) on. Rows of logits are
   `columns` numbers apart, those of the bitmask `words`. */
GR_API gr_status gr_apply_bitmask(void *logits, gr_dtype dtype, size_t rows, size_t columns, const uint32_t *bitmask,
                                  size_t words, uint32_t size);

/* -- builders: for authors of front ends ------------------------------------------------------------------------ */

/* Makes a program operation by operation. An instruction is written as in a program file (docs/program_format.md);
   expressions are numbered in the order in which they were made: 0 matches nothing, 1 the empty text, 2 is the first. */
GR_API gr_status gr_builder_new(const gr_limits *limits, gr_builder **out);
GR_API void gr_builder_free(gr_builder *builder);
/* *number (may be NULL): that of the new expression or lexer; 0 if the operation makes none. */
GR_API gr_status gr_builder_add(gr_builder *builder, const void *instruction, size_t size, uint32_t *number);
/* Runs all operations of a program file; returns its root. */
GR_API gr_status gr_builder_replay(gr_builder *builder, const void *file, size_t size, uint32_t *root);
GR_API gr_status gr_builder_is_nullable(gr_builder *builder, uint32_t expression, bool *nullable);
GR_API gr_status gr_builder_is_empty(gr_builder *builder, uint32_t expression, bool *empty);
GR_API gr_status gr_builder_first_bytes(gr_builder *builder, uint32_t expression, bool flags[256]);
GR_API gr_status gr_builder_dump(gr_builder *builder, uint32_t expression, uint8_t *out, size_t room, size_t *count);
/* Makes the program; afterwards, the builder can only be freed. */
GR_API gr_status gr_builder_finish(gr_builder *builder, uint32_t root, gr_program **out);
/* The program file of an expression. */
GR_API gr_status gr_builder_save(gr_builder *builder, uint32_t root, uint8_t *out, size_t room, size_t *count);

#ifdef __cplusplus
}
#endif

#endif
