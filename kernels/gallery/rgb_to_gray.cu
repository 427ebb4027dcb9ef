// gray = (77 red + 150 green + 29 blue + 128) / 256, for each pixel of an image of three bytes per pixel.
//
// 4 bytes per pixel: nothing but memory counts. A load of one byte moves a sixteenth of what an instruction can. Tuned
// are the pixels of a pack (1: bytes; 4: three loads of 4 bytes; 16: three of 16 bytes), the packs of a thread, the
// threads of a block, and what the cache is told (stream.h). The three loads of a thread lie side by side, so that
// those of a warp leave gaps of two thirds, which the next two fill from the cache. With staged = 1, the threads of a
// warp load side by side, and hand over to one another what they need through shared memory. Pixels are bytes in the
// order of memory, lowest first. The last tile may be cut, and is done pixel by pixel.
#include "portable.h"

#ifndef pixels
#define pixels 1 // of a pack: 1, 4 or 16
#endif

#ifndef staged
#define staged 0 // 1: through shared memory; for packs of several pixels
#endif

#define vector pixels
#include "flat.h"

#define GRAY(red, green, blue) ((77 * (red) + 150 * (green) + 29 * (blue) + 128) / 256)

#if pixels > 1

#define WORDS (pixels / 4)
PACK(Words, unsigned, WORDS);

// Byte i of three packs in a row.
#define BYTE(pack, i) ((pack)[(i) / pixels].at[(i) % pixels / 4] >> (i) % 4 * 8 & 255)

#define STAGED_PACKS (staged ? 3 * items * threads : 1)

// Packs 3 (i threads + thread) to the third after it, for each i: those of this thread's pixels.
INLINE void load_packs(Words (*in)[3], GLOBAL const unsigned char *rgb, LOCAL Words *stage) {
    GLOBAL const Words *from = (GLOBAL const Words *)rgb;
    const int thread = threadIdx.x;
#if staged
    Words loaded[3 * items];
#pragma unroll
    for (int i = 0; i < 3 * items; i++) {
        loaded[i] = LOAD(Words, from + i * threads + thread);
    }
#pragma unroll
    for (int i = 0; i < 3 * items; i++) {
        stage[i * threads + thread] = loaded[i];
    }
    __syncthreads();
#endif
#pragma unroll
    for (int i = 0; i < items; i++) {
#pragma unroll
        for (int part = 0; part < 3; part++) {
            const int place = 3 * (i * threads + thread) + part;
            in[i][part] = staged ? stage[staged ? place : 0] : LOAD(Words, from + place);
        }
    }
}

INLINE void gray_tile(GLOBAL unsigned char *gray, GLOBAL const unsigned char *rgb, LOCAL Words *stage) {
    Words in[items][3];
    load_packs(in, rgb, stage);
#pragma unroll
    for (int i = 0; i < items; i++) {
        Words out;
#pragma unroll
        for (int word = 0; word < WORDS; word++) {
            out.at[word] = 0;
#pragma unroll
            for (int p = 0; p < 4; p++) {
                const int first = 3 * (4 * word + p);
                out.at[word] |= GRAY(BYTE(in[i], first), BYTE(in[i], first + 1), BYTE(in[i], first + 2)) << p * 8;
            }
        }
        STORE(Words, gray + pack_at(i), out);
    }
}

#else

typedef unsigned char Words;
#define STAGED_PACKS 1

INLINE void gray_tile(GLOBAL unsigned char *gray, GLOBAL const unsigned char *rgb, LOCAL Words *stage) {
#pragma unroll
    for (int i = 0; i < items; i++) {
        GLOBAL const unsigned char *pixel = rgb + 3 * pack_at(i);
        gray[pack_at(i)] = GRAY(pixel[0], pixel[1], pixel[2]);
    }
}

#endif

KERNEL LAUNCH_BOUNDS(threads, 1)
void rgb_to_gray(GLOBAL unsigned char *__restrict__ gray, GLOBAL const unsigned char *__restrict__ rgb, int h, int w) {
    __shared__ Words stage[STAGED_PACKS];

    const size_t count = (size_t)h * w, tile = (size_t)blockIdx.x * TILE;
    if (tile + TILE <= count) {
        gray_tile(gray + tile, rgb + 3 * tile, stage);
    } else {
        for (size_t i = tile + threadIdx.x; i < count; i += threads) {
            gray[i] = GRAY(rgb[3 * i], rgb[3 * i + 1], rgb[3 * i + 2]);
        }
    }
}
