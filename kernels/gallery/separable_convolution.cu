// out = image * (column filter x row filter), where both are the same weights: an image is smoothed along its
// rows into scratch memory (convolve_rows), and that along its columns (convolve_columns).
//
// taps^2 products per output become 2 taps, at the price of a second pass: 16 bytes per output, so that memory sets the
// bound of all but long filters. The weights are in constant memory, and all loops over them unroll: the file is
// compiled for one length. Both steps have a block of their own and a number of outputs per thread. In the first, these
// lie block_x apart, and neighbouring threads read the same pixels from the cache, or from a copy in shared memory
// (shared_rows = 1). In the second, they lie one below the other: a pixel that a thread has read serves all of them.
#include "portable.h"
#include "inline.h"
#include "block.h"

#ifndef taps
#define taps 9
#endif
#ifndef row_x
#define row_x 64 // threads of a block of the first step
#endif
#ifndef row_y
#define row_y 4
#endif
#ifndef row_outputs
#define row_outputs 1 // of a thread, row_x apart
#endif
#ifndef shared_rows
#define shared_rows 0
#endif
#ifndef column_x
#define column_x 64 // threads of a block of the second step
#endif
#ifndef column_y
#define column_y 4
#endif
#ifndef column_outputs
#define column_outputs 1 // of a thread, one below the other
#endif

#define LINE (row_x * row_outputs + taps - 1) // pixels of a row that a block reads

#ifdef __OPENCL_VERSION__
#define FILTER_PARAMETER , __constant float *filter
#else
#define FILTER_PARAMETER
__constant__ float filter[taps];
#endif

// between[y][x] = the sum of image[y][x + j] * filter[j], for h + taps - 1 rows and w columns. The image has
// taps - 1 columns more.
KERNEL BLOCK(row_x, row_y)
void convolve_rows(GLOBAL float *__restrict__ between, GLOBAL const float *__restrict__ image FILTER_PARAMETER, int h,
                   int w) {
#if shared_rows
    __shared__ float shared[row_y][LINE];
#endif
    const int y = blockIdx.y * row_y + threadIdx.y, first = blockIdx.x * (row_x * row_outputs);
    const int image_w = w + taps - 1, lines = h + taps - 1;
    GLOBAL const float *line = image + (size_t)(y < lines ? y : lines - 1) * image_w;
#if shared_rows
    for (int i = threadIdx.x; i < LINE; i += row_x) {
        shared[threadIdx.y][i] = first + i < image_w ? line[first + i] : 0.0f;
    }
    __syncthreads();
#endif
#pragma unroll
    for (int o = 0; o < row_outputs; o++) {
        const int column = threadIdx.x + o * row_x, x = first + column;
        if (y < lines && x < w) {
            float sum = 0.0f;
#pragma unroll
            for (int j = 0; j < taps; j++) {
#if shared_rows
                sum += shared[threadIdx.y][column + j] * filter[j];
#else
                sum += line[x + j] * filter[j];
#endif
            }
            between[(size_t)y * w + x] = sum;
        }
    }
}

// out[y][x] = the sum of between[y + i][x] * filter[i], for h rows and w columns. `between` has taps - 1 rows more.
KERNEL BLOCK(column_x, column_y)
void convolve_columns(GLOBAL float *__restrict__ out, GLOBAL const float *__restrict__ between FILTER_PARAMETER, int h,
                      int w) {
    const int x = blockIdx.x * column_x + threadIdx.x;
    const int y = (blockIdx.y * column_y + threadIdx.y) * column_outputs;
    if (x >= w || y >= h) {
        return;
    }
    float sum[column_outputs];
#pragma unroll
    for (int o = 0; o < column_outputs; o++) {
        sum[o] = 0.0f;
    }
#pragma unroll
    for (int i = 0; i < column_outputs + taps - 1; i++) {
        const float pixel = y + i < h + taps - 1 ? between[(size_t)(y + i) * w + x] : 0.0f;
#pragma unroll
        for (int o = 0; o < column_outputs; o++) {
            if (i - o >= 0 && i - o < taps) {
                sum[o] += pixel * filter[i - o];
            }
        }
    }
#pragma unroll
    for (int o = 0; o < column_outputs; o++) {
        if (y + o < h) {
            out[(size_t)(y + o) * w + x] = sum[o];
        }
    }
}
