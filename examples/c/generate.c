/* A text that fits a constraint, token by token, from C.
 *
 *     guiderail export --schema ticket.json -o ticket.rail --save-vocabulary model.rail
 *     cc generate.c $(pkg-config --cflags --libs guiderail) -o generate && ./generate ticket.rail model.rail
 *
 * The "model" here draws logits at random; a real one puts its own into the same array.
 */
#include <guiderail.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST_TOKENS = 200 };

static void must(gr_status status, const char *what) {
  if (status == GR_OK) return;
  fprintf(stderr, "%s: %s [%s]\n", what, gr_error_message(), gr_error_code());
  exit(1);
}

static void random_logits(float *logits, size_t size, unsigned *seed) {
  for (size_t i = 0; i < size; ++i) {
    *seed = *seed * 1664525u + 1013904223u;
    logits[i] = (float)(*seed >> 8) / (1 << 24);
  }
}

static uint32_t best(const float *logits, size_t size) {
  size_t at = 0;
  for (size_t i = 1; i < size; ++i)
    if (logits[i] > logits[at]) at = i;
  return (uint32_t)at;
}

int main(int argc, char **argv) {
  if (argc != 3) {
    fprintf(stderr, "usage: %s program.rail vocabulary.rail\n", argv[0]);
    return 2;
  }
  gr_program *program;
  gr_vocabulary *vocabulary;
  gr_guide *guide;
  gr_matcher *matcher;
  must(gr_program_load(argv[1], NULL, &program), "program");
  must(gr_vocabulary_load(argv[2], &vocabulary), "vocabulary");
  must(gr_guide_new(program, vocabulary, NULL, &guide), "guide");
  must(gr_matcher_new(guide, &matcher), "matcher");

  const uint32_t size = gr_vocabulary_size(vocabulary);
  const size_t words = gr_vocabulary_bitmask_words(vocabulary);
  float *logits = malloc(size * sizeof *logits);
  uint32_t *bitmask = malloc(words * sizeof *bitmask);
  if (!logits || !bitmask) return 1;

  unsigned seed = 1;
  bool ended = false;
  for (uint64_t left = MOST_TOKENS; !ended && left > 0; --left) {
    random_logits(logits, size, &seed);
    /* Only tokens after which the text can still be completed with the tokens that are left. */
    must(gr_matcher_fill_bitmask_within(matcher, left, bitmask, words, NULL), "mask");
    must(gr_apply_bitmask(logits, GR_FLOAT32, 1, size, bitmask, words, size), "apply");
    const uint32_t token = best(logits, size);
    bool accepted;
    must(gr_matcher_accept_token(matcher, token, &accepted), "token");
    if (!accepted) return 1; /* never: the mask allowed it */
    must(gr_matcher_is_terminated(matcher, &ended), "end");
    if (ended) break;
    const uint8_t *bytes;
    size_t length;
    must(gr_vocabulary_token_bytes(vocabulary, token, &bytes, &length), "bytes");
    fwrite(bytes, 1, length, stdout);
  }
  putchar('\n');

  free(bitmask);
  free(logits);
  gr_matcher_free(matcher);
  gr_guide_free(guide);
  gr_vocabulary_free(vocabulary);
  gr_program_free(program);
  return 0;
}
