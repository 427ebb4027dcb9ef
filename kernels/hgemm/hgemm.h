// What the stages of hgemm share from 02 on: halves as bits, and the instructions that C++ has no words for.
#ifndef HGEMM_H
#define HGEMM_H

typedef unsigned short half; // its bits: the kernels only move halves, and tensor cores alone compute with them

// Where `pointer` lies in shared memory, which is how the instructions below name a place there.
__device__ __forceinline__ unsigned shared_address(const void *pointer) {
    return (unsigned)__cvta_generic_to_shared(pointer);
}

// ldmatrix reads matrices of 8 x 8 halves. Lane 8 m + r gives the address of row r of matrix m, 16 bytes long and
// aligned; each lane then holds in to[m] the neighbours 2 (lane % 4) and 2 (lane % 4) + 1 of row lane / 4. With
// `transposed` it holds those of column lane / 4, which is what mma wants of a row-major B.
__device__ __forceinline__ void ldmatrix_2(unsigned (&to)[2], unsigned address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                 : "=r"(to[0]), "=r"(to[1])
                 : "r"(address)
                 : "memory");
}

__device__ __forceinline__ void ldmatrix_1_transposed(unsigned &to, unsigned address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%0}, [%1];" : "=r"(to) : "r"(address) : "memory");
}

__device__ __forceinline__ void ldmatrix_4(unsigned (&to)[4], unsigned address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(address)
                 : "memory");
}

__device__ __forceinline__ void ldmatrix_4_transposed(unsigned (&to)[4], unsigned address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(address)
                 : "memory");
}

// sum += a b, where a is 16 x 8, b 8 x 8 and sum 16 x 8. a0 and a1 are the upper and the lower 8 x 8 of a; a lane's
// sum[0] and sum[1] are in row lane / 4, columns 2 (lane % 4) and the next, sum[2] and sum[3] 8 rows below.
__device__ __forceinline__ void mma_16x8x8(float (&sum)[4], unsigned a0, unsigned a1, unsigned b) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a0), "r"(a1), "r"(b));
}

// The same, twice as deep: a[2], a[3] and b1 are the second 8 of k.
__device__ __forceinline__ void mma_16x8x16(float (&sum)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Copies 16 bytes from global to shared memory in the background: the first `bytes` (0 or 16) of them, then zeros.
__device__ __forceinline__ void copy_async(unsigned address, const void *source, int bytes) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :
                 : "r"(address), "l"(__cvta_generic_to_global(source)), "r"(bytes)
                 : "memory");
}

// Makes one group of the copies that this thread began since the last call.
__device__ __forceinline__ void commit_copies() {
    asm volatile("cp.async.commit_group;" : : : "memory");
}

// Waits until at most `groups` of this thread's groups, the latest, are under way.
template <int groups> __device__ __forceinline__ void wait_for_copies() {
    asm volatile("cp.async.wait_group %0;" : : "n"(groups) : "memory");
}

// Whether rows of `pitch` elements can be read 16 bytes at a time.
__device__ __forceinline__ bool is_aligned(const half *matrix, int pitch) {
    return pitch % 8 == 0 && (size_t)matrix % 16 == 0;
}

// Eight neighbours of a row, of which the first `count` are in the matrix (none where it is negative) and the others
// are 0. Where the matrix is `aligned`, it is all or none of them.
__device__ __forceinline__ uint4 eight(const half *source, int count, bool aligned) {
    if (aligned) {
        return count > 0 ? *(const uint4 *)source : make_uint4(0, 0, 0, 0);
    }
    unsigned two[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const unsigned low = 2 * i < count ? source[2 * i] : 0, high = 2 * i + 1 < count ? source[2 * i + 1] : 0;
        two[i] = low | high << 16;
    }
    return make_uint4(two[0], two[1], two[2], two[3]);
}

// Writes one of a lane's rows, alpha sum + beta c, of TILES mma tiles side by side: sum[..][e] and its neighbour. `c`
// is where the first of them belongs; the row goes on for `columns`. Pairs are written at once where they are
// `aligned`. At beta = 0 nothing is read.
template <int TILES>
__device__ __forceinline__ void write_row(float *c, const float (&sum)[TILES][4], int e, float alpha, float beta,
                                          int columns, bool aligned) {
    if (aligned) {
        float2 old[TILES] = {};
        if (beta != 0.0f) {
#pragma unroll
            for (int j = 0; j < TILES; j++) {
                if (j * 8 < columns) {
                    old[j] = *(const float2 *)(c + j * 8);
                }
            }
        }
#pragma unroll
        for (int j = 0; j < TILES; j++) {
            if (j * 8 < columns) {
                const float x = alpha * sum[j][e] + beta * old[j].x, y = alpha * sum[j][e + 1] + beta * old[j].y;
                __stcs((float2 *)(c + j * 8), make_float2(x, y)); // not to be read again soon: A and B are
            }
        }
    } else {
#pragma unroll
        for (int j = 0; j < 2 * TILES; j++) {
            const int column = j / 2 * 8 + j % 2;
            if (column < columns) {
                c[column] = SCALED(alpha, sum[j / 2][e + j % 2], beta, c[column]);
            }
        }
    }
}

#endif
