// Compares an output with its reference on the device, so that neither is copied to the host.
//
// `counters` holds: 0 the number of wrong elements; 1 the index of the first; 2 the largest error of a right one, as
// bits (non-negative floats order as their bits do); 3 and 4 the changed bytes in the guards before and after an array;
// 5 the changed bytes of an input.
#include "portable.h"

#ifdef __OPENCL_VERSION__
#define BITS(x) as_uint(x)
#define ADD(p, x) atomic_add(p, x)
#define LOWER(p, x) atomic_min(p, x)
#define RAISE(p, x) atomic_max(p, x)
#else
#define BITS(x) __float_as_uint(x)
#define ADD(p, x) atomicAdd(p, x)
#define LOWER(p, x) atomicMin(p, x)
#define RAISE(p, x) atomicMax(p, x)
#endif

#define FIRST_INDEX (blockIdx.x * (long)blockDim.x + threadIdx.x)
#define STRIDE (gridDim.x * (long)blockDim.x)
#define NONE 0xffffffffu

// The reference is high + low, two floats: as good as a double here, and not every device has doubles.
KERNEL void check_output(GLOBAL const float *output, GLOBAL const float *high, GLOBAL const float *low,
                         GLOBAL unsigned int *counters, long count, float bound) {
    unsigned int wrong = 0, first = NONE;
    float worst = 0.0f;
    for (long i = FIRST_INDEX; i < count; i += STRIDE) {
        const float error = fabs((output[i] - high[i]) - low[i]);
        if (error <= bound) {
            worst = error > worst ? error : worst;
        } else { // NaN comes here too
            wrong++;
            first = first == NONE ? (unsigned int)(i < NONE ? i : NONE - 1) : first;
        }
    }
    if (wrong) {
        ADD(counters, wrong);
        LOWER(counters + 1, first);
    }
    RAISE(counters + 2, BITS(worst));
}

// `guarded` is an array of `bytes` between two guards of `guard` bytes, which should all be `expected`.
KERNEL void check_guards(GLOBAL const unsigned char *guarded, GLOBAL unsigned int *counters, long guard, long bytes,
                         int expected) {
    unsigned int before = 0, after = 0;
    for (long i = FIRST_INDEX; i < guard; i += STRIDE) {
        before += guarded[i] != expected;
        after += guarded[guard + bytes + i] != expected;
    }
    if (before) {
        ADD(counters + 3, before);
    }
    if (after) {
        ADD(counters + 4, after);
    }
}

// `array` should still hold what `copy` does.
KERNEL void check_input(GLOBAL const unsigned char *array, GLOBAL const unsigned char *copy,
                        GLOBAL unsigned int *counters, long bytes) {
    unsigned int changed = 0;
    for (long i = FIRST_INDEX; i < bytes; i += STRIDE) {
        changed += array[i] != copy[i];
    }
    if (changed) {
        ADD(counters + 5, changed);
    }
}
