// How blocks that have each computed the sums of a tile of C over a part of the depth add them up and write 16-bit
// outputs: for mma_any, wgmma_split, wgmma_turned and wgmma_shared. Its pieces also serve wgmma_summed.
//
// The sums of a thread are fours: two neighbours of a row, and those 8 rows below, as mma and wgmma leave them. A tile
// has `together` * `clusters` splits:
// - `together` blocks are a cluster. Each leaves its sums in its shared memory, and adds up every together-th four of
//   all.
// - `clusters` clusters leave what they have added up in the workspace. Of the blocks that add up the same fours, the last
//   one reads them all: each reads a together-th of a tile, so that this takes no longer than a cluster's meeting.
// Sums are added in the order of the depth, no matter who was last, so that the bits are the same each time. The file
// that includes this one defines `together`, `clusters`, and WORKERS first: the threads of a block that have sums.
#ifndef MEET_H
#define MEET_H

#include "cluster.h"
#include "hgemm/wgmma.h"
#include "parts.h"

#if together < 1 || together > 8 || clusters < 1
#error "together: 1 to 8, as a cluster has at most 8 blocks; clusters: at least 1"
#endif

#if together > 1
#define CLUSTER __cluster_dims__(together, 1, 1)
#else
#define CLUSTER
#endif

#define SPLITS (together * clusters)
#define WORKING 1 // the named barrier of the threads that have sums

// The depths of split number `split`, in steps of block_k: from `begin` on, `count` of them.
struct Steps {
    int begin, count;

    INLINE Steps(int split, int K) {
        const int all = (K + block_k - 1) / block_k;
        begin = SPLITS == 1 ? 0 : (int)((long long)all * split / SPLITS);
        count = SPLITS == 1 ? all : (int)((long long)all * (split + 1) / SPLITS) - begin;
    }
};

// Whether this block is the last of `clusters` that come here with the same semaphore; see is_last_block() in parts.h.
INLINE bool is_last_of_all(int *semaphore, int *last) {
    __threadfence(); // who sees the semaphore counted sees the sums
    wait_named(WORKING, WORKERS);
    if (threadIdx.x == 0) {
        *last = atomicAdd(semaphore, 1) == clusters - 1;
        if (*last) {
            *semaphore = 0; // for the next launch
        }
        __threadfence();
    }
    wait_named(WORKING, WORKERS);
    return *last;
}

// Where the fours of a thread lie in C: ACROSS beside one another, 8 columns apart, and STEP rows from one row of them
// to the next. The first belongs to *C, which has `rows` rows and `columns` columns from there on. `even` is a constant:
// whether two neighbours are written at once, as N is even.
template <class T, int ACROSS, int STEP, bool even> struct Fours {
    T *C;
    int rows, columns, N;
    float alpha, beta;

    INLINE void write(int number, const float (&four)[4]) const {
        const int x = number % ACROSS * 8, y = number / ACROSS * STEP;
#pragma unroll
        for (int i = 0; i < 2; i++) {
            if (y + 8 * i < rows && x < columns) {
                unsigned short *const to = (unsigned short *)C + (size_t)(y + 8 * i) * N + x;
                const float first = four[2 * i], second = four[2 * i + 1];
                if (even) {
                    const unsigned old = beta != 0.0f ? *(unsigned *)to : 0;
                    *(unsigned *)to = packed<T>(scaled(first, old), scaled(second, old >> 16));
                } else {
                    to[0] = packed<T>(scaled(first, beta != 0.0f ? to[0] : 0), 0.0f);
                    if (x + 1 < columns) {
                        to[1] = packed<T>(scaled(second, beta != 0.0f ? to[1] : 0), 0.0f);
                    }
                }
            }
        }
    }

  private:
    // At beta = 0 C is not read, as in BLAS.
    INLINE float scaled(float value, unsigned old) const {
        return beta != 0.0f ? alpha * value + beta * number<T>((unsigned short)old) : alpha * value;
    }
};

// The two halves of a meeting of the cluster, at which this block says that it has read what the others have left, and
// waits until they have read what it has: its shared memory lasts no longer than the block.
INLINE void leave_cluster() {
#if together > 1
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
#endif
}

INLINE void wait_for_cluster() {
#if together > 1
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
}

INLINE void add(float (&sum)[4], const float4 &part) {
    sum[0] += part.x, sum[1] += part.y, sum[2] += part.z, sum[3] += part.w;
}

// Adds up the sums of all splits of tile number `tile`, and writes them. `shared` has room for the sums of a block
// where `together` is more than 1; nobody uses it for anything else any more.
template <int COUNT, class Outputs>
INLINE void meet(const float (&sum)[COUNT][4], const Outputs &outputs, int split, int tile, float4 *shared,
                 float *workspace, int *semaphores) {
#if SPLITS == 1
#pragma unroll
    for (int f = 0; f < COUNT; f++) {
        outputs.write(f, sum[f]);
    }
#else
    constexpr int MINE = (COUNT + together - 1) / together; // at most so many fours are added up by a thread
    const int rank = split % together, thread = threadIdx.x;
    // Where C has fewer rows than a tile, whole warps have nothing to add up. It is so in all blocks of the tile.
    const bool is_there = __shfl_sync(0xffffffff, outputs.rows, 0) > 0;
    const auto is_mine = [&](int f) { return is_there && (COUNT % together == 0 || f < COUNT); };
    float all[MINE][4] = {};
#if together > 1
    if (is_there) {
#pragma unroll
        for (int f = 0; f < COUNT; f++) {
            shared[f * WORKERS + thread] = make_float4(sum[f][0], sum[f][1], sum[f][2], sum[f][3]);
        }
    }
    synchronize_cluster();
#pragma unroll
    for (int i = 0; i < MINE; i++) {
        const int f = i * together + rank;
        if (is_mine(f)) {
#pragma unroll
            for (int s = 0; s < together; s++) {
                add(all[i], read_block4((const float *)(shared + f * WORKERS + thread), s));
            }
        }
    }
    leave_cluster();
#else
#pragma unroll
    for (int f = 0; f < COUNT; f++) {
#pragma unroll
        for (int e = 0; e < 4; e++) {
            all[f][e] = sum[f][e];
        }
    }
#endif
#if clusters > 1
    __shared__ int last;
    const auto place = [&](int part, int f) {
        return workspace + ((((size_t)tile * clusters + part) * COUNT + f) * WORKERS + thread) * 4;
    };
#pragma unroll
    for (int i = 0; i < MINE; i++) {
        const int f = i * together + rank;
        if (is_mine(f)) {
            WRITE_PART4(place(split / together, f), make_float4(all[i][0], all[i][1], all[i][2], all[i][3]));
        }
    }
    if (!is_last_of_all(semaphores + tile * together + rank, &last)) {
        wait_for_cluster();
        return;
    }
    constexpr int GROUP = MINE < 4 ? MINE : 4; // so many are read at once
#pragma unroll 1
    for (int begin = 0; begin < MINE; begin += GROUP) {
        float both[GROUP][4] = {};
#pragma unroll(clusters > 4 ? 4 : clusters)
        for (int part = 0; part < clusters; part++) {
#pragma unroll
            for (int i = 0; i < GROUP; i++) {
                const int f = (begin + i) * together + rank;
                if (begin + i < MINE && is_mine(f)) {
                    add(both[i], READ_PART4(place(part, f)));
                }
            }
        }
#pragma unroll
        for (int i = 0; i < GROUP; i++) {
            const int f = (begin + i) * together + rank;
            if (begin + i < MINE && is_mine(f)) {
                outputs.write(f, both[i]);
            }
        }
    }
#else
#pragma unroll
    for (int i = 0; i < MINE; i++) {
        const int f = i * together + rank;
        if (is_mine(f)) {
            outputs.write(f, all[i]);
        }
    }
#endif
    wait_for_cluster();
#endif
}

#endif
