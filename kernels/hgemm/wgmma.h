// What the stages of hgemm from 09 on share: the instructions of compute capability 9.0 that hopper.h lacks, how tiles
// lie in shared memory, and how they get there, are multiplied by wgmma, and are written.
//
// A, B and C are row-major and of `batch` matrices each: C is M x N and A is M x K. B is K x N, or N x K where it is
// transposed. A and B are of 16-bit numbers, float16 or bfloat16; C is of either, or of floats.
#ifndef WGMMA_H
#define WGMMA_H

#include "hopper.h"
#include "inline.h"

struct __half;
struct __nv_bfloat16;

// Whether a type is bfloat16, and whether it is float; otherwise it is float16.
template <class T> constexpr bool is_bfloat16 = false;
template <> constexpr bool is_bfloat16<__nv_bfloat16> = true;
template <class T> constexpr bool is_float = false;
template <> constexpr bool is_float<float> = true;

// ---- Barriers ----

// `arrivals` threads arrive at each phase of the barrier; see hopper.h.
INLINE void initialize(Barrier *barrier, int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals) : "memory");
}

INLINE void arrive(Barrier *barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}

// Arrive at the barrier that has this place in shared memory of another block of the cluster, or of this one. It tells
// that this thread's products are done, and shows nothing that it has written: .release.cluster would take longer than
// the products of a slot.
INLINE void arrive_at(Barrier *barrier, unsigned block) {
    asm volatile("{\n\t"
                 ".reg .b32 there;\n\t"
                 "mapa.shared::cluster.u32 there, %0, %1;\n\t"
                 "mbarrier.arrive.shared::cluster.b64 _, [there];\n\t"
                 "}" ::"r"(shared_address(barrier)),
                 "r"(block)
                 : "memory");
}

// Named barriers: `arrivals` threads wait for one another, or arrive without waiting. 0 is __syncthreads().
INLINE void wait_named(int barrier, int arrivals) {
    asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

INLINE void arrive_named(int barrier, int arrivals) {
    asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

// The number of this block in its cluster.
INLINE unsigned cluster_rank() {
    unsigned rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

// All threads of the cluster wait for one another.
INLINE void sync_cluster() {
    asm volatile("barrier.cluster.arrive.release;\n\tbarrier.cluster.wait.acquire;" ::: "memory");
}

// ---- Copies ----

// Fetch the descriptor of a tensor map ahead of its first use.
INLINE void prefetch_map(const CUtensorMap *map) {
    asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

// Begin to copy the box at `column`, `row` of matrix `matrix`; see hopper.h.
INLINE void load_box(unsigned shared, const CUtensorMap *map, int column, int row, int matrix, Barrier *barrier) {
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3, %4}], [%5];" ::"r"(shared),
                 "l"(map), "r"(column), "r"(row), "r"(matrix), "r"(shared_address(barrier))
                 : "memory");
}

// The same, to the same place in shared memory of all blocks whose bits are set in `mask`, and to their barriers.
INLINE void load_box_to(unsigned short mask, unsigned shared, const CUtensorMap *map, int column, int row, int matrix,
                        Barrier *barrier) {
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster "
                 "[%0], [%1, {%2, %3, %4}], [%5], %6;" ::"r"(shared),
                 "l"(map), "r"(column), "r"(row), "r"(matrix), "r"(shared_address(barrier)), "h"(mask)
                 : "memory");
}

// Begin to copy a box from shared memory. What threads have written there must be fenced before, see fence_shared().
INLINE void store_box(const CUtensorMap *map, int column, int row, int matrix, unsigned shared) {
    asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%0, {%1, %2, %3}], [%4];\n\t"
                 "cp.async.bulk.commit_group;" ::"l"(map),
                 "r"(column), "r"(row), "r"(matrix), "r"(shared)
                 : "memory");
}

// Wait until all boxes that this thread stores are read from shared memory.
INLINE void wait_for_reads() { asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory"); }

// Shows what this thread has written to shared memory to the TMA.
INLINE void fence_shared() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// ---- Registers ----

// What each thread of this warp group may have from now on; all of them say it.
template <int registers> INLINE void take_registers() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(registers));
}

template <int registers> INLINE void give_registers() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(registers));
}

// Two floats as 16-bit numbers; `first` is the lower half.
template <class T> INLINE unsigned packed(float first, float second) {
    unsigned both;
    if constexpr (is_bfloat16<T>) {
        asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(second), "f"(first));
    } else {
        asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(second), "f"(first));
    }
    return both;
}

template <class T> INLINE float number(unsigned short bits) {
    float value;
    if constexpr (is_bfloat16<T>) {
        asm("cvt.f32.bf16 %0, %1;" : "=f"(value) : "h"(bits));
    } else {
        asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    }
    return value;
}

// stmatrix writes matrices of 8 x 8 numbers of 16 bits. Lane 8 m + r gives the address of row r of matrix m: 16 bytes.
// Each lane has in from[m] the numbers 2 (lane % 4) and 2 (lane % 4) + 1 of row lane / 4.
INLINE void stmatrix_4(unsigned address, const unsigned (&from)[4]) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(from[0]),
                 "r"(from[1]), "r"(from[2]), "r"(from[3])
                 : "memory");
}

// ---- Products ----

// Ends the group of products that this warp group has begun since the last call.
INLINE void commit_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// Waits until all groups of products are done, but for the latest `groups_left`.
template <int groups_left> INLINE void wait_for_products() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(groups_left) : "memory");
}

// Product<N>::add<T, row_major_b>(sum, a, b, add) begins sum += A B, or sum = A B where `add` is 0: A is 64 x 16 and B
// is 16 x N, both of T and in shared memory, as their descriptors say. B is stored by rows or by columns.
//
// Of thread t of the warp group, sum[4 j + 2 i + k] is the output at row t / 32 * 16 + t % 32 / 4 + 8 i, and at column
// 8 j + t % 4 * 2 + k.
template <int N> struct Product;

#define REGISTERS_16 "%0, %1, %2, %3, %4, %5, %6, %7"
#define REGISTERS_32 REGISTERS_16 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define REGISTERS_48 REGISTERS_32 ", %16, %17, %18, %19, %20, %21, %22, %23"
#define REGISTERS_64 REGISTERS_48 ", %24, %25, %26, %27, %28, %29, %30, %31"
#define REGISTERS_80 REGISTERS_64 ", %32, %33, %34, %35, %36, %37, %38, %39"
#define REGISTERS_96 REGISTERS_80 ", %40, %41, %42, %43, %44, %45, %46, %47"
#define REGISTERS_112 REGISTERS_96 ", %48, %49, %50, %51, %52, %53, %54, %55"
#define REGISTERS_128 REGISTERS_112 ", %56, %57, %58, %59, %60, %61, %62, %63"
#define REGISTERS_144 REGISTERS_128 ", %64, %65, %66, %67, %68, %69, %70, %71"
#define REGISTERS_160 REGISTERS_144 ", %72, %73, %74, %75, %76, %77, %78, %79"
#define REGISTERS_176 REGISTERS_160 ", %80, %81, %82, %83, %84, %85, %86, %87"
#define REGISTERS_192 REGISTERS_176 ", %88, %89, %90, %91, %92, %93, %94, %95"
#define REGISTERS_208 REGISTERS_192 ", %96, %97, %98, %99, %100, %101, %102, %103"
#define REGISTERS_224 REGISTERS_208 ", %104, %105, %106, %107, %108, %109, %110, %111"
#define REGISTERS_240 REGISTERS_224 ", %112, %113, %114, %115, %116, %117, %118, %119"
#define REGISTERS_256 REGISTERS_240 ", %120, %121, %122, %123, %124, %125, %126, %127"

#define EIGHT(i)                                                                                                       \
    "+f"(sum[i]), "+f"(sum[i + 1]), "+f"(sum[i + 2]), "+f"(sum[i + 3]), "+f"(sum[i + 4]), "+f"(sum[i + 5]),            \
        "+f"(sum[i + 6]), "+f"(sum[i + 7])
#define SUMS_16 EIGHT(0)
#define SUMS_32 SUMS_16, EIGHT(8)
#define SUMS_48 SUMS_32, EIGHT(16)
#define SUMS_64 SUMS_48, EIGHT(24)
#define SUMS_80 SUMS_64, EIGHT(32)
#define SUMS_96 SUMS_80, EIGHT(40)
#define SUMS_112 SUMS_96, EIGHT(48)
#define SUMS_128 SUMS_112, EIGHT(56)
#define SUMS_144 SUMS_128, EIGHT(64)
#define SUMS_160 SUMS_144, EIGHT(72)
#define SUMS_176 SUMS_160, EIGHT(80)
#define SUMS_192 SUMS_176, EIGHT(88)
#define SUMS_208 SUMS_192, EIGHT(96)
#define SUMS_224 SUMS_208, EIGHT(104)
#define SUMS_240 SUMS_224, EIGHT(112)
#define SUMS_256 SUMS_240, EIGHT(120)

// a, b, add and row_major_b are the numbers of these operands, behind N / 2 sums.
#define PRODUCT_ASM(N, type, a, b, add, row_major_b)                                                                   \
    asm volatile("{\n\t"                                                                                               \
                 ".reg .pred add;\n\t"                                                                                 \
                 "setp.ne.b32 add, %" #add ", 0;\n\t"                                                                  \
                 "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." type "." type " {" REGISTERS_##N "}, %" #a ", %" #b \
                 ", add, 1, 1, 0, %" #row_major_b ";\n\t"                                                              \
                 "}"                                                                                                   \
                 : SUMS_##N                                                                                            \
                 : "l"(descriptor_a), "l"(descriptor_b), "r"(is_added), "n"(ROW_MAJOR_B))

#define PRODUCT(N, a, b, add, row_major_b)                                                                             \
    template <> struct Product<N> {                                                                                    \
        template <class T, int ROW_MAJOR_B>                                                                            \
        static INLINE void add_to(float (&sum)[N / 2], unsigned long long descriptor_a,                                \
                                  unsigned long long descriptor_b, int is_added) {                                     \
            if constexpr (is_bfloat16<T>) {                                                                            \
                PRODUCT_ASM(N, "bf16", a, b, add, row_major_b);                                                        \
            } else {                                                                                                   \
                PRODUCT_ASM(N, "f16", a, b, add, row_major_b);                                                         \
            }                                                                                                          \
        }                                                                                                              \
    };

PRODUCT(16, 8, 9, 10, 11)
PRODUCT(32, 16, 17, 18, 19)
PRODUCT(48, 24, 25, 26, 27)
PRODUCT(64, 32, 33, 34, 35)
PRODUCT(80, 40, 41, 42, 43)
PRODUCT(96, 48, 49, 50, 51)
PRODUCT(112, 56, 57, 58, 59)
PRODUCT(128, 64, 65, 66, 67)
PRODUCT(144, 72, 73, 74, 75)
PRODUCT(160, 80, 81, 82, 83)
PRODUCT(176, 88, 89, 90, 91)
PRODUCT(192, 96, 97, 98, 99)
PRODUCT(208, 104, 105, 106, 107)
PRODUCT(224, 112, 113, 114, 115)
PRODUCT(240, 120, 121, 122, 123)
PRODUCT(256, 128, 129, 130, 131)

// ---- Tiles ----

// The descriptor of what lies at `address`, with rows of `row_bytes` that are swizzled by as many. By rows along the
// depth, `leading` is not used. By rows across it, parts of a row that long are `leading` bytes apart. Eight rows take
// eight times row_bytes in either case.
template <int row_bytes> INLINE unsigned long long descriptor(unsigned address, unsigned leading) {
    constexpr unsigned long long swizzle = row_bytes == 128 ? 1 : row_bytes == 64 ? 2 : 3, eight_rows = 8 * row_bytes;
    return address >> 4 & 0x3fff | (unsigned long long)(leading >> 4) << 16 | eight_rows >> 4 << 32 | swizzle << 62;
}

// The columns of 16 bits that make the longest swizzled row: those of a box, where that is a part of a longer row.
__device__ constexpr int part_of(int columns) { return columns % 64 == 0 ? 64 : columns % 32 == 0 ? 32 : 16; }

// What a slot of shared memory holds, from a multiple of 1024 bytes on: a tile of A, and one of B.
//
// A, and a transposed B, are panels of 64 of the depth, each with all rows; a row is 128 bytes. A row-major B is panels
// of 64, 32 or 16 columns, each with the whole depth. Where blocks of a cluster share a tile, each fetches its share
// for all: rows of A or of a transposed B, and the depth of a row-major B.
template <int ROWS, int COLUMNS, int DEPTH, bool ROW_MAJOR_B, int SHARES_OF_A = 1, int SHARES_OF_B = 1> struct Tiles {
    static constexpr int PART = part_of(COLUMNS);
    static constexpr int ROW_BYTES_B = ROW_MAJOR_B ? 2 * PART : 128;
    static constexpr int PANEL_A = ROWS * 128, PANEL_B = (ROW_MAJOR_B ? DEPTH : COLUMNS) * ROW_BYTES_B;
    static constexpr int SIZE_A = 2 * ROWS * DEPTH, SIZE = SIZE_A + 2 * COLUMNS * DEPTH; // bytes
    static_assert(ROWS % 64 == 0 && COLUMNS % 16 == 0 && DEPTH % 64 == 0, "tiles are made of wgmma's, and of boxes");
    static_assert(ROWS / SHARES_OF_A <= 256 && COLUMNS / SHARES_OF_B <= 256, "a box has at most 256 rows");
    static_assert(ROWS / SHARES_OF_A % 8 == 0 && (ROW_MAJOR_B ? DEPTH : COLUMNS) / SHARES_OF_B % 8 == 0,
                  "a share is swizzled as the whole is");

    // Ask for both tiles. `rank` is the number of this block in its cluster, whose blocks all ask: SHARES_OF_B blocks
    // below one another are counted first, then those beside them.
    static INLINE void fetch(unsigned slot, Barrier *arrived, const CUtensorMap *map_a, const CUtensorMap *map_b,
                             int row, int column, int k, int matrix, unsigned rank) {
        constexpr int share_a = ROWS / SHARES_OF_A, share_b = (ROW_MAJOR_B ? DEPTH : COLUMNS) / SHARES_OF_B;
        const unsigned below = rank % SHARES_OF_B, beside = rank / SHARES_OF_B;
        const unsigned same_row = every<SHARES_OF_A>(SHARES_OF_B) << below;
        const unsigned same_column = every<SHARES_OF_B>(1) << beside * SHARES_OF_B;
        const int first_a = beside * share_a, first_b = below * share_b;
        expect(arrived, SIZE);
#pragma unroll 1 // the warp group that fetches has few registers
        for (int panel = 0; panel < DEPTH / 64; panel++) {
            const unsigned to = slot + panel * PANEL_A + first_a * 128;
            box<SHARES_OF_A>(same_row, to, map_a, k + panel * 64, row + first_a, matrix, arrived);
        }
#pragma unroll 1
        for (int panel = 0; panel < (ROW_MAJOR_B ? COLUMNS / PART : DEPTH / 64); panel++) {
            const unsigned to = slot + SIZE_A + panel * PANEL_B + first_b * ROW_BYTES_B;
            if (ROW_MAJOR_B) {
                box<SHARES_OF_B>(same_column, to, map_b, column + panel * PART, k + first_b, matrix, arrived);
            } else {
                box<SHARES_OF_B>(same_column, to, map_b, k + panel * 64, column + first_b, matrix, arrived);
            }
        }
    }

    // The blocks that this one fetches for, and that fetch for it, itself included.
    static constexpr int PARTNERS = SHARES_OF_A + SHARES_OF_B - 1;

    // One of them, by its number from 0 on.
    static INLINE unsigned partner(unsigned rank, unsigned number) {
        const unsigned below = rank % SHARES_OF_B, beside = rank / SHARES_OF_B;
        if (number < SHARES_OF_A) {
            return number * SHARES_OF_B + below;
        }
        const unsigned other = number - SHARES_OF_A;
        return beside * SHARES_OF_B + other + (other >= below);
    }

    // Begin sum += the product of both tiles, or sum = that where is_added is 0, of `HEIGHT` times 64 rows from `row`
    // on.
    template <class T, int HEIGHT>
    static INLINE void multiply(float (&sum)[HEIGHT][COLUMNS / 2], unsigned slot, int row, int is_added) {
        begin_products();
#pragma unroll
        for (int k = 0; k < DEPTH; k += 16) {
            const unsigned at_b = slot + SIZE_A + (ROW_MAJOR_B ? k * ROW_BYTES_B : k / 64 * PANEL_B + k % 64 * 2);
            const unsigned long long b = descriptor<ROW_BYTES_B>(at_b, ROW_MAJOR_B ? PANEL_B : 16);
#pragma unroll
            for (int i = 0; i < HEIGHT; i++) {
                const unsigned at_a = slot + k / 64 * PANEL_A + (row + 64 * i) * 128 + k % 64 * 2;
                Product<COLUMNS>::template add_to<T, ROW_MAJOR_B>(sum[i], descriptor<128>(at_a, 16), b,
                                                                  k > 0 || is_added);
            }
        }
        commit_products();
    }

  private:
    // COUNT bits, so many apart.
    template <int COUNT> static __device__ constexpr unsigned every(int apart) {
        unsigned bits = 0;
        for (int i = 0; i < COUNT; i++) {
            bits |= 1u << i * apart;
        }
        return bits;
    }

    template <int SHARES>
    static INLINE void box(unsigned blocks_there, unsigned to, const CUtensorMap *map, int column, int row, int matrix,
                           Barrier *arrived) {
        if (SHARES > 1) {
            load_box_to(blocks_there, to, map, column, row, matrix, arrived);
        } else {
            load_box(to, map, column, row, matrix, arrived);
        }
    }
};

// The sums are those of all products. Without it, the compiler may read them before wait_for_products().
template <int HEIGHT, int COUNT> INLINE void settle(float (&sum)[HEIGHT][COUNT]) {
#pragma unroll
    for (int i = 0; i < HEIGHT; i++) {
#pragma unroll
        for (int j = 0; j < COUNT; j++) {
            asm volatile("" : "+f"(sum[i][j])::"memory");
        }
    }
}

// The outputs of a warp group, HEIGHT times 64 rows from `row` on, and COLUMNS columns from `column` on.
template <class T, int HEIGHT, int COLUMNS> struct Outputs {
    static constexpr int WIDTH = is_float<T> ? 4 : 2; // bytes
    static constexpr int PART = is_float<T> ? (COLUMNS % 32 == 0 ? 32 : 16) : part_of(COLUMNS);
    static constexpr int ROW_BYTES = PART * WIDTH, SLOT = 16 * ROW_BYTES; // of a box that a warp stores
    static constexpr int BOXES = HEIGHT * (COLUMNS / PART);               // of a warp
    using Sums = float[HEIGHT][COLUMNS / 2];
    using Packed = unsigned[HEIGHT][COLUMNS / 4]; // the same as 16-bit numbers

    // sum = alpha sum + beta C. At beta = 0, C is not read.
    static INLINE void scale(Sums &sum, const T *C, int row, int column, int M, int N, float alpha, float beta) {
        if (alpha != 1.0f) {
            each(row, column, M, N, [&](int i, int j, size_t, bool) {
                sum[i][j] *= alpha;
                sum[i][j + 1] *= alpha;
            });
        }
        if (beta != 0.0f) {
            each(row, column, M, N, [&](int i, int j, size_t at, bool is_inside) {
                if (is_inside) {
                    sum[i][j] += beta * value(C, at);
                    sum[i][j + 1] += beta * value(C, at + 1);
                }
            });
        }
    }

    // Write them from registers. N is even, and C begins at a multiple of 8 bytes.
    static INLINE void write(const Sums &sum, T *C, int row, int column, int M, int N) {
        each(row, column, M, N, [&](int i, int j, size_t at, bool is_inside) {
            if (is_inside) {
                if constexpr (is_float<T>) {
                    *(float2 *)(C + at) = make_float2(sum[i][j], sum[i][j + 1]);
                } else {
                    *((unsigned *)C + at / 2) = packed<T>(sum[i][j], sum[i][j + 1]);
                }
            }
        });
    }

    // Write them through shared memory, where `slots` is the first of SLOTS slots of this warp; each holds a box of 16
    // rows and PART columns. The TMA goes on to store them when this returns.
    template <int SLOTS>
    static INLINE void store(const Sums &sum, const CUtensorMap *map_c, unsigned slots, int row, int column,
                             int matrix) {
        static_assert(SLOTS <= BOXES && BOXES % SLOTS == 0, "the slots take turns");
        const int warp = threadIdx.x % 128 / 32, lane = threadIdx.x % 32;
#pragma unroll
        for (int turn = 0; turn < BOXES; turn += SLOTS) {
            if (lane == 0) {
                wait_for_reads(); // the TMA has read what the slots held
            }
            __syncwarp();
#pragma unroll
            for (int slot = 0; slot < SLOTS; slot++) {
                const int i = (turn + slot) / (COLUMNS / PART), first = (turn + slot) % (COLUMNS / PART) * PART;
#pragma unroll
                for (int j = 0; j < PART; j += 16) {
                    stage(sum[i], first + j, slots + slot * SLOT, j, lane);
                }
            }
            fence_shared();
            __syncwarp();
            if (lane == 0) {
#pragma unroll
                for (int slot = 0; slot < SLOTS; slot++) {
                    const int i = (turn + slot) / (COLUMNS / PART), first = (turn + slot) % (COLUMNS / PART) * PART;
                    store_box(map_c, column + first, row + 64 * i + 16 * warp, matrix, slots + slot * SLOT);
                }
            }
        }
    }

    // Round sums to 16 bits, which takes half as many registers, so that others can be summed beside them.
    static INLINE void pack(const Sums &sum, Packed &held) {
        static_assert(!is_float<T>, "floats do not become smaller");
#pragma unroll
        for (int i = 0; i < HEIGHT; i++) {
#pragma unroll
            for (int j = 0; j < COLUMNS / 4; j++) {
                held[i][j] = packed<T>(sum[i][2 * j], sum[i][2 * j + 1]);
            }
        }
    }

    // Write one of the BOXES of what pack() gave, as store() does; this warp has one slot.
    static INLINE void store_packed(int number, const Packed &held, const CUtensorMap *map_c, unsigned slot, int row,
                                    int column, int matrix) {
        const int warp = threadIdx.x % 128 / 32, lane = threadIdx.x % 32;
        if (lane == 0) {
            wait_for_reads();
        }
        __syncwarp();
#pragma unroll
        for (int box = 0; box < BOXES; box++) { // registers have no indices: each box has code of its own
            const int i = box / (COLUMNS / PART), first = box % (COLUMNS / PART) * PART;
            if (box == number) {
#pragma unroll
                for (int j = 0; j < PART; j += 16) {
                    const unsigned(&from)[COLUMNS / 4] = held[i];
                    const int at = (first + j) / 4;
                    const unsigned four[4] = {from[at], from[at + 1], from[at + 2], from[at + 3]};
                    stmatrix_4(slot + swizzled(lane % 16, 2 * j + lane / 16 * 16), four);
                }
            }
        }
        fence_shared();
        __syncwarp();
        if (lane == 0) {
            const int i = number / (COLUMNS / PART), first = number % (COLUMNS / PART) * PART;
            store_box(map_c, column + first, row + 64 * i + 16 * warp, matrix, slot);
        }
    }

  private:
    // Call f(i, j, place in C, whether that is in C) for each pair of sums sum[i][j] and sum[i][j + 1].
    template <class F> static INLINE void each(int row, int column, int M, int N, F f) {
        const int thread = threadIdx.x % 128;
        const int y = row + thread / 32 * 16 + thread % 32 / 4, x = column + thread % 4 * 2;
#pragma unroll
        for (int i = 0; i < HEIGHT; i++) {
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const int y_here = y + 64 * i + 8 * half;
                const size_t start = (size_t)y_here * N;
#pragma unroll
                for (int j = 0; j < COLUMNS / 8; j++) {
                    f(i, 4 * j + 2 * half, start + x + 8 * j, y_here < M && x + 8 * j < N);
                }
            }
        }
    }

    static INLINE float value(const T *C, size_t at) {
        if constexpr (is_float<T>) {
            return C[at];
        } else {
            return number<T>(((const unsigned short *)C)[at]);
        }
    }

    // Write 16 columns of sums, from column `first` on, to column `j` of a swizzled slot.
    template <int COUNT>
    static INLINE void stage(const float (&sum)[COUNT], int first, unsigned slot, int j, int lane) {
        if constexpr (is_float<T>) {
#pragma unroll
            for (int pair = 0; pair < 4; pair++) {
                const int row = lane / 4 + pair % 2 * 8, from = first / 2 + pair / 2 * 4 + pair % 2 * 2;
                const int byte = 4 * (j + pair / 2 * 8 + lane % 4 * 2);
                asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(slot + swizzled(row, byte)), "f"(sum[from]),
                             "f"(sum[from + 1])
                             : "memory");
            }
        } else {
            unsigned four[4]; // above left, below left, above right, below right
#pragma unroll
            for (int k = 0; k < 4; k++) {
                four[k] = packed<T>(sum[first / 2 + 2 * k], sum[first / 2 + 2 * k + 1]);
            }
            stmatrix_4(slot + swizzled(lane % 16, 2 * j + lane / 16 * 16), four);
        }
    }

    // Where the TMA looks for a byte of a row: pieces of 16 bytes change places, by the number of 128 bytes before.
    static INLINE int swizzled(int row, int byte) {
        return row * ROW_BYTES + (byte ^ row * ROW_BYTES >> 3 & ROW_BYTES - 16);
    }
};

// The slot of a ring of `SLOTS`, and how often the ring has been passed, modulo 2: the parity that barriers wait for.
template <int SLOTS> struct Ring {
    int slot = 0;
    unsigned parity = 0;

    INLINE void advance() {
        if (++slot == SLOTS) {
            slot = 0;
            parity ^= 1;
        }
    }

    INLINE void skip(int count) {
        const int after = slot + count;
        slot = after % SLOTS;
        parity ^= after / SLOTS & 1;
    }
};

// The number of this thread's group of four warps, known to be the same in a warp.
INLINE int warp_group() { return __shfl_sync(0xffffffff, threadIdx.x / 128, 0); }

#endif
