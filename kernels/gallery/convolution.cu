// out[y][x] = the sum of image[y + i][x + j] * filter[i][j]: a filter of fh x fw over an image that has fh - 1 rows and
// fw - 1 columns more than the result.
//
// Tuned are the block, the outputs of a thread, whether image and filter come from shared memory or from the cache, and
// whether the products of a column of the filter are written out; see convolution.h.
#include "portable.h"

#ifndef shared_filter
#define shared_filter 0 // 1: the filter is copied to shared memory
#endif

#if shared_filter
#define FILTER LOCAL
#else
#define FILTER GLOBAL
#endif

#include "convolution.h"

KERNEL BLOCK(block_x, block_y)
void convolution(GLOBAL float *__restrict__ out, GLOBAL const float *__restrict__ image,
                 GLOBAL const float *__restrict__ filter, int h, int w) {
#if shared_image
    __shared__ float tile[TILE_H][TILE_W];
#else
    LOCAL float(*tile)[TILE_W] = 0;
#endif
#if shared_filter
    __shared__ float weights[filter_h * filter_w];
    for (int i = threadIdx.y * block_x + threadIdx.x; i < filter_h * filter_w; i += THREADS) {
        weights[i] = filter[i];
    }
    __syncthreads();
    convolve(out, image, weights, tile, h, w);
#else
    convolve(out, image, filter, tile, h, w);
#endif
}
