// C[b] = alpha * A[b] B[b] + beta * C[b], row-major, all of 16 bits, multiplied by wgmma: blocks that stay, and start
// and end promptly.
//
// A is M x K, B is K x N, or N x K where transposed_b is 1 (a linear layer), and C is M x N; all are float16 or all
// bfloat16. One warp group fetches and `consumers` multiply, as in wgmma_quick, which tells what the other parameters
// are.
//
// Against that one:
// - fixed_sizes: sizes are compiled in. A kernel's parameters are slow to read at first, and the code is shorter. This
//   alone saves 0.1 to 0.4 us.
// - The warp that fetches does not wait for the others. It initialises the barriers, and asks for the first tiles.
// - All threads of that warp stay together, and one of them asks: see prompt.h. Descriptors are counted on.
// - tma_store = 0: threads store, 16 bytes each. The TMA takes longer to begin, which shows at the end.
// - gap: at the end of a block's last tile, the first warp group multiplies so many slots before the second, and stores
//   beside its products.
// - zigzag: every other tile of a block is multiplied from the end of the depth on. What was read last for the one before
//   is then read first, while the L2 cache still holds it.
// - keep, stream_c: what the next tiles do not read is to leave that cache first. With zigzag, this saves 0.3 to 1.1 % at
//   4096 and 8192.
// - hilbert: squares of a band are walked along Hilbert's curve. It ties with the band.
// On an H200 with bfloat16 it is at 1.058 of the best of cuBLASLt at 1024, 1.019 at 2048, 1.033 at 4096 and 1.026 at 8192,
// instead of 1.002, 0.992, 1.026 and 1.018; at 1.085, 1.017, 1.039 and 1.022 where B is transposed, instead of 0.985,
// 1.008, 1.027 and 0.993.
// On the border, what lies outside of A and B is read as 0, and nothing is written outside of C.
// Ideas: CUTLASS (a warp that stays together, and elects), and those of wgmma_quick. Compute capability 9.0: see
// hopper.h.
#include "portable.h"
#include "prompt.h"

#ifndef real
#define real __half
#endif
#ifndef transposed_b
#define transposed_b 0 // 1: B is N x K
#endif
#ifndef block_m
#define block_m 128 // rows of a tile
#endif
#ifndef block_n
#define block_n 256 // columns of a tile
#endif
#ifndef block_k
#define block_k 64 // depth of a tile
#endif
#ifndef stages
#define stages 4 // slots in shared memory, each for a tile of A and one of B
#endif
#ifndef consumers
#define consumers 2 // warp groups that multiply
#endif
#ifndef pingpong
#define pingpong 0 // 1: they have tiles of their own, and take turns; 0: they share a tile's rows
#endif
#ifndef producer_registers
#define producer_registers 40 // of each thread of the warp group that fetches; 0: as many as the others have
#endif
#ifndef consumer_registers
#define consumer_registers 232 // of each thread of the others, where they take some
#endif
#ifndef in_flight
#define in_flight 1 // groups of products that may go on while the next one begins
#endif
#ifndef band
#define band 1 // rows of tiles per band, or columns
#endif
#ifndef by_columns
#define by_columns 0 // 1: bands of columns of tiles
#endif
#ifndef store_slots
#define store_slots 1 // boxes of 16 rows per warp, for the store
#endif
#ifndef late_store
#define late_store 0 // 1: a tile is stored, box by box, while the next one is multiplied
#endif
#ifndef tma_store
#define tma_store 1 // 1: the TMA stores; 0: threads do
#endif
#ifndef gap
#define gap 0 // slots at the end of the last tile that the first warp group multiplies before the second
#endif
#ifndef zigzag
#define zigzag 0 // 1: every other tile of a block is multiplied from the end of the depth on
#endif
#ifndef keep
#define keep 0 // 1: A, or B where by_columns is 1, is to stay in the L2 cache, and the other one to leave first
#endif
#ifndef stream_c
#define stream_c 0 // 1: what the TMA stores is to leave the L2 cache first
#endif
#ifndef hilbert
#define hilbert 0 // 1: squares of a band are walked along Hilbert's curve
#endif
#ifndef fixed_k
#define fixed_m 0 // the sizes that it is compiled for, and the blocks; 0: for any
#define fixed_n 0
#define fixed_k 0
#define fixed_batch 0
#define fixed_blocks 0
#endif

#define ROWS (pingpong ? block_m : block_m / consumers) // of a warp group
#define HEIGHT (ROWS / 64)
#define THREADS (128 * (consumers + 1))
#define READY 3 // the named barrier at which the barriers are initialised; warp groups that take turns have 1 and 2
static_assert(ROWS % 64 == 0 && (pingpong || ROWS * consumers == block_m), "a warp group has a multiple of 64 rows");
static_assert(!pingpong || consumers == 2, "two warp groups take turns");
static_assert(stages > in_flight, "a slot is freed only when later products have begun");
static_assert(gap + in_flight <= stages, "the second warp group holds its slots until the first one is done");
static_assert(!late_store || tma_store && store_slots == 1, "what is stored late goes through one slot");
static_assert(producer_registers == 0 || producer_registers + consumers * consumer_registers <=
                                             65536 / THREADS / 8 * 8 * (consumers + 1),
              "the warp groups have the registers that the block was launched with");

using Slot = PromptTiles<block_m, block_n, block_k, !transposed_b>;
using Result = PromptOutputs<real, HEIGHT, block_n, stream_c>;

// The tiles of all matrices, one band after the other. A band begins where the one before ended, with tiles of B, or of
// A, that the L2 cache still holds.
struct Order {
    int high, wide, matrices; // tiles below one another, and beside one another

    // The first row and column of a tile, and its matrix.
    INLINE void locate(unsigned tile, int &row, int &column, int &matrix) const {
        const unsigned lines = by_columns ? wide : high, across = by_columns ? high : wide;
        unsigned number = 0, line, other; // of the band, in it, and along it
        matrix = 0;
        if (matrices > 1) {
            matrix = tile / (lines * across);
            tile -= matrix * lines * across;
        }
        if (tile >= band * across) {
            number = tile / (band * across);
            tile -= number * band * across;
        }
        if ((number + 1) * band <= lines) { // then the divisor is a power of two, and known
            line = tile % band, other = tile / band;
            if (hilbert && other < across / band * band) {
                walk(tile % (band * band), line, other);
            }
        } else {
            const unsigned here = lines - number * band;
            other = tile / here, line = tile - other * here;
        }
        line += number * band;
        other = number % 2 ? across - 1 - other : other;
        row = (by_columns ? other : line) * block_m;
        column = (by_columns ? line : other) * block_n;
    }

    // The place of a step of Hilbert's curve in its square of band x band tiles.
    static INLINE void walk(unsigned step, unsigned &line, unsigned &other) {
        unsigned x = 0, y = 0;
#pragma unroll
        for (unsigned side = 1; side < band; side *= 2, step /= 4) { // a square becomes a quarter of the next
            const unsigned right = step / 2 % 2, below = (step ^ right) % 2, was = x;
            if (!below) { // it is turned
                x = right ? side - 1 - y : y, y = right ? side - 1 - was : was;
            }
            x += side * right, y += side * below;
        }
        line = y, other = other / band * band + x;
    }
};

KERNEL void __launch_bounds__(THREADS, 1)
    wgmma_prompt(real *C, const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b,
                 const __grid_constant__ CUtensorMap map_c, int M, int N, int K, int batch, float alpha, float beta) {
#if fixed_k
    M = fixed_m, N = fixed_n, K = fixed_k, batch = fixed_batch;
    constexpr int step = fixed_blocks;
#else
    const int step = gridDim.x;
#endif
    extern __shared__ char memory[];
    __shared__ Barrier arrived[stages], freed[stages];

    const unsigned slots = shared_address(aligned_shared(memory, 1024));
    const Order order = {(M + block_m - 1) / block_m, (N + block_n - 1) / block_n, batch};
    const int warp = __shfl_sync(0xffffffff, threadIdx.x / 32, 0), group = warp / 4; // known to be the same in a warp
    const int count = (K + block_k - 1) / block_k, total = order.high * order.wide * batch;
    int tile = blockIdx.x, row, column, matrix;
    Ring<stages> ring;
    if (group == 0) {
        if (threadIdx.x == 0) {
            prefetch_map(&map_a);
            prefetch_map(&map_b);
            for (int slot = 0; slot < stages; slot++) {
                initialize(&arrived[slot], 1);
                initialize(&freed[slot], pingpong ? 1 : consumers); // all that read it
            }
            fence_initialized();
        }
        __syncwarp(); // the others of this warp wait at them, too
        if (producer_registers) {
            give_registers<producer_registers ? producer_registers : 24>();
        }
        if (warp == 0) {
            arrive_named(READY, 32 + 128 * consumers);
            const bool leads = is_elected();
            const unsigned long long stays = keep ? evicted_last() : 0, leaves = keep ? evicted_first() : 0;
            for (bool is_back = false; tile < total; tile += step, is_back = zigzag && !is_back) {
                order.locate(tile, row, column, matrix);
#pragma unroll 1 // code that has not run before is slow to come
                for (int k = 0; k < count; k++) {
                    wait(&freed[ring.slot], ring.parity ^ 1); // at first, the phase before the first has ended
                    Slot::template fetch<keep>(slots + ring.slot * Slot::SIZE, &arrived[ring.slot], &map_a, &map_b,
                                               row, column, (is_back ? count - 1 - k : k) * block_k, matrix, leads,
                                               by_columns ? leaves : stays, by_columns ? stays : leaves);
                    ring.advance();
                }
            }
        }
        return;
    }

    if (tma_store && threadIdx.x == 128) {
        prefetch_map(&map_c);
    }
    if (producer_registers) {
        take_registers<producer_registers ? consumer_registers : 24>();
    }
    wait_named(READY, 32 + 128 * consumers);
    const int first_row = pingpong ? 0 : (group - 1) * ROWS, warp_row = first_row + warp % 4 * 16;
    const bool leads = is_elected(), is_first_thread = threadIdx.x % 128 == 0;
    const Slot factors(slots, first_row);
    const unsigned store = slots + stages * Slot::SIZE + (warp - 4) * store_slots * Result::SLOT;
    const auto release = [&](int slot) {
        if (is_first_thread) {
            arrive(&freed[slot]);
        }
    };
    bool is_first = true;
    if (pingpong && group == 2) {
        tile += step;
        ring.skip(count);
        is_first = false;
    }
#if late_store
    Result::Packed held; // the tile before this one
    int held_row, held_column, held_matrix;
    bool is_held = false;
    const auto store_held = [&](int box) {
        Result::store_packed(box, held, &map_c, store, held_row, held_column, held_matrix, leads);
    };
#endif
    for (; tile < total; tile += (pingpong ? 2 : 1) * step) {
        float sum[HEIGHT][block_n / 2];
        if (pingpong && !is_first) {
            wait_named(group, 256); // until the other warp group has begun its last product
        }
        is_first = false;
        const bool has_gap = gap && consumers == 2 && !pingpong && count >= gap && tile + step >= total;
        for (int k = 0; k < count; k++) {
            if (has_gap && group == 2 && k == count - gap) {
                wait_named(1, 256); // until the first warp group has begun its last product
            }
            wait(&arrived[ring.slot], ring.parity);
            factors.multiply<real>(sum, ring.slot, k > 0);
            if (has_gap && group == 1 && k == count - 1) {
                arrive_named(1, 256);
            }
            if (k == 0) {
                order.locate(tile, row, column, matrix); // it takes no time while products go on
            }
#if late_store
            if (is_held && k < Result::BOXES) {
                store_held(k);
            }
#endif
            wait_for_products<in_flight>();
            if (k >= in_flight) {
                release(in_flight == 0 ? ring.slot : ring.slot > 0 ? ring.slot - 1 : stages - 1);
            }
            ring.advance();
        }
        if (pingpong && tile + step < total) {
            arrive_named(3 - group, 256);
        }
        wait_for_products<0>();
        settle(sum);
        if (in_flight) {
            release(ring.slot > 0 ? ring.slot - 1 : stages - 1);
        }
        if (pingpong) {
            ring.skip(count); // the slots of the other warp group's tile
        }

        real *const C_here = C + (size_t)matrix * M * N;
        if (alpha != 1.0f || beta != 0.0f) {
            Result::scale(sum, C_here, row + first_row, column, M, N, alpha, beta);
        }
#if late_store
        for (int box = count; is_held && box < Result::BOXES; box++) {
            store_held(box);
        }
        Result::pack(sum, held);
        held_row = row + warp_row, held_column = column, held_matrix = matrix;
        is_held = true;
#else
        if (tma_store) {
            Result::store<store_slots>(sum, &map_c, store, row + warp_row, column, matrix, leads);
        } else {
            Result::write(sum, C_here, store, row + warp_row, column, M, N);
        }
#endif
    }
#if late_store
    for (int box = 0; is_held && box < Result::BOXES; box++) {
        store_held(box);
    }
#endif
    if (tma_store && leads) {
        wait_for_reads(); // shared memory lasts no longer than this block
    }
}
