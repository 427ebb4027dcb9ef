// Peak rates of a device: memory bandwidth of copying, reading and writing words of 16 bytes, and FP32 multiply-adds.
// One text for CUDA, OpenCL C and C.
//
// A block has THREADS threads; in C, a loop replaces them. Each thread has UNROLL words in flight at a time. With
// STREAMING, loads and stores bypass the caches. A multiply-add operates on a vector of LANES numbers. A thread has
// CHAINS independent chains of multiply-adds, and each step is REPEATS multiply-adds long. mix_words reads READS words
// for each word that it writes.
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
#define FMA(x, a, b) ((x) * (a) + (b)) // compiled with -ffp-contract=fast
#define LOAD(from) (*(from))
#if STREAMING
#include <emmintrin.h> // x86 only
#define STORE(to, word) _mm_stream_si128((__m128i *)(to), (__m128i)(word))
#else
#define STORE(to, word) (*(to) = (word))
#endif

#endif

#ifndef READS
#define READS 1
#endif
#define TILE (THREADS * UNROLL) // words; `words` is a multiple of it

// Writes word `i` as four integers, each i times one of FACTORS plus `seed`, modulo 2**32. The sum of all integers is
// known without a loop, and it changes if 2**k consecutive words are missing.
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

// Each word of `to` is the sum of one word from each of the READS arrays in `from`, which are contiguous and equally
// long.
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

// Adds the sum of all integers to `sink` if `keep` is set. The second condition is almost never true; it keeps the
// compiler from removing the loads.
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

// Each thread starts its chains from its element of `values`, and stores their sum there.
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
