// Kernels that restore inputs, poison outputs and compare results on the device, so that no array is copied to the
// host. One text for CUDA, OpenCL C and C.
//
// Without STORED, the text has the kernels for arrays of any type. With STORED, it has the comparison of outputs:
//   STORED      the type of an element's bits
//   REAL(bits)  the element's value, for types that are not exact
//   PARTS       the numbers in an element: two for a complex one, each with its own bits
//   WHOLE       the integer type, if integers are compared within a tolerance
//   WIDE        the 64-bit type that holds WHOLE
// With ELEMENTS, the text is only the head of `elements.cu`.
//
// `counters` holds eight numbers for each array, from index `slot` on:
//   0  wrong elements
//   1  the largest error of a right element, in units of its bound if bounds differ. It is stored as a float's bits,
//      because non-negative floats and their bits have the same order.
//   2  changed bytes in the guard before the array
//   3  changed bytes in the guard after it
//   4  changed words of an input, or non-zero words of scratch that should be zero
//   5  unwritten elements
//   6  the low half of the sum of all digests that were taken of it, modulo 2**32
//   7  the high half of that sum, also modulo 2**32
#if defined(__OPENCL_VERSION__)

#ifdef cl_khr_fp64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif
#pragma OPENCL FP_CONTRACT OFF
#define KERNEL __kernel
#define GLOBAL __global
#define FUNCTION
#define FIRST (long)get_global_id(0)
#define STRIDE (long)get_global_size(0)
#define LANE get_local_id(0)
#define SHARED __local
#define MEET barrier(CLK_LOCAL_MEM_FENCE)
#define ON_ALL_CORES
#define ROLLED
#define ADD(p, x) atomic_add(p, x)
#define RAISE(p, x) atomic_max(p, x)
#define BITS_OF(x) as_uint(x)
#define FLOAT_OF(bits) as_float(bits)
#define DOUBLE_OF(bits) as_double(bits)
#define LONG_OF(x) as_long(x)
#define PLUS(a, b) ((a) + (b))
#define TIMES(a, b) ((a) * (b))

#elif defined(__CUDACC__)

#define KERNEL extern "C" __global__
#define GLOBAL
#define FUNCTION static __device__
#define FIRST (blockIdx.x * (long)blockDim.x + threadIdx.x)
#define STRIDE (gridDim.x * (long)blockDim.x)
#define LANE threadIdx.x
#define SHARED __shared__
#define MEET __syncthreads()
#define ON_ALL_CORES
#define ROLLED _Pragma("unroll 1")
#define ADD(p, x) atomicAdd(p, x)
#define RAISE(p, x) atomicMax(p, x)
#define BITS_OF(x) __float_as_uint(x)
#define FLOAT_OF(bits) __uint_as_float(bits)
#define DOUBLE_OF(bits) __longlong_as_double((long long)(bits))
#define LONG_OF(x) __double_as_longlong(x)
#define PLUS(a, b) __dadd_rn(a, b)
#define TIMES(a, b) __dmul_rn(a, b)

#else // C: one thread, so that no other thread is still running when the candidate starts

#include <math.h>
#include <string.h>
#define KERNEL
#define GLOBAL
#define FUNCTION static
#define FIRST 0L
#define STRIDE 1L
#define ON_ALL_CORES _Pragma("omp parallel for reduction(^ : all)")
#define ROLLED
#define PLUS(a, b) ((a) + (b)) // compiled with -ffp-contract=off
#define TIMES(a, b) ((a) * (b))
#define ADD(p, x) (*(p) += (x))
#define RAISE(p, x) (*(p) = *(p) > (x) ? *(p) : (x))
typedef struct {
    unsigned int x, y, z, w;
} uint4;
FUNCTION unsigned int BITS_OF(float value) {
    unsigned int bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}
FUNCTION float FLOAT_OF(unsigned int bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}
FUNCTION double DOUBLE_OF(unsigned long bits) {
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}
FUNCTION long LONG_OF(double value) {
    long bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

#endif

#if defined(REAL) || defined(EXPRESSION)

#define float32_value(bits) FLOAT_OF(bits)
#define float64_value(bits) DOUBLE_OF(bits)

// Only integer arithmetic and exact scaling, because some devices flush subnormal numbers to 0.
FUNCTION float float16_value(unsigned short bits) {
    const int exponent = bits >> 10 & 31;
    const unsigned int fraction = bits & 1023u, sign = (bits & 0x8000u) << 16;
    if (exponent == 0) {
        return (sign ? -1.0f : 1.0f) * (float)fraction / 16777216.0f;
    }
    return FLOAT_OF(sign | (exponent == 31 ? 255u : exponent + 112u) << 23 | fraction << 13);
}

FUNCTION float bfloat16_value(unsigned short bits) {
    return FLOAT_OF((unsigned int)bits << 16);
}

FUNCTION float float8_e5m2_value(unsigned char bits) {
    return float16_value((unsigned short)((unsigned int)bits << 8));
}

// This type has no infinity, and one NaN for each sign.
FUNCTION float float8_e4m3fn_value(unsigned char bits) {
    const unsigned int exponent = bits >> 3 & 15u, fraction = bits & 7u, sign = (bits & 0x80u) << 24;
    if (exponent == 0) {
        return (sign ? -1.0f : 1.0f) * (float)fraction / 512.0f;
    }
    return FLOAT_OF((bits & 0x7fu) == 0x7fu ? 0x7fc00000u : sign | (exponent + 120u) << 23 | fraction << 20);
}

#endif
#ifndef ELEMENTS // otherwise `elements.cu` follows

// The number that a thread adds to a 32-bit counter. It is limited so that the sum over all threads cannot overflow:
// otherwise 2**32 wrong elements would count as none.
FUNCTION unsigned int addend(long count, long threads) {
    const long most = 0xffffffffL / threads;
    return (unsigned int)(count < most ? count : most);
}

#ifndef STORED

// Loops over arrays process words of 16 bytes, then the remaining bytes one by one.
// A loop that is ROLLED has few passes, or none that could overlap: without its unrolled copies, the text compiles in
// two thirds of the time.
#define WORDS(bytes) ((bytes) / 16)
#define REST(bytes) ((bytes) / 16 * 16)
#define LAID 64 // bytes that a thread of `lay` copies in a row

KERNEL void restore(GLOBAL uint4 *array, GLOBAL const uint4 *copy, long bytes) {
    for (long i = FIRST; i < WORDS(bytes); i += STRIDE) {
        array[i] = copy[i];
    }
    ROLLED for (long i = REST(bytes) + FIRST; i < bytes; i += STRIDE) {
        ((GLOBAL unsigned char *)array)[i] = ((GLOBAL const unsigned char *)copy)[i];
    }
}

// Sets every byte to `fill`.
KERNEL void poison(GLOBAL uint4 *array, long bytes, int fill) {
    uint4 word;
    word.x = word.y = word.z = word.w = 0x01010101u * (unsigned int)fill;
    for (long i = FIRST; i < WORDS(bytes); i += STRIDE) {
        array[i] = word;
    }
    ROLLED for (long i = REST(bytes) + FIRST; i < bytes; i += STRIDE) {
        ((GLOBAL unsigned char *)array)[i] = (unsigned char)fill;
    }
}

// Copies the elements of an array, `bytes` bytes without gaps in `whole`, to `padded`, where gaps are between its rows of
// `row` bytes; back, if `way` is 1; or, if it is 2, sets their bytes in `padded` to `fill`. `axes` has the extent of each
// of the other axes, innermost first, and the distance of two neighbours along it in bytes.
KERNEL void lay(GLOBAL unsigned char *padded, GLOBAL unsigned char *whole, GLOBAL const long *axes, int count, long row,
                long bytes, int way, int fill) {
    for (long first = LAID * FIRST; first < bytes; first += LAID * STRIDE) {
        const long end = first + LAID < bytes ? first + LAID : bytes;
        for (long i = first; i < end;) {
            const long column = i % row, stop = i + row - column < end ? i + row - column : end;
            long at = column, rows = i / row;
            for (int axis = 0; axis < count; axis++) {
                at += rows % axes[2 * axis] * axes[2 * axis + 1];
                rows /= axes[2 * axis];
            }
            if (way == 0) {
                for (long j = 0; j < stop - i; j++) {
                    padded[at + j] = whole[i + j];
                }
            } else if (way == 1) {
                for (long j = 0; j < stop - i; j++) {
                    whole[i + j] = padded[at + j];
                }
            } else {
                for (long j = 0; j < stop - i; j++) {
                    padded[at + j] = (unsigned char)fill;
                }
            }
            i = stop;
        }
    }
}

// Does nothing: its time is the launch overhead.
KERNEL void nothing(GLOBAL unsigned int *sink) {
}

// Reads an array. The result may be stored to `sink`, so that no compiler removes the loads.
KERNEL void touch(GLOBAL const uint4 *array, GLOBAL unsigned int *sink, long bytes) {
    unsigned int all = 0;
    ON_ALL_CORES
    for (long i = FIRST; i < WORDS(bytes); i += STRIDE) {
        const uint4 word = array[i];
        all ^= word.x ^ word.y ^ word.z ^ word.w;
    }
    if (all == 0x9e3779b9u) {
        *sink = all;
    }
}

// Reads and writes an array. Its content changes each time.
KERNEL void sweep(GLOBAL uint4 *array, long bytes) {
    for (long i = FIRST; i < WORDS(bytes); i += STRIDE) {
        uint4 word = array[i];
        word.x = word.x * 1664525u + 1013904223u;
        word.y ^= word.x;
        word.z += word.y;
        word.w ^= word.z;
        array[i] = word;
    }
}

// Takes `steps` steps through a chain: each element that is visited holds the index of the next one.
KERNEL void chase(GLOBAL const int *chain, GLOBAL int *sink, long steps) {
    int at = 0;
    if (FIRST > 0) {
        return;
    }
    ROLLED for (long i = 0; i < steps; i++) {
        at = chain[at];
    }
    *sink = at;
}

#if !defined(__OPENCL_VERSION__) && !defined(__CUDACC__)

// Evicts an array from the caches line by line, by an instruction of the processor. `can` is 0 if there is none.
KERNEL void evict(const unsigned char *array, unsigned int *can, long bytes) {
    *can = 0;
#if defined(__x86_64__)
    for (long i = 0; i < bytes; i += 64) {
        __builtin_ia32_clflush(array + i);
    }
    __builtin_ia32_mfence();
    *can = 1;
#elif defined(__aarch64__)
    for (long i = 0; i < bytes; i += 64) {
        __asm__ volatile("dc civac, %0" : : "r"(array + i) : "memory");
    }
    __asm__ volatile("dsb ish" : : : "memory");
    *can = 1;
#endif
}

#endif

// Counts the bytes that are not 0.
FUNCTION unsigned int bytes_of(unsigned int bits) {
    unsigned int count = 0;
    for (; bits != 0; bits >>= 8) {
        count += (bits & 255u) != 0;
    }
    return count;
}

// Bits in which any of four words differs from `fill`.
FUNCTION unsigned int changed_bits(GLOBAL const uint4 *words, unsigned int fill) {
    const uint4 a = words[0], b = words[1], c = words[2], d = words[3];
    return ((a.x ^ fill) | (a.y ^ fill) | (a.z ^ fill) | (a.w ^ fill)) |
           ((b.x ^ fill) | (b.y ^ fill) | (b.z ^ fill) | (b.w ^ fill)) |
           ((c.x ^ fill) | (c.y ^ fill) | (c.z ^ fill) | (c.w ^ fill)) |
           ((d.x ^ fill) | (d.y ^ fill) | (d.z ^ fill) | (d.w ^ fill));
}

// This thread's share of the bytes that differ from `fill` among `count` words. It looks at four words at a time, because
// nearly all are as they should be.
FUNCTION unsigned int changed_bytes(GLOBAL const uint4 *words, long count, unsigned int fill) {
    unsigned int changed = 0;
    for (long i = 4 * FIRST; i < count; i += 4 * STRIDE) {
        if (i + 4 > count || changed_bits(words + i, fill)) {
            ROLLED for (long j = i; j < i + 4 && j < count; j++) {
                const uint4 word = words[j];
                changed += bytes_of(word.x ^ fill) + bytes_of(word.y ^ fill) + bytes_of(word.z ^ fill) +
                           bytes_of(word.w ^ fill);
            }
        }
    }
    return changed;
}

// Counts bytes other than `expected` in the guards of an array of `bytes` bytes. `guarded` is the array with its
// guards, each of `guard` bytes, a multiple of 16.
KERNEL void check_guards(GLOBAL const uint4 *guarded, GLOBAL unsigned int *counters, int slot, long guard, long bytes,
                         int expected) {
    const unsigned int fill = 0x01010101u * (unsigned int)expected;
    const long first = (16 - bytes % 16) % 16; // bytes of the second guard that lie in the last word of the array
    GLOBAL const uint4 *words = guarded + WORDS(guard + bytes + first);
    GLOBAL const unsigned char *last = (GLOBAL const unsigned char *)guarded + guard + bytes; // the second guard
    const long count = WORDS(guard - first);
    const unsigned int before = changed_bytes(guarded, WORDS(guard), fill);
    unsigned int after = changed_bytes(words, count, fill);
    ROLLED for (long i = FIRST; i < guard - 16 * count; i += STRIDE) { // what its words do not hold
        after += last[i < first ? i : 16 * count + i] != expected;
    }
    if (before) {
        ADD(counters + slot + 2, before);
    }
    if (after) {
        ADD(counters + slot + 3, after);
    }
}

// Counts words and bytes of `array` that have another byte than `expected`.
KERNEL void check_fill(GLOBAL const uint4 *array, GLOBAL unsigned int *counters, int slot, long bytes, int expected) {
    const unsigned int fill = 0x01010101u * (unsigned int)expected;
    long changed = 0;
    for (long i = FIRST; i < WORDS(bytes); i += STRIDE) {
        const uint4 a = array[i];
        changed += ((a.x ^ fill) | (a.y ^ fill) | (a.z ^ fill) | (a.w ^ fill)) != 0;
    }
    ROLLED for (long i = REST(bytes) + FIRST; i < bytes; i += STRIDE) {
        changed += ((GLOBAL const unsigned char *)array)[i] != expected;
    }
    if (changed) {
        ADD(counters + slot + 4, addend(changed, STRIDE));
    }
}

// A one-to-one function of 64 bits: multiplications by odd numbers, and shifts that are undone in the same way.
FUNCTION unsigned long mixed(unsigned long bits) {
    bits = (bits ^ bits >> 32) * 0xd6e8feb86659fd93ul;
    bits = (bits ^ bits >> 29) * 0xa0761d6478bd642ful;
    return bits ^ bits >> 32;
}

// The share of one 64-bit word in the digest of an array.
FUNCTION unsigned long digest_of(unsigned long word, long position) {
    return mixed(word ^ (unsigned long)(position + 1) * 0x9e3779b97f4a7c15ul);
}

// Adds the digests of the two 64-bit words in a word of 16 bytes to two sums, by halves.
FUNCTION void add_digests(uint4 word, long position, unsigned int *low, unsigned int *high) {
    const unsigned long a = digest_of((unsigned long)word.y << 32 | word.x, 2 * position);
    const unsigned long b = digest_of((unsigned long)word.w << 32 | word.z, 2 * position + 1);
    *low += (unsigned int)a + (unsigned int)b;
    *high += (unsigned int)(a >> 32) + (unsigned int)(b >> 32);
}

#define THREADS 256 // of a block
#define ROWS 16     // of threads whose sums are added first

// Adds the digest of an array to its two counters. The digest is the sum of a hash of each 64-bit word and its position,
// by halves modulo 2**32, so that it does not depend on the order of the threads. The hash is one-to-one for each
// position: arrays that differ in one word always have different digests, others have equal ones by chance, once in 2**64.
// With `in_rows`, for processors, the words of a thread lie in a row, so that vector instructions read them.
KERNEL void digest(GLOBAL const uint4 *array, GLOBAL unsigned int *counters, int slot, long bytes, int in_rows) {
    unsigned int low = 0, high = 0;
    if (in_rows) {
        const long each = (WORDS(bytes) + STRIDE - 1) / STRIDE, from = FIRST * each;
        for (long i = from; i < WORDS(bytes) && i < from + each; i++) {
            add_digests(array[i], i, &low, &high);
        }
    } else {
        for (long i = FIRST; i < WORDS(bytes); i += STRIDE) {
            add_digests(array[i], i, &low, &high);
        }
    }
    for (long i = REST(bytes) + FIRST; i < bytes; i += STRIDE) {
        const unsigned long a = digest_of(((GLOBAL const unsigned char *)array)[i], i);
        low += (unsigned int)a;
        high += (unsigned int)(a >> 32);
    }
#ifdef LANE // one addition for each block, because additions to the same counter wait for one another
    SHARED unsigned int lows[THREADS], highs[THREADS];
    lows[LANE] = low;
    highs[LANE] = high;
    MEET;
    if (LANE < ROWS) {
        for (int i = LANE + ROWS; i < THREADS; i += ROWS) {
            low += lows[i];
            high += highs[i];
        }
    }
    MEET;
    if (LANE < ROWS) {
        lows[LANE] = low;
        highs[LANE] = high;
    }
    MEET;
    if (LANE > 0) {
        return;
    }
    for (int i = 1; i < ROWS; i++) {
        low += lows[i];
        high += highs[i];
    }
#endif
    ADD(counters + slot + 6, low);
    ADD(counters + slot + 7, high);
}

// Counts the words and bytes in which `array` and `copy` differ.
KERNEL void check_input(GLOBAL const uint4 *array, GLOBAL const uint4 *copy, GLOBAL unsigned int *counters, int slot,
                        long bytes) {
    long changed = 0;
    for (long i = FIRST; i < WORDS(bytes); i += STRIDE) {
        const uint4 a = array[i], b = copy[i];
        changed += ((a.x ^ b.x) | (a.y ^ b.y) | (a.z ^ b.z) | (a.w ^ b.w)) != 0;
    }
    ROLLED for (long i = REST(bytes) + FIRST; i < bytes; i += STRIDE) {
        changed += ((GLOBAL const unsigned char *)array)[i] != ((GLOBAL const unsigned char *)copy)[i];
    }
    if (changed) {
        ADD(counters + slot + 4, addend(changed, STRIDE));
    }
}

#else // with STORED

FUNCTION void report(GLOBAL unsigned int *counters, int slot, long wrong, long unwritten, float worst) {
    if (wrong) {
        ADD(counters + slot, addend(wrong, STRIDE));
    }
    if (unwritten) {
        ADD(counters + slot + 5, addend(unwritten, STRIDE));
    }
    if (worst > 0.0f) {
        RAISE(counters + slot + 1, BITS_OF(worst));
    }
}

#ifndef REAL

// A hash of an index and a secret, by MurmurHash3's finalizer.
FUNCTION unsigned int hash_of(long index, unsigned int secret) {
    unsigned int bits = (unsigned int)index * 0x9e3779b9u ^ secret;
    bits = (bits ^ bits >> 16) * 0x85ebca6bu;
    bits = (bits ^ bits >> 13) * 0xc2b2ae35u;
    return bits ^ bits >> 16;
}

// No integer is NaN. So an integer is poisoned by adding a quarter to three quarters of the type's range to its answer,
// with wraparound. Its error is then at least a quarter of the range, and a kernel cannot compute the answer from it
// without the secret.
FUNCTION STORED poison_of(STORED answer, long index, unsigned int secret) {
    const int bits = 8 * sizeof(STORED);
    const unsigned long random = (unsigned long)hash_of(2 * index, secret) << 32 | hash_of(2 * index + 1, secret);
    return (STORED)(answer + (1ul << (bits - 2)) + (random & ((1ul << (bits - 1)) - 1)));
}

KERNEL void scramble(GLOBAL STORED *array, GLOBAL const STORED *reference, long count, int secret) {
    for (long i = FIRST; i < count; i += STRIDE) {
        array[i] = poison_of(reference[i], i, secret);
    }
}

// Without a tolerance, elements must have the same bits as their answers.
KERNEL void check_bits(GLOBAL const STORED *output, GLOBAL const STORED *reference, GLOBAL unsigned int *counters,
                       int slot, long count) {
    long wrong = 0;
    for (long i = FIRST; i < count; i += STRIDE) {
        wrong += output[i] != reference[i];
    }
    report(counters, slot, wrong, 0, 0.0f);
}

#ifdef WHOLE

// An integer is right if it is within its bound. It is unwritten if it is wrong and still holds the poison.
KERNEL void check_whole(GLOBAL const STORED *output, GLOBAL const STORED *reference, GLOBAL unsigned int *counters,
                        int slot, long count, double atol, double rtol, double ulp, int secret, int is_poisoned) {
    long wrong = 0, unwritten = 0;
    double worst = 0.0;
    const int uniform = rtol == 0.0 && ulp == 0.0;
    for (long i = FIRST; i < count; i += STRIDE) {
        const WIDE value = (WHOLE)output[i], expected = (WHOLE)reference[i];
        const unsigned long a = value, b = expected;
        const double error = (double)(value > expected ? a - b : b - a);
        const double relative = PLUS(atol, TIMES(rtol, fabs((double)expected)));
        const double limit = relative > ulp ? relative : ulp;
        const int close = error <= limit;
        wrong += !close;
        unwritten += !close && is_poisoned && output[i] == poison_of(reference[i], i, secret);
        const double share = uniform || error == 0.0 ? error : error / limit;
        worst = close && share > worst ? share : worst;
    }
    report(counters, slot, wrong, unwritten, (float)worst);
}

#endif
#else

// The absolute difference of two numbers. The same infinity, or NaN in both, is no error.
FUNCTION double error_of(double value, double expected) {
    const int same = (value == expected) | ((value != value) & (expected != expected));
    return same ? 0.0 : fabs(value - expected);
}

// The bound of an element whose answer has this magnitude: `ulp` units in the last place of the answer, or atol + rtol
// |answer| if that is larger. The type has `digits` fraction bits and the least exponent `least`. Multiplication and
// addition are not fused, so that the host computes the same number.
FUNCTION double limit_of(double size, double atol, double rtol, double ulp, int digits, int least) {
    const double relative = PLUS(atol, TIMES(rtol, size));
    const int exponent = (int)(LONG_OF(size) >> 52 & 2047) - 1023;
    const double last = ulp > 0.0 ? ulp * ldexp(1.0, (exponent > least ? exponent : least) - digits) : 0.0;
    return last > relative ? last : relative;
}

#define LARGEST 1.7976931348623157e308 // the error of a right element is finite

// What a thread has found.
typedef struct {
    long wrong, unwritten;
    double worst;
} Found;

typedef struct {
    double atol, rtol, ulp;
    int digits, least, uniform;
} Limits;

// Compares one element. It is right if it is within its bound and does not hold the poison, which is NaN. An element that
// holds the poison is unwritten.
FUNCTION void check_real(GLOBAL const STORED *output, GLOBAL const double *reference, long i, Limits limits,
                         Found *found) {
#if PARTS == 2
    const STORED bits = output[2 * i], imaginary = output[2 * i + 1];
    const double a = reference[2 * i], b = reference[2 * i + 1], length = hypot(a, b);
    const double size = length <= LARGEST ? length : 0.0; // otherwise an infinite part would accept any other part
    const double error = hypot(error_of(REAL(bits), a), error_of(REAL(imaginary), b));
    const int is_poison = (bits == (STORED)-1) | (imaginary == (STORED)-1);
#else
    const STORED bits = output[i];
    const double size = fabs(reference[i]), error = error_of(REAL(bits), reference[i]);
    const int is_poison = bits == (STORED)-1;
#endif
    const double limit = limits.uniform ? limits.atol
                                        : limit_of(size, limits.atol, limits.rtol, limits.ulp, limits.digits, limits.least);
    const int close = error == 0.0 || (error <= limit && error <= LARGEST);
    found->wrong += !close | is_poison;
    found->unwritten += is_poison;
    const double share = limits.uniform || error == 0.0 ? error : error / limit;
    found->worst = close && share > found->worst ? share : found->worst;
}

#if !defined(__CUDACC__) && PARTS == 1
#define BLOCK 256 // elements
#define LANES 8

// Whether all elements of a block are finite and within their limits; if so, raises the worst error, as `check_real` counts
// it. Without branches, a compiler vectorises it. NaN, and so the poison, is in no such block. Powers of two are made of
// their bits, so none of the limits may be subnormal.
FUNCTION int is_close_block(GLOBAL const STORED *output, GLOBAL const double *reference, Limits limits, Found *found) {
    int far[LANES] = {0};
    double most[LANES] = {0.0};
    for (int i = 0; i < BLOCK; i += LANES) {
        for (int k = 0; k < LANES; k++) {
            const double size = fabs(reference[i + k]), error = fabs(REAL(output[i + k]) - reference[i + k]);
            const double relative = PLUS(limits.atol, TIMES(limits.rtol, size));
            const long exponent = (LONG_OF(size) >> 52 & 2047) - 1023;
            const long power = (exponent > limits.least ? exponent : limits.least) - limits.digits;
            const double last = limits.ulp * DOUBLE_OF((unsigned long)(power + 1023) << 52);
            const double limit = last > relative ? last : relative;
            far[k] |= !(error <= limit) | !(error <= LARGEST);
            const double share = limits.uniform || error == 0.0 ? error : error / limit;
            most[k] = share > most[k] ? share : most[k];
        }
    }
    for (int k = 1; k < LANES; k++) {
        far[0] |= far[k];
        most[0] = most[k] > most[0] ? most[k] : most[0];
    }
    if (!far[0] && most[0] > found->worst) {
        found->worst = most[0];
    }
    return !far[0];
}

#endif

// Compares all elements. On a processor, a thread takes blocks of neighbours.
KERNEL void check_reals(GLOBAL const STORED *output, GLOBAL const double *reference, GLOBAL unsigned int *counters,
                        int slot, long count, double atol, double rtol, double ulp, int digits, int least,
                        int in_rows) {
    const Limits limits = {atol, rtol, ulp, digits, least, rtol == 0.0 && ulp == 0.0};
    Found found = {0, 0, 0.0};
#ifdef BLOCK
    for (long from = BLOCK * FIRST; in_rows && from < count; from += BLOCK * STRIDE) {
        const long end = from + BLOCK < count ? from + BLOCK : count;
        if (end == from + BLOCK && least - digits > -1023 &&
            is_close_block(output + from, reference + from, limits, &found)) {
            continue;
        }
        for (long i = from; i < end; i++) {
            check_real(output, reference, i, limits, &found);
        }
    }
    if (in_rows) {
        count = 0;
    }
#endif
    for (long i = FIRST; i < count; i += STRIDE) {
        check_real(output, reference, i, limits, &found);
    }
    report(counters, slot, found.wrong, found.unwritten, (float)found.worst);
}

#endif
#endif
#endif
