// Tells the compiler the shape of a block, and so how many registers each thread may have.
//
// `KERNEL BLOCK(x, y) void name(...)`: a block has x by y threads.
#ifndef BLOCK_H
#define BLOCK_H

#ifdef __OPENCL_VERSION__
#define BLOCK(x, y) __attribute__((reqd_work_group_size(x, y, 1)))
#else
#define BLOCK(x, y) __launch_bounds__((x) * (y))
#endif

#endif
