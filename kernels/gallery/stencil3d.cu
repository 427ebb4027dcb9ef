// y = center * x + side * (the sum of its six neighbours), on a grid of nz x ny x nx points. Outside the grid, x is 0.
//
// A point is read and written once at best: 8 bytes, and nothing but memory counts. A block marches through `depth`
// planes. Each thread keeps its points of the planes below and above in registers, so that along z nothing is read
// twice. Neighbours along x and y come from a tile of the plane in shared memory (tiled = 1) or from the cache. Tuned
// are the block, the depth (more planes: fewer blocks, and fewer planes read twice between them), the floats per load,
// the tile, and whether stores tell the cache that nobody reads them again (stream.h).
#include "portable.h"
#include "block.h"
#include "pack.h"
#include "stream.h"

#ifndef block_x
#define block_x 32
#endif
#ifndef block_y
#define block_y 8
#endif
#ifndef depth
#define depth 8 // planes per block
#endif
#ifndef vector
#define vector 1 // floats per load and store; must divide nx
#endif
#ifndef tiled
#define tiled 0
#endif
#ifndef unroll
#define unroll 1 // planes
#endif

#define TILE_W (block_x * vector)

PACK(Pack, float, vector);

INLINE Pack zero(void) {
    Pack pack;
#pragma unroll
    for (int v = 0; v < vector; v++) {
        pack.at[v] = 0.0f;
    }
    return pack;
}

// The pack at `p`, or 0 where it is not `there`.
INLINE Pack pack_at(GLOBAL const float *p, int there) { return there ? *(GLOBAL const Pack *)p : zero(); }

#if tiled

// The tile of a plane: this thread's points `here`, and one more line or point on each side. Of these, the outermost
// threads of the block read one each.
INLINE void fill_tile(LOCAL float (*tile)[TILE_W + 2], GLOBAL const float *p, Pack here, int x, int y, int ny, int nx) {
    const int row = threadIdx.y + 1, column = threadIdx.x * vector + 1;
#pragma unroll
    for (int v = 0; v < vector; v++) {
        tile[row][column + v] = here.at[v];
    }
    if (row == 1) {
        const Pack pack = pack_at(p - nx, x < nx && y > 0 && y <= ny);
#pragma unroll
        for (int v = 0; v < vector; v++) {
            tile[0][column + v] = pack.at[v];
        }
    }
    if (row == block_y) {
        const Pack pack = pack_at(p + nx, x < nx && y + 1 < ny);
#pragma unroll
        for (int v = 0; v < vector; v++) {
            tile[block_y + 1][column + v] = pack.at[v];
        }
    }
    if (column == 1) {
        tile[row][0] = x > 0 && x <= nx && y < ny ? p[-1] : 0.0f;
    }
    if (column == TILE_W - vector + 1) {
        tile[row][TILE_W + 1] = x + vector < nx && y < ny ? p[vector] : 0.0f;
    }
}

#endif

KERNEL BLOCK(block_x, block_y)
void stencil3d(GLOBAL float *__restrict__ y, GLOBAL const float *__restrict__ x, int nz, int ny, int nx,
               float center, float side) {
#if tiled
    __shared__ float tile[block_y + 2][TILE_W + 2];
#endif
    const int px = (blockIdx.x * block_x + threadIdx.x) * vector, py = blockIdx.y * block_y + threadIdx.y;
    const int pz = blockIdx.z * depth, end = pz + depth < nz ? pz + depth : nz;
    const int there = px < nx && py < ny;
    const size_t plane = (size_t)ny * nx;
    size_t at = (size_t)pz * plane + (size_t)py * nx + px;

    Pack below = pack_at(x + at - plane, there && pz > 0), here = pack_at(x + at, there);
#pragma unroll unroll
    for (int z = pz; z < end; z++) {
        const Pack above = pack_at(x + at + plane, there && z + 1 < nz);
        Pack sum;
#pragma unroll
        for (int v = 0; v < vector; v++) {
            sum.at[v] = below.at[v] + above.at[v];
        }
#if tiled
        const int row = threadIdx.y + 1, column = threadIdx.x * vector + 1;
        fill_tile(tile, x + at, here, px, py, ny, nx);
        __syncthreads();
#pragma unroll
        for (int v = 0; v < vector; v++) {
            sum.at[v] += tile[row - 1][column + v] + tile[row + 1][column + v];
            sum.at[v] += tile[row][column + v - 1] + tile[row][column + v + 1];
        }
        __syncthreads(); // nobody may fill the tile again while another thread still reads it
#else
        const Pack front = pack_at(x + at - nx, there && py > 0), back = pack_at(x + at + nx, there && py + 1 < ny);
        const float left = there && px > 0 ? x[at - 1] : 0.0f;
        const float right = there && px + vector < nx ? x[at + vector] : 0.0f;
#pragma unroll
        for (int v = 0; v < vector; v++) {
            sum.at[v] += front.at[v] + back.at[v];
            sum.at[v] += (v > 0 ? here.at[v > 0 ? v - 1 : 0] : left);
            sum.at[v] += (v + 1 < vector ? here.at[v + 1 < vector ? v + 1 : v] : right);
        }
#endif
        if (there) {
            Pack result;
#pragma unroll
            for (int v = 0; v < vector; v++) {
                result.at[v] = center * here.at[v] + side * sum.at[v];
            }
            STORE(Pack, y + at, result);
        }
        below = here;
        here = above;
        at += plane;
    }
}
