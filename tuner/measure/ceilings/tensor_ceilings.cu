// Tensor-core throughput of FP16 products with FP32 accumulation: warps multiply the same tiles repeatedly.
//
// A is [M][K] and B [N][K], both FP16. In every step, each warp, or each group of four warps with WGMMA, adds A B^T to
// its own accumulator [M][N], and finally stores that to its part of `sums`.
#ifndef WGMMA

// mma.sync, from sm_80 on: A and B are in registers. M is 16 MT, N is 8 NT, K is 16.
extern "C" __global__ __launch_bounds__(THREADS) void multiply_tiles(float *sums, const unsigned int *A,
                                                                     const unsigned int *B, long steps) {
    const int lane = threadIdx.x % 32, row = lane / 4, pair = lane % 4;
    unsigned int a[MT][4], b[NT][2]; // two FP16 numbers each; PTX ISA, "Matrix Fragments for mma.m16n8k16"
    float d[MT][NT][4] = {};
    for (int m = 0; m < MT; m++) {
        for (int i = 0; i < 4; i++) {
            a[m][i] = A[(16 * m + row + i % 2 * 8) * 8 + pair + i / 2 * 4];
        }
    }
    for (int n = 0; n < NT; n++) {
        for (int i = 0; i < 2; i++) {
            b[n][i] = B[(8 * n + row) * 8 + pair + i * 4];
        }
    }
    for (long step = 0; step < steps; step++) {
#pragma unroll
        for (int m = 0; m < MT; m++) {
#pragma unroll
            for (int n = 0; n < NT; n++) {
                asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                             "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                             : "+f"(d[m][n][0]), "+f"(d[m][n][1]), "+f"(d[m][n][2]), "+f"(d[m][n][3])
                             : "r"(a[m][0]), "r"(a[m][1]), "r"(a[m][2]), "r"(a[m][3]), "r"(b[n][0]), "r"(b[n][1]));
            }
        }
    }
    sums += (blockIdx.x * (long)(THREADS / 32) + threadIdx.x / 32) * (16 * MT * 8 * NT);
    for (int m = 0; m < MT; m++) {
        for (int n = 0; n < NT; n++) {
            for (int i = 0; i < 4; i++) {
                sums[(16 * m + row + i / 2 * 8) * (8 * NT) + 8 * n + 2 * pair + i % 2] = d[m][n][i];
            }
        }
    }
}

#else

// wgmma, on sm_90a: A and B are in shared memory. M is 64 per group of four warps, N is 256, K is 64: four
// instructions.
#define GROUPS (THREADS / 128)
#define D4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define D16(i) D4(i), D4(i + 4), D4(i + 8), D4(i + 12)
#define D64(i) D16(i), D16(i + 16), D16(i + 32), D16(i + 48)

// The index of a 16-byte chunk in a tile [rows][64] of FP16 numbers; PTX ISA, "Shared Memory Matrix Layout". With
// SWIZZLED, each row is 128 contiguous bytes, whose chunks are permuted by the row number. Otherwise, 8 rows of one
// chunk each are contiguous (a core matrix), and the 8 core matrices of the same 8 rows follow one another.
static __device__ int place(int row, int column) {
    return SWIZZLED ? row * 8 + (column ^ row % 8) : (row / 8 * 8 + column) * 8 + row % 8;
}

// The matrix descriptor of a tile: its address, and the distances between its core matrices along K and along rows, in
// units of 16 bytes.
static __device__ unsigned long long descriptor(const void *tile) {
    const unsigned long long address = __cvta_generic_to_shared(tile), rows = 1024 / 16;
    const unsigned long long columns = SWIZZLED ? 1 : 128 / 16, kind = SWIZZLED ? 1 : 0;
    return (address & 0x3ffff) >> 4 | columns << 16 | rows << 32 | kind << 62;
}

extern "C" __global__ __launch_bounds__(THREADS) void multiply_tiles(float *sums, const uint4 *A, const uint4 *B,
                                                                     long steps) {
    __shared__ __align__(1024) uint4 tiles[(64 * GROUPS + 256) * 8];
    uint4 *const of_b = tiles + 64 * GROUPS * 8;
    for (int i = threadIdx.x; i < 64 * GROUPS * 8; i += THREADS) {
        tiles[place(i / 8, i % 8)] = A[i];
    }
    for (int i = threadIdx.x; i < 256 * 8; i += THREADS) {
        of_b[place(i / 8, i % 8)] = B[i];
    }
    asm volatile("fence.proxy.async;" ::: "memory"); // wgmma reads shared memory through the async proxy
    __syncthreads();
    const int group = threadIdx.x / 128, warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
    const unsigned long long a = descriptor(tiles + group * 64 * 8), b = descriptor(of_b);
    const int next = SWIZZLED ? 32 / 16 : 2 * 128 / 16; // from 16 columns to the next 16
    float d[128] = {};
    for (long step = 0; step < steps; step++) {
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
        for (int k = 0; k < 4; k++) {
            asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %130, 0;\n"
                         "wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16 {"
                         "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
                         "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
                         "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
                         "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
                         "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
                         "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "
                         "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "
                         "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, "
                         "%127}, %128, %129, p, 1, 1, 0, 0;\n}"
                         : D64(0), D64(64)
                         : "l"(a + k * next), "l"(b + k * next), "r"(1));
        }
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
    }
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    sums += (blockIdx.x * (long)GROUPS + group) * (64 * 256) + (warp * 16 + lane / 4) * 256 + lane % 4 * 2;
#pragma unroll
    for (int i = 0; i < 128; i++) {
        sums[i / 2 % 2 * 8 * 256 + i / 4 * 8 + i % 2] = d[i];
    }
}

#endif
