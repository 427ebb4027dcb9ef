// C[b] = alpha * A[b] B[b] + beta * C[b], row-major, all of 16 bits, multiplied by wgmma: many blocks share the depth of a
// tile, and a second kernel adds up what they have summed, for deep products of few tiles.
//
// A is M x K, B is K x N, or N x K where transposed_b is 1 (a linear layer), and C is M x N; all are float16 or all
// bfloat16. A block computes one tile, of block_m x block_n outputs, over its part of the depth: one warp fetches, by
// the TMA, and `consumers` warp groups multiply.
//
// Against wgmma_shared, which has these parameters, too:
// - Where several clusters share a tile, their sums meet in a workspace. There, the last block of a tile adds them up while
//   most multiprocessors are idle: a tile of 128 x 128 in 8 parts is 512 KB. Here, all multiprocessors add up, in a second
//   kernel. So a tile may be large and have many parts. The same configuration takes 0.95 x the time (the median of 46
//   pairs). If one cluster has the whole tile, it takes 1.01 x (293 pairs), with tiles of 128 x 96 in clusters of 2 x 2
//   blocks 1.03 x (56 pairs): wgmma_shared is for these (H200, 2026-11-30).
// - early: the blocks of the second kernel take their places when those of the first one have begun, or when they have
//   their sums. The latter is 0.55 us faster (the median of 94 pairs of configurations), the former at some sizes.
// - Blocks need not share what they fetch: cluster_m and cluster_n may both be 1.
// - The grid has three dimensions, so that a block of a single product divides by no number to know its tile.
// On an H200 with bfloat16 the best found takes 0.0375 ms at 1024x448x21120, where cuBLAS takes 0.0371 and the other stages
// 0.0510, and 0.0434 at 4096x256x12288, where cuBLAS takes 0.0422 and the others 0.0655.
//
// What takes the time at 512 x 512 outputs: if its tile is 128 x 128, a block goes on by 64 of the depth in 0.326 us. The
// limit is shared memory: to write both tiles to it and to read them by wgmma takes 0.323 us at 128 bytes per clock and
// 1.98 GHz, the products themselves 0.259. With 128 x 64, it is 0.218 us, which is less than the 0.226 of this account:
// there, the limit is not known. The products take 0.129. If blocks of 128 x 128 share nothing, it is 0.414 us: the L2
// cache. Beside this, parts take some 0.35 us per MB, and all else 6 us, of which an empty kernel takes 2.7. These figures
// are of a prototype with the same parameters, at depths of 2,048 to 16,384 (H200, 2026-11-30); no command here prints
// them.
// If the blocks of a tile wait for one another instead of a second kernel, and each adds up its share, this takes 1.3 us
// longer than with early = 0 (256 pairs of configurations). So do clusters that add up in their shared memory, by 3 us.
// What lies outside of A and B is read as 0. A block beyond the last row or column of tiles, whose cluster has another one
// inside, multiplies zeros, and writes nothing.
// Ideas: split-K with a kernel that reduces, and multicast, as in CUTLASS and cuBLAS. Compute capability 9.0: see hopper.h.
#include "portable.h"
#include "prompt.h"

#ifndef real
#define real __half
#endif
#ifndef transposed_b
#define transposed_b 0 // 1: B is N x K
#endif
#ifndef block_m
#define block_m 128 // rows of a tile
#endif
#ifndef block_n
#define block_n 128 // columns of a tile
#endif
#ifndef block_k
#define block_k 64 // depth of a slot
#endif
#ifndef stages
#define stages 6 // slots in shared memory, each for a part of A and one of B
#endif
#ifndef consumers
#define consumers 2 // warp groups that multiply; they share a tile's rows
#endif
#ifndef cluster_m
#define cluster_m 2 // blocks below one another, which share B
#endif
#ifndef cluster_n
#define cluster_n 1 // blocks beside one another, which share A
#endif
#ifndef together
#define together 1 // splits whose blocks are in a cluster
#endif
#ifndef clusters
#define clusters 4 // such clusters per tile
#endif
#ifndef early
#define early 0 // 1: the blocks of the second kernel take their places at the beginning; 0: when a block has its sums
#endif
#ifndef width_c
#define width_c 1 // numbers of C that are written at once: 8 or 2, of which N is a multiple, or 1
#endif

#define HEIGHT (block_m / consumers / 64)
#define WORKERS (128 * consumers)
#define THREADS (WORKERS + 32)
#define SHARING (cluster_m * cluster_n)
#define PARTNERS (cluster_m + cluster_n - 1) // the blocks for which a block fetches, itself included
#define READY 2                              // the named barrier at which the barriers are initialised
#define FOURS (HEIGHT * block_n / 8)         // of a thread's sums; see meet.h
#define ADDERS 256                           // threads of a block that adds up
static_assert(HEIGHT * consumers * 64 == block_m, "a warp group has a multiple of 64 rows");
static_assert(SHARING * together <= 8, "a cluster has at most 8 blocks");

#include "meet.h"

// Begin to copy a box to the same place in shared memory of all blocks whose bits are set in `mask`; a whole warp does.
INLINE void load_box_to(unsigned mask, unsigned shared, const CUtensorMap *map, int column, int row, int matrix,
                        Barrier *barrier, bool is_elected) {
    asm volatile("{\n\t"
                 ".reg .pred it;\n\t"
                 "setp.ne.b32 it, %7, 0;\n\t"
                 "@it cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                 ".multicast::cluster [%0], [%1, {%2, %3, %4}], [%5], %6;\n\t"
                 "}" ::"r"(shared),
                 "l"(map), "r"(column), "r"(row), "r"(matrix), "r"(shared_address(barrier)),
                 "h"((unsigned short)mask), "r"((int)is_elected)
                 : "memory");
}

// The second kernel may begin, when all blocks have called this or ended. It waits for the sums itself.
INLINE void begin_next_step() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }

INLINE void wait_for_steps() { asm volatile("griddepcontrol.wait;" ::: "memory"); }

// Where a block is. Of the grid, y and z count clusters: beside one another, and below one another in all matrices.
struct Place {
    int row, column, matrix, tile; // the first of the tile, and its number
    int below, beside;             // among the blocks that share what they fetch

    // `place` is the number among these.
    INLINE Place(unsigned place, int M, int batch) {
        below = place % cluster_m, beside = place / cluster_m;
        unsigned line = blockIdx.z;
        matrix = 0;
        if (batch > 1) {
            const unsigned high = (M + block_m * cluster_m - 1) / (block_m * cluster_m);
            matrix = line / high, line -= matrix * high;
        }
        row = (line * cluster_m + below) * block_m, column = (blockIdx.y * cluster_n + beside) * block_n;
        tile = (blockIdx.z * gridDim.y + blockIdx.y) * SHARING + place;
    }
};

// The number of a block in its cluster, which has the blocks of its first split first.
INLINE unsigned in_cluster(int split, int below, int beside) { return split * SHARING + beside * cluster_m + below; }

// Tiles of a ring of slots, of which a block fetches its share: rows of A or of a transposed B, and the depth of a
// row-major B.
struct Slot : PromptTiles<block_m, block_n, block_k, !transposed_b> {
    using Base = PromptTiles<block_m, block_n, block_k, !transposed_b>;
    static constexpr int SHARE_A = block_m / cluster_n, SHARE_B = (transposed_b ? block_n : block_k) / cluster_m;
    static_assert(SHARE_A % 8 == 0 && SHARE_B % 8 == 0, "a share is swizzled as the whole is");
    // A bit for each block of the first row of those that share.
    static constexpr unsigned BESIDE_ONE_ANOTHER = ((1u << SHARING) - 1) / ((1u << cluster_m) - 1);

    using Base::Base;

    // Ask for this block's share of both tiles from depth `k` on, for itself and for others of split number `rank`.
    static INLINE void fetch(unsigned slot, Barrier *arrived, const CUtensorMap *map_a, const CUtensorMap *map_b,
                             const Place &at, int rank, int k, bool is_elected) {
        const unsigned same_row = BESIDE_ONE_ANOTHER << in_cluster(rank, at.below, 0);
        const unsigned same_column = ((1 << cluster_m) - 1) << in_cluster(rank, 0, at.beside);
        const int first_a = at.beside * SHARE_A, first_b = at.below * SHARE_B;
        expect(arrived, Base::SIZE, is_elected);
#pragma unroll
        for (int panel = 0; panel < block_k / 64; panel++) {
            const unsigned to = slot + panel * Base::PANEL_A + first_a * 128;
            load<(cluster_n > 1)>(same_row, to, map_a, k + panel * 64, at.row + first_a, at.matrix, arrived,
                                  is_elected);
        }
#pragma unroll
        for (int panel = 0; panel < (transposed_b ? block_k / 64 : block_n / Base::PART); panel++) {
            const unsigned to = slot + Base::SIZE_A + panel * Base::PANEL_B + first_b * Base::ROW_BYTES_B;
            const int x = transposed_b ? k + panel * 64 : at.column + panel * Base::PART;
            load<(cluster_m > 1)>(same_column, to, map_b, x, (transposed_b ? at.column : k) + first_b, at.matrix,
                                  arrived, is_elected);
        }
    }

  private:
    template <bool is_shared>
    static INLINE void load(unsigned mask, unsigned to, const CUtensorMap *map, int x, int y, int matrix,
                            Barrier *arrived, bool is_elected) {
        if constexpr (is_shared) {
            load_box_to(mask, to, map, x, y, matrix, arrived, is_elected);
        } else {
            load_box(to, map, x, y, matrix, arrived, is_elected);
        }
    }
};

// The outputs of any thread of a block, as fours of sums.
struct Tile {
    const Place &at;
    real *C;
    int M, N;
    float alpha, beta;

    INLINE int first_row(int thread) const {
        return at.row + thread / 128 * (64 * HEIGHT) + thread % 128 / 32 * 16 + thread % 32 / 4;
    }

    INLINE int first_column(int thread) const { return at.column + thread % 4 * 2; }

    // Whether a four has an output of C. Of a number beyond FOURS, it has none.
    INLINE bool has(int thread, int four) const {
        return four < FOURS && first_row(thread) + four / (block_n / 8) * 64 < M &&
               first_column(thread) + four % (block_n / 8) * 8 < N;
    }

    INLINE void write(int thread, int four, const float (&sums)[4]) const {
        const int y = first_row(thread), x = first_column(thread);
        const Fours<real, block_n / 8, 64, (width_c > 1)> outputs = {
            C + (size_t)at.matrix * M * N + (size_t)y * N + x, M - y, N - x, N, alpha, beta};
        outputs.write(four, sums);
    }
};

KERNEL void __launch_bounds__(THREADS, 1) __cluster_dims__(SHARING *together, 1, 1)
    wgmma_summed(real *C, const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b,
                 float *workspace, int M, int N, int K, int batch, float alpha, float beta) {
    extern __shared__ char memory[];
    __shared__ Barrier arrived[stages], freed[stages];

    char *const start = aligned_shared(memory, 1024);
    const unsigned slots = shared_address(start);
    const int warp = __shfl_sync(0xffffffff, threadIdx.x / 32, 0); // known to be the same in a warp
    if (warp == 4 * consumers && threadIdx.x % 32 == 0) {
        prefetch_map(&map_a);
        prefetch_map(&map_b);
        for (int slot = 0; slot < stages; slot++) {
            initialize(&arrived[slot], 1);
            initialize(&freed[slot], consumers * PARTNERS); // all that read it, or what it fetches for others
        }
        fence_initialized();
    }
    if (clusters > 1 && early) {
        begin_next_step();
    }
    const Place at(blockIdx.x % SHARING, M, batch);
    const int rank = blockIdx.x / SHARING % together; // of the split in its cluster
    const Steps steps(blockIdx.x / SHARING, K);
    __syncwarp();
    if (SHARING > 1) {
        synchronize_cluster(); // the barriers of all blocks are there
    }

    Ring<stages> ring;
    if (warp == 4 * consumers) {
        if (SHARING == 1) {
            arrive_named(READY, THREADS);
        }
        const bool leads = is_elected();
#pragma unroll 1 // code that has not run before is slow to come
        for (int k = 0; k < steps.count; k++) {
            wait(&freed[ring.slot], ring.parity ^ 1); // at first, the phase before the first has ended
            Slot::fetch(slots + ring.slot * Slot::SIZE, &arrived[ring.slot], &map_a, &map_b, at, rank,
                        (steps.begin + k) * block_k, leads);
            ring.advance();
        }
        return;
    }

    if (SHARING == 1) {
        wait_named(READY, THREADS);
    }
    const int thread = threadIdx.x % 128;
    const Slot factors(slots, warp / 4 * (64 * HEIGHT));
    // The partners of a block are those beside it, itself included, and then the others below or above it.
    const int other_below = thread - cluster_n + (thread - cluster_n >= at.below);
    const unsigned partner = thread < cluster_n ? in_cluster(rank, at.below, thread)
                                                : in_cluster(rank, other_below, at.beside);
    const auto release = [&](int slot) {
        if (thread < PARTNERS) {
            if (SHARING > 1) {
                arrive_at(&freed[slot], partner);
            } else {
                arrive(&freed[slot]);
            }
        }
    };
    float sum[HEIGHT][block_n / 2];
    for (int k = 0; k < steps.count; k++) {
        wait(&arrived[ring.slot], ring.parity);
        factors.multiply<real>(sum, ring.slot, k > 0);
        wait_for_products<1>();
        if (k > 0) {
            release(ring.slot > 0 ? ring.slot - 1 : stages - 1);
        }
        ring.advance();
    }
    wait_for_products<0>();
    settle(sum);

    // Of the sums of the cluster, each block adds up every together-th four.
    const auto &fours = (const float(&)[FOURS][4])sum;
    const Tile tile = {at, C, M, N, alpha, beta};
    constexpr int MINE = (FOURS + together - 1) / together;
    float mine[MINE][4] = {};
#if together > 1
    wait_named(WORKING, WORKERS); // all products are done: shared memory is free
    float4 *const shared = (float4 *)start + threadIdx.x;
#pragma unroll
    for (int f = 0; f < FOURS; f++) {
        shared[f * WORKERS] = make_float4(fours[f][0], fours[f][1], fours[f][2], fours[f][3]);
    }
    synchronize_cluster();
#pragma unroll
    for (int i = 0; i < MINE; i++) {
        const int f = i * together + rank;
        if (FOURS % together == 0 || f < FOURS) {
#pragma unroll
            for (int split = 0; split < together; split++) {
                add(mine[i], read_block4((const float *)(shared + f * WORKERS), in_cluster(split, at.below, at.beside)));
            }
        }
    }
#else
#pragma unroll
    for (int f = 0; f < FOURS; f++) {
#pragma unroll
        for (int e = 0; e < 4; e++) {
            mine[f][e] = fours[f][e];
        }
    }
#endif
    if (SHARING * together > 1) { // it reads what others have left, and arrives at their barriers, no more
        asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
    }

    float4 *const parts_of_tile = (float4 *)workspace + (size_t)at.tile * clusters * FOURS * WORKERS;
    const int part = blockIdx.x / (SHARING * together);
#pragma unroll
    for (int i = 0; i < MINE; i++) {
        if (const int f = i * together + rank; tile.has(threadIdx.x, f)) {
            if (clusters == 1) {
                tile.write(threadIdx.x, f, mine[i]);
            } else {
                WRITE_PART4(parts_of_tile + (part * FOURS + f) * WORKERS + threadIdx.x,
                            make_float4(mine[i][0], mine[i][1], mine[i][2], mine[i][3]));
            }
        }
    }
    if (clusters > 1 && !early) {
        begin_next_step();
    }
    if (SHARING * together > 1) { // shared memory lasts no longer than the block
        asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
    }
}

// Adds up the parts of the tiles, a four per thread, in the order of the depth.
KERNEL void __launch_bounds__(ADDERS)
    sum_parts(real *C, const float *workspace, int M, int N, int batch, float alpha, float beta) {
    constexpr int ALL = FOURS * WORKERS, BLOCKS = ALL / ADDERS, ABREAST = 16; // parts that are read at once
    static_assert(ALL % ADDERS == 0, "blocks add up parts of one tile");
    const Place at(blockIdx.x / BLOCKS, M, batch);
    const int number = blockIdx.x % BLOCKS * ADDERS + threadIdx.x, thread = number % WORKERS, four = number / WORKERS;
    const Tile tile = {at, C, M, N, alpha, beta};
    const float4 *const first = (const float4 *)workspace + (size_t)at.tile * clusters * ALL + number;
    wait_for_steps(); // all parts are there
    if (tile.has(thread, four)) {
        float sums[4] = {};
#pragma unroll(clusters < ABREAST ? clusters : ABREAST)
        for (int part = 0; part < clusters; part++) {
            add(sums, READ_PART4(first + part * ALL));
        }
        tile.write(thread, four, sums);
    }
}
