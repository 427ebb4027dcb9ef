// C = A B^T, row-major: A is M x K, B is N x K, both halves, and C is M x N floats: the product of a linear layer.
//
// The tensor memory accelerator (TMA) fetches 64-deep tiles of A and B into shared memory, groups of four warps
// multiply from there by wgmma, and the TMA stores the outputs, box by box. A block has `groups` warp groups that
// multiply, each with 64 rows of the block's tile and all its 64 * parts columns. One more fetches, into `stages`
// slots: two barriers for each tell that its tiles are there, and that all have read them, so that nobody waits for
// anything else. At most `blocks` blocks stay, and take one tile of C after the other: while outputs are stored, the
// next tiles of A and B arrive. Tiles are walked in bands of `band` rows of them, which share tiles of A and B in the
// L2 cache.
//
// Tuned are all of these, and how many boxes a warp has on their way. More warps and more stages hide more, and leave
// less room for another block. Outside of the matrices, tiles are 0, and nothing is stored. CUDA alone, compute
// capability 9.0: see hopper.h.
#include "portable.h"
#include "bulk.h"

#ifndef groups
#define groups 2 // of 64 rows
#endif
#ifndef parts
#define parts 2 // of 64 columns
#endif
#ifndef stages
#define stages 4
#endif
#ifndef band
#define band 8 // rows of tiles
#endif
#ifndef boxes
#define boxes 1 // of a warp, on their way to C
#endif

#include "wgmma.h"

#define THREADS (128 * (groups + 1))
#define DEPTH 64 // halves: 128 bytes, the widest swizzle
#define ROWS (64 * groups)
#define COLUMNS (64 * parts)
#define GROUP_BYTES (64 * DEPTH * 2) // of the rows of a warp group, in a slot
#define SLOT_BYTES ((ROWS + COLUMNS) * DEPTH * 2)
#define BOX_BYTES (16 * 128) // of 16 rows by 32 floats

// sum += the product of both tiles, for this warp group; `first` is 1 where there is no sum yet.
__device__ __forceinline__ void multiply_tiles(float (&sum)[32 * parts], const char *slot, int group, int first) {
    begin_products();
#pragma unroll
    for (int k = 0; k < DEPTH; k += 16) {
        multiply_16_deep(sum, tile_descriptor(slot + group * GROUP_BYTES, 2 * k),
                         tile_descriptor(slot + groups * GROUP_BYTES, 2 * k), !first || k > 0);
    }
    end_products();
}

// Begin to store this warp's 16 rows of outputs, in boxes of 32 columns. The TMA finds 16 bytes of row r in the place
// that their number has with r % 8 added bit by bit: so rows lie in different banks.
__device__ __forceinline__ void store_outputs(const float (&sum)[32 * parts], char *memory, const CUtensorMap *map_c,
                                              int row, int column) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int box = 0; box < 2 * parts; box++) {
        char *here = memory + box % boxes * BOX_BYTES;
        if (lane == 0) { // until what this place held has been read
            asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(boxes - 1) : "memory");
        }
        __syncwarp();
#pragma unroll
        for (int i = 0; i < 8; i++) { // two floats each; see multiply_16_deep
            const int r = lane / 4 + i % 2 * 8, bytes = i / 2 * 32 + lane % 4 * 8;
            *(float2 *)(here + r * 128 + (bytes ^ r % 8 * 16)) =
                make_float2(sum[box * 16 + 2 * i], sum[box * 16 + 2 * i + 1]);
        }
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); // shows them to the TMA
        __syncwarp();
        if (lane == 0) {
            store_box(map_c, column + box * 32, row, here);
        }
    }
}

KERNEL void __launch_bounds__(THREADS)
    tma_wgmma(const __grid_constant__ CUtensorMap map_c, const __grid_constant__ CUtensorMap map_a,
              const __grid_constant__ CUtensorMap map_b, int M, int N, int K) {
    extern __shared__ char memory[];
    __shared__ Barrier arrived[stages], freed[stages];

    char *slots = aligned_shared(memory, 1024);
    const int high = (M + ROWS - 1) / ROWS, wide = (N + COLUMNS - 1) / COLUMNS, count = (K + DEPTH - 1) / DEPTH;
    const int group = threadIdx.x / 128, thread = threadIdx.x % 128;
    if (threadIdx.x == 0) {
        for (int slot = 0; slot < stages; slot++) {
            initialize(&arrived[slot]);
            initialize(&freed[slot], groups);
        }
        fence_barriers();
    }
    __syncthreads();

    int turn = 0; // tiles of A and B go round the slots
    for (int tile = blockIdx.x; tile < high * wide; tile += gridDim.x) {
        const int first = tile / (band * wide) * band, lines = min(band, high - first), in_band = tile - first * wide;
        const int row = (first + in_band % lines) * ROWS, column = in_band / lines * COLUMNS;
        if (group == groups && thread == 0) {
            for (int k = 0; k < count; k++, turn++) {
                const int slot = turn % stages;
                char *to = slots + slot * SLOT_BYTES;
                wait(&freed[slot], turn / stages % 2 ^ 1); // at first, the phase before the first has ended
                expect(&arrived[slot], SLOT_BYTES);
                load_box(to, &map_a, k * DEPTH, row, &arrived[slot]);
                load_box(to + groups * GROUP_BYTES, &map_b, k * DEPTH, column, &arrived[slot]);
            }
        } else if (group < groups) {
            float sum[32 * parts];
            for (int k = 0; k < count; k++, turn++) {
                const int slot = turn % stages;
                wait(&arrived[slot], turn / stages % 2);
                multiply_tiles(sum, slots + slot * SLOT_BYTES, group, k == 0);
                if (thread == 0) {
                    arrive(&freed[slot]);
                }
            }
            settle(sum);
            store_outputs(sum, slots + stages * SLOT_BYTES + threadIdx.x / 32 * boxes * BOX_BYTES, &map_c,
                          row + group * 64 + thread / 32 * 16, column);
        }
    }
    if (group < groups && thread % 32 == 0) {
        wait_for_stores(); // shared memory lasts no longer than this block
    }
}
