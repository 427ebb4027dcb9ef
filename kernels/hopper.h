// What GPUs of compute capability 9.0 add, in PTX: copies of boxes of an array by the tensor memory accelerator (TMA),
// the barriers in shared memory that tell when they have arrived, and products by a group of four warps (wgmma). CUDA
// alone, compiled for sm_90a.
//
// A box is described by a tensor map, which the host encodes for an array and passes by value: the kernel's parameter
// is `const __grid_constant__ CUtensorMap`. Coordinates count elements, the column first. What lies outside the array
// is read as 0, and not written. The shared memory of a box begins at a multiple of 128 bytes, or of 1024 if it is
// swizzled.
#ifndef HOPPER_H
#define HOPPER_H

#ifndef __cuda_cuda_h__ // NVRTC has no <cuda.h>
struct alignas(64) CUtensorMap {
    unsigned long long words[16];
};
#endif

typedef unsigned long long Barrier;

// The address in shared memory, as PTX wants it.
__device__ __forceinline__ unsigned shared_address(const void *pointer) {
    return (unsigned)__cvta_generic_to_shared(pointer);
}

// The first multiple of `bytes` in shared memory from `pointer` on; `bytes` is a power of two.
__device__ __forceinline__ char *aligned_shared(char *pointer, unsigned bytes) {
    return pointer + (0u - shared_address(pointer) & (bytes - 1));
}

// One thread arrives at each phase of the barrier. It also initialises it; fence_barriers() then shows it to the TMA,
// and __syncthreads() to the block.
__device__ __forceinline__ void initialize(Barrier *barrier) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(barrier)) : "memory");
}

__device__ __forceinline__ void fence_barriers() {
    asm volatile("fence.mbarrier_init.release.cluster;\n\tfence.proxy.async.shared::cta;" ::: "memory");
}

// Arrive. The phase ends when that many bytes have arrived, too.
__device__ __forceinline__ void expect(Barrier *barrier, unsigned bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes)
                 : "memory");
}

// Wait until the phase of that parity has ended: 0 for the first, 1 for the second, 0 for the third.
__device__ __forceinline__ void wait(Barrier *barrier, unsigned parity) {
    asm volatile("{\n\t"
                 ".reg .pred done;\n"
                 "again:\n\t"
                 "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n\t"
                 "@!done bra again;\n\t"
                 "}" ::"r"(shared_address(barrier)),
                 "r"(parity)
                 : "memory");
}

// Begin to copy the box at `column`, `row` to shared memory. Its bytes arrive at the barrier, those outside of the
// array, too.
__device__ __forceinline__ void load_box(void *shared, const CUtensorMap *map, int column, int row, Barrier *barrier) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3}], [%4];" ::"r"(shared_address(shared)),
                 "l"(map), "r"(column), "r"(row), "r"(shared_address(barrier))
                 : "memory");
}

// Begin to copy a box from shared memory to `column`, `row`. What threads have written there before must be fenced by
// fence.proxy.async.
__device__ __forceinline__ void store_box(const CUtensorMap *map, int column, int row, const void *shared) {
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];\n\t"
                 "cp.async.bulk.commit_group;" ::"l"(map),
                 "r"(column), "r"(row), "r"(shared_address(shared))
                 : "memory");
}

// Wait until all boxes that this thread stores are written.
__device__ __forceinline__ void wait_for_stores() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }

// The descriptor of a tile of 16-bit numbers for wgmma, 64 deep, whose rows are 128 bytes of shared memory, swizzled by
// 128 bytes: 8 rows are 1024 bytes. `bytes` goes on along the depth: 32 for each 16 numbers.
__device__ __forceinline__ unsigned long long tile_descriptor(const void *tile, unsigned bytes) {
    const unsigned long long start = (shared_address(tile) + bytes) >> 4 & 0x3fff;
    const unsigned long long eight_rows = 1024 >> 4, swizzled_by_128 = 1;
    return start | 1ull << 16 | eight_rows << 32 | swizzled_by_128 << 62;
}

// Before the first product that reads registers or shared memory.
__device__ __forceinline__ void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

// Wait until all products are done that this warp group has begun.
__device__ __forceinline__ void end_products() {
    asm volatile("wgmma.commit_group.sync.aligned;\n\twgmma.wait_group.sync.aligned 0;" ::: "memory");
}

// Begin sum += A B^T, or sum = A B^T where `add` is 0: A is 64 x 16 and B is 64 x 16, both halves, in shared memory.
//
// Of thread t of the warp group, sum[4 j + 2 i + k] is the output at row t / 32 * 16 + t % 32 / 4 + 8 i, and at column
// 8 j + t % 4 * 2 + k.
__device__ __forceinline__ void multiply_64x64x16(float (&sum)[32], unsigned long long a, unsigned long long b,
                                                  int add) {
    asm volatile("{\n\t"
                 ".reg .pred add;\n\t"
                 "setp.ne.b32 add, %34, 0;\n\t"
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 "
                 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
                 "%32, %33, add, 1, 1, 0, 0;\n\t"
                 "}"
                 : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3]), "+f"(sum[4]), "+f"(sum[5]), "+f"(sum[6]),
                   "+f"(sum[7]), "+f"(sum[8]), "+f"(sum[9]), "+f"(sum[10]), "+f"(sum[11]), "+f"(sum[12]),
                   "+f"(sum[13]), "+f"(sum[14]), "+f"(sum[15]), "+f"(sum[16]), "+f"(sum[17]), "+f"(sum[18]),
                   "+f"(sum[19]), "+f"(sum[20]), "+f"(sum[21]), "+f"(sum[22]), "+f"(sum[23]), "+f"(sum[24]),
                   "+f"(sum[25]), "+f"(sum[26]), "+f"(sum[27]), "+f"(sum[28]), "+f"(sum[29]), "+f"(sum[30]),
                   "+f"(sum[31])
                 : "l"(a), "l"(b), "r"(add));
}

#endif
