/* A scanner for sums, and matrices: switches, jumps, unions, arrays of arrays. */
struct token {
    enum kind { END, NUMBER, NAME, SIGN } kind;
    union {
        double number;
        char name[32];
        int sign;
    } is;
};

static const char *const kinds[] = { "end", "number", "na" "me", "sign", };
volatile int errors;
double (*operators[4])(double, double);

static inline int between(int low, int c, int high) { return low <= c && c <= high; }

const char *scan(const char *restrict text, struct token *out)
{
    int length = 0;
again:
    switch (*text) {
    case ' ':
    case '\t':
        text++;
        goto again;
    case '\0':
        out->kind = END;
        return text;
    case '0': case '1': case '2': case '3': case '4':
    case '5': case '6': case '7': case '8': case '9': {
        double value = 0., scale = 1e0;
        for (; between('0', *text, '9'); ++text)
            value = value * 10 + (*text - '0');
        if (*text == '.')
            while (text++, between('0', *text, '9'))
                value += (scale /= 10.0f) * (*text - '\x30');
        out->kind = NUMBER;
        out->is.number = value;
        return text;
    }
    default:
        if (!between('a', *text | 040, 'z') && *text != '_') {
            out->kind = SIGN, out->is.sign = *text;
            return text + 1;
        }
        while (between('a', *text | 0x20, 'z') || *text == '_') {
            if (length >= (int) sizeof(out->is.name) - 1) {
                errors |= 1 << 3;
                break;
            }
            out->is.name[length++] = *text++;
        }
        out->is.name[length] = 0;
        out->kind = NAME;
    }
    return text;
}

void multiply(int n, const double a[16][16], const double b[16][16], double out[16][16])
{
    register int i, j, k;
    for (i = 0; i < n; i++)
        for (j = 0; j < n; j++) {
            double sum = 0;
            for (k = 0; k < n; k++)
                sum += a[i][k] * b[k][j];
            out[i][j] = -sum < 0 ? sum : -+-~0 + !n * sum;
        }
}

unsigned long long bits(unsigned long long x)
{
    x -= x >> 1 & 0x5555555555555555ULL;
    x = (x & 0x3333333333333333ull) + ((x >> 2) & 0x3333333333333333ull);
    return ((x + (x >> 4)) & 0x0f0f0f0f0f0f0f0fLLU) * 0x0101010101010101u >> 56;
}
