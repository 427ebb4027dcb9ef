// result = the sum of x[i] * y[i], in two steps: dot_groups leaves one partial sum per work-group, dot_last adds them
// up.
//
// 8 bytes per product: nothing but memory counts. The local memory of a work-group is as long as the group, and given
// by the host: the source does not know it. Tuned are the work-items of a group, the groups, the floats per load, and
// whether a work-item takes neighbouring vectors one after the other (blocked = 1, which suits a processor with a
// cache) or neighbouring work-items take neighbouring ones (blocked = 0, which suits a GPU). What no whole vector holds
// is added by the first group.

#ifndef groups
#define groups 64
#endif
#ifndef vector
#define vector 1 // floats per load: 1, 2, 4, 8 or 16
#endif
#ifndef blocked
#define blocked 0
#endif

#define JOINED(a, b) a##b
#define NAME(a, b) JOINED(a, b)

#if vector == 1
#define LOAD(address, i) (address)[i]
typedef float Floats;
#define SUM(v) (v)
#else
#define LOAD(address, i) NAME(vload, vector)(i, address)
typedef NAME(float, vector) Floats;
#define SUM2(v) ((v).s0 + (v).s1)
#define SUM4(v) (SUM2(v) + (v).s2 + (v).s3)
#define SUM8(v) (SUM4(v) + (v).s4 + (v).s5 + (v).s6 + (v).s7)
#define SUM16(v) (SUM8(v) + SUM8((v).hi))
#define SUM(v) NAME(SUM, vector)(v)
#endif

// The sum over the work-group, whose size is a power of two. Item 0 has it.
inline float sum_of_group(float value, __local float *shared) {
    const int item = get_local_id(0);
    shared[item] = value;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int step = get_local_size(0) / 2; step > 0; step /= 2) {
        if (item < step) {
            shared[item] += shared[item + step];
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    return shared[0];
}

__kernel void dot_groups(__global float *restrict partials, __global const float *restrict x,
                         __global const float *restrict y, __local float *shared, int n) {
    const size_t item = get_global_id(0), stride = get_global_size(0), count = n / vector;
    const size_t share = (count + stride - 1) / stride;
    const size_t first = blocked ? item * share : item, end = blocked ? min(first + share, count) : count;
    Floats sum = 0.0f;
    for (size_t i = first; i < end; i += blocked ? 1 : stride) {
        sum += LOAD(x, i) * LOAD(y, i);
    }
    float all = SUM(sum);
    if (get_group_id(0) == 0) {
        for (size_t i = count * vector + get_local_id(0); i < n; i += get_local_size(0)) {
            all += x[i] * y[i];
        }
    }
    all = sum_of_group(all, shared);
    if (get_local_id(0) == 0) {
        partials[get_group_id(0)] = all;
    }
}

// One group.
__kernel void dot_last(__global float *restrict result, __global const float *restrict partials,
                       __local float *shared) {
    float sum = 0.0f;
    for (int i = get_local_id(0); i < groups; i += get_local_size(0)) {
        sum += partials[i];
    }
    sum = sum_of_group(sum, shared);
    if (get_local_id(0) == 0) {
        result[0] = sum;
    }
}
