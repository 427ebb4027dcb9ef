// Products whose rows are columns of C, for wgmma_turned: how tiles lie in shared memory, and how outputs turn back.
#ifndef TURNED_H
#define TURNED_H

#include "anywhere.h"
#include "hgemm/wgmma.h"
#include "prompt.h"

// TurnedProduct<N>::add_to<T, ROW_MAJOR_A>(...) is Product<N>::add_to of hgemm/wgmma.h, but that the first factor may be
// stored across the depth, and the second one never is.
template <int N> struct TurnedProduct;

#define TURNED_ASM(N, type, a, b, add, row_major_a)                                                                    \
    asm volatile("{\n\t"                                                                                               \
                 ".reg .pred add;\n\t"                                                                                 \
                 "setp.ne.b32 add, %" #add ", 0;\n\t"                                                                  \
                 "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." type "." type " {" REGISTERS_##N "}, %" #a ", %" #b \
                 ", add, 1, 1, %" #row_major_a ", 0;\n\t"                                                              \
                 "}"                                                                                                   \
                 : SUMS_##N                                                                                            \
                 : "l"(descriptor_a), "l"(descriptor_b), "r"(is_added), "n"(ROW_MAJOR_A))

#define TURNED_PRODUCT(N, a, b, add, row_major_a)                                                                      \
    template <> struct TurnedProduct<N> {                                                                              \
        template <class T, int ROW_MAJOR_A>                                                                            \
        static INLINE void add_to(float (&sum)[N / 2], unsigned long long descriptor_a,                                \
                                  unsigned long long descriptor_b, int is_added) {                                     \
            if constexpr (is_bfloat16<T>) {                                                                            \
                TURNED_ASM(N, "bf16", a, b, add, row_major_a);                                                         \
            } else {                                                                                                   \
                TURNED_ASM(N, "f16", a, b, add, row_major_a);                                                          \
            }                                                                                                          \
        }                                                                                                              \
    };

TURNED_PRODUCT(16, 8, 9, 10, 11)
TURNED_PRODUCT(32, 16, 17, 18, 19)
TURNED_PRODUCT(48, 24, 25, 26, 27)
TURNED_PRODUCT(64, 32, 33, 34, 35)
TURNED_PRODUCT(80, 40, 41, 42, 43)
TURNED_PRODUCT(96, 48, 49, 50, 51)
TURNED_PRODUCT(112, 56, 57, 58, 59)
TURNED_PRODUCT(128, 64, 65, 66, 67)
TURNED_PRODUCT(144, 72, 73, 74, 75)
TURNED_PRODUCT(160, 80, 81, 82, 83)
TURNED_PRODUCT(176, 88, 89, 90, 91)
TURNED_PRODUCT(192, 96, 97, 98, 99)
TURNED_PRODUCT(208, 104, 105, 106, 107)
TURNED_PRODUCT(224, 112, 113, 114, 115)
TURNED_PRODUCT(240, 120, 121, 122, 123)
TURNED_PRODUCT(256, 128, 129, 130, 131)

// What a slot of shared memory holds, from a multiple of 1024 bytes on: the part of B that makes COLUMNS columns of C, and
// that of A that makes ROWS rows. Rows of 64 numbers take 128 bytes, swizzled.
//
// A, and a transposed B, are panels of 64 of the depth. Else B is panels of 64 columns, each with the whole depth.
template <int ROWS, int COLUMNS, int DEPTH, bool ROW_MAJOR_B> struct TurnedTiles {
    static constexpr int PANEL_B = (ROW_MAJOR_B ? DEPTH : COLUMNS) * 128, PANEL_A = ROWS * 128; // bytes
    static constexpr int SIZE_B = 2 * COLUMNS * DEPTH, SIZE = SIZE_B + 2 * ROWS * DEPTH;
    static_assert(COLUMNS % 64 == 0 && ROWS % 16 == 0 && DEPTH % 64 == 0, "tiles are made of wgmma's, and of panels");

    // Ask for both tiles of a slot; a whole warp does.
    static INLINE void fetch(unsigned slot, Barrier *arrived, const CUtensorMap *map_a, const CUtensorMap *map_b,
                             int row, int column, int k, int matrix, bool is_elected) {
        expect(arrived, SIZE, is_elected);
#pragma unroll
        for (int panel = 0; panel < (ROW_MAJOR_B ? COLUMNS : DEPTH) / 64; panel++) {
            const int x = ROW_MAJOR_B ? column + panel * 64 : k + panel * 64, y = ROW_MAJOR_B ? k : column;
            load_box(slot + panel * PANEL_B, map_b, x, y, matrix, arrived, is_elected);
        }
#pragma unroll
        for (int panel = 0; panel < DEPTH / 64; panel++) {
            load_box(slot + SIZE_B + panel * PANEL_A, map_a, k + panel * 64, row, matrix, arrived, is_elected);
        }
    }

    unsigned low_a, low_b; // of the descriptors of the first slot; see PromptTiles

    // `column` is the first of this warp group, a multiple of 64.
    INLINE TurnedTiles(unsigned slots, int column) {
        low_b = (unsigned)descriptor<128>(slots + (ROW_MAJOR_B ? column / 64 * PANEL_B : column * 128), PANEL_B);
        low_a = (unsigned)descriptor<128>(slots + SIZE_B, 16);
    }

    // Begin sum += the product of the tiles of slot number `slot`, or sum = that where is_added is 0, of HEIGHT times 64
    // columns of C.
    template <class T, int HEIGHT>
    INLINE void multiply(float (&sum)[HEIGHT][ROWS / 2], int slot, int is_added) const {
        const unsigned a = low_a + slot * (SIZE >> 4), b = low_b + slot * (SIZE >> 4);
        const unsigned high = descriptor<128>(0, 0) >> 32;
        begin_products();
#pragma unroll
        for (int k = 0; k < DEPTH; k += 16) {
            const int on_a = k / 64 * PANEL_A + k % 64 * 2, on_b = ROW_MAJOR_B ? k * 128 : k / 64 * PANEL_B + k % 64 * 2;
#pragma unroll
            for (int i = 0; i < HEIGHT; i++) {
                TurnedProduct<ROWS>::template add_to<T, ROW_MAJOR_B>(
                    sum[i], joined(b + (on_b + i * (ROW_MAJOR_B ? PANEL_B : 64 * 128) >> 4), high),
                    joined(a + (on_a >> 4), high), k > 0 || is_added);
            }
        }
        commit_products();
    }
};

// Pairs of numbers of 16 bits that make an 8 x 8 matrix, two in each lane of a warp, as mma leaves them: turned.
INLINE unsigned turned(unsigned pair) {
    unsigned to;
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(to) : "r"(pair)); // where all lanes are
    return to;
}

// As stmatrix_4() of hgemm/wgmma.h, but each matrix is written turned.
INLINE void stmatrix_4_turned(unsigned address, const unsigned (&from)[4]) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(from[0]),
                 "r"(from[1]), "r"(from[2]), "r"(from[3])
                 : "memory");
}

// Where the fours of a thread lie in C, for meet.h: ACROSS of them below one another, 8 rows apart, then those 64 columns
// on. A four has two neighbours of a column, and those 8 columns beside. The first belongs to C[y][x], and to a warp whose
// first column is `first_x`. `even` is a constant: whether two neighbours of a row are written at once, as N is even.
template <class T, int ACROSS, bool even> struct TurnedFours {
    T *C; // of the matrix
    int rows; // columns of C from `x` on: meet.h skips a warp that has none
    int y, first_x, M, N;
    float alpha, beta;

    // A whole warp calls it.
    INLINE void write(int number, const float (&four)[4]) const {
        const int row = y + number % ACROSS * 8, column = first_x + number / ACROSS * 64, lane = threadIdx.x % 32;
        unsigned short *const bits = (unsigned short *)C;
        if (beta != 0.0f) {
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const int down = row + lane % 4 * 2 + i % 2, across = column + lane / 4 + i / 2 * 8;
                if (down < M && across < N) {
                    unsigned short *const to = bits + (size_t)down * N + across;
                    *to = packed<T>(alpha * four[i] + beta * number_of(*to), 0.0f);
                }
            }
            return;
        }
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const unsigned pair = turned(packed<T>(alpha * four[2 * half], alpha * four[2 * half + 1]));
            const int down = row + lane / 4, across = column + lane % 4 * 2 + half * 8;
            if (down < M && across < N) {
                unsigned short *const to = bits + (size_t)down * N + across;
                if (even) {
                    *(unsigned *)to = pair;
                } else {
                    to[0] = pair;
                    if (across + 1 < N) {
                        to[1] = pair >> 16;
                    }
                }
            }
        }
    }

  private:
    static INLINE float number_of(unsigned short bits) { return number<T>(bits); }
};

// Write the sums of a block through shared memory, from `slot` on, so that its threads write 16 bytes each to rows of C. A
// row takes 16 bytes more than its numbers: rows then begin at different banks. N is a multiple of 8, and beta is 0.
template <class T, int ROWS, int COLUMNS, int HEIGHT, int THREADS_THAT_WRITE, int BARRIER>
INLINE void write_turned(const float (&sum)[HEIGHT][ROWS / 2], T *C, unsigned slot, int warp_column, int row, int column,
                         int M, int N, float alpha) {
    constexpr int PITCH = 2 * COLUMNS + 16, PIECES = COLUMNS / 8;
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < HEIGHT; i++) {
#pragma unroll
        for (int j = 0; j < ROWS / 16; j++) { // 16 rows and 16 columns of C
            const float *const from = sum[i] + j * 8;
            const unsigned four[4] = {
                packed<T>(alpha * from[0], alpha * from[1]), packed<T>(alpha * from[2], alpha * from[3]),
                packed<T>(alpha * from[4], alpha * from[5]), packed<T>(alpha * from[6], alpha * from[7])};
            const int y = j * 16 + lane / 16 * 8 + lane % 8, x = warp_column + i * 64 + lane / 8 % 2 * 8;
            stmatrix_4_turned(slot + y * PITCH + x * 2, four);
        }
    }
    wait_named(BARRIER, THREADS_THAT_WRITE);
#pragma unroll 4
    for (int piece = threadIdx.x; piece < ROWS * PIECES; piece += THREADS_THAT_WRITE) {
        const int down = piece / PIECES, across = piece % PIECES * 8;
        if (row + down < M && column + across < N) {
            uint4 eight;
            asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                         : "=r"(eight.x), "=r"(eight.y), "=r"(eight.z), "=r"(eight.w)
                         : "r"(slot + down * PITCH + across * 2)
                         : "memory");
            *(uint4 *)(C + (size_t)(row + down) * N + column + across) = eight;
        }
    }
}

#endif
