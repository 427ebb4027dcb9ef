// y[i] = x[0] + ... + x[i], the inclusive scan, in one step, by blocks that stay: 8 bytes per element.
//
// In scan_lookback.cu a block publishes the sum of its tile when it has loaded it, and everybody behind waits. While
// memory is busy, a word takes several microseconds from one multiprocessor to another. So here each block takes every
// `blocks`-th tile, has several in shared memory, where the tensor memory accelerator brings them, and sums a tile as
// soon as it has arrived, `ahead` tiles before it is scanned. Warps have roles: some sum and scan, one loads, one
// publishes, and `lookers` add up what others have published between this block's last tile and the next. That is all
// that a tile needs to know: no sum depends on who was first, and the result has the same bits each time. A block that
// is not there would be waited for in vain: the launch is cooperative. Tuned are the tile, how many blocks share a
// multiprocessor, and how many tiles are summed and fetched ahead. CUDA alone, compute capability 9.0.
//
// Ideas: decoupled look-back, Merrill and Garland (2016); warps with roles, CUTLASS.
#include "bulk.h"
#include "portable.h"

#define vector 4
#include "scan.h"

#ifndef blocks
#define blocks 132
#endif
#ifndef resident
#define resident 1 // blocks of a multiprocessor
#endif
#ifndef ahead
#define ahead 2 // tiles
#endif
#ifndef stages
#define stages 4 // tiles in shared memory
#endif
#ifndef lookers
#define lookers 1 // warps
#endif

#define BLOCK_THREADS (threads + 64 + 32 * lookers)

#if ahead >= stages
#error "the tile that is summed ahead and the one that is scanned are both in shared memory: ahead < stages"
#endif
#if lookers > stages
#error "a barrier tells a round from the next one of its stage, and not from the one after that: lookers <= stages"
#endif
#if BLOCK_THREADS > 1024
#error "a block has at most 1024 threads"
#endif

#define LOOKS ((blocks + 30) / 32) // words of other blocks, per lane
#define NOTHING 0u                 // yet
#define ZERO 0x80000000u           // -0.0f: what was summed and came to 0

// What the warps of a block tell each other of the tile in each stage. Whoever wrote arrives: at `published` and
// `known`, each lane of a warp.
typedef struct {
    Barrier arrived[stages];   // it is in shared memory
    Barrier summed[stages];    // `sums` has the sum of each segment
    Barrier published[stages]; // `before` has the sum of the segments before each, and `totals` that of all
    Barrier known[stages];     // `before` has the sum of everything before each segment
    Barrier emptied[stages];   // it is in registers
    float sums[stages][WARPS], before[stages][WARPS], totals[stages];
    float ends[stages]; // the sum of everything up to the tile's end
} Progress;

// The tile of a block's round.
INLINE int tile_of(int round) { return (int)blockIdx.x + round * (int)gridDim.x; }

INLINE int stage_of(int round) { return round % stages; }

INLINE int parity_of(int round) { return round / stages % 2; }

INLINE void publish(unsigned *words, int tile, float sum) {
    const unsigned word = sum == 0.0f ? ZERO : __float_as_uint(sum);
    asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(words + tile), "r"(word) : "memory");
}

// The word of a tile. Before `first`, there is nothing to add.
INLINE unsigned look_at(const unsigned *words, int tile, int first) {
    unsigned word = ZERO;
    if (tile >= first) {
        asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(word) : "l"(words + tile) : "memory");
    }
    return word;
}

// The sum of the tiles between this one and the last one of this block, for each lane of a warp.
INLINE float sum_between(const unsigned *words, int tile) {
    const int nearest = tile - 1 - (int)threadIdx.x % 32, first = max(tile - (int)gridDim.x + 1, 0);
    unsigned word[LOOKS];
#pragma unroll
    for (int i = 0; i < LOOKS; i++) {
        word[i] = look_at(words, nearest - 32 * i, first);
    }
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < LOOKS; i++) {
        while (word[i] == NOTHING) {
            word[i] = look_at(words, nearest - 32 * i, first);
        }
        sum += __uint_as_float(word[i]);
    }
    __syncwarp();
#pragma unroll
    for (int step = 16; step > 0; step /= 2) {
        sum += __shfl_xor_sync(0xffffffff, sum, step);
    }
    return sum;
}

// The packs of a thread, from shared memory if the tile is whole, as no other is brought there.
INLINE void read_tile(Pack *packs, const float *stage, const float *x, int tile, int n) {
    if (tile < n / TILE) {
        load_tile(packs, stage, TILE);
    } else {
        load_tile(packs, x + (size_t)tile * TILE, n - (size_t)tile * TILE);
    }
}

INLINE void sum_segment(Progress &progress, const float *memory, const float *x, int round, int n) {
    const int stage = stage_of(round), tile = tile_of(round);
    if (tile < n / TILE) {
        wait(&progress.arrived[stage], parity_of(round));
    }
    Pack packs[items];
    read_tile(packs, memory + stage * TILE, x, tile, n);
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < items; i++) {
        sum += packs[i].at[0] + packs[i].at[1] + (packs[i].at[2] + packs[i].at[3]);
    }
#pragma unroll
    for (int step = 16; step > 0; step /= 2) {
        sum += __shfl_xor_sync(0xffffffff, sum, step);
    }
    if (threadIdx.x % 32 == 0) {
        progress.sums[stage][threadIdx.x / 32] = sum;
        arrive(&progress.summed[stage]);
    }
}

INLINE void scan_segment(Progress &progress, const float *memory, float *y, const float *x, int round, int n) {
    const int stage = stage_of(round), tile = tile_of(round);
    wait(&progress.known[stage], parity_of(round));
    Pack packs[items];
    read_tile(packs, memory + stage * TILE, x, tile, n);
    float carry = progress.before[stage][threadIdx.x / 32];
    __syncwarp();
    if (threadIdx.x % 32 == 0) {
        arrive(&progress.emptied[stage]);
    }
#pragma unroll
    for (int i = 0; i < items; i++) {
#pragma unroll
        for (int v = 1; v < vector; v++) {
            packs[i].at[v] += packs[i].at[v - 1];
        }
        const Scanned scanned = scan_warp(packs[i].at[vector - 1], nullptr);
#pragma unroll
        for (int v = 0; v < vector; v++) {
            packs[i].at[v] += carry + scanned.before;
        }
        carry += scanned.total;
    }
    store_tile(y + (size_t)tile * TILE, packs, n - (size_t)tile * TILE, 0.0f);
}

// For one thread: load all whole tiles of this block.
INLINE void load_tiles(Progress &progress, float *memory, const float *x, int n) {
    for (int round = 0; tile_of(round) < n / TILE; round++) {
        const int stage = stage_of(round);
        wait(&progress.emptied[stage], 1 - parity_of(round)); // at first, nothing has been there
        load_bytes(memory + stage * TILE, x + (size_t)tile_of(round) * TILE, 4 * TILE, &progress.arrived[stage]);
    }
}

// For a warp: publish the sums of all tiles of this block.
INLINE void publish_sums(Progress &progress, unsigned *words, int tiles) {
    const int lane = threadIdx.x % 32;
    for (int round = 0; tile_of(round) < tiles; round++) {
        const int stage = stage_of(round);
        wait(&progress.summed[stage], parity_of(round));
        const Scanned scanned = scan_warp(lane < WARPS ? progress.sums[stage][lane] : 0.0f, nullptr);
        if (lane < WARPS) {
            progress.before[stage][lane] = scanned.before;
        }
        if (lane == 0) {
            publish(words, tile_of(round), scanned.total);
            progress.totals[stage] = scanned.total;
        }
        arrive(&progress.published[stage]);
    }
}

// For one of `lookers` warps: add what comes before every so many tiles of this block.
INLINE void add_others(Progress &progress, const unsigned *words, int tiles, int looker) {
    const int lane = threadIdx.x % 32;
    for (int round = looker; tile_of(round) < tiles; round += lookers) {
        const int stage = stage_of(round), last = stage_of(round + stages - 1);
        wait(&progress.published[stage], parity_of(round));
        float before = sum_between(words, tile_of(round));
        if (round > 0) {
            wait(&progress.known[last], parity_of(round - 1));
            before += progress.ends[last];
        }
        if (lane < WARPS) {
            progress.before[stage][lane] += before;
        }
        if (lane == 0) {
            progress.ends[stage] = before + progress.totals[stage];
        }
        arrive(&progress.known[stage]);
    }
}

KERNEL LAUNCH_BOUNDS(BLOCK_THREADS, resident)
void scan_bulk(float *__restrict__ y, const float *__restrict__ x, unsigned *words, int n) {
    extern __shared__ char dynamic[];
    __shared__ Progress progress;

    float *memory = (float *)aligned_shared(dynamic, 128);
    const int warp = threadIdx.x / 32, tiles = (n - 1) / TILE + 1;
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < stages; stage++) {
            initialize(&progress.arrived[stage], 1);
            initialize(&progress.summed[stage], WARPS);
            initialize(&progress.published[stage], 32);
            initialize(&progress.known[stage], 32);
            initialize(&progress.emptied[stage], WARPS);
        }
        fence_barriers();
    }
    __syncthreads();
    if (warp < WARPS) {
        for (int round = -ahead; tile_of(round) < tiles; round++) {
            if (tile_of(round + ahead) < tiles) {
                sum_segment(progress, memory, x, round + ahead, n);
            }
            if (round >= 0) {
                scan_segment(progress, memory, y, x, round, n);
            }
        }
    } else if (threadIdx.x == threads) {
        load_tiles(progress, memory, x, n);
    } else if (warp == WARPS + 1) {
        publish_sums(progress, words, tiles);
    } else if (warp >= WARPS + 2) {
        add_others(progress, words, tiles, warp - (WARPS + 2));
    }
}
