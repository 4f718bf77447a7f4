/* Words and how often they come, in a table of chains. */
extern void *malloc(unsigned long size);
extern void free(void *memory);
extern int printf(const char *format, ...);
int strcmp(const char *left, const char *right);

enum { BUCKETS = 1 << 10, SEED = 0x811c9dc5u };

struct entry {
    const char *word;
    unsigned long count;
    struct entry *next;
};

static struct entry *table[BUCKETS];

static unsigned hash(const char *word)
{
    unsigned value = SEED;
    while (*word)
        value = (value ^ (unsigned char) *word++) * 16777619u;
    return value % BUCKETS;
}

struct entry *find(const char *word, int add)
{
    struct entry **place = &table[hash(word)], *found;
    for (found = *place; found; found = found->next)
        if (strcmp(found->word, word) == 0)
            return found;
    if (!add)
        return 0;
    found = malloc(sizeof *found);
    found->word = word, found->count = 0ul;
    found->next = *place;
    *place = found;
    return found;
}

// The longest chain says whether the hash is a good one.
int longest(void)
{
    int most = 0;
    for (int i = 0; i < BUCKETS; ++i) {
        int length = 0;
        struct entry *at = table[i];
        do {
            if (!at)
                break;
            length++;
        } while ((at = at->next) != 0);
        most = length > most ? length : most;
    }
    return most;
}

int main(int count, char **words)
{
    for (int i = 1; i < count; i++)
        find(words[i], 1)->count += 1;
    for (int i = 0; i < BUCKETS; i++) {
        struct entry *next;
        for (struct entry *at = table[i]; at; at = next) {
            printf("%s\t%lu\n", at->word, at->count);
            next = at->next;
            free(at);
        }
    }
    return longest() > 8;
}
