// C[b] = alpha * A[b] B[b] + beta * C[b], row-major, all of 16 bits, multiplied by wgmma: rows of products are columns of C,
// so that a tile has as many rows as the matrix asks for.
//
// A is M x K, B is K x N, or N x K where transposed_b is 1 (a linear layer), and C is M x N; all are float16 or all
// bfloat16. A block computes one tile, of block_m x block_n outputs, over its part of the depth: a warp fetches, by the
// TMA, and `consumers` warp groups multiply. The other warps of the first one's group only leave them their registers.
//
// wgmma multiplies 64 rows, and 8 to 256 columns, in steps of 8. Activations have any number of rows, while weights have
// many columns. So the other stages compute 192 or 256 rows where 139 are there, and 64 where there are 16. Here the
// factors change places, C' = B' A': 64 columns of C make the rows of a product, and rows of C its columns, in steps of 16.
// Against wgmma_split, from which all else is:
// - A row-major B is the first factor, stored across the depth, which wgmma takes for numbers of 16 bits.
// - Outputs turn back on their way out: stmatrix writes them turned to shared memory, and movmatrix turns in registers
//   those that were added up by several blocks.
// On an H200 with bfloat16 the best found take 0.0526 ms at 132x7872x11392, where cuBLAS takes 0.0533 and the other stages
// 0.0766, and 0.0103 at 4x11776x1664, where cuBLAS takes 0.0107 and the others 0.0112.
// Ideas: CUTLASS and cuBLAS, to which row-major matrices are transposed ones. Compute capability 9.0: see hopper.h.
#include "portable.h"
#include "turned.h"

#ifndef real
#define real __half
#endif
#ifndef transposed_b
#define transposed_b 0 // 1: B is N x K
#endif
#ifndef block_m
#define block_m 64 // rows of a tile
#endif
#ifndef block_n
#define block_n 128 // columns of a tile
#endif
#ifndef block_k
#define block_k 64 // depth of a slot
#endif
#ifndef stages
#define stages 4 // slots in shared memory, each for a part of A and one of B
#endif
#ifndef consumers
#define consumers 2 // warp groups that multiply; they share a tile's columns
#endif
#ifndef producer_registers
#define producer_registers 0 // of each thread of the warp group that fetches; 0: as many as the others have
#endif
#ifndef consumer_registers
#define consumer_registers 232 // of each thread of the others, where they take some
#endif
#ifndef in_flight
#define in_flight 0 // groups of products that may go on while the next one begins
#endif
#ifndef together
#define together 1 // splits whose blocks are a cluster
#endif
#ifndef clusters
#define clusters 1 // such clusters per tile
#endif
#ifndef band
#define band 1 // columns of tiles per band, each walked down all rows before the next
#endif
#ifndef width_c
#define width_c 1 // numbers of C that are written at once: 8 or 2, of which N is a multiple, or 1
#endif

#define HEIGHT (block_n / consumers / 64)
#define WORKERS (128 * consumers)
#define THREADS (WORKERS + 128)
#define READY 2  // the named barrier at which the barriers are initialised
#define STAGED 3 // that at which outputs are in shared memory
static_assert(HEIGHT * consumers * 64 == block_n, "a warp group has a multiple of 64 columns");
static_assert(stages > in_flight, "a slot is freed only when later products have begun");
static_assert(producer_registers == 0 || producer_registers + consumers * consumer_registers <=
                                             65536 / THREADS / 8 * 8 * (consumers + 1),
              "the warp groups have the registers that the block was launched with");
static_assert(stages * block_k * (block_m + block_n) >= block_m * (block_n + 8), "outputs go where the slots were");

#include "meet.h"

using Slot = TurnedTiles<block_m, block_n, block_k, !transposed_b>;

KERNEL void __launch_bounds__(THREADS, 1) CLUSTER
    wgmma_turned(real *C, const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b,
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
            initialize(&freed[slot], consumers); // all that read it
        }
        fence_initialized();
    }

    // The tile of this block, and its part of the depth. Blocks that follow one another have the same columns of B.
    const unsigned high = (M + block_m - 1) / block_m, wide = (N + block_n - 1) / block_n;
    const unsigned tile = blockIdx.x / SPLITS, split = blockIdx.x % SPLITS;
    const unsigned matrix = tile / (high * wide), in_matrix = tile - matrix * (high * wide);
    const unsigned first = in_matrix / (band * high) * band, in_band = in_matrix - first * high;
    const unsigned here = band == 1 ? 1 : min(band, wide - first);
    const unsigned down = in_band / here;
    const int row = down * block_m, column = (first + in_band - down * here) * block_n;
    const Steps steps(split, K);

    Ring<stages> ring;
    if (warp >= 4 * consumers) {
        if (producer_registers) {
            give_registers<producer_registers ? producer_registers : 24>();
        }
        if (warp > 4 * consumers) {
            return;
        }
        __syncwarp(); // the others of this warp wait at the barriers, too
        arrive_named(READY, WORKERS + 32);
        const bool leads = is_elected();
#pragma unroll 1 // code that has not run before is slow to come
        for (int k = 0; k < steps.count; k++) {
            wait(&freed[ring.slot], ring.parity ^ 1); // at first, the phase before the first has ended
            Slot::fetch(slots + ring.slot * Slot::SIZE, &arrived[ring.slot], &map_a, &map_b, row, column,
                        (steps.begin + k) * block_k, matrix, leads);
            ring.advance();
        }
        return;
    }

    if (producer_registers) {
        take_registers<producer_registers ? consumer_registers : 24>();
    }
    wait_named(READY, WORKERS + 32);
    const int group_column = warp / 4 * (64 * HEIGHT), warp_column = group_column + warp % 4 * 16;
    const Slot factors(slots, group_column);
    const auto release = [&](int slot) {
        if (threadIdx.x % 128 == 0) {
            arrive(&freed[slot]);
        }
    };
    float sum[HEIGHT][block_m / 2];
    if (SPLITS > 1 && steps.count == 0) { // more splits than steps
#pragma unroll
        for (int i = 0; i < HEIGHT; i++) {
#pragma unroll
            for (int j = 0; j < block_m / 2; j++) {
                sum[i][j] = 0.0f;
            }
        }
    }
    for (int k = 0; k < steps.count; k++) {
        wait(&arrived[ring.slot], ring.parity);
        factors.multiply<real>(sum, ring.slot, k > 0);
        wait_for_products<in_flight>();
        if (k >= in_flight) {
            release(in_flight == 0 ? ring.slot : ring.slot > 0 ? ring.slot - 1 : stages - 1);
        }
        ring.advance();
    }
    wait_for_products<0>();
    settle(sum);
    wait_named(WORKING, WORKERS); // all products are done: shared memory is free

    real *const C_here = C + (size_t)matrix * M * N;
#if SPLITS == 1
    if (width_c == 8 && beta == 0.0f) {
        write_turned<real, block_m, block_n, HEIGHT, WORKERS, STAGED>(sum, C_here, slots, warp_column, row, column, M, N,
                                                                      alpha);
        return;
    }
#endif
    const int first_x = column + warp_column;
    const TurnedFours<real, block_m / 8, (width_c > 1)> outputs = {C_here, N - first_x, row, first_x, M, N, alpha, beta};
    meet((const float(&)[HEIGHT * block_m / 8][4])sum, outputs, split, tile, (float4 *)start, workspace, semaphores);
}
