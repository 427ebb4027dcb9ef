// What mma_any takes instead of hgemm/hgemm.h, whose halves are no types of CUDA: numbers of 16 bits, float16 or
// bfloat16, their tiles in shared memory, and the instructions that move and multiply them. See there for how ldmatrix
// and mma lay numbers out.
#ifndef MMA_H
#define MMA_H

#include "anywhere.h"
#include "hgemm/wgmma.h"

// Copy 16 bytes to shared memory in the background: the first `bytes` of them, then zeros. Only these are read.
INLINE void copy_async(unsigned address, const void *source, int bytes) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :
                 : "r"(address), "l"(__cvta_generic_to_global(source)), "r"(bytes)
                 : "memory");
}

// Makes a group of the copies that this thread has begun since the last call.
INLINE void commit_copies() { asm volatile("cp.async.commit_group;" : : : "memory"); }

// Waits until all but this thread's latest `groups` groups are done.
template <int groups> INLINE void wait_for_copies() {
    asm volatile("cp.async.wait_group %0;" : : "n"(groups) : "memory");
}

INLINE void ldmatrix_4(unsigned (&to)[4], unsigned address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(address)
                 : "memory");
}

INLINE void ldmatrix_4_transposed(unsigned (&to)[4], unsigned address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(address)
                 : "memory");
}

// sum += a b, 16 x 8 x 16.
template <class T> INLINE void multiply_mma(float (&sum)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    if constexpr (is_bfloat16<T>) {
        asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
            "{%0, %1, %2, %3};"
            : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    } else {
        asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
            "{%0, %1, %2, %3};"
            : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    }
}

// A tile of ROWS x COLUMNS numbers, row by row, in which pieces of 16 bytes change places within each row, differently
// in each of the 8 rows that ldmatrix reads at once: these lie in different banks of shared memory. THREADS threads
// bring it there, each PIECES pieces from the same columns, ROW_STEP rows apart.
template <int ROWS_, int COLUMNS_, int THREADS_> struct MmaTile {
    static constexpr int ROWS = ROWS_, COLUMNS = COLUMNS_, PER_ROW = COLUMNS / 8;
    static constexpr int EXCHANGED = PER_ROW < 8 ? PER_ROW : 8; // 8 pieces are all 32 banks
    static constexpr int PIECES = ROWS * PER_ROW / THREADS_, ROW_STEP = THREADS_ / PER_ROW;
    static_assert((PER_ROW & PER_ROW - 1) == 0, "a row holds a power of two of pieces, so that they can change places");
    static_assert(ROWS * PER_ROW % THREADS_ == 0, "all threads copy equally many pieces of 16 bytes");
    static_assert(THREADS_ % PER_ROW == 0, "all pieces that a thread copies are from the same columns");

    // Where a number lies in the tile, in numbers.
    static INLINE int at(int row, int column) {
        return row * COLUMNS + (column / 8 ^ row / (8 / EXCHANGED) % EXCHANGED) * 8 + column % 8;
    }
};

#endif
