// What a device can do at most: memory that is copied, read and written in words of 16 bytes, and multiply-adds in FP32.
// One text for CUDA, OpenCL C and C.
//
// THREADS threads of a block take UNROLL words each at a time, all of them under way at once; in C, a loop stands for
// the threads. With STREAMING, what is moved is not to stay in the caches. A multiply-add has LANES numbers. A thread has
// CHAINS of them, which do not depend on one another, and each is REPEATS long in a step. READS words are read for each
// one that mix_words writes.
#if defined(__OPENCL_VERSION__)

#define KERNEL __kernel
#define GLOBAL __global
#define UNROLLED _Pragma("unroll")
#define BLOCKS(count) for (long block = get_group_id(0); block < (count); block += get_num_groups(0))
#define EACH_THREAD const int thread = get_local_id(0);
#define READING(count) \
    uint4 all = 0;     \
    BLOCKS(count)
#define ADD(sink, value) atomic_add(sink, value)
#define WORD(i, seed) ((uint4)(i) * (uint4)(FACTORS) + (seed))
#define ADD_UP(all, word) (all) += (word)
#define SUM_OF(all) ((all).x + (all).y + (all).z + (all).w)
#define PLUS(a, b) ((a) + (b))
#define JOINED(a, b) a##b
#define VECTOR(lanes) JOINED(float, lanes)
#if LANES > 1
typedef VECTOR(LANES) REAL;
#else
typedef float REAL;
#endif
#ifdef FP_FAST_FMAF
#define FMA(x, a, b) fma(x, (REAL)(a), (REAL)(b))
#else
#define FMA(x, a, b) mad(x, (REAL)(a), (REAL)(b))
#endif
#if STREAMING
#define LOAD(from) __builtin_nontemporal_load(from)
#define STORE(to, word) __builtin_nontemporal_store(word, to)
#else
#define LOAD(from) (*(from))
#define STORE(to, word) (*(to) = (word))
#endif

#elif defined(__CUDACC__)

#define KERNEL extern "C" __global__ __launch_bounds__(THREADS)
#define GLOBAL
#define UNROLLED _Pragma("unroll")
#define BLOCKS(count) for (long block = blockIdx.x; block < (count); block += gridDim.x)
#define EACH_THREAD const int thread = threadIdx.x;
#define READING(count)    \
    unsigned int all = 0; \
    BLOCKS(count)
#define ADD(sink, value) atomicAdd(sink, value)
#define WORD(i, seed) word_of(i, seed, FACTORS)
static __device__ uint4 word_of(unsigned int i, unsigned int seed, unsigned int a, unsigned int b, unsigned int c,
                                unsigned int d) {
    return make_uint4(i * a + seed, i * b + seed, i * c + seed, i * d + seed);
}
#define ADD_UP(all, word) (all) += (word).x + (word).y + (word).z + (word).w
#define SUM_OF(all) (all)
static __device__ uint4 PLUS(uint4 a, uint4 b) { return make_uint4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w); }
typedef float REAL;
#define FMA(x, a, b) fmaf(x, a, b)
#if STREAMING
#define LOAD(from) __ldcs(from)
#define STORE(to, word) __stcs(to, word)
#else
#define LOAD(from) (*(from))
#define STORE(to, word) (*(to) = (word))
#endif

#else // C

#define KERNEL
#define GLOBAL
#define UNROLLED _Pragma("GCC unroll 16")
#define BLOCKS(count) _Pragma("omp parallel for schedule(static)") for (long block = 0; block < (count); block++)
#define EACH_THREAD for (int thread = 0; thread < THREADS; thread++)
typedef unsigned int uint4 __attribute__((vector_size(16)));
#define READING(count)                                                     \
    unsigned int x = 0, y = 0, z = 0, w = 0;                               \
    _Pragma("omp parallel for schedule(static) reduction(+ : x, y, z, w)") \
    for (long block = 0; block < (count); block++)
#define ADD_UP(all, word) x += (word)[0], y += (word)[1], z += (word)[2], w += (word)[3]
#define SUM_OF(all) (x + y + z + w)
#define PLUS(a, b) ((a) + (b))
#define ADD(sink, value) (*(sink) += (value))
#define WORD(i, seed) ((uint4){i, i, i, i} * (uint4){FACTORS} + (seed))
typedef float REAL __attribute__((vector_size(4 * LANES)));
#define FMA(x, a, b) ((x) * (a) + (b)) // it is compiled with -ffp-contract=fast
#define LOAD(from) (*(from))
#if STREAMING
#include <emmintrin.h> // only x86 has it
#define STORE(to, word) _mm_stream_si128((__m128i *)(to), (__m128i)(word))
#else
#define STORE(to, word) (*(to) = (word))
#endif

#endif

#ifndef READS
#define READS 1
#endif
#define TILE (THREADS * UNROLL) // words; `words` is a multiple

// Word `i` of what is written: four sequences that step by FACTORS through all numbers. Their sum over all words is known
// without a loop, and differs wherever 2**k words in a row are missing.
KERNEL void write_words(GLOBAL uint4 *to, long words, int seed) {
    BLOCKS(words / TILE) {
        EACH_THREAD {
            UNROLLED for (int u = 0; u < UNROLL; u++) {
                const long i = block * TILE + u * THREADS + thread;
                const uint4 word = WORD((unsigned int)i, (unsigned int)seed);
                STORE(to + i, word);
            }
        }
    }
}

KERNEL void copy_words(GLOBAL uint4 *to, GLOBAL const uint4 *from, long words) {
    BLOCKS(words / TILE) {
        EACH_THREAD {
            uint4 word[UNROLL];
            UNROLLED for (int u = 0; u < UNROLL; u++) {
                word[u] = LOAD(from + block * TILE + u * THREADS + thread);
            }
            UNROLLED for (int u = 0; u < UNROLL; u++) {
                STORE(to + block * TILE + u * THREADS + thread, word[u]);
            }
        }
    }
}

// A word of `to` is the sum of one word each of READS arrays of as many words, which lie one after the other in `from`.
KERNEL void mix_words(GLOBAL uint4 *to, GLOBAL const uint4 *from, long words) {
    BLOCKS(words / TILE) {
        EACH_THREAD {
            uint4 word[READS][UNROLL];
            UNROLLED for (int u = 0; u < UNROLL; u++) {
                UNROLLED for (int r = 0; r < READS; r++) {
                    word[r][u] = LOAD(from + r * words + block * TILE + u * THREADS + thread);
                }
            }
            UNROLLED for (int u = 0; u < UNROLL; u++) {
                UNROLLED for (int r = 1; r < READS; r++) {
                    word[0][u] = PLUS(word[0][u], word[r][u]);
                }
                STORE(to + block * TILE + u * THREADS + thread, word[0][u]);
            }
        }
    }
}

// The sum of all numbers is added to `sink` if `keep` says so. The second condition, which hardly ever holds, does not let
// a compiler leave the reading out.
KERNEL void read_words(GLOBAL const uint4 *from, GLOBAL unsigned int *sink, long words, int keep) {
    READING(words / TILE) {
        EACH_THREAD {
            uint4 word[UNROLL];
            UNROLLED for (int u = 0; u < UNROLL; u++) {
                word[u] = LOAD(from + block * TILE + u * THREADS + thread);
            }
            UNROLLED for (int u = 0; u < UNROLL; u++) {
                ADD_UP(all, word[u]);
            }
        }
    }
    const unsigned int sum = SUM_OF(all);
    if (keep | (sum == 0x9e3779b9u)) {
        ADD(sink, sum);
    }
}

// Each thread of `blocks` blocks begins its chains at its number of `values`, and leaves their sum there.
KERNEL void multiply_add(GLOBAL REAL *values, float a, float b, long steps, long blocks) {
    BLOCKS(blocks) {
        EACH_THREAD {
            REAL x[CHAINS];
            UNROLLED for (int c = 0; c < CHAINS; c++) {
                x[c] = values[block * THREADS + thread] + (float)c;
            }
            for (long step = 0; step < steps; step++) {
                UNROLLED for (int repeat = 0; repeat < REPEATS; repeat++) {
                    UNROLLED for (int c = 0; c < CHAINS; c++) {
                        x[c] = FMA(x[c], a, b);
                    }
                }
            }
            UNROLLED for (int c = 1; c < CHAINS; c++) {
                x[0] += x[c];
            }
            values[block * THREADS + thread] = x[0];
        }
    }
}
