// What gemm16/wgmma_prompt does otherwise than hgemm/wgmma.h: the threads of a warp stay together, and one of them asks
// the TMA. Where a single thread runs the code around it, addresses are in registers of that thread, and the compiler
// wraps each request in a loop that hands them over. Here they are in registers of the warp from the start.
#ifndef PROMPT_H
#define PROMPT_H

#include "hgemm/wgmma.h"

// Whether this thread is the one of its warp that asks. All threads of the warp are here; it is the same one every time.
INLINE bool is_elected() {
    int is_it;
    asm volatile("{\n\t"
                 ".reg .pred it;\n\t"
                 "elect.sync _|it, 0xffffffff;\n\t"
                 "selp.s32 %0, 1, 0, it;\n\t"
                 "}"
                 : "=r"(is_it));
    return is_it;
}

// Shows barriers to the TMA that this thread has initialised. Against fence_barriers(), it waits for nothing else.
INLINE void fence_initialized() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

// These do what those of hopper.h and wgmma.h do, where `is_elected`. A whole warp calls them.
INLINE void expect(Barrier *barrier, unsigned bytes, bool is_elected) {
    asm volatile("{\n\t"
                 ".reg .pred it;\n\t"
                 "setp.ne.b32 it, %2, 0;\n\t"
                 "@it mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;\n\t"
                 "}" ::"r"(shared_address(barrier)),
                 "r"(bytes), "r"((int)is_elected)
                 : "memory");
}

// Policies of the L2 cache, for load_box() and store_box(): what is to stay in it the longest, and the shortest.
INLINE unsigned long long evicted_last() {
    unsigned long long policy;
    asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
    return policy;
}

INLINE unsigned long long evicted_first() {
    unsigned long long policy;
    asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    return policy;
}

INLINE void load_box(unsigned shared, const CUtensorMap *map, int column, int row, int matrix, Barrier *barrier,
                     bool is_elected) {
    asm volatile("{\n\t"
                 ".reg .pred it;\n\t"
                 "setp.ne.b32 it, %6, 0;\n\t"
                 "@it cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3, %4}], [%5];\n\t"
                 "}" ::"r"(shared),
                 "l"(map), "r"(column), "r"(row), "r"(matrix), "r"(shared_address(barrier)), "r"((int)is_elected)
                 : "memory");
}

INLINE void load_box(unsigned shared, const CUtensorMap *map, int column, int row, int matrix, Barrier *barrier,
                     bool is_elected, unsigned long long policy) {
    asm volatile("{\n\t"
                 ".reg .pred it;\n\t"
                 "setp.ne.b32 it, %6, 0;\n\t"
                 "@it cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint "
                 "[%0], [%1, {%2, %3, %4}], [%5], %7;\n\t"
                 "}" ::"r"(shared),
                 "l"(map), "r"(column), "r"(row), "r"(matrix), "r"(shared_address(barrier)), "r"((int)is_elected),
                 "l"(policy)
                 : "memory");
}

INLINE void store_box(const CUtensorMap *map, int column, int row, int matrix, unsigned shared, bool is_elected) {
    asm volatile("{\n\t"
                 ".reg .pred it;\n\t"
                 "setp.ne.b32 it, %5, 0;\n\t"
                 "@it cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%0, {%1, %2, %3}], [%4];\n\t"
                 "@it cp.async.bulk.commit_group;\n\t"
                 "}" ::"l"(map),
                 "r"(column), "r"(row), "r"(matrix), "r"(shared), "r"((int)is_elected)
                 : "memory");
}

INLINE void store_box(const CUtensorMap *map, int column, int row, int matrix, unsigned shared, bool is_elected,
                      unsigned long long policy) {
    asm volatile("{\n\t"
                 ".reg .pred it;\n\t"
                 "setp.ne.b32 it, %5, 0;\n\t"
                 "@it cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group.L2::cache_hint "
                 "[%0, {%1, %2, %3}], [%4], %6;\n\t"
                 "@it cp.async.bulk.commit_group;\n\t"
                 "}" ::"l"(map),
                 "r"(column), "r"(row), "r"(matrix), "r"(shared), "r"((int)is_elected), "l"(policy)
                 : "memory");
}

// A descriptor, of its words.
INLINE unsigned long long joined(unsigned low, unsigned high) {
    unsigned long long both;
    asm("mov.b64 %0, {%1, %2};" : "=l"(both) : "r"(low), "r"(high));
    return both;
}

// Tiles of a ring of slots, the first of which begins at `slots`.
template <int HIGH, int COLUMNS, int DEPTH, bool ROW_MAJOR_B>
struct PromptTiles : Tiles<HIGH, COLUMNS, DEPTH, ROW_MAJOR_B> {
    using Base = Tiles<HIGH, COLUMNS, DEPTH, ROW_MAJOR_B>;
    static constexpr int PART = Base::PART, ROW_BYTES_B = Base::ROW_BYTES_B, SIZE_A = Base::SIZE_A, SIZE = Base::SIZE;
    static constexpr int PANEL_A = Base::PANEL_A, PANEL_B = Base::PANEL_B;

    // Ask for both tiles of a slot; a whole warp does. They have policies of the L2 cache where HAS_POLICIES.
    template <bool HAS_POLICIES>
    static INLINE void fetch(unsigned slot, Barrier *arrived, const CUtensorMap *map_a, const CUtensorMap *map_b,
                             int row, int column, int k, int matrix, bool is_elected, unsigned long long policy_a,
                             unsigned long long policy_b) {
        const auto load = [&](unsigned to, const CUtensorMap *map, int x, int y, unsigned long long policy) {
            if constexpr (HAS_POLICIES) {
                load_box(to, map, x, y, matrix, arrived, is_elected, policy);
            } else {
                load_box(to, map, x, y, matrix, arrived, is_elected);
            }
        };
        expect(arrived, SIZE, is_elected);
#pragma unroll
        for (int panel = 0; panel < DEPTH / 64; panel++) {
            load(slot + panel * PANEL_A, map_a, k + panel * 64, row, policy_a);
        }
#pragma unroll
        for (int panel = 0; panel < (ROW_MAJOR_B ? COLUMNS / PART : DEPTH / 64); panel++) {
            const int x = ROW_MAJOR_B ? column + panel * PART : k + panel * 64, y = ROW_MAJOR_B ? k : column;
            load(slot + SIZE_A + panel * PANEL_B, map_b, x, y, policy_b);
        }
    }

    // The low words of the descriptors of the first slot's tiles, of A from a row on. They count units of 16 bytes, and
    // are counted on: an address in shared memory has 14 bits of them.
    unsigned low_a, low_b;

    INLINE PromptTiles(unsigned slots, int row) {
        low_a = (unsigned)descriptor<128>(slots + row * 128, 16);
        low_b = (unsigned)descriptor<ROW_BYTES_B>(slots + SIZE_A, ROW_MAJOR_B ? PANEL_B : 16);
    }

    // Begin sum += the product of the tiles of slot number `slot`, or sum = that where is_added is 0, of HEIGHT times 64
    // rows.
    template <class T, int HEIGHT>
    INLINE void multiply(float (&sum)[HEIGHT][COLUMNS / 2], int slot, int is_added) const {
        const unsigned a = low_a + slot * (SIZE >> 4), b = low_b + slot * (SIZE >> 4);
        begin_products();
#pragma unroll
        for (int k = 0; k < DEPTH; k += 16) {
            const int on = k / 64 * PANEL_A + k % 64 * 2;
            const int on_b = ROW_MAJOR_B ? k * ROW_BYTES_B : k / 64 * PANEL_B + k % 64 * 2;
#pragma unroll
            for (int i = 0; i < HEIGHT; i++) {
                Product<COLUMNS>::template add_to<T, ROW_MAJOR_B>(
                    sum[i], joined(a + (on + 64 * i * 128 >> 4), descriptor<128>(0, 0) >> 32),
                    joined(b + (on_b >> 4), descriptor<ROW_BYTES_B>(0, 0) >> 32), k > 0 || is_added);
            }
        }
        commit_products();
    }
};

// Outputs of 16 bits, which the TMA stores. The box of a warp has 16 rows and PART columns; `row` is the first of the
// warp. Where LEAVES, they are to leave the L2 cache first.
template <class T, int HEIGHT, int COLUMNS, bool LEAVES> struct PromptOutputs : Outputs<T, HEIGHT, COLUMNS> {
    using Base = Outputs<T, HEIGHT, COLUMNS>;
    using Sums = typename Base::Sums;
    using Packed = typename Base::Packed;
    static constexpr int PART = Base::PART, ROW_BYTES = Base::ROW_BYTES, SLOT = Base::SLOT, BOXES = Base::BOXES;

    // Write sums through shared memory, where `slots` is the first of SLOTS slots of this warp. The TMA goes on to store
    // them when this returns.
    template <int SLOTS>
    static INLINE void store(const Sums &sum, const CUtensorMap *map_c, unsigned slots, int row, int column,
                             int matrix, bool is_elected) {
        static_assert(SLOTS <= BOXES && BOXES % SLOTS == 0, "the slots take turns");
#pragma unroll
        for (int turn = 0; turn < BOXES; turn += SLOTS) {
            wait_for_slot(is_elected);
#pragma unroll
            for (int slot = 0; slot < SLOTS; slot++) {
                stage(turn + slot, slots + slot * SLOT, [&](int i, int j) {
                    return packed<T>(sum[i][j], sum[i][j + 1]);
                });
            }
            fence_shared();
            __syncwarp();
#pragma unroll
            for (int slot = 0; slot < SLOTS; slot++) {
                send(turn + slot, map_c, slots + slot * SLOT, row, column, matrix, is_elected);
            }
        }
    }

    // Write one of the BOXES of what pack() gave, as store() does; this warp has one slot.
    static INLINE void store_packed(int number, const Packed &held, const CUtensorMap *map_c, unsigned slot, int row,
                                    int column, int matrix, bool is_elected) {
        wait_for_slot(is_elected);
#pragma unroll
        for (int box = 0; box < BOXES; box++) { // registers have no indices: each box has code of its own
            if (box == number) {
                stage(box, slot, [&](int i, int j) { return held[i][j / 2]; });
            }
        }
        fence_shared();
        __syncwarp();
        send(number, map_c, slot, row, column, matrix, is_elected);
    }

    // Write sums through shared memory, where `slot` is the slot of this warp. Its threads store 16 bytes each. N is a
    // multiple of 8.
    static INLINE void write(const Sums &sum, T *C, unsigned slot, int row, int column, int M, int N) {
        const int lane = threadIdx.x % 32;
#pragma unroll
        for (int box = 0; box < BOXES; box++) {
            const int i = box / (COLUMNS / PART), first = box % (COLUMNS / PART) * PART;
            stage(box, slot, [&](int i, int j) { return packed<T>(sum[i][j], sum[i][j + 1]); });
            __syncwarp();
#pragma unroll
            for (int piece = lane; piece < SLOT / 16; piece += 32) {
                const int y = row + 64 * i + piece / (PART / 8), x = column + first + piece % (PART / 8) * 8;
                const int start = piece / (PART / 8) * ROW_BYTES, byte = piece % (PART / 8) * 16;
                uint4 eight;
                asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                             : "=r"(eight.x), "=r"(eight.y), "=r"(eight.z), "=r"(eight.w)
                             : "r"(slot + start + (byte ^ start >> 3 & ROW_BYTES - 16))
                             : "memory");
                if (y < M && x < N) {
                    *(uint4 *)(C + (size_t)y * N + x) = eight;
                }
            }
            __syncwarp();
        }
    }

  private:
    static INLINE void wait_for_slot(bool is_elected) {
        if (is_elected) {
            wait_for_reads(); // the TMA has read what the slots held
        }
        __syncwarp();
    }

    // Write a box to a swizzled slot: pieces of 16 bytes change places, by the number of 128 bytes before. pair(i, j) has
    // the outputs of sum[i][j] and sum[i][j + 1].
    template <class F> static INLINE void stage(int box, unsigned slot, F pair) {
        const int i = box / (COLUMNS / PART), first = box % (COLUMNS / PART) * PART, lane = threadIdx.x % 32;
#pragma unroll
        for (int j = 0; j < PART; j += 16) {
            const int at = (first + j) / 2, start = lane % 16 * ROW_BYTES, byte = 2 * j + lane / 16 * 16;
            const unsigned four[4] = {pair(i, at), pair(i, at + 2), pair(i, at + 4), pair(i, at + 6)};
            stmatrix_4(slot + start + (byte ^ start >> 3 & ROW_BYTES - 16), four);
        }
    }

    static INLINE void send(int box, const CUtensorMap *map_c, unsigned slot, int row, int column, int matrix,
                            bool is_elected) {
        const int i = box / (COLUMNS / PART), first = box % (COLUMNS / PART) * PART;
        if constexpr (LEAVES) {
            store_box(map_c, column + first, row + 64 * i, matrix, slot, is_elected, evicted_first());
        } else {
            store_box(map_c, column + first, row + 64 * i, matrix, slot, is_elected);
        }
    }
};

#endif
