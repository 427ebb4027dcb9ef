// C[b] = alpha * A[b] B[b] + beta * C[b], row-major, halves multiplied by wgmma: some warps fetch, others multiply.
//
// A is M x K and B is K x N, of halves; C is M x N, of floats; blocks are (columns, rows, batch). A block has one warp
// group that fetches, and `consumers` that multiply, each with as many of its block_m rows.
//
// Against 09_wgmma, where a thread asks for the next tile when all have finished with one, and all wait for each other:
// - One thread of the first warp group asks for tiles, as long as there are free slots. Two barriers for each slot make
//   a queue of them: `arrived` tells that its tiles are there, and `freed` that all warp groups have read them. Nobody
//   waits for anything else, and the warp groups drift apart: one can wait while the other multiplies.
// - setmaxnreg: the warp group that fetches gives registers back (it keeps producer_registers), and the others take
//   them. The sums of larger tiles then fit.
// - in_flight = 1: the products of a slot are begun before those of the slot before have ended, so that the tensor
//   cores always have work. That slot is freed one step later.
// - band: blocks are walked in bands of so many block rows, which share tiles of A and B in the L2 cache.
// On an H200 at 4096 that is 0.201 ms instead of 0.223. The default is the tile of fast.cu's step of this kind.
// On the border, what lies outside of A and B is read as 0, and each thread looks where it writes C.
// Ideas: CUTLASS ("warp-specialized"), and fast.cu. Compute capability 9.0: see hopper.h.
#include "portable.h"
#include "wgmma.h"

#ifndef block_m
#define block_m 128 // rows per block
#endif
#ifndef block_n
#define block_n 256 // columns per block
#endif
#ifndef block_k
#define block_k 64 // depth of a tile
#endif
#ifndef stages
#define stages 4 // slots in shared memory, each for a tile of A and one of B
#endif
#ifndef consumers
#define consumers 2 // warp groups that multiply
#endif
#ifndef producer_registers
#define producer_registers 40 // of each thread of the warp group that fetches
#endif
#ifndef consumer_registers
#define consumer_registers 232 // of each thread of the others
#endif
#ifndef in_flight
#define in_flight 1 // groups of products that may go on while the next one begins
#endif
#ifndef band
#define band 1 // block rows per band
#endif

#define ROWS (block_m / consumers) // of a warp group
#define HEIGHT (ROWS / 64)
#define THREADS (128 * (consumers + 1))
static_assert(ROWS % 64 == 0 && ROWS * consumers == block_m, "a warp group has a multiple of 64 rows");
static_assert(stages > in_flight, "a slot is freed only when later products have begun");
static_assert(consumers == 1 || producer_registers + consumers * consumer_registers <= 65536 / THREADS / 8 * 8 *
                                                                                          (consumers + 1),
              "the warp groups have the registers that the block was launched with");

using Slot = Tiles<block_m, block_n, block_k, true>;
using Result = Outputs<float, HEIGHT, block_n>;

KERNEL void __launch_bounds__(THREADS, 1)
    hgemm_wgmma_specialized(float *__restrict__ C, const __grid_constant__ CUtensorMap map_a,
                            const __grid_constant__ CUtensorMap map_b, int M, int N, int K, int batch, float alpha,
                            float beta) {
    extern __shared__ char memory[];
    __shared__ Barrier arrived[stages], freed[stages];

    const unsigned slots = shared_address(aligned_shared(memory, 1024));
    const int block = blockIdx.y * gridDim.x + blockIdx.x, first = block / (band * gridDim.x) * band;
    const int lines = min(band, (int)gridDim.y - first), in_band = block - first * gridDim.x;
    const int row = (first + in_band % lines) * block_m, column = in_band / lines * block_n, matrix = blockIdx.z;
    const int count = (K + block_k - 1) / block_k, group = warp_group();
    if (threadIdx.x == 0) {
        for (int slot = 0; slot < stages; slot++) {
            initialize(&arrived[slot], 1);
            initialize(&freed[slot], consumers);
        }
        fence_barriers();
    }
    __syncthreads();

    Ring<stages> ring;
    if (group == 0) {
        if (consumers > 1) {
            give_registers<producer_registers>();
        }
        if (threadIdx.x == 0) {
            for (int tile = 0; tile < count; tile++) {
                wait(&freed[ring.slot], ring.parity ^ 1); // at first, the phase before the first has ended
                Slot::fetch(slots + ring.slot * Slot::SIZE, &arrived[ring.slot], &map_a, &map_b, row, column,
                            tile * block_k, matrix, 0);
                ring.advance();
            }
        }
        return;
    }

    if (consumers > 1) {
        take_registers<consumer_registers>();
    }
    const int first_row = (group - 1) * ROWS, thread = threadIdx.x % 128;
    float sum[HEIGHT][block_n / 2];
    for (int tile = 0; tile < count; tile++) {
        wait(&arrived[ring.slot], ring.parity);
        Slot::multiply<__half>(sum, slots + ring.slot * Slot::SIZE, first_row, tile > 0);
        wait_for_products<in_flight>();
        if (thread == 0 && tile >= in_flight) {
            arrive(&freed[in_flight == 0 ? ring.slot : ring.slot > 0 ? ring.slot - 1 : stages - 1]);
        }
        ring.advance();
    }
    wait_for_products<0>();
    settle(sum);

    C += (size_t)matrix * M * N;
    Result::scale(sum, C, row + first_row, column, M, N, alpha, beta);
    Result::write(sum, C, row + first_row, column, M, N);
}
