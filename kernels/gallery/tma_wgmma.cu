// C = A B^T, row-major: A is M x K, B is N x K, both halves, and C is M x N floats: the product of a linear layer.
//
// The tensor memory accelerator fetches 64-deep tiles of A and B into shared memory, and groups of four warps multiply
// from there by wgmma. A block has `groups` warp groups, each with 64 rows of the block's tile, and all its 64 * parts
// columns. Tiles are fetched `stages` ahead: one thread asks for the next as soon as all have read the oldest. Tuned
// are the tile and the stages. More warps and more stages hide more, and leave less room for another block. Outside of
// the matrices, tiles are 0. CUDA alone, compute capability 9.0: see hopper.h.
#include <cuda_fp16.h>

#include "hopper.h"

#ifndef groups
#define groups 1 // of 64 rows
#endif
#ifndef parts
#define parts 1 // of 64 columns
#endif
#ifndef stages
#define stages 2
#endif

#define THREADS (128 * groups)
#define DEPTH 64 // halves: 128 bytes, the widest swizzle
#define ROWS (64 * groups)
#define COLUMNS (64 * parts)
#define PART_BYTES (64 * DEPTH * 2) // of the tile of a warp group, or of a part
#define STAGE_BYTES ((groups + parts) * PART_BYTES)

// Ask for both tiles from k on.
__device__ __forceinline__ void fetch(char *stage, Barrier *arrived, const CUtensorMap *map_a, const CUtensorMap *map_b,
                                      int row, int column, int k) {
    expect(arrived, STAGE_BYTES);
    load_box(stage, map_a, k, row, arrived);
    load_box(stage + groups * PART_BYTES, map_b, k, column, arrived);
}

// sum += the product of both tiles, for this warp group. `first` is 1 where there is no sum yet.
__device__ __forceinline__ void multiply_tiles(float (&sum)[parts][32], const char *stage, int group, int first) {
    begin_products();
#pragma unroll
    for (int k = 0; k < DEPTH; k += 16) {
        const unsigned long long a = tile_descriptor(stage + group * PART_BYTES, 2 * k);
#pragma unroll
        for (int part = 0; part < parts; part++) {
            multiply_64x64x16(sum[part], a, tile_descriptor(stage + (groups + part) * PART_BYTES, 2 * k),
                              !first || k > 0);
        }
    }
    end_products();
}

extern "C" __global__ void __launch_bounds__(THREADS)
    tma_wgmma(float *__restrict__ C, const __grid_constant__ CUtensorMap map_a,
              const __grid_constant__ CUtensorMap map_b, int M, int N, int K) {
    extern __shared__ char memory[];
    __shared__ Barrier arrived[stages];

    char *tiles = aligned_shared(memory, 1024);
    const int row = blockIdx.y * ROWS, column = blockIdx.x * COLUMNS, count = (K + DEPTH - 1) / DEPTH;
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < stages; stage++) {
            initialize(&arrived[stage]);
        }
        fence_barriers();
        for (int tile = 0; tile < stages && tile < count; tile++) {
            fetch(tiles + tile * STAGE_BYTES, &arrived[tile], &map_a, &map_b, row, column, tile * DEPTH);
        }
    }
    __syncthreads();

    const int group = threadIdx.x / 128, thread = threadIdx.x % 128;
    float sum[parts][32];
    for (int tile = 0; tile < count; tile++) {
        const int stage = tile % stages;
        wait(&arrived[stage], tile / stages % 2);
        multiply_tiles(sum, tiles + stage * STAGE_BYTES, group, tile == 0);
        __syncthreads(); // all have read these tiles
        if (threadIdx.x == 0 && tile + stages < count) {
            fetch(tiles + stage * STAGE_BYTES, &arrived[stage], &map_a, &map_b, row, column, (tile + stages) * DEPTH);
        }
    }

    const int first_row = row + group * 64 + thread / 32 * 16 + thread % 32 / 4; // see multiply_64x64x16
    const int first_column = column + thread % 4 * 2;
#pragma unroll
    for (int part = 0; part < parts; part++) {
#pragma unroll
        for (int i = 0; i < 32; i++) {
            const int y = first_row + i / 2 % 2 * 8, x = first_column + part * 64 + i / 4 * 8 + i % 2;
            if (y < M && x < N) {
                C[(size_t)y * N + x] = sum[part][i];
            }
        }
    }
}
