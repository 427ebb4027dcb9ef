// y[i] = x[0] + ... + x[i], the inclusive scan, in one step: 8 bytes per element, where scan.cu moves 12.
//
// A block scans its tile, publishes the tile's sum, and looks back at the tiles before it until it meets one that
// already knows the sum of everything up to its end; then it publishes its own. A word holds a sum and what it is the
// sum of, so that nobody reads one without the other. Words are 0 before each launch. Blocks start in the order of
// their numbers: the tiles before a block's own are then done or under way, and waiting for them ends. CUDA does so
// without promising it, and CUB relies on it, too. The idea, decoupled look-back, is of Merrill and Garland (2016).
// CUDA alone: OpenCL 1.2 promises no block that another one's words reach it. Tuned are the tile, as in scan.cu, the
// warps that look back, and the pause between two looks: short ones cost bandwidth, long ones time.
#include "portable.h"
#include "scan.h"

#ifndef lookers
#define lookers 1 // warps
#endif
#ifndef pause
#define pause 0 // nanoseconds
#endif

#if lookers > WARPS
#error "a block has no more warps than threads / 32"
#endif

#define NOTHING 0u // yet
#define OWN 1u     // the sum of the tile alone
#define ALL 2u     // the sum of everything up to the tile's end

typedef unsigned long long Word;

INLINE void publish(Word *words, int tile, unsigned what, float sum) {
    const Word word = (Word)what << 32 | __float_as_uint(sum);
    asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(words + tile), "l"(word) : "memory");
}

// The word of a tile, as soon as there is one.
INLINE Word word_of(const Word *words, int tile) {
    Word word;
    while (true) {
        asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(word) : "l"(words + tile) : "memory");
        if (word >> 32 != NOTHING) {
            return word;
        }
        if (pause > 0) {
            __nanosleep(pause);
        }
    }
}

// The sum of all tiles before `tile`, for every thread. `lookers` warps look at 32 tiles each, the nearest first: a look
// takes as long as memory takes to answer, and hundreds of tiles are under way. `sums` and `complete` have `lookers`.
INLINE float look_back(const Word *words, int tile, float *sums, bool *complete) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    float sum = 0.0f;
    for (int nearest = tile - 1;; nearest -= 32 * lookers) {
        if (warp < lookers) {
            const int mine = nearest - (int)threadIdx.x;
            const Word word = mine >= 0 ? word_of(words, mine) : (Word)ALL << 32;
            const unsigned all = __ballot_sync(0xffffffff, word >> 32 == ALL);
            const int last = all ? __ffs(all) - 1 : 31;
            float value = lane <= last ? __uint_as_float((unsigned)word) : 0.0f;
#pragma unroll
            for (int step = 16; step > 0; step /= 2) {
                value += __shfl_xor_sync(0xffffffff, value, step);
            }
            if (lane == 0) {
                sums[warp] = value;
                complete[warp] = all;
            }
        }
        __syncthreads();
        for (int w = 0; w < lookers; w++) {
            sum += sums[w];
            if (complete[w]) {
                return sum;
            }
        }
        __syncthreads(); // nobody may write the next sums while another thread still reads these
    }
}

KERNEL LAUNCH_BOUNDS(threads, 1)
void scan_lookback(float *__restrict__ y, const float *__restrict__ x, Word *words, int n) {
    __shared__ float shared[threads], totals[WARPS], sums[lookers];
    __shared__ bool complete[lookers];

    const int number = blockIdx.x;
    const size_t tile = (size_t)number * TILE;
    Pack loaded[items];
    load_tile(loaded, x + tile, n - tile);
    const Scanned scanned = scan_segments(loaded, shared, totals);

    float before = 0.0f;
    if (number > 0) {
        if (threadIdx.x == 0) {
            publish(words, number, OWN, scanned.total);
        }
        before = look_back(words, number, sums, complete);
    }
    if (threadIdx.x == 0) {
        publish(words, number, ALL, before + scanned.total);
    }
    store_tile(y + tile, loaded, n - tile, before + scanned.before);
}
