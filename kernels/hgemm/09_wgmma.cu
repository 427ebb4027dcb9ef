// C[b] = alpha * A[b] B[b] + beta * C[b], row-major, halves multiplied by wgmma, from tiles that the TMA fetches.
//
// A is M x K and B is K x N, of halves; C is M x N, of floats; blocks are (columns, rows, batch). A block has
// `consumers` warp groups of 128 threads, each with as many of its block_m rows, and all its block_n columns.
//
// Against 08_mma_pipelined:
// - The tensor memory accelerator fetches tiles: one thread asks for a box, and a barrier in shared memory tells when
//   its bytes have arrived. No thread computes addresses, and the TMA swizzles. It also cuts boxes off at the border.
// - wgmma: four warps together multiply 64 x 16 by 16 x block_n, straight from shared memory. Fragments need no
//   registers and no ldmatrix, and the sums of 64 x 256 outputs fit in the registers of 128 threads.
// mma.sync makes at most some 65 % of what wgmma does on this hardware. On an H200 at 4096, the best of 08 takes 0.317
// ms, and a tile of 128 x 256 here 0.223. The default is the tile of CUTLASS's examples.
// On the border, what lies outside of A and B is read as 0, and each thread looks where it writes C.
// Ideas: CUTLASS, and fast.cu, which has this as its first step from wgmma on. Compute capability 9.0: see hopper.h.
#include "portable.h"
#include "wgmma.h"

#ifndef block_m
#define block_m 128 // rows per block
#endif
#ifndef block_n
#define block_n 128 // columns per block
#endif
#ifndef block_k
#define block_k 64 // depth of a tile
#endif
#ifndef stages
#define stages 4 // slots in shared memory, each for a tile of A and one of B
#endif
#ifndef consumers
#define consumers 2 // warp groups
#endif

#define ROWS (block_m / consumers) // of a warp group
#define HEIGHT (ROWS / 64)
#define THREADS (128 * consumers)
static_assert(ROWS % 64 == 0 && ROWS * consumers == block_m, "a warp group has a multiple of 64 rows");

using Slot = Tiles<block_m, block_n, block_k, true>;
using Result = Outputs<float, HEIGHT, block_n>;

KERNEL void __launch_bounds__(THREADS, 1)
    hgemm_wgmma(float *__restrict__ C, const __grid_constant__ CUtensorMap map_a,
                const __grid_constant__ CUtensorMap map_b, int M, int N, int K, int batch, float alpha, float beta) {
    extern __shared__ char memory[];
    __shared__ Barrier arrived[stages];

    const unsigned slots = shared_address(aligned_shared(memory, 1024));
    const int row = blockIdx.y * block_m, column = blockIdx.x * block_n, matrix = blockIdx.z;
    const int count = (K + block_k - 1) / block_k, group = warp_group();
    const auto fetch = [&](int tile) {
        const int slot = tile % stages;
        Slot::fetch(slots + slot * Slot::SIZE, &arrived[slot], &map_a, &map_b, row, column, tile * block_k, matrix, 0);
    };
    if (threadIdx.x == 0) {
        for (int slot = 0; slot < stages; slot++) {
            initialize(&arrived[slot], 1);
        }
        fence_barriers();
        for (int tile = 0; tile < stages && tile < count; tile++) {
            fetch(tile);
        }
    }
    __syncthreads();

    float sum[HEIGHT][block_n / 2];
    Ring<stages> ring;
    for (int tile = 0; tile < count; tile++) {
        wait(&arrived[ring.slot], ring.parity);
        Slot::multiply<__half>(sum, slots + ring.slot * Slot::SIZE, group * ROWS, tile > 0);
        wait_for_products<0>();
        __syncthreads(); // all have read these tiles
        if (threadIdx.x == 0 && tile + stages < count) {
            fetch(tile + stages);
        }
        ring.advance();
    }
    settle(sum);

    C += (size_t)matrix * M * N;
    Result::scale(sum, C, row + group * ROWS, column, M, N, alpha, beta);
    Result::write(sum, C, row + group * ROWS, column, M, N);
}
