// C[b] = alpha * A[b] B[b] + beta * C[b], row-major, all of 16 bits, multiplied by wgmma: rows begin anywhere.
//
// A is M x K, B is K x N, or N x K where transposed_b is 1 (a linear layer), and C is M x N; all are float16 or all
// bfloat16. Two steps: `pack` copies A and B to scratch, and wgmma_split.cu multiplies the copies.
//
// The TMA takes boxes only of arrays whose rows begin at multiples of 16 bytes. mma_any takes others, without copies, but
// mma.sync has at most two thirds of the speed of wgmma: so copies of M K + K N numbers, read and written once, pay where
// there are many rows and columns.
//
// They are panels of 64 columns, whose rows are 128 bytes, swizzled, as in hgemm/14_packed: what a slot of shared memory
// holds is a piece of memory for each panel, fetched without tensor maps. Zeros follow at the end of the depth. Rows and
// columns up to whole tiles are there, too, and hold anything: they count only for outputs outside of C.
// Against hgemm/14_packed: 16-bit outputs, bfloat16, a transposed B, which is packed like A, and splits of the depth.
// On an H200 with bfloat16 the best found in some seconds take 0.224 ms at 4095, where cuBLAS takes 0.912.
// Idea: packing, as in GotoBLAS and BLIS.
#define is_packed 1
#include "wgmma_split.cu"

#ifndef pack_vectors
#define pack_vectors 4 // that a thread copies, of 16 bytes
#endif

#define PACK_THREADS 256
static_assert(block_n % 64 == 0, "a tile has whole panels");

// Blocks are (those of A, then those of B; matrices).
KERNEL void __launch_bounds__(PACK_THREADS)
    pack(uint4 *packed_a, uint4 *packed_b, const real *__restrict__ A, const real *__restrict__ B, int M, int N, int K,
         int batch) {
    constexpr int COUNT = PACK_THREADS * pack_vectors; // vectors of a block
    const Panels of_a = Panels::of_a(M, K), of_b = Panels::of_b(K, N);
    const int deep = up(K, block_k);
    const int high_a = M, high_b = transposed_b ? N : deep;                            // rows that are written
    const int wide_a = deep / 8, wide_b = (transposed_b ? deep : up(N, 64)) / 8;     // vectors of a row
    const int blocks_a = (int)(((long long)high_a * wide_a + COUNT - 1) / COUNT);
    const bool is_a = (int)blockIdx.x < blocks_a;
    const Panels panels = is_a ? of_a : of_b;
    const int high = is_a ? high_a : high_b, wide = is_a ? wide_a : wide_b;
    const int rows = is_a ? M : transposed_b ? N : K, columns = is_a || transposed_b ? K : N;
    const Bits *const array = (const Bits *)(is_a ? A : B);
    const Bits *const matrix = array + (size_t)blockIdx.y * rows * columns;
    const Bits *const end = array + (size_t)batch * rows * columns;
    uint4 *const packed = is_a ? packed_a : packed_b;
    const int first = (is_a ? blockIdx.x : blockIdx.x - blocks_a) * COUNT + threadIdx.x;
#pragma unroll
    for (int i = 0; i < pack_vectors; i++) {
        const int number = first + i * PACK_THREADS, row = number / wide, piece = number - row * wide;
        if (row < high) {
            const int count = row < rows ? columns - piece * 8 : 0; // of numbers that are there
            uint4 eight = make_uint4(0, 0, 0, 0);
            if (count > 0) {
                const Bits *const source = matrix + (size_t)row * columns + piece * 8;
                const int shift = shift_of(source);
                const Bits *const vectors = source - shift;
                const uint4 low = load_before(vectors, end);
                const uint4 high_half = shift > 0 ? load_before(vectors + 8, end) : eight;
                eight = kept(moved(low, high_half, shift), count);
            }
            packed[panels.at(blockIdx.y, piece / 8, row) / 8 + (piece ^ row) % 8] = eight;
        }
    }
}
