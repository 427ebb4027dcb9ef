// out = the image at another size: out[y][x] is interpolated from the four pixels around its place in the image.
//
// Neighbouring outputs read pixels that lie near one another in both directions. A texture is made for that: the load
// comes with its own cache and its own arithmetic of addresses, and takes coordinates instead of a pointer. Pixels are
// read one by one (point filter): the interpolation of the hardware has 8 bits only. Tuned are the block and the
// outputs of a thread, one below the other; a wide block reads along rows, a square one has the shorter outline. CUDA
// alone.
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

// The pixel before a place in the image, the one behind it, and how far the place is from the first to the second.
struct Between {
    int before, behind;
    float share;
};

// Where output i of `outputs` lies among `pixels`.
__device__ __forceinline__ Between between(int i, int outputs, int pixels) {
    const float place = fminf(fmaxf((i + 0.5f) * pixels / outputs - 0.5f, 0.0f), pixels - 1.0f);
    Between found;
    found.before = (int)place;
    found.behind = min(found.before + 1, pixels - 1);
    found.share = place - found.before;
    return found;
}

__device__ __forceinline__ float mixed(float before, float behind, float share) {
    return before + share * (behind - before);
}

extern "C" __global__ void BLOCK(block_x, block_y)
    resample(float *__restrict__ out, cudaTextureObject_t image, int oh, int ow, int h, int w) {
    const int x = blockIdx.x * block_x + threadIdx.x;
    if (x >= ow) {
        return;
    }
    const Between column = between(x, ow, w);
    const auto pixel = [image](float x, float y) { return tex2D<float>(image, x, y); };
    const float left = column.before + 0.5f, right = column.behind + 0.5f; // a pixel's middle
#pragma unroll
    for (int r = 0; r < rows; r++) {
        const int y = (blockIdx.y * block_y + threadIdx.y) * rows + r;
        if (y < oh) {
            const Between row = between(y, oh, h);
            const float above = row.before + 0.5f, below = row.behind + 0.5f;
            out[(size_t)y * ow + x] = mixed(mixed(pixel(left, above), pixel(right, above), column.share),
                                            mixed(pixel(left, below), pixel(right, below), column.share), row.share);
        }
    }
}
