// C[b] = alpha * A[b] B[b] + beta * C[b], row-major, halves multiplied by tensor cores, one warp per tile of C.
//
// A is M x K and B is K x N, of halves; C is M x N, of floats; blocks are (columns, rows, batch). A warp computes
// wmma_m x wmma_n outputs. It reads its operands from global memory, 16 columns of A and 16 rows of B at a time; the
// warps of a block share nothing but the L1 cache. What lies outside the matrices, or is not aligned as WMMA wants it,
// is laid out in shared memory, with 0 around it, so any size works.
// Against sgemm/03_naive: a warp multiplies 16 x 16 by 16 x 16 numbers in one call, which is two instructions, where a
// thread multiplies them one by one.
// Idea: cuda-gemm-from-scratch, stage 7.
#include <mma.h>

#include "portable.h"

#ifndef wmma_m
#define wmma_m 16 // rows per warp
#endif
#ifndef wmma_n
#define wmma_n 16 // columns per warp
#endif
#ifndef warps_x
#define warps_x 1 // warps per block, side by side
#endif
#ifndef warps_y
#define warps_y 1 // warps per block, below one another
#endif
#ifndef unroll_k
#define unroll_k 1 // steps of the loop that are unrolled
#endif
#ifndef fixed_n
#define fixed_n 0 // N if it is known when compiling, so that addresses become constants; else 0
#endif
#ifndef fixed_k
#define fixed_k 0 // K, likewise
#endif

#if !(wmma_m == 16 && wmma_n == 16) && !(wmma_m == 8 && wmma_n == 32)
#error "WMMA has tiles of 16 x 16 and 8 x 32; those of 32 x 8 would begin where WMMA cannot read"
#endif

#define DEPTH 16
#define WARPS (warps_x * warps_y)

namespace wmma = nvcuda::wmma;

KERNEL void __launch_bounds__(WARPS * 32)
    hgemm_wmma_naive(float *__restrict__ C, const half *__restrict__ A, const half *__restrict__ B, int M, int N, int K,
                     int batch, float alpha, float beta) {
    __shared__ __align__(32) half edge_a[WARPS][wmma_m][DEPTH];
    __shared__ __align__(32) half edge_b[WARPS][DEPTH][wmma_n];
    __shared__ __align__(32) float sums[WARPS][wmma_m][wmma_n];

    N = fixed_n ? fixed_n : N;
    K = fixed_k ? fixed_k : K;

    // Place the warp, and this thread in it.
    const int lane = threadIdx.x % 32, warp = threadIdx.y * warps_x + threadIdx.x / 32;
    const int first_column = (blockIdx.x * warps_x + threadIdx.x / 32) * wmma_n;
    const int first_row = (blockIdx.y * warps_y + threadIdx.y) * wmma_m;
    const size_t b = blockIdx.z;
    A += b * M * K;
    B += b * K * N;
    C += b * M * N;

    wmma::fragment<wmma::matrix_a, wmma_m, wmma_n, DEPTH, half, wmma::row_major> in_a;
    wmma::fragment<wmma::matrix_b, wmma_m, wmma_n, DEPTH, half, wmma::row_major> in_b;
    wmma::fragment<wmma::accumulator, wmma_m, wmma_n, DEPTH, float> sum;
    wmma::fill_fragment(sum, 0.0f);

    // Multiply what lies inside, straight from the matrices. WMMA reads tiles that begin at multiples of 32 bytes, and
    // whose rows are a multiple of 8 halves apart.
    int k0 = 0;
    const bool aligned = K % 8 == 0 && N % 8 == 0 && (size_t)A % 32 == 0 && (size_t)B % 32 == 0;
    if (aligned && first_row + wmma_m <= M && first_column + wmma_n <= N) {
#pragma unroll unroll_k
        for (; k0 <= K - DEPTH; k0 += DEPTH) {
            wmma::load_matrix_sync(in_a, A + (size_t)first_row * K + k0, K);
            wmma::load_matrix_sync(in_b, B + (size_t)k0 * N + first_column, N);
            wmma::mma_sync(sum, in_a, in_b, sum);
        }
    }

    // Copy what is left to shared memory, and multiply it.
    for (; k0 < K; k0 += DEPTH) {
        for (int i = lane; i < wmma_m * DEPTH; i += 32) {
            const int row = first_row + i / DEPTH, k = k0 + i % DEPTH;
            edge_a[warp][i / DEPTH][i % DEPTH] = row < M && k < K ? A[(size_t)row * K + k] : __float2half(0.0f);
        }
        for (int i = lane; i < DEPTH * wmma_n; i += 32) {
            const int k = k0 + i / wmma_n, column = first_column + i % wmma_n;
            edge_b[warp][i / wmma_n][i % wmma_n] = k < K && column < N ? B[(size_t)k * N + column] : __float2half(0.0f);
        }
        __syncwarp();
        wmma::load_matrix_sync(in_a, &edge_a[warp][0][0], DEPTH);
        wmma::load_matrix_sync(in_b, &edge_b[warp][0][0], wmma_n);
        wmma::mma_sync(sum, in_a, in_b, sum);
        __syncwarp(); // nobody may copy the next step while another lane still reads this one
    }

    // Write. Only WMMA knows which lane holds which sum, so they go through shared memory.
    wmma::store_matrix_sync(&sums[warp][0][0], sum, wmma_n, wmma::mem_row_major);
    __syncwarp();
    for (int i = lane; i < wmma_m * wmma_n; i += 32) {
        const int row = first_row + i / wmma_n, column = first_column + i % wmma_n;
        if (row < M && column < N) {
            float *c = C + (size_t)row * N + column;
            *c = SCALED(alpha, sums[warp][i / wmma_n][i % wmma_n], beta, *c);
        }
    }
}
