// out[y][x] = the sum of image[y + i][x + j] * filter[i][j], with the filter in constant memory.
//
// All threads of a warp need the same element of the filter at the same time. Constant memory hands it to all of them
// at once, as an operand of the product where its place is known when the kernel is compiled: an element costs neither
// a load nor a register, as it would in convolution.cu. 64 KiB fit. Tuned are the block, the outputs of a thread,
// whether the image comes from shared memory or from the cache, and whether the products of a column of the filter are
// written out; see convolution.h.
#include "portable.h"
#include "constant.h"

#define FILTER CONSTANT
#include "convolution.h"

#ifndef __OPENCL_VERSION__
__constant__ float filter[filter_h * filter_w];
#endif

KERNEL BLOCK(block_x, block_y)
void convolution_constant(GLOBAL float *__restrict__ out, GLOBAL const float *__restrict__ image,
#ifdef __OPENCL_VERSION__
                          __constant float *filter,
#endif
                          int h, int w) {
#if shared_image
    __shared__ float tile[TILE_H][TILE_W];
#else
    LOCAL float(*tile)[TILE_W] = 0;
#endif
    convolve(out, image, filter, tile, h, w);
}
