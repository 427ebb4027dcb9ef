// Kernels that compute elements of large arrays on the device, so that none of them crosses the bus. This text follows
// the head of `bench_kernels.cu`. It draws bitwise the same numbers as `drawing.py`.
//
// With STORED, it has the kernels that draw elements:
//   STORED            the type of an element's bits
//   FINE              if elements are doubles: normal numbers then have more bits
//   NARROW            if doubles are rounded to a type that C lacks
//   STANDARD(word)    the bits of the standard element for a random word
//   FROM_LONG(x)      the bits of an integer in the element's type
//   UNIFORM(x)        the bits of a uniform double in the element's type
//   NORMAL(x)         those of a normal one
//   TABLE             for elements from a table
// One of the last five says which kernel is needed.
// With EXPRESSION, it evaluates that for each element i of the arrays and scalars declared by ARRAYS and SCALARS. With
// SUM, MAX or MIN, too, it combines the terms k of each element o; with RUNNING, it computes running sums. With PRODUCT, it multiplies matrices; with REDUCED, it finds the largest magnitude; with SUMMED, it computes a checksum.
#ifdef STORED

// Random word number `index` of SplitMix64; see `drawing.py`.
FUNCTION unsigned long word_of(unsigned long key, unsigned long index) {
    unsigned long word = key + (index + 1) * 0x9e3779b97f4a7c15ul;
    word = (word ^ word >> 30) * 0xbf58476d1ce4e5b9ul;
    word = (word ^ word >> 27) * 0x94d049bb133111ebul;
    return word ^ word >> 31;
}

#define EACH for (long i = FIRST; i < count; i += STRIDE)

#ifdef TABLE

KERNEL void draw_table(GLOBAL STORED *array, long count, unsigned long key, GLOBAL const STORED *table,
                       unsigned long entries) {
    EACH {
        array[i] = table[word_of(key, i) % entries];
    }
}

#endif
#ifdef STANDARD

// A number with a random sign and a magnitude in [0.5, 1.5) with `digits` bits after the leading one. Magnitudes from 1
// on have their last bit cleared, so that they need no more bits than smaller ones.
FUNCTION float standard_real(unsigned long word, int digits) {
    unsigned int units = (unsigned int)(word & ((2ul << digits) - 1)) + (1u << digits);
    units -= units >> (digits + 1) & units & 1u;
    const float magnitude = (float)units / (float)(2u << digits);
    return word >> 63 ? -magnitude : magnitude;
}

// The bits of such a number in double precision, with 53 random bits; see `drawing.py`.
FUNCTION unsigned long standard_double(unsigned long word) {
    const unsigned long units = (word & ((2ul << 52) - 1)) + (1ul << 52), is_large = units >> 53;
    return word >> 63 << 63 | (1022ul + is_large) << 52 | ((units >> is_large) - (1ul << 52));
}

FUNCTION long standard_whole(unsigned long word, int is_signed) {
    const long magnitude = (long)(word & 7) + 1;
    return is_signed && word >> 63 ? -magnitude : magnitude;
}

// The bits of a standard number in a type. None of these types rounds it, and it is subnormal in none.
#define float32_bits(value) BITS_OF(value)
#define bfloat16_bits(value) (BITS_OF(value) >> 16)
#define float8_e5m2_bits(value) (float16_bits(value) >> 8)
FUNCTION unsigned int float16_bits(float value) {
    const unsigned int bits = BITS_OF(value);
    return (bits >> 16 & 0x8000u) | ((bits >> 13 & 0x3ffffu) - (112u << 10));
}
FUNCTION unsigned int float8_e4m3fn_bits(float value) {
    const unsigned int bits = BITS_OF(value);
    return (bits >> 24 & 0x80u) | ((bits >> 20 & 0x7ffu) - (120u << 3));
}

KERNEL void draw_standard(GLOBAL STORED *array, long count, unsigned long key) {
    EACH {
        array[i] = (STORED)STANDARD(word_of(key, i));
    }
}

#endif
#ifdef FROM_LONG

KERNEL void draw_sequence(GLOBAL STORED *array, long count) {
    EACH {
        array[i] = (STORED)FROM_LONG(i);
    }
}

// If `entries` is 0, there are 2**64 of them.
KERNEL void draw_integers(GLOBAL STORED *array, long count, unsigned long key, unsigned long first,
                          unsigned long entries) {
    EACH {
        const unsigned long word = word_of(key, i);
        array[i] = (STORED)FROM_LONG((long)(first + (entries ? word % entries : word)));
    }
}

#endif
#ifdef NARROW

// The bits of a double rounded to a type of `width` bits, ties to even: with `digits` fraction bits, and `least` the
// exponent of its smallest normal number, below which it has fewer. The number must not exceed the type's largest one.
FUNCTION unsigned int narrow_bits(double value, int digits, int least, int width) {
    const unsigned long bits = (unsigned long)LONG_OF(value), fraction = bits & ((1ul << 52) - 1);
    const int exponent = (int)(bits >> 52 & 2047) - 1023, above = exponent > least ? exponent - least : 0;
    const int dropped = 52 - digits + (exponent < least ? least - exponent : 0);
    unsigned long units = 0;
    if (dropped <= 53) { // otherwise less than half of the smallest number
        const unsigned long all = fraction | 1ul << 52, to_nearest = (1ul << (dropped - 1)) - 1;
        units = (all + to_nearest + (all >> dropped & 1)) >> dropped;
    }
    return (unsigned int)(bits >> 63) << (width - 1) | ((unsigned int)above << digits) + (unsigned int)units;
}

#endif
#ifdef UNIFORM

KERNEL void draw_uniform(GLOBAL STORED *array, long count, unsigned long key, double least, double distance) {
    EACH {
        const double unit = (double)(word_of(key, i) >> 11) * (1.0 / 9007199254740992.0);
        array[i] = (STORED)UNIFORM(PLUS(least, TIMES(distance, unit)));
    }
}

#endif
#ifdef NORMAL

// An approximately normal number: the sum of twelve 21-bit numbers, three from each of four words.
KERNEL void draw_normal(GLOBAL STORED *array, long count, unsigned long key, double mean, double deviation) {
    EACH {
        long total = 0;
        unsigned long mixture = 0;
        for (int number = 0; number < 4; number++) {
            const unsigned long word = word_of(key, 4 * (unsigned long)i + number);
            mixture = (mixture ^ word) * 0x94d049bb133111ebul;
            total += (long)((word & 0x1fffff) + (word >> 21 & 0x1fffff) + (word >> 42 & 0x1fffff));
        }
#ifdef FINE
        const long fine = (2 * total - 12 * 0x1fffffl) * (1l << 26) + (long)(mixture >> 38);
        const double normal = (double)fine * (1.0 / 4194304.0 / 67108864.0);
#else
        const double normal = (double)(2 * total - 12 * 0x1fffffl) * (1.0 / 4194304.0);
#endif
        array[i] = (STORED)NORMAL(PLUS(mean, TIMES(deviation, normal)));
    }
}

#endif
#endif
#ifdef EXPRESSION

// A finite number rounded to `digits` fraction bits, ties to even; see `rounded.py`.
FUNCTION double rounded_to(double value, int digits) {
    const int dropped = 52 - digits;
    const unsigned long bits = (unsigned long)LONG_OF(value);
    const unsigned long to_nearest = (1ul << (dropped - 1)) - 1 + (bits >> dropped & 1ul);
    return fabs(value) <= 1.7976931348623157e308 ? DOUBLE_OF((bits + to_nearest) >> dropped << dropped) : value;
}

// NaN if either is.
FUNCTION double larger(double a, double b) { return a > b || a != a ? a : b; }
FUNCTION double square(double a) { return TIMES(a, a); }

#if defined(SUM) || defined(MAX) || defined(MIN)

// Element o of the result combines `extent` terms. Each thread combines `length` of them, and stores the result: a
// thread of a GPU begins beside its neighbour and steps over the others, so that a warp reads what lies together.
KERNEL void fold(GLOBAL double *found, long count, long chunks, long length, long step, long extent ARRAYS SCALARS) {
    for (long t = FIRST; t < count; t += STRIDE) {
        const long o = t / chunks, first = t % chunks * (step == 1 ? length : 1);
        const long end = first + length * step, last = end < extent ? end : extent;
        double total = 0.0, lost = 0.0; // Kahan's sum
        for (long k = first; k < last; k += step) {
            const double term = EXPRESSION;
#ifdef SUM
            const double next = term - lost, sum = total + next, excess = (sum - total) - next;
            lost = fabs(excess) <= 1.7976931348623157e308 ? excess : 0.0;
            total = sum;
#elif defined(MAX)
            total = k == first ? term : larger(total, term);
#else
            total = k == first ? term : -larger(-total, -term);
#endif
        }
        found[t] = total;
    }
}

#elif defined(RUNNING)

// The running sums of elements. Each thread adds up a chunk, from what precedes it.
KERNEL void cumulate(GLOBAL double *sums, long count, GLOBAL const double *before, long length ARRAYS SCALARS) {
    for (long t = FIRST; t * length < count; t += STRIDE) {
        double total = before[t], lost = 0.0;
        for (long i = t * length; i < (t + 1) * length && i < count; i++) {
            const double next = EXPRESSION - lost, sum = total + next, excess = (sum - total) - next;
            lost = fabs(excess) <= 1.7976931348623157e308 ? excess : 0.0;
            sums[i] = total = sum;
        }
    }
}

#else

#ifdef WHOLE // the type of the bits of integers
#define RESULT WHOLE
#define RESULT_OF(x) (WHOLE)(long)(x)
#else
#define RESULT double
#define RESULT_OF(x) (x)
#endif

KERNEL void evaluate(GLOBAL RESULT *answer, long count ARRAYS SCALARS) {
    for (long i = FIRST; i < count; i += STRIDE) {
        answer[i] = RESULT_OF(EXPRESSION);
    }
}

#endif
#endif
#ifdef PRODUCT

// The products of batches of row-major matrices, in doubles. Adjacent threads compute adjacent columns.
KERNEL void multiply(GLOBAL double *product, long count, GLOBAL const double *a, GLOBAL const double *b, long rows, long columns,
                     long inner) {
    for (long i = FIRST; i < count; i += STRIDE) {
        GLOBAL const double *row = a + i / columns * inner;
        GLOBAL const double *column = b + i / (rows * columns) * inner * columns + i % columns;
        double sum = 0.0;
        for (long k = 0; k < inner; k++) {
            sum += row[k] * column[k * columns];
        }
        product[i] = sum;
    }
}

#endif
#ifdef REDUCED

// Each thread stores the largest finite magnitude among the elements that it reads.
KERNEL void largest(GLOBAL const double *array, long count, GLOBAL double *found) {
    double most = 0.0;
    for (long i = FIRST; i < count; i += STRIDE) {
        const double size = fabs(array[i]);
        most = size <= 1.7976931348623157e308 && size > most ? size : most;
    }
    found[FIRST] = most;
}

#endif
#ifdef SUMMED

FUNCTION unsigned long mixed(unsigned long word) {
    word = (word ^ word >> 30) * 0xbf58476d1ce4e5b9ul;
    word = (word ^ word >> 27) * 0x94d049bb133111ebul;
    return word ^ word >> 31;
}

// Two sums of hashes of all words and their positions, so that different contents almost surely differ in them.
KERNEL void checksum(GLOBAL const uint4 *array, long bytes, GLOBAL unsigned int *sums) {
    unsigned int first = 0, second = 0;
    for (long i = FIRST; i < bytes / 16; i += STRIDE) {
        const uint4 word = array[i];
        const unsigned long low = (unsigned long)word.y << 32 | word.x, high = (unsigned long)word.w << 32 | word.z;
        const unsigned long both = mixed(mixed(low + (unsigned long)i * 0x9e3779b97f4a7c15ul) ^ high);
        first += (unsigned int)both;
        second += (unsigned int)(both >> 32);
    }
    for (long i = bytes / 16 * 16 + FIRST; i < bytes; i += STRIDE) {
        const unsigned long both = mixed(((GLOBAL const unsigned char *)array)[i] + (unsigned long)i * 256);
        first += (unsigned int)both;
        second += (unsigned int)(both >> 32);
    }
    if (first | second) {
        ADD(sums, first);
        ADD(sums + 1, second);
    }
}

#endif
