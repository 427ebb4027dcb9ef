// out[y][x] = the sum of image[y + i][x + j] * filter[i][j], on the processors of the host.
//
// A strip of `columns` outputs stays in registers while the whole filter passes over it: the loop over the strip runs
// along memory, and the compiler vectorises it. Blocks of `rows` lines are handed to the processors. Tuned are the
// strip, the block, and how blocks are handed out: on_demand = 0 divides them evenly beforehand; 1 gives the next to
// whoever is free.
#include <stddef.h>

#ifndef rows
#define rows 8
#endif
#ifndef columns
#define columns 16
#endif
#ifndef openmp
#define openmp 1 // 0: one processor
#endif
#ifndef on_demand
#define on_demand 0
#endif
#ifndef filter_h
#define filter_h 3 // fh
#endif
#ifndef filter_w
#define filter_w 3 // fw
#endif

// The strip of `count` outputs at `out`, above which the image begins at `image`.
static inline void strip(float *restrict out, const float *restrict image, const float *restrict filter, int pitch,
                         int count) {
    float sum[columns] = {0.0f};
    for (int i = 0; i < filter_h; i++) {
        for (int j = 0; j < filter_w; j++) {
            const float weight = filter[i * filter_w + j];
            const float *line = image + (size_t)i * pitch + j;
            for (int c = 0; c < count; c++) {
                sum[c] += weight * line[c];
            }
        }
    }
    for (int c = 0; c < count; c++) {
        out[c] = sum[c];
    }
}

void convolution_host(float *restrict out, const float *restrict image, const float *restrict filter, int h, int w) {
    const int pitch = w + filter_w - 1;
#if openmp && on_demand
#pragma omp parallel for schedule(dynamic)
#elif openmp
#pragma omp parallel for schedule(static)
#endif
    for (int y0 = 0; y0 < h; y0 += rows) {
        for (int y = y0; y < y0 + rows && y < h; y++) {
            float *to = out + (size_t)y * w;
            const float *from = image + (size_t)y * pitch;
            int x = 0;
            for (; x + columns <= w; x += columns) {
                strip(to + x, from + x, filter, pitch, columns);
            }
            strip(to + x, from + x, filter, pitch, w - x);
        }
    }
}
