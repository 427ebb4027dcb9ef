// The outputs of a block of a 2-D convolution: what convolution and convolution_constant do alike.
//
// out[y][x] = the sum of image[y + i][x + j] * filter[i][j]: a filter of fh x fw over an image that has fh - 1 rows and
// fw - 1 columns more than the result.
//
// Each output takes fh * fw products of values that its neighbours use too: reading them again costs more than the
// products. A thread computes `rows` outputs one below the other, for each of `columns` columns that lie block_x apart:
// a pixel that it has read serves all the rows that it is under. The image comes from shared memory or from the cache,
// and a column of the filter is done with all its products written out, so that indices are constants (unrolled = 1),
// or in a loop over the rows of the filter. The file is compiled for one size of filter.
//
// The file that includes this one defines FILTER, the memory that the filter is in.
#ifndef CONVOLUTION_H
#define CONVOLUTION_H

#include "inline.h"
#include "block.h"

#ifndef block_x
#define block_x 32
#endif
#ifndef block_y
#define block_y 8
#endif
#ifndef rows
#define rows 1 // outputs of a thread, one below the other
#endif
#ifndef columns
#define columns 1 // block_x apart
#endif
#ifndef shared_image
#define shared_image 0 // 1: the block's part of the image is copied to shared memory
#endif
#ifndef unrolled
#define unrolled 0
#endif
#ifndef filter_h
#define filter_h 3 // fh
#endif
#ifndef filter_w
#define filter_w 3 // fw
#endif

#define THREADS (block_x * block_y)
#define TILE_H (block_y * rows + filter_h - 1) // of the image
#define TILE_W (block_x * columns + filter_w - 1)

#if shared_image
#define IMAGE LOCAL
#else
#define IMAGE GLOBAL
#endif

// Pixel y of a column of which `left` are in the image. A tile has them all, and 0 outside the image.
#define PIXEL(y) (shared_image || (y) < left ? pixel[(size_t)(y) * pitch] : 0.0f)

// sum[r] += the products of one column of the filter with the pixels from `pixel` down, whose rows are `pitch` apart
// and of which only `left` are in the image.
INLINE void add_column(float *sum, IMAGE const float *pixel, int pitch, int left, FILTER const float *weight) {
#if unrolled
#pragma unroll
    for (int y = 0; y < rows + filter_h - 1; y++) {
        const float value = PIXEL(y);
#pragma unroll
        for (int r = 0; r < rows; r++) {
            if (y - r >= 0 && y - r < filter_h) {
                sum[r] += value * weight[(y - r) * filter_w];
            }
        }
    }
#else
    for (int i = 0; i < filter_h; i++) {
        const float factor = weight[i * filter_w];
#pragma unroll
        for (int r = 0; r < rows; r++) {
            sum[r] += PIXEL(i + r) * factor;
        }
    }
#endif
}

// The outputs of this thread. `tile` is the block's part of the image, if that is shared: TILE_H x TILE_W floats.
INLINE void convolve(GLOBAL float *out, GLOBAL const float *image, FILTER const float *weight,
                     LOCAL float (*tile)[TILE_W], int h, int w) {
    const int image_h = h + filter_h - 1, image_w = w + filter_w - 1;
    const int block_row = blockIdx.y * (block_y * rows), block_column = blockIdx.x * (block_x * columns);

#if shared_image
    for (int i = threadIdx.y * block_x + threadIdx.x; i < TILE_H * TILE_W; i += THREADS) {
        const int y = block_row + i / TILE_W, x = block_column + i % TILE_W;
        tile[i / TILE_W][i % TILE_W] = y < image_h && x < image_w ? image[(size_t)y * image_w + x] : 0.0f;
    }
    __syncthreads();
#endif

    const int row = threadIdx.y * rows, first_row = block_row + row;
    for (int c = 0; c < columns; c++) {
        const int column = threadIdx.x + c * block_x, x = block_column + column;
        if (x >= w || first_row >= h) {
            continue;
        }
        float sum[rows];
#pragma unroll
        for (int r = 0; r < rows; r++) {
            sum[r] = 0.0f;
        }
        for (int j = 0; j < filter_w; j++) {
#if shared_image
            add_column(sum, &tile[row][column + j], TILE_W, TILE_H - row, weight + j);
#else
            add_column(sum, image + (size_t)first_row * image_w + x + j, image_w, image_h - first_row, weight + j);
#endif
        }
#pragma unroll
        for (int r = 0; r < rows; r++) {
            if (first_row + r < h) {
                out[(size_t)(first_row + r) * w + x] = sum[r];
            }
        }
    }
}

#endif
