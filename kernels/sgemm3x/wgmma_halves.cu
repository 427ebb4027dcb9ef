// C[b] = alpha * A[b] B[b] + beta * C[b], row-major, float32, by tensor cores: each number is two float16, and three of
// their four products are summed. Elements to which numbers matter that are too small for halves are summed again. So
// each element is as accurate as in float32; docs/fp32x3.md bounds the errors.
//
// A is M x K, B is K x N, and C is M x N. With A = A1 + A2 and B = B1 + B2, A B is A1 B1 + A1 B2 + A2 B1; what A2 B2 adds
// is as small as what float32 rounds. Where many numbers of a row or column are too small for float16, each is three
// bfloat16, and six products are summed: A1 B1, and what is at least 2^-16 of it. Where that does not do either, such as
// for infinities, float32 is multiplied as it is. See halves.h, and again.h for the elements. Four steps:
// - `measure` finds the largest magnitude of each row of A and, in parts, of each column of B.
// - `split` writes the halves as they lie in shared memory: panels of 64 columns, whose rows are swizzled by 128 bytes.
//   Zeros follow at the end of the depth. Rows and columns beyond the matrix hold anything. It counts small numbers.
// - `widen` writes the bfloat16, if any row or column needs them.
// - wgmma_halves multiplies: a warp fetches, and `consumers` warp groups multiply. Each block finds by itself how its tile
//   is multiplied, and counts in `routes` the tiles of each way. Where there are few tiles, the blocks of a cluster share
//   the depth of one: see meet.h. Each warp group then looks for elements in doubt, and sums them again. So nobody waits
//   for a decision, and each output has the same bits in each run.
// Tensor cores cut their sums off, always towards 0, so that errors add up along the depth. So a sum goes on for no more
// than `promote` of it, and is then added to one in registers, which is rounded. While one warp group adds, another
// multiplies. A slot of shared memory is read by three products, so that two slots are enough to keep the tensor cores
// busy.
// Ideas: Ootomo and Yokota (2022) for the sums outside of tensor cores; DeepGEMM, which adds FP8 sums up that way.
// Compute capability 9.0: see hopper.h.
#include "portable.h"
#include "sgemm3x/halves.h"

#ifndef block_m
#define block_m 128 // rows of a tile
#endif
#ifndef block_n
#define block_n 192 // columns of a tile
#endif
#ifndef part_n
#define part_n 192 // columns of it that a sum of tensor cores has at a time
#endif
#ifndef stages
#define stages 2 // slots in shared memory, each for 64 of the depth of two planes of A and two of B
#endif
#ifndef consumers
#define consumers 2 // warp groups that multiply; they share a tile's rows
#endif
#ifndef producer_registers
#define producer_registers 40 // of each thread of the warp group that fetches
#endif
#ifndef consumer_registers
#define consumer_registers 232 // of each thread of the others
#endif
#ifndef promote
#define promote 32 // depth of a sum of tensor cores; with bfloat16 it is 64
#endif
#ifndef in_turn
#define in_turn 0 // 1: two warp groups begin to multiply in turn
#endif
#ifndef band
#define band 1 // rows of tiles per band, or columns
#endif
#ifndef by_columns
#define by_columns 0 // 1: bands of columns of tiles
#endif
#ifndef together
#define together 1 // blocks of a cluster, each with a part of the depth of a tile
#endif
#ifndef chunks
#define chunks 16 // parts of the depth in which columns of B are measured
#endif

#define HEIGHT (block_m / consumers / 64)
#define WORKERS (128 * consumers)
#define THREADS (WORKERS + 128)
#define ROWS (64 * HEIGHT) // of a tile, of a warp group
#define DEPTH 64 // of a slot
static_assert(HEIGHT * consumers * 64 == block_m, "a warp group has a multiple of 64 rows");
static_assert(block_n % 64 == 0 && part_n % 64 == 0 && block_n % part_n == 0, "tiles, and parts of them, have whole panels");
static_assert(!in_turn || consumers == 2, "two take turns");
static_assert(DEPTH % promote == 0 && promote % 16 == 0, "a slot has whole sums");

#include "sgemm3x/meet.h"
#include "sgemm3x/again.h"
#include "sgemm3x/floats.h"
#include "sgemm3x/split.h"

// What a slot of shared memory holds: a plane of A, and one of B, and then another of each.
#define PANEL_A (2 * block_m * DEPTH) // bytes: all of A's, and 64 columns of B
#define PANEL_B (2 * DEPTH * 64)
#define PAIR (PANEL_A + block_n / 64 * PANEL_B)
#define SLOT (2 * PAIR)

// What a warp group writes where the slots were, once all are free.
union Rest {
    Again again;
    FloatTile floats;
};
static_assert(consumers * sizeof(Rest) <= stages * SLOT, "they are where the slots are");
static_assert(4 * block_m * block_n <= stages * SLOT, "so are the sums of a block");

// Begin to copy to shared memory. A whole warp calls it.
INLINE void load_piece(unsigned shared, const Bits *from, unsigned bytes, Barrier *barrier, bool is_elected) {
    if (is_elected) {
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                         shared),
                     "l"(__cvta_generic_to_global(from)), "r"(bytes), "r"(shared_address(barrier))
                     : "memory");
    }
}

// Products of planes, the smallest first: number 3 - 2 a - b is that of A's plane a and of B's plane b. The planes of a
// slot are numbers 0 and 1, and for bfloat16 first numbers 0 and 2, and then 0 and 1.
enum Kind { HALVES, FAR_BFLOATS, NEAR_BFLOATS };
template <int KIND> constexpr int FIRST = KIND == NEAR_BFLOATS ? 0 : 1;
template <int KIND> constexpr int END = KIND == FAR_BFLOATS ? 3 : 4;

// Two warp groups that multiply take turns: one begins when the other is half through a sum. Otherwise both would end at
// the same time, and add their sums up while the tensor cores wait.
INLINE void wait_for_turn(int group) {
    if (in_turn) {
        wait_named(1 + group, WORKERS);
    }
}

INLINE void give_turn(int group) {
    if (in_turn) {
        arrive_named(1 + (group ^ 1), WORKERS);
    }
}

// Add the products of a slot to `sum`, and release the slot. Sums of tensor cores have a depth of DEEP.
template <class T, int KIND, int DEEP, class F>
INLINE void multiply_slot(float (&sum)[HEIGHT][block_n / 2], unsigned a, unsigned b, int group, F release) {
    const unsigned top = descriptor<128>(0, 0) >> 32;
#pragma unroll
    for (int first_n = 0; first_n < block_n; first_n += part_n) {
#pragma unroll
        for (int first_k = 0; first_k < DEPTH; first_k += DEEP) {
            float part[HEIGHT][part_n / 2];
            wait_for_turn(group);
            begin_products();
            int begun = 0;
#pragma unroll
            for (int product = FIRST<KIND>; product < END<KIND>; product++) {
                const int from_a = (product < 2) * PAIR, from_b = (product % 2 == 0) * PAIR;
#pragma unroll
                for (int k = first_k; k < first_k + DEEP; k += 16) {
                    const int at_b = from_b + first_n / 64 * PANEL_B + k * 128;
#pragma unroll
                    for (int i = 0; i < HEIGHT; i++) {
                        Product<part_n>::template add_to<T, 1>(
                            part[i], joined(a + (from_a + k * 2 + 64 * i * 128 >> 4), top),
                            joined(b + (at_b >> 4), top), product > FIRST<KIND> || k > first_k);
                    }
                    if (in_turn && ++begun == (END<KIND> - FIRST<KIND>) * DEEP / 32) {
                        commit_products();
                    }
                }
            }
            commit_products();
            if (in_turn) {
                wait_for_products<1>();
                give_turn(group);
            }
            wait_for_products<0>();
            if (first_n + part_n == block_n && first_k + DEEP == DEPTH) {
                release();
            }
            settle(part);
#pragma unroll
            for (int i = 0; i < HEIGHT; i++) {
#pragma unroll
                for (int j = 0; j < part_n / 2; j++) {
                    sum[i][first_n / 2 + j] += part[i][j];
                }
            }
        }
    }
}

// A sum without the lifts of its row and column. Two factors reach all exponents.
INLINE float lowered(float sum, int lift) {
    const int first = -lift >> 1;
    return sum * power_of_two(first) * power_of_two(-lift - first);
}

KERNEL void CLUSTER __launch_bounds__(THREADS, 1)
    wgmma_halves(float *__restrict__ C, const Bits *planes_a, const Bits *planes_b, const int *lifts_a,
                 const int *lifts_b, const Counts *counts_a, const Counts *counts_b, int *routes,
                 const float *__restrict__ A, const float *__restrict__ B, int M, int N, int K, int batch, float alpha,
                 float beta) {
    extern __shared__ char memory[];
    __shared__ Barrier arrived[stages], freed[stages];
    __shared__ Doubts doubts;
    __shared__ int forbidden_by[THREADS / 32];
    char *const start = aligned_shared(memory, 1024);
    const unsigned slots = shared_address(start);
    const int warp = __shfl_sync(0xffffffff, threadIdx.x / 32, 0), group = warp / 4;
    if (threadIdx.x == 0) {
        for (int slot = 0; slot < stages; slot++) {
            initialize(&arrived[slot], 1);
            initialize(&freed[slot], consumers);
        }
        fence_barriers();
        for (int i = 0; i < consumers; i++) {
            doubts.count[i] = 0;
        }
    }

    const unsigned high = (M + block_m - 1) / block_m, wide = (N + block_n - 1) / block_n;
    const unsigned tile = blockIdx.x / together, rank = blockIdx.x % together;
    const unsigned lines = by_columns ? wide : high, across = by_columns ? high : wide;
    const unsigned matrix = tile / (high * wide), in_matrix = tile - matrix * (high * wide);
    const unsigned first = in_matrix / (band * across) * band, in_band = in_matrix - first * across;
    const unsigned here = band == 1 ? 1 : min(band, lines - first);
    const unsigned other = in_band / here, line = first + in_band - other * here;
    const int row = (by_columns ? other : line) * block_m, column = (by_columns ? line : other) * block_n;
    lifts_a += (size_t)matrix * M;
    lifts_b += (size_t)matrix * N;
    counts_a += (size_t)matrix * M;
    counts_b += (size_t)matrix * N;
    C += (size_t)matrix * M * N;

    wait_for_steps();
    int ways = 0, most_small = 0;
    for (int i = threadIdx.x; i < block_m + block_n; i += THREADS) {
        const int y = row + i, x = column + i - block_m;
        if (i < block_m ? y < M : x < N) {
            const Counts of_line = i < block_m ? counts_a[y] : counts_b[x];
            ways |= forbidden(i < block_m ? lifts_a[y] : lifts_b[x], of_line, K);
            most_small = max(most_small, (int)small_of(of_line));
        }
    }
    ways = __reduce_or_sync(0xffffffff, ways);
    most_small = __reduce_max_sync(0xffffffff, most_small);
    if (threadIdx.x % 32 == 0) {
        forbidden_by[warp] = ways;
        doubts.most_small[warp] = most_small;
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < THREADS / 32; i++) {
        ways |= forbidden_by[i];
    }
    const Route route = route_of(ways);
    if (threadIdx.x == 0 && rank == 0) {
        atomicAdd(&routes[route], 1);
    }

    // The slots: one for each part of the depth, two where planes are bfloat16, and none for float32.
    const int per_depth = route == BY_HALVES ? 1 : 2, parts = (K + DEPTH - 1) / DEPTH;
    const int first_part = parts * rank / together, own_parts = parts * (rank + 1) / together - first_part;
    const int count = route == BY_FLOATS ? 0 : own_parts * per_depth;
    Ring<stages> ring;
    if (group == consumers) {
        if (consumers > 1) {
            give_registers<producer_registers>();
        }
        if (warp == 4 * consumers) {
            const bool leads = is_elected();
            const Panels of_a = panels_of_a(M, K), of_b = panels_of_b(K, N);
#pragma unroll 1
            for (int number = 0; number < count; number++) {
                const int k = first_part + number / per_depth;
                wait(&freed[ring.slot], ring.parity ^ 1); // at first, the phase before the first has ended
                expect(&arrived[ring.slot], SLOT, leads);
#pragma unroll 1
                for (int i = 0; i < 2; i++) {
                    const int plane = route == BY_HALVES ? i : FIRST_BFLOATS + (number % 2 == 0 ? 2 * i : i);
                    const unsigned to = slots + ring.slot * SLOT + i * PAIR;
                    load_piece(to, planes_a + of_a.at(matrix, plane, k, row), PANEL_A, &arrived[ring.slot], leads);
#pragma unroll 1
                    for (int panel = 0; panel < block_n / 64; panel++) {
                        load_piece(to + PANEL_A + panel * PANEL_B,
                                   planes_b + of_b.at(matrix, plane, column / 64 + panel, k * DEPTH), PANEL_B,
                                   &arrived[ring.slot], leads);
                    }
                }
                ring.advance();
            }
        }
    } else {
        if (consumers > 1) {
            take_registers<consumer_registers>();
        }
        const int group_row = group * (64 * HEIGHT), thread = threadIdx.x % 128;
        const unsigned first_a = descriptor<128>(slots + group_row * 128, 16);
        const unsigned first_b = descriptor<128>(slots + PANEL_A, PANEL_B);
        float sum[HEIGHT][block_n / 2] = {};
        const auto release = [&] {
            if (thread == 0) {
                arrive(&freed[ring.slot]);
            }
        };
        const auto a = [&] { return first_a + ring.slot * (SLOT >> 4); };
        const auto b = [&] { return first_b + ring.slot * (SLOT >> 4); };
        if (group == 1) {
            give_turn(group);
        }
        if (route == BY_HALVES) {
            for (int number = 0; number < count; number++) {
                wait(&arrived[ring.slot], ring.parity);
                multiply_slot<__half, HALVES, promote>(sum, a(), b(), group, release);
                ring.advance();
            }
        } else {
            for (int number = 0; number < count; number += 2) {
                wait(&arrived[ring.slot], ring.parity);
                multiply_slot<__nv_bfloat16, FAR_BFLOATS, DEPTH>(sum, a(), b(), group, release);
                ring.advance();
                wait(&arrived[ring.slot], ring.parity);
                multiply_slot<__nv_bfloat16, NEAR_BFLOATS, DEPTH>(sum, a(), b(), group, release);
                ring.advance();
            }
        }
        if (group == 0) {
            wait_for_turn(group); // nobody comes to a barrier that another left
        }

        const float *const a_here = A + (size_t)matrix * M * K, *const b_here = B + (size_t)matrix * K * N;
        const int gather = 3 + group; // the named barrier of a warp group
        bool is_free = false; // the slots, of what is multiplied
        const auto wait_until_free = [&] {
            for (int slot = 0; slot < stages && !is_free; slot++) {
                wait(&freed[ring.slot], ring.parity ^ 1);
                ring.advance();
            }
            is_free = true;
        };
#if together > 1
        float mine[HEIGHT][SHARE / 2];
        if (route != BY_FLOATS) {
            wait_until_free();
            meet(mine, sum, (float4 *)start, rank);
        }
#else
        const float(&mine)[HEIGHT][SHARE / 2] = sum;
#endif
        // Where a thread's outputs are: see Product in hgemm/wgmma.h.
        const int left = column + rank * SHARE;
        const int y_in_tile = group_row + thread / 32 * 16 + thread % 32 / 4, x_in_tile = thread % 4 * 2;
        const int y = row + y_in_tile, x = left + x_in_tile;
        Rest &rest = ((Rest *)start)[group];
        int in_doubt = 0;
        if (route == BY_HALVES) {
            const float largest = largest_doubt(doubts);
            if (any_of_group(gather, least_of(mine, y_in_tile, x_in_tile, M - row, N - left) < largest)) {
                wait_until_free();
                in_doubt = list_doubts(rest.again, doubts.count[group], gather, mine, counts_a + row, counts_b + left,
                                       y_in_tile, x_in_tile, M - row, N - left, K, largest);
            }
        }
        if (in_doubt > 0 && thread == 0) {
            const bool is_all = in_doubt > MOST_DOUBTS;
            atomicAdd(&routes[is_all ? ALL_AGAIN : AGAIN], is_all ? 1 : in_doubt);
        }
        if (route == BY_FLOATS || in_doubt > MOST_DOUBTS) {
            multiply_floats(rest.floats, gather, C, a_here, b_here, row + group_row, left, M, N, K, alpha, beta);
            return;
        }
        float *const c_here = C + (size_t)row * N + left;
        if (in_doubt > 0) {
            sum_again(rest.again, in_doubt, gather, c_here, a_here + (size_t)row * K, b_here + left, N, K, alpha, beta);
        }
        if (N % 2 == 0) {
#pragma unroll
            for (int i = 0; i < HEIGHT; i++) {
#pragma unroll
                for (int half = 0; half < 2; half++) {
                    const int y_here = y + 64 * i + 8 * half;
                    if (y_here < M) {
                        const int lift_a = lifts_a[y_here];
                        float *const to = C + (size_t)y_here * N;
#pragma unroll
                        for (int j = 0; j < SHARE / 8; j++) {
                            if (x + 8 * j < N) {
                                const int2 lifts = *(const int2 *)(lifts_b + x + 8 * j);
                                float2 &both = *(float2 *)(to + x + 8 * j);
                                const float2 old = beta != 0.0f ? both : make_float2(0.0f, 0.0f);
                                both = make_float2(
                                    SCALED(alpha, lowered(mine[i][4 * j + 2 * half], lift_a + lifts.x), beta, old.x),
                                    SCALED(alpha, lowered(mine[i][4 * j + 2 * half + 1], lift_a + lifts.y), beta, old.y));
                            }
                        }
                    }
                }
            }
        } else {
            wait_until_free();
            gather_tile(rest.again, gather, mine);
            const int rows = min(M - row - group_row, 64 * HEIGHT), columns = min(N - left, SHARE);
            for (int i = thread / 32; i < rows; i += 4) {
                const int lift_a = lifts_a[row + group_row + i];
                float *const to = c_here + (size_t)(group_row + i) * N;
#pragma unroll
                for (int j = thread % 32; j < SHARE; j += 32) {
                    if (j < columns) {
                        const float value = lowered(rest.again.tile[i][j], lift_a + lifts_b[left + j]);
                        to[j] = SCALED(alpha, value, beta, to[j]);
                    }
                }
            }
        }
        if (in_doubt > 0) {
            write_again(rest.again, in_doubt, gather, c_here, N);
        }
    }
}
