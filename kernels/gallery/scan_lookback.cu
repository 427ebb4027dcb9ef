// y[i] = x[0] + ... + x[i], the inclusive scan, in one step: 8 bytes per element, where scan.cu moves 12.
//
// A block scans its tile, publishes the tile's sum, and looks back at the tiles before it until it meets one that
// already knows the sum of everything up to its end; then it publishes its own. A word holds a sum and what it is the
// sum of, so that nobody reads one without the other. A block asks for its tile when it starts: the tiles before it are
// then done or under way, and waiting for them ends. Words and the number of the next tile are 0 before each launch.
// The idea, decoupled look-back, is of Merrill and Garland (2016). CUDA alone: OpenCL 1.2 promises no block that
// another one's words reach it.
//
// While a block waits for the tiles before it, memory would idle. So the blocks stay, as many as are resident at once,
// and each has the next tiles copied to shared memory meanwhile. Tuned are the tile, as in scan.cu, the blocks, the
// tiles ahead, and the pause between two looks: short ones cost bandwidth, long ones time.
#include "portable.h"
#include "scan.h"

#ifndef ahead
#define ahead 1 // tiles
#endif
#ifndef pause
#define pause 0 // nanoseconds
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

// The sum of all tiles before `tile`. A whole warp calls, and looks at 32 tiles at a time, the nearest first.
INLINE float look_back(const Word *words, int tile) {
    const int lane = threadIdx.x % 32;
    float sum = 0.0f;
    for (int nearest = tile - 1;; nearest -= 32) {
        const Word word = nearest >= lane ? word_of(words, nearest - lane) : (Word)ALL << 32;
        const unsigned complete = __ballot_sync(0xffffffff, word >> 32 == ALL);
        const int last = complete ? __ffs(complete) - 1 : 31;
        float value = lane <= last ? __uint_as_float((unsigned)word) : 0.0f;
#pragma unroll
        for (int step = 16; step > 0; step /= 2) {
            value += __shfl_xor_sync(0xffffffff, value, step);
        }
        sum += value;
        if (complete) {
            return sum;
        }
    }
}

#if ahead > 0
extern __shared__ Pack staged[]; // `ahead` tiles; a thread reads what it has copied itself, so no barrier is needed

// Have a thread's packs of a full tile copied to `slot`, or nothing.
INLINE void copy_ahead(int slot, const float *tile, bool full) {
    if (full) {
#pragma unroll
        for (int i = 0; i < items; i++) {
            const unsigned to = (unsigned)__cvta_generic_to_shared(&staged[(slot * items + i) * threads + threadIdx.x]);
            asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(to), "l"(tile + pack_at(i)),
                         "n"(sizeof(Pack)) : "memory");
        }
    }
    asm volatile("cp.async.commit_group;" ::: "memory"); // one for each tile, so that they can be counted
}
#endif

// The packs of a thread, of the tile in `slot` if that is full.
INLINE void take_tile(Pack *x, int slot, const float *tile, size_t left) {
#if ahead > 0
    asm volatile("cp.async.wait_group %0;" ::"n"(ahead - 1) : "memory");
    if (left >= TILE) {
#pragma unroll
        for (int i = 0; i < items; i++) {
            x[i] = staged[(slot * items + i) * threads + threadIdx.x];
        }
        return;
    }
#endif
    load_tile(x, tile, left);
}

KERNEL LAUNCH_BOUNDS(threads, 1)
void scan_lookback(float *__restrict__ y, const float *__restrict__ x, Word *words, int *next, int n) {
    __shared__ float shared[threads], totals[WARPS];
    __shared__ float before;
    __shared__ int numbers[ahead + 1]; // of the block's next tiles, as a ring

    const int tiles = (n + (size_t)TILE - 1) / TILE;
    int upcoming;
    if (threadIdx.x == 0) {
        for (int i = 0; i <= ahead; i++) {
            numbers[i] = atomicAdd(next, 1);
        }
        upcoming = atomicAdd(next, 1);
    }
    __syncthreads();
#if ahead > 0
    for (int slot = 0; slot < ahead; slot++) {
        const size_t tile = (size_t)numbers[slot] * TILE;
        copy_ahead(slot, x + tile, tile + TILE <= n);
    }
#endif

    for (int turn = 0, slot = 0; numbers[turn] < tiles; turn = (turn + 1) % (ahead + 1)) {
        const int number = numbers[turn];
        const size_t tile = (size_t)number * TILE;
        Pack loaded[items];
        take_tile(loaded, slot, x + tile, n - tile);
        const Scanned scanned = scan_segments(loaded, shared, totals);
        if (threadIdx.x == 0 && number > 0) {
            publish(words, number, OWN, scanned.total);
        }
#if ahead > 0
        const size_t later = (size_t)numbers[(turn + ahead) % (ahead + 1)] * TILE;
        copy_ahead(slot, x + later, later + TILE <= n);
        slot = (slot + 1) % ahead;
#endif
        if (threadIdx.x < 32) {
            const float sum = number > 0 ? look_back(words, number) : 0.0f;
            if (threadIdx.x == 0) {
                publish(words, number, ALL, sum + scanned.total);
                before = sum;
                numbers[turn] = upcoming;
                upcoming = atomicAdd(next, 1); // a turn before it is needed: the answer takes long
            }
        }
        __syncthreads();
        store_tile(y + tile, loaded, n - tile, before + scanned.before);
    }
}
