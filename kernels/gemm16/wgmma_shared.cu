// C[b] = alpha * A[b] B[b] + beta * C[b], row-major, all of 16 bits, multiplied by wgmma: the depth is split among blocks,
// and blocks of neighbouring tiles share what they fetch, for deep products of few tiles.
//
// A is M x K, B is K x N, or N x K where transposed_b is 1 (a linear layer), and C is M x N; all are float16 or all
// bfloat16. A block computes one tile, of block_m x block_n outputs, over its part of the depth: one warp fetches, by
// the TMA, and `consumers` warp groups multiply.
//
// Against wgmma_split, where each block fetches for itself:
// - cluster_m, cluster_n: blocks below one another share tiles of B, and blocks beside one another tiles of A. Each
//   fetches its share for all, by multicast. Where few tiles are deep, reading the L2 cache is what takes the time: 120
//   blocks of wgmma_split read it at 5.2 TB/s at 944x512x17864.
// - together, clusters: the splits of a tile meet as there, in the shared memory of the cluster, and in a workspace. A
//   cluster has cluster_m * cluster_n * together blocks.
// What lies outside of A and B is read as 0. A block beyond the last row or column of tiles, whose cluster has another one
// inside, multiplies zeros, and writes nothing.
// Ideas: split-K and multicast, as in CUTLASS. Compute capability 9.0: see hopper.h.
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
#define together 2 // splits whose blocks are in a cluster
#endif
#ifndef clusters
#define clusters 1 // such clusters per tile
#endif
#ifndef width_c
#define width_c 1 // numbers of C that are written at once: 8 or 2, of which N is a multiple, or 1
#endif

#define HEIGHT (block_m / consumers / 64)
#define WORKERS (128 * consumers)
#define THREADS (WORKERS + 32)
#define SHARING (cluster_m * cluster_n)
#define PARTNERS (cluster_m + cluster_n - 1) // the blocks for which a block fetches, itself included
static_assert(HEIGHT * consumers * 64 == block_m, "a warp group has a multiple of 64 rows");
static_assert(SHARING * together <= 16, "a cluster has at most 16 blocks");

#include "cluster.h"

// The four floats that the block of another split of this tile has where this one has `p`. In a cluster, the blocks of
// the first split come first.
INLINE float4 read_split4(const float *p, int split) {
    return read_block4(p, split * SHARING + (int)(cluster_rank() % SHARING));
}

#define read_block4 read_split4 // for meet.h, where a cluster has one block of each split
#include "meet.h"
#undef read_block4

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

// Tiles of a ring of slots, of which a block fetches its share: rows of A or of a transposed B, and the depth of a
// row-major B.
struct Slot : PromptTiles<block_m, block_n, block_k, !transposed_b> {
    using Base = PromptTiles<block_m, block_n, block_k, !transposed_b>;
    static constexpr int SHARE_A = block_m / cluster_n, SHARE_B = (transposed_b ? block_n : block_k) / cluster_m;
    static_assert(SHARE_A % 8 == 0 && SHARE_B % 8 == 0, "a share is swizzled as the whole is");
    // A bit for each block of the first row of those that share.
    static constexpr unsigned BESIDE_ONE_ANOTHER = ((1u << SHARING) - 1) / ((1u << cluster_m) - 1);

    using Base::Base;

    // Ask for this block's share of both tiles, for itself and for others. `below` and `beside` are its place among the
    // blocks that share, the first of which has the number `first` in the cluster. `row` and `column` are its own.
    static INLINE void fetch(unsigned slot, Barrier *arrived, const CUtensorMap *map_a, const CUtensorMap *map_b,
                             int row, int column, int k, int matrix, unsigned below, unsigned beside, unsigned first,
                             bool is_elected) {
        const unsigned same_row = BESIDE_ONE_ANOTHER << (first + below);
        const unsigned same_column = ((1 << cluster_m) - 1) << (first + beside * cluster_m);
        const int first_a = beside * SHARE_A, first_b = below * SHARE_B;
        expect(arrived, Base::SIZE, is_elected);
#pragma unroll
        for (int panel = 0; panel < block_k / 64; panel++) {
            const unsigned to = slot + panel * Base::PANEL_A + first_a * 128;
            load<(cluster_n > 1)>(same_row, to, map_a, k + panel * 64, row + first_a, matrix, arrived, is_elected);
        }
#pragma unroll
        for (int panel = 0; panel < (transposed_b ? block_k / 64 : block_n / Base::PART); panel++) {
            const unsigned to = slot + Base::SIZE_A + panel * Base::PANEL_B + first_b * Base::ROW_BYTES_B;
            const int x = transposed_b ? k + panel * 64 : column + panel * Base::PART;
            load<(cluster_m > 1)>(same_column, to, map_b, x, (transposed_b ? column : k) + first_b, matrix, arrived,
                                  is_elected);
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

KERNEL void __launch_bounds__(THREADS, 1) __cluster_dims__(SHARING *together, 1, 1)
    wgmma_shared(real *C, const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b,
                 float *workspace, int *semaphores, int M, int N, int K, int batch, float alpha, float beta) {
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

    // The tile of this block, and its part of the depth.
    const unsigned high = (M + block_m * cluster_m - 1) / (block_m * cluster_m); // clusters below one another
    const unsigned wide = (N + block_n * cluster_n - 1) / (block_n * cluster_n);
    const unsigned rank = blockIdx.x % (SHARING * together), cluster = blockIdx.x / (SHARING * together);
    const unsigned place = rank % SHARING, below = place % cluster_m, beside = place / cluster_m;
    const unsigned group = cluster / clusters, split = cluster % clusters * together + rank / SHARING;
    const unsigned matrix = group / (high * wide), in_matrix = group - matrix * (high * wide);
    const unsigned line = in_matrix / wide, other = in_matrix - line * wide;
    const int row = (line * cluster_m + below) * block_m, column = (other * cluster_n + beside) * block_n;
    const Steps steps(split, K);
    __syncwarp();
    synchronize_cluster(); // the barriers of all blocks are there

    Ring<stages> ring;
    if (warp == 4 * consumers) {
        const bool leads = is_elected();
#pragma unroll 1 // code that has not run before is slow to come
        for (int k = 0; k < steps.count; k++) {
            wait(&freed[ring.slot], ring.parity ^ 1); // at first, the phase before the first has ended
            Slot::fetch(slots + ring.slot * Slot::SIZE, &arrived[ring.slot], &map_a, &map_b, row, column,
                        (steps.begin + k) * block_k, matrix, below, beside, rank - place, leads);
            ring.advance();
        }
        return;
    }

    const int group_row = warp / 4 * (64 * HEIGHT), warp_row = group_row + warp % 4 * 16, thread = threadIdx.x % 128;
    const Slot factors(slots, group_row);
    // The partners of a block are those beside it, itself included, and then the others below or above it.
    const unsigned other_below = thread - cluster_n + (thread - cluster_n >= (int)below);
    const unsigned partner =
        rank - place + (thread < cluster_n ? thread * cluster_m + below : beside * cluster_m + other_below);
    const auto release = [&](int slot) {
        if (thread < PARTNERS) {
            arrive_at(&freed[slot], partner);
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
    wait_named(WORKING, WORKERS); // all products are done: shared memory is free
#if together == 1
    synchronize_cluster(); // another block may still arrive at this one's barriers
#endif

    const int lane = threadIdx.x % 32, y = row + warp_row + lane / 4, x = column + lane % 4 * 2;
    const Fours<real, block_n / 8, 64, (width_c > 1)> outputs = {
        C + (size_t)matrix * M * N + (size_t)y * N + x, M - y, N - x, N, alpha, beta};
    meet((const float(&)[HEIGHT * block_n / 8][4])sum, outputs, split, group * SHARING + place, (float4 *)start, workspace,
         semaphores);
}
