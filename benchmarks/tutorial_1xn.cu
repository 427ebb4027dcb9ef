// The last step of Kernel Tuner's tutorial, for the comparison in against_kernel_tuner.py. It multiplies square matrices
// of a width fixed at compile time, without bounds checks, batch, alpha or beta.
#ifndef WIDTH
#define WIDTH 4096
#endif

extern "C" __global__ void matmul_kernel(float *C, float *A, float *B) {
    __shared__ float tile_a[block_size_y * tile_size_y][block_size_x];
    __shared__ float tile_b[block_size_y * tile_size_y][block_size_x * tile_size_x];
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int column = blockIdx.x * block_size_x * tile_size_x + tx;
    const int row = blockIdx.y * block_size_y * tile_size_y + ty;
    float sum[tile_size_y][tile_size_x] = {};

    for (int k0 = 0; k0 < WIDTH; k0 += block_size_x) {
        __syncthreads();
#pragma unroll
        for (int i = 0; i < tile_size_y; i++) {
            const int y = ty + block_size_y * i;
            tile_a[y][tx] = A[(row + block_size_y * i) * WIDTH + k0 + tx];
#pragma unroll
            for (int j = 0; j < tile_size_x; j++) {
                const int x = block_size_x * j;
                tile_b[y][tx + x] = B[(k0 + y) * WIDTH + column + x];
            }
        }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < block_size_x; k++) {
#pragma unroll
            for (int i = 0; i < tile_size_y; i++) {
#pragma unroll
                for (int j = 0; j < tile_size_x; j++) {
                    sum[i][j] += tile_a[ty + block_size_y * i][k] * tile_b[k][tx + block_size_x * j];
                }
            }
        }
    }

#pragma unroll
    for (int i = 0; i < tile_size_y; i++) {
#pragma unroll
        for (int j = 0; j < tile_size_x; j++) {
            C[(row + block_size_y * i) * WIDTH + column + block_size_x * j] = sum[i][j];
        }
    }
}
