// y = x, for a matrix of h rows, by the tensor memory accelerator: no thread touches an element.
//
// 8 bytes per element: nothing but memory counts. One thread of a block asks for `boxes` boxes, one below the other,
// and stores each as soon as it has arrived; so that many bytes are under way at once. The hardware cuts boxes at the
// edges of the matrix. Tuned are the box and the boxes of a block. CUDA alone, compute capability 9.0: see hopper.h.
#include "hopper.h"

#ifndef box_rows
#define box_rows 32
#endif
#ifndef box_columns
#define box_columns 64
#endif
#ifndef boxes
#define boxes 1 // of a block
#endif

#define BOX_BYTES (4 * box_rows * box_columns)

#if BOX_BYTES % 128 != 0
#error "boxes in shared memory begin at multiples of 128 bytes"
#endif

extern "C" __global__ void __launch_bounds__(32) tma_copy(const __grid_constant__ CUtensorMap map_y,
                                                          const __grid_constant__ CUtensorMap map_x, int h) {
    extern __shared__ char memory[];
    __shared__ Barrier arrived[boxes];

    if (threadIdx.x != 0) {
        return;
    }
    char *box = aligned_shared(memory, 128);
    const int column = blockIdx.x * box_columns, row = blockIdx.y * (box_rows * boxes);
#pragma unroll
    for (int i = 0; i < boxes; i++) {
        initialize(&arrived[i]);
    }
    fence_barriers();
#pragma unroll
    for (int i = 0; i < boxes; i++) {
        if (row + i * box_rows < h) {
            expect(&arrived[i], BOX_BYTES);
            load_box(box + i * BOX_BYTES, &map_x, column, row + i * box_rows, &arrived[i]);
        }
    }
#pragma unroll
    for (int i = 0; i < boxes; i++) {
        if (row + i * box_rows < h) {
            wait(&arrived[i], 0);
            store_box(&map_y, column, row + i * box_rows, box + i * BOX_BYTES);
        }
    }
    wait_for_stores(); // shared memory is gone when the block ends
}
